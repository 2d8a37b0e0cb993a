"""Transposes of outputs too large for the caches, compiled: what they write, and where."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

import tc
from tc import cache, device
from tc.backends import registry
from tc.kernel.walk import has_non_temporal_stores
from tests.support.guarded import at_edge
from tests.support.lowering import compile_for

BACKENDS = [name for name in ("numba", "c") if name in registry.usable_names()]
LAST = "O(a,c,b) = I(a,b,c)"


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine, with caches that hold little. What is printed for it must not be found
    later, for the real one."""
    small = replace(device.host(), l2=64 << 10, l3=1 << 10)
    compile_for(small, monkeypatch)
    monkeypatch.setattr(cache, "_enabled", False)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("shape", "ctype"),
    [
        ((3, 59, 301), "float"),
        ((2, 37, 1100), "double"),
        ((3, 1001, 19), "float"),
        ((2, 77, 403), "uint8"),
        ((2, 77, 403), "int16"),
    ],
)
def test_nothing_beyond_the_arrays(shape: tuple[int, int, int], ctype: str, backend: str) -> None:
    """Arrays lie at forbidden pages. Outputs may start anywhere in a line: then nothing is
    streamed, and all the same they are right."""
    text = f"def f({ctype}(A,B,C) I) -> (O) {{ {LAST} }}"
    dtype = np.dtype({"float": "f4", "double": "f8"}.get(ctype, ctype))
    a, b, c = shape
    values = np.random.default_rng(0).integers(0, 99, shape).astype(dtype)
    function = tc.compile(text, backend=backend)
    trace = function.explain(values).trace
    assert trace is not None
    kernel = trace.lowering.kernel
    if ctype != "double" or device.vector_bits() == 512:  # elsewhere not in lines
        assert any(buffer.name == "O_lines" for buffer in kernel.buffers)
        assert has_non_temporal_stores(kernel)
    for before, alignment in product((False, True), (1, 64)):
        x = at_edge(shape, dtype, before=before)
        x[...] = values
        o = at_edge((a, c, b), dtype, before=before, alignment=alignment)
        function(x, outputs=o)
        np.testing.assert_array_equal(o, values.transpose(0, 2, 1))
