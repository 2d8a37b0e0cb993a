"""Plain contractions left to the library of arrays on a device, computed here by its processor's
side: torch itself, and numpy in the place of CuPy, which writes it alike (R5)."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.library import DeviceLibraryKernel, device_library_kernel, match_contraction
from tc.runtime.arrays.device_array import DeviceLocation
from tests.api.test_library import MATCHING, MM, arrays, check
from tests.support.device_libraries import CupyArray
from tests.support.on_devices import Library, use
from tests.support.pipeline import checked, shaped
from tests.support.stand_in import DeviceVector, StandInDriver, stand_in

__all__ = ["stand_in", "use"]


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Any:
    entered: list[int] = []

    @contextlib.contextmanager
    def device(number: int) -> Any:
        entered.append(number)
        yield

    functions = {name: getattr(np, name) for name in ("matmul", "ascontiguousarray", "copyto")}
    module = SimpleNamespace(cuda=SimpleNamespace(Device=device), entered=entered, **functions)
    monkeypatch.setitem(sys.modules, "cupy", module)
    return module


def kernel_of(text: str, inputs: list[np.ndarray], library: str) -> DeviceLibraryKernel:
    strides = {
        name: tuple(step // array.itemsize for step in array.strides)
        for name, array in zip(checked(text).inputs, inputs, strict=True)
    }
    given = shaped(checked(text), dict(zip(checked(text).inputs, inputs, strict=True)))
    call = match_contraction(given, frozenset())
    assert call is not None
    return device_library_kernel(
        call, given, strides, frozenset(), library, DeviceLocation("cuda", 1)
    )


def output_of(text: str, inputs: list[np.ndarray]) -> np.ndarray:
    (info,) = tc.compile(text).infer(inputs).values()
    return np.full(info.shape, 7, info.dtype)


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("name", MATCHING)
def test_by_torch(name: str, layout: Any) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    text, shapes, _ = MATCHING[name]
    inputs = [np.array(array, order=layout) for array in arrays(text, shapes)]
    kernel, output = kernel_of(text, inputs, "torch"), output_of(text, inputs)
    kernel.compute([torch.from_numpy(array).requires_grad_() for array in inputs]
                   + [torch.from_numpy(output)])  # fmt: skip
    check(text, inputs, output)


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("name", MATCHING)
def test_by_cupy(name: str, layout: Any, cupy: Any) -> None:
    text, shapes, source = MATCHING[name]
    inputs = [np.array(array, order=layout) for array in arrays(text, shapes)]
    kernel, output = kernel_of(text, inputs, "cupy"), output_of(text, inputs)
    kernel.compute([*inputs, output])
    check(text, inputs, output)
    assert cupy.entered == [1]
    if layout == "C":
        assert kernel.source == source.replace("np.", "cupy.")


@pytest.mark.parametrize("name", MATCHING)
def test_torch_rounds_nothing_where_it_may_elsewhere(name: str) -> None:
    """In a block of autocast torch's own matmul multiplies numbers of 8 bits (R5)."""
    torch = pytest.importorskip("torch", reason="torch is not installed")
    text, shapes, _ = MATCHING[name]
    inputs = [array + np.array(1 / 512, array.dtype) for array in arrays(text, shapes)]
    kernel, output = kernel_of(text, inputs, "torch"), output_of(text, inputs)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        kernel.compute([*map(torch.from_numpy, inputs), torch.from_numpy(output)])
        assert torch.is_autocast_enabled("cpu")
    check(text, inputs, output)


@pytest.mark.usefixtures("stand_in")
def test_a_library_without_memory(use: Callable[[str], Library]) -> None:
    """The memory is missing for the result, or for a copy made on the way."""
    cupy = use("cupy").module
    f = tc.compile(MM, backend="cuda", options=tc.Options(match_library=True))
    a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    lacking = r"f: there is not enough memory for C of shape \(3, 5\) and dtype float32"

    def without(*_: Any, **_named: Any) -> Any:
        raise MemoryError("Out of memory allocating 60 bytes")

    cupy.matmul = without
    with pytest.raises(tc.BackendError, match=lacking):
        f(CupyArray(a), CupyArray(b))
    cupy.matmul = lambda a, b, out: np.matmul(a.values, b.values, out=out.values)
    cupy.short = True
    with pytest.raises(tc.BackendError, match=lacking):
        f(CupyArray(a), CupyArray(b))
    cupy.short = False
    np.testing.assert_array_equal(f(CupyArray(a), CupyArray(b)).values, a @ b)


def test_how_torch_writes_it() -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    text, shapes, _ = MATCHING["batch innermost"]
    kernel = kernel_of(text, arrays(text, shapes), "torch")
    assert kernel.source == (
        "C.permute(2, 0, 1).copy_(torch.matmul(X.permute(2, 0, 1).contiguous(), "
        "Y.permute(2, 0, 1).contiguous()))"
    )


def test_a_call_of_cupy(use: Callable[[str], Library], stand_in: StandInDriver) -> None:
    cupy = use("cupy").module
    cupy.matmul = lambda a, b, out: np.matmul(a.values, b.values, out=out.values)
    cupy.streams[0] = 5
    f = tc.compile(MM, backend="cuda", options=tc.Options(match_library=True))
    a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    for _ in range(3):
        found = f(CupyArray(a), CupyArray(b))
        assert type(found) is CupyArray
        np.testing.assert_array_equal(found.values, a @ b)
    given = CupyArray(np.empty((3, 5), np.float32))
    assert f(CupyArray(a), CupyArray(b), outputs=given) is given
    np.testing.assert_array_equal(given.values, a @ b)
    assert "launch" not in stand_in.names()
    tc.compile(MM, backend="cuda")(CupyArray(a), CupyArray(b))
    assert stand_in.calls[-1][::2] == ("launch", 5)


@pytest.mark.filterwarnings("ignore::tc.TCWarning")  # of copies
def test_other_libraries_have_none(stand_in: StandInDriver) -> None:
    f = tc.compile(MM, backend="cuda", options=tc.Options(match_library=True))
    a, b = np.ones((3, 4), np.float32), np.ones((4, 5), np.float32)
    for given in [(DeviceVector(a), DeviceVector(b)), (a, b)]:
        found = f(*given)
        np.testing.assert_array_equal(getattr(found, "values", found), a @ b)
    assert stand_in.names().count("launch") == 2
