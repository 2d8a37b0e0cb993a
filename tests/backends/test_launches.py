"""Kernels of blocks and threads are for GPUs alone."""

from __future__ import annotations

import pytest

from tc.backends import registry
from tc.backends.base import Backend
from tc.errors import BackendError
from tc.kernel.folding import integer
from tc.kernel.ir import Kernel, Let
from tc.kernel.rebuild import changed
from tests.kernel.grids import tmm

SERIAL_TOO = changed(tmm(), regions=(*tmm().regions, (Let("x", integer(1)),)))


@pytest.mark.parametrize("kernel", [tmm(), SERIAL_TOO], ids=["a launch", "two regions"])
@pytest.mark.parametrize(("name", "language"), [("numba", "numba"), ("c", "C")])
def test_processors_run_no_launches(name: str, language: str, kernel: Kernel) -> None:
    backend = registry.get(name)
    assert isinstance(backend, Backend)
    with pytest.raises(BackendError) as caught:
        backend.emit(kernel)
    assert caught.value.cause == f"blocks and threads of a GPU are not printed in {language}"
    assert caught.value.repair == 'tc.compile(source, backend="numba"), or "c"'
