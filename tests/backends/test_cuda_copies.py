"""Arrays of the processor on GPUs: copied there and back, and one warning says so."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import tc
from tc.backends.opencl_device import OpenCLDevice, opencl_device
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
