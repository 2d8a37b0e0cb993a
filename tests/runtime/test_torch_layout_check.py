"""Repeated calls with torch's tensors on a device: which of them look as the ones before."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tc
from tc.runtime import loaded
from tc.runtime.arrays import torch_layout_check as memory
from tc.runtime.arrays.torch_layout_check import _finder, _needed
from tc.runtime.arrays.torch_private import private_parts
from tc.runtime.entries.device_entry import DeviceEntry
from tests.support.on_devices import Library, use
from tests.support.stand_in import StandInDriver, stand_in

__all__ = ["stand_in", "use"]

ADD = "def add(float(N,M) x, float(N,M) y) -> (o) { o(i,j) = x(i,j) + y(i,j) }"
LAST = "def last(float(N) x, float(N) y) -> (o) { o(i) = x(i) - y(i) }"


@pytest.fixture(params=["by guards", "one by one"])
def library(request: Any, use: Callable[[str], Library], monkeypatch: Any) -> Library:
    """Torch, with what torch.compile asks of tensors and without."""
    found = use("torch")
    if request.param == "one by one":
        monkeypatch.setattr(private_parts(found.module.torch), "TensorGuards", None)
    return found


def warm(function: tc.Compiled, *inputs: Any, outputs: Any = None) -> Any:
    for _ in range(5):
        function(*inputs, outputs=outputs)
    assert isinstance(function._entry, DeviceEntry)
    return function._entry.serve


ODD: dict[str, Callable[[Any], Any]] = {
    "shape": lambda torch: torch.ones(2, 4),
    "rank": lambda torch: torch.ones(6),
    "columns": lambda torch: torch.ones(3, 2).T,
    "every second one": lambda torch: torch.ones(2, 6)[:, ::2],
    "dtype": lambda torch: torch.ones(2, 3).double(),
    "another of as many bytes": lambda torch: torch.ones(2, 3).int(),
    "shrunk": lambda torch: shrunk(torch.ones(2, 3), 20),
    "shrunk behind an offset": lambda torch: shrunk(torch.ones(3, 3)[1:], 32),
    "freed": lambda torch: shrunk(torch.ones(2, 3), 0),
    "misaligned": lambda torch: torch.frombuffer(
        bytearray(29), dtype=torch.float32, offset=1, count=6
    ).reshape(2, 3),
    "gradient": lambda torch: torch.ones(2, 3, requires_grad=True),
    "parameter": lambda torch: torch.nn.Parameter(torch.ones(2, 3)),
    "negated": lambda torch: torch.ones(2, 3, dtype=torch.complex64).conj().imag,
    "zero": lambda torch: torch._efficientzerotensor(2, 3),
    "functional": lambda torch: torch._to_functional_tensor(torch.ones(2, 3)),
    "meta": lambda torch: torch.ones(2, 3, device="meta"),
    "sparse": lambda torch: torch.ones(2, 3).to_sparse(),
    "nested": lambda torch: nested(torch),
    "a number": lambda _: 3.0,
    "an array of numpy": lambda _: np.ones((2, 3), np.float32),
    "nothing": lambda _: None,
}
"""What is not to be taken for a tensor of 2 by 3 floats in rows, made of torch."""


def nested(torch: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its interface may change
        return torch.nested.nested_tensor([torch.ones(3), torch.ones(3)])


def shrunk(tensor: Any, size: int) -> Any:
    tensor.untyped_storage().resize_(size)
    return tensor


@pytest.mark.parametrize("kind", ODD)
def test_other_tensors_are_not_served(kind: str, library: Library, stand_in: StandInDriver) -> None:
    torch, put = library.module.torch, library.module.put
    function, into = (tc.compile(ADD, backend="cuda") for _ in range(2))
    x, y, o = (put(torch.ones(2, 3)) for _ in range(3))
    serve, serve_into = warm(function, x, y), warm(into, x, y, outputs=o)
    other = ODD[kind](torch)
    with contextlib.suppress(Exception):  # what has no memory lies nowhere
        put(other)
    stand_in.calls.clear()
    for _ in range(3):
        assert serve((x, other), None) is None
        assert serve((other, y), None) is None
        assert serve_into((x, other), o) is None
        assert serve_into((x, y), other) is None
    assert "launch" not in stand_in.names()
    assert serve((x, y), None) is not None
    assert serve_into((x, y), o) is o


@pytest.mark.usefixtures("stand_in")
def test_another_device_is_not_served(library: Library) -> None:
    torch, put = library.module.torch, library.module.put
    x, y = put(torch.ones(2, 3)), put(torch.ones(2, 3))
    serve = warm(tc.compile(ADD, backend="cuda"), x, y)
    assert serve((x, put(torch.ones(2, 3), 1)), None) is None
    assert serve((x, y), None) is not None


@pytest.mark.usefixtures("stand_in")
def test_modes_of_gradients(library: Library) -> None:
    """Where none are recorded, tensors that require them are served, and no others elsewhere."""
    torch, put = library.module.torch, library.module.put
    x, y = put(torch.ones(2, 3)), put(torch.full((2, 3), 2.0))
    needs = put(torch.ones(2, 3)).requires_grad_()
    serve = warm(tc.compile(ADD, backend="cuda"), x, y)
    with torch.inference_mode():
        inferred = put(torch.full((2, 3), 4.0))
    for _ in range(3):
        for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
            with mode():
                assert (serve((x, y), None) == 3).all()
                assert (serve((inferred, y), None) == 6).all()
                assert (serve((x, inferred), None) == 5).all()
                found = serve((needs, y), None)
                assert found is None if mode is torch.enable_grad else (found == 3).all()


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace")
@pytest.mark.usefixtures("stand_in")
def test_nothing_is_served_while_torch_records(library: Library) -> None:
    torch, put = library.module.torch, library.module.put
    x, y = put(torch.ones(2, 3)), put(torch.ones(2, 3))
    serve = warm(tc.compile(ADD, backend="cuda"), x, y)
    found = []

    def record(first: Any, second: Any) -> Any:
        found.append(serve((x, y), None))
        return first + second

    torch.jit.trace(record, (torch.ones(2), torch.ones(2)), check_trace=False)
    with torch.autograd.forward_ad.dual_level():
        record(0, 0)
    assert found == [None, None]
    assert serve((x, y), None) is not None


@pytest.mark.usefixtures("stand_in")
def test_one_tensor_twice(library: Library) -> None:
    torch, put = library.module.torch, library.module.put
    x, y = put(torch.ones(2, 3)), put(torch.full((2, 3), 2.0))
    for pairs in ([(x, x), (x, y), (y, y)], [(x, y), (y, y), (y, x)]):
        serve = warm(tc.compile(ADD, backend="cuda"), *pairs[0])
        for a, b in pairs * 3:
            np.testing.assert_array_equal(library.get(serve((a, b), None)), library.get(a + b))


@pytest.mark.usefixtures("stand_in")
def test_rows_have_any_stride_along_one_element(library: Library) -> None:
    torch, put = library.module.torch, library.module.put
    x, y = put(torch.ones(1, 3)), put(torch.full((1, 3), 2.0))
    serve = warm(tc.compile(ADD, backend="cuda"), x, y)
    row = put(torch.arange(15.0).reshape(5, 3)[3:4].as_strided((1, 3), (77, 1)))
    for _ in range(3):
        np.testing.assert_array_equal(library.get(serve((row, y), None)), library.get(row + y))


@pytest.mark.parametrize("shape", [(0, 3), (2, 0)])
@pytest.mark.usefixtures("stand_in")
def test_tensors_without_elements(shape: tuple[int, int], library: Library) -> None:
    torch, put = library.module.torch, library.module.put
    x, y = put(torch.ones(shape)), put(torch.ones(shape))
    serve = warm(tc.compile(ADD, backend="cuda"), x, y)
    assert serve((y, put(torch.ones(shape))), None).shape == shape


@pytest.mark.usefixtures("stand_in")
def test_outputs_that_overlap_are_not_served_r4(library: Library) -> None:
    """Those whose bytes, from the first to the last, are not apart from those of another array."""
    torch, put = library.module.torch, library.module.put
    memory = put(torch.arange(24.0))
    serve = warm(tc.compile(LAST, backend="cuda"), memory[:5], memory[5:10], outputs=memory[10:15])
    values = np.arange(24, dtype=np.float32)
    for at in itertools.product(range(20), repeat=3):
        x, y, o = (memory[start : start + 5] for start in at)
        apart = all(abs(other - at[2]) >= 5 for other in at[:2])
        found = serve((x, y), o)
        assert (found is o) == apart, at
        if apart:
            wanted = values[at[0] : at[0] + 5] - values[at[1] : at[1] + 5]
            np.testing.assert_array_equal(library.get(o), wanted)
            memory.copy_(torch.arange(24.0))


# --- Where the elements of torch's tensors lie: machine code, and the same in Python.


torch = pytest.importorskip("torch", reason="torch is not installed")
NATIVE = pytest.mark.skipif(not loaded.is_allowed(memory.MACHINES), reason="no machine code here")
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
        monkeypatch.setenv(loaded.VARIABLE, "0")
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
