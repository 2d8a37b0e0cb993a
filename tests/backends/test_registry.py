"""The backends by name: found, imported late, and added without an edit elsewhere."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tc.backends import registry
from tc.backends.base import Backend, GpuBackend, KernelText, ShapedBackend
from tc.backends.interpret import InterpretBackend
from tc.errors import BackendError
from tests.kernel.grids import tmm
from tests.support.kernels import matmul


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Registrations of a test end with it."""
    monkeypatch.setattr(registry, "_BACKENDS", dict(registry._BACKENDS))


@pytest.mark.parametrize("name", registry.names())
def test_each_backend_keeps_its_contract(name: str) -> None:
    backend = registry.get(name)
    assert backend.name == name
    for_gpus = isinstance(backend, GpuBackend)
    assert backend.checks_by_default != for_gpus
    assert isinstance(backend, Backend) != isinstance(backend, ShapedBackend)
    assert registry.get(name) is backend
    assert (backend.usable() is None) == (name in registry.usable_names())
    if isinstance(backend, Backend):
        kernel = tmm() if for_gpus else matmul(2, 3, 4)
        text = backend.emit(kernel)
        assert isinstance(text, KernelText)
        assert (text.backend, str(text)) == (name, text.source)
        assert text.kernel == kernel


def test_the_interpreter_needs_no_kernel() -> None:
    assert isinstance(registry.get("interpret"), InterpretBackend)
    assert "interpret" in registry.usable_names()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [("Numba", "numba"), ("interpreter", "interpret"), ("C", "c"), ("cpu", "numba")],
)
def test_unknown_names_are_refused(name: str, nearest: str) -> None:
    with pytest.raises(BackendError) as caught:
        registry.get(name)
    assert str(caught.value) == (
        f"BackendError: there is no backend {name!r}; there are numba, c, opencl, cuda, interpret\n"
        f'repair: backend="{nearest}"'
    )


@pytest.mark.parametrize("name", [None, 3, ["c"]])
def test_what_is_no_name_is_refused(name: object) -> None:
    with pytest.raises(BackendError, match="there is no backend"):
        registry.get(name)


@pytest.mark.usefixtures("entries")
def test_a_new_backend_is_one_call() -> None:
    registry.register("twin", "tc.backends.interpret:InterpretBackend")
    registry.register("twin", "tc.backends.interpret:InterpretBackend")  # again is fine
    assert registry.names() == ("numba", "c", "opencl", "cuda", "interpret", "twin")
    assert isinstance(registry.get("twin"), InterpretBackend)


@pytest.mark.usefixtures("entries")
def test_names_are_taken_once() -> None:
    with pytest.raises(BackendError) as caught:
        registry.register("c", "elsewhere:C")
    assert str(caught.value) == (
        "BackendError: the backend name 'c' already stands for tc.backends.clike.backend:CBackend\n"
        "repair: register('c2', 'elsewhere:C')"
    )
    with pytest.raises(BackendError, match="does not name a class"):
        registry.register("new", "no_colon")


@pytest.mark.usefixtures("entries")
@pytest.mark.parametrize(
    ("target", "reason"),
    [("no_such_module:B", "No module named 'no_such_module'"),
     ("tc.backends.clike.backend:NoSuchClass", "has no attribute 'NoSuchClass'")],
)  # fmt: skip
def test_what_cannot_be_imported_is_unusable(target: str, reason: str) -> None:
    registry.register("broken", target)
    assert "broken" not in registry.usable_names()
    assert reason in str(registry.reason_unusable("broken"))
    with pytest.raises(BackendError, match="backend 'broken' cannot be loaded: "):
        registry.get("broken")


@pytest.mark.usefixtures("entries")
def test_what_refuses_its_settings_is_unusable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "raise ValueError('Number of threads specified must be > 0.')"
    (tmp_path / "refusing_its_settings.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("NUMBA_NUM_THREADS", "0")
    registry.register("refusing", "refusing_its_settings:B")
    assert "refusing" not in registry.usable_names()
    with pytest.raises(BackendError, match=r"must be > 0\. \(.* has NUMBA_NUM_THREADS=0"):
        registry.get("refusing")


def test_backends_are_imported_when_used() -> None:
    script = (
        "import sys; from tc.backends import registry as r; r.get('c'); r.get('interpret');"
        "print([m for m in ('numba', 'islpy', 'scipy') if m in sys.modules])"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("[]", "['islpy']")  # the interpreter may use sets
