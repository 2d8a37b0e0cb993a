"""Arrays of the processor on GPUs: copied there and back, and one warning says so."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tc
from tc import cache
from tc.backends import cuda, nvrtc, registry
from tc.backends.base import Backend
from tc.backends.cuda import compile_text
from tc.backends.nvrtc import CompiledText
from tc.backends.opencl_device import OpenCLDevice, opencl_device
from tc.errors import BackendError
from tc.kernel.folding import integer
from tc.kernel.ir import Kernel, Let
from tc.kernel.rebuild import changed
from tests.kernel.grids import tmm
from tests.support.opencl import on_pocl
from tests.support.stand_in import DeviceVector, StandInDriver, stand_in

__all__ = ["stand_in"]

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
A, B = np.arange(12, dtype=np.float32).reshape(3, 4), np.ones((4, 5), np.float32)


def told(function: tc.Compiled, *inputs: object, outputs: object = None) -> list[str]:
    """The warnings of a call."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        function(*inputs, outputs=outputs)
    assert {each.category for each in found} <= {tc.TCWarning}
    assert {each.filename for each in found} <= {__file__}
    return [str(each.message) for each in found]


def test_one_warning_says_what_it_costs(stand_in: StandInDriver) -> None:
    function = tc.compile(MM, backend="cuda")
    assert told(function, A, B) == [
        "warning: mm is called with arrays in the memory of the processor: each call copies 128 "
        "bytes to CUDA device 0 and 60 bytes back, and waits for that\n"
        "repair: pass arrays that are there, such as torch's A.cuda(), or cupy.asarray(A)"
    ]
    copies = [call for call in stand_in.calls if call[0].startswith("copy")]
    assert copies == [("copy_in", 48, 0), ("copy_in", 80, 0), ("copy_out", 60, 0)]
    assert told(function, A, B) == []
    assert told(function, A[:2], B) == []
    assert len(told(tc.compile(MM, backend="cuda"), A, B)) == 1


def test_what_an_output_holds_is_copied_there_too(stand_in: StandInDriver) -> None:
    function = tc.compile("def f(float(N) x) -> (y) { y(i) += x(i) }", backend="cuda")
    y = np.ones(6, np.float32)
    (warning,) = told(function, np.arange(6, dtype=np.float32), outputs=y)
    assert "copies 48 bytes to CUDA device 0 and 24 bytes back" in warning
    np.testing.assert_array_equal(y, [1, 2, 3, 4, 5, 6])
    assert "wait" not in stand_in.names()


def test_arrays_that_are_there_are_not_copied(stand_in: StandInDriver) -> None:
    function = tc.compile(MM, backend="cuda")
    assert told(function, DeviceVector(A), DeviceVector(B)) == []
    assert {"copy_in", "copy_out"} & {*stand_in.names()} == set()
    assert len(told(function, A, B)) == 1


def test_the_repair_moves_no_number(stand_in: StandInDriver) -> None:  # noqa: ARG001
    scaled = "def f(float a, float(N) x) -> (y) { y(i) = a * x(i) }"
    (warning,) = told(tc.compile(scaled, backend="cuda"), 2, np.ones(6, np.float32))
    assert warning.endswith("such as torch's x.cuda(), or cupy.asarray(x)")


def test_what_launches_nothing_copies_nothing(stand_in: StandInDriver) -> None:
    function = tc.compile(MM, backend="cuda")
    assert told(function, A, np.ones((4, 0), np.float32)) == []
    assert "copy_in" not in stand_in.names()
    assert len(told(function, A, B)) == 1


@on_pocl
def test_opencl_tells_where_devices_have_memory_of_their_own() -> None:
    """PoCL's have not."""
    function = tc.compile(MM, backend="opencl")
    assert told(function, A, B) == []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OpenCLDevice, "shares_memory", property(lambda _device: False))
        (warning,) = told(function, A, B)
        assert told(function, A[:2], B) == []
    assert warning == (
        "warning: mm is called with arrays in the memory of the processor: each call copies 128 "
        f"bytes to the OpenCL device {opencl_device()} and 60 bytes back, and waits for that\n"
        "repair: pass arrays that are there, such as pyopencl.array.to_device(queue, A)"
    )


@pytest.mark.parametrize("backend", ["numba", "interpret"])
def test_backends_for_processors_copy_nothing(backend: str) -> None:
    assert told(tc.compile(MM, backend=backend), A, B) == []


# --- What NVRTC compiled is kept on disk, for just that text, architecture, compiler and flags.


SCALE = "def scale(float(N) x) -> (y) {{ y(i) = {0} * x(i) }}"


@pytest.fixture
def compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The architectures that a stand-in for NVRTC was asked to compile for."""
    asked: list[str] = []

    def compile_now(source: str, arch: str) -> CompiledText:
        asked.append(arch)
        return CompiledText(f"\x7fELF {arch} {len(asked)} {source}".encode(), "", "")

    monkeypatch.setattr(nvrtc, "version", lambda: "13.0")
    monkeypatch.setattr(nvrtc, "compiled", compile_now)
    cache.enable(tmp_path / "kernels")
    yield asked
    cache.disable()


def test_a_text_is_compiled_once(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    text, other = (tc.emit(SCALE.format(n), {"N": 8}, backend="cuda") for n in (2, 3))
    first = compile_text(text, "sm_80")
    assert compile_text(text, "sm_80") == first
    assert compiled == ["sm_80"]
    others = [compile_text(text, "sm_90"), compile_text(other, "sm_80")]
    monkeypatch.setattr(nvrtc, "version", lambda: "13.1")
    others.append(compile_text(text, "sm_80"))
    monkeypatch.setattr(cuda, "FLAGS", ("--another-flag",))
    others.append(compile_text(text, "sm_80"))
    assert len({first, *others}) == len(compiled) == 5


def test_without_a_disk_it_is_compiled_by_each_process(compiled: list[str]) -> None:
    cache.disable()
    text = tc.emit(SCALE.format(2), {"N": 8}, backend="cuda")
    assert compile_text(text, "sm_80") != compile_text(text, "sm_80")
    assert compiled == ["sm_80", "sm_80"]


def test_what_is_no_cubin_is_not_taken(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tc.emit(SCALE.format(2), {"N": 8}, backend="cuda")
    first = compile_text(text, "sm_80")
    for stored in (b"", first, cache.packed("object", {}, first), cache.packed("cubin", {}, b"no")):
        with monkeypatch.context() as patch:
            patch.setattr(cache, "get", lambda _, stored=stored: stored)
            assert compile_text(text, "sm_80") not in (first, stored)
    assert len(compiled) == 5


# --- Kernels of blocks and threads are for GPUs alone.


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
