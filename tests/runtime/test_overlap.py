"""Whether arrays on a device share memory, by their addresses and strides: numpy's answer."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tc
from tc.runtime.arrays import overlaps_on_device as overlaps
from tc.runtime.arrays.device_array import CUDA, DeviceArray, DeviceLocation, on_device
from tests.support.stand_in import DeviceVector, stand_in

__all__ = ["stand_in"]

MEMORY = np.zeros(256, np.float32)


@st.composite
def parts(draw: st.DrawFn) -> np.ndarray:
    """A part of the memory, with any strides."""
    rank = draw(st.integers(0, 3))
    shape = draw(st.tuples(*[st.integers(0, 4)] * rank))
    steps = draw(st.tuples(*[st.integers(-12, 12)] * rank))
    # negative strides go below, and no more than 36 elements each
    start = draw(st.integers(108, 148))
    strides = [4 * step for step in steps]
    return np.lib.stride_tricks.as_strided(MEMORY[start:], shape, strides)


def on_gpu(array: np.ndarray, number: int = 0, memory: Any = None) -> DeviceArray:
    return on_device(
        array,
        array.dtype,
        array.shape,
        array.strides,
        array.ctypes.data,
        DeviceLocation(CUDA, number),
        memory=memory,
    )


@given(parts(), parts())
def test_numpys_answer(left: np.ndarray, right: np.ndarray) -> None:
    assert overlaps(on_gpu(left), on_gpu(right)) == np.shares_memory(left, right)


@given(parts())
def test_other_memory(array: np.ndarray) -> None:
    """Buffers of OpenCL have addresses of their own, and a processor has memory of its own."""
    here = on_gpu(array)
    assert not overlaps(here, on_gpu(array, 1))
    assert not overlaps(here, array)
    one, other = on_gpu(array, memory=(1,)), on_gpu(array, memory=(2,))
    assert not overlaps(one, other)
    assert overlaps(one, on_gpu(array, memory=(1,))) == bool(array.size)


@pytest.mark.usefixtures("stand_in")
def test_interleaved_columns_do_not_overlap_r4() -> None:
    """What lies in between the elements that are read may be written to."""
    total = tc.compile("def t(float(N) x) -> (o) { o(k) +=! x(i) where k in 0:1 }", backend="cuda")
    memory = np.arange(12, dtype=np.float32)
    x = DeviceVector(memory[::3])
    for _ in range(3):
        assert total(x, outputs=DeviceVector(memory[5:6])).values == 0 + 3 + 6 + 9
    with pytest.raises(tc.InputError, match="o in outputs= shares memory with the input x"):
        total(x, outputs=DeviceVector(memory[6:7]))


@pytest.mark.usefixtures("stand_in")
def test_two_outputs_that_overlap_r4() -> None:
    f = tc.compile("def f(float(N) x) -> (p, q) { p(i) = x(i)  q(i) = 2 * x(i) }", backend="cuda")
    memory, x = np.zeros(9, np.float32), DeviceVector(np.arange(4, dtype=np.float32))
    p, q = f(x, outputs=(DeviceVector(memory[:4]), DeviceVector(memory[4:8])))
    assert memory.tolist() == [0, 1, 2, 3, 0, 2, 4, 6, 0]
    assert (p.values.tolist(), q.values.tolist()) == ([0, 1, 2, 3], [0, 2, 4, 6])
    with pytest.raises(tc.InputError, match="q in outputs= shares memory with the output p"):
        f(x, outputs=(DeviceVector(memory[:4]), DeviceVector(memory[3:7])))
