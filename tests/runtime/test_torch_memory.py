"""Where the elements of torch's tensors lie: machine code, and the same in Python."""

from __future__ import annotations

import ctypes
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.runtime import native
from tc.runtime.arrays import torch_memory_llvm as memory
from tc.runtime.arrays.torch_layout_check import _finder, _needed

torch = pytest.importorskip("torch", reason="torch is not installed")
NATIVE = pytest.mark.skipif(not native.is_allowed(memory.MACHINES), reason="no machine code here")
DTYPES = (torch.uint8, torch.float16, torch.float32, torch.int64)


@st.composite
def tensors(draw: st.DrawFn) -> Any:
    """Tensors with any offset and strides, some with less memory than they need, or none."""
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    strides = [draw(st.integers(0, 7)) for _ in shape]
    offset = draw(st.integers(0, 5))
    dtype = draw(st.sampled_from(DTYPES))
    held = offset + 1 + sum(max(n - 1, 0) * step for n, step in zip(shape, strides, strict=True))
    tensor = torch.zeros(held, dtype=dtype).as_strided(shape, strides, offset)
    if dtype.is_floating_point and draw(st.booleans()):
        tensor.requires_grad_()
    if draw(st.integers(0, 3)) == 0:
        size = held * tensor.element_size()
        tensor.untyped_storage().resize_(draw(st.integers(0, size)))
    is_parameter = dtype.is_floating_point and draw(st.integers(0, 5)) == 0
    return torch.nn.Parameter(tensor) if is_parameter else tensor


LAID_OUT = tuple(map(int, re.findall(r"\d+", torch.__version__)[:2])) >= (2, 10)
KNOWN = pytest.mark.skipif(not LAID_OUT, reason="before torch 2.10 tensors lie a word further")


@NATIVE
def test_it_is_known_here() -> None:
    """In older versions of torch it is not, and Python asks."""
    assert (memory.finder(torch, [(4, 4)]) is not None) == LAID_OUT


@NATIVE
@KNOWN
@given(st.lists(tensors(), min_size=1, max_size=4), st.integers(-1, 1))
def test_the_twins_find_alike(each: list[Any], more: int) -> None:
    wanted = [(tensor.element_size(), max(_needed(tensor) + more, 0)) for tensor in each]
    found = memory.finder(torch, wanted)
    assert found is not None
    assert found(*each) == _finder(wanted)(*each)


@NATIVE
@KNOWN
def test_another_number_of_tensors() -> None:
    found = memory.finder(torch, [(4, 4)] * 2)
    assert found is not None
    one = torch.zeros(1)
    assert found(one, one) == [one.data_ptr()] * 2
    assert found(one) == found(one, one, one) == found() == 0


@pytest.mark.parametrize("case", ["switched off", "no such function", "another place"])
def test_where_it_is_not_known_python_asks(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory._known.cache_clear()
    if case == "switched off":
        monkeypatch.setenv(native.VARIABLE, "0")
    elif case == "no such function":
        monkeypatch.setattr(memory, "_ASKED", ("aoti_torch_no_such", *memory._ASKED[1:]))
    else:  # as if a word more stood in front of the tensor
        monkeypatch.setattr(memory, "_HANDLE", 3)
    try:
        assert memory.finder(torch, [(4, 4)]) is None
    finally:
        memory._known.cache_clear()


@NATIVE
@KNOWN
def test_what_it_tries_first_is_what_it_asks() -> None:
    """Functions that answer something else are not used."""
    asked = memory._known(torch)
    assert asked is not None
    size, offset = asked[1:]
    assert memory._are_right(torch, asked)
    assert not memory._are_right(torch, (size, size, offset))
    assert not memory._are_right(torch, (asked[0], offset, size))

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    def fails(_tensor: int, _result: int) -> int:
        return 1

    place = ctypes.cast(fails, ctypes.c_void_p).value
    assert not memory._are_right(torch, (asked[0], place, offset))
