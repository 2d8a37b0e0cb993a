"""Tensors whose storage was freed, shrunk or given back between calls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.api.evaluating import NEEDS_C

TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"
ROWS = "def rows(float(N,M) x) -> (y) { y(i) +=! x(i,j) }"
BACKENDS = ["numba", NEEDS_C, "interpret"]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("calls", [0, 1, 4])
@pytest.mark.parametrize(("left", "state"), [(0, "freed"), (8, "shrunk")])
def test_a_storage_that_is_gone(
    torch: Any, backend: str, calls: int, left: int, state: str
) -> None:
    function = tc.compile(TWICE, backend=backend)
    x, y = torch.ones(3), torch.zeros(3)
    for _ in range(calls):
        function(x, outputs=y)
    x.untyped_storage().resize_(left)
    message = f"x reaches 12 bytes into its storage, which holds {left}: it was {state}"
    for _ in range(2):
        with pytest.raises(tc.InputError, match=message):
            function(x)
        with pytest.raises(tc.InputError, match=message):
            function(x, outputs=y)
    with pytest.raises(tc.InputError, match=message):
        tc.interpret(TWICE, [x])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("calls", [0, 4])
def test_an_output_whose_storage_is_gone(torch: Any, backend: str, calls: int) -> None:
    """Rule R4."""
    function = tc.compile(TWICE, backend=backend)
    x, y = torch.ones(3), torch.zeros(3)
    for _ in range(calls):
        function(x, outputs=y)
    y.untyped_storage().resize_(0)
    with pytest.raises(tc.InputError, match="y in outputs= reaches 12 bytes into its storage"):
        function(x, outputs=y)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_storage_that_comes_and_goes(torch: Any, backend: str) -> None:
    """As sharded training has it: a call must not keep torch from freeing the storage."""
    function = tc.compile(TWICE, backend=backend)
    x, y = torch.ones(3), torch.zeros(3)
    for value in (1, 2, 3):
        for tensor in (x, y):
            tensor.untyped_storage().resize_(12)
        x.fill_(value)
        assert function(x, outputs=y).tolist() == [2 * value] * 3
        assert function(x).tolist() == [2 * value] * 3
        for tensor in (x, y):
            tensor.untyped_storage().resize_(0)


def test_what_strides_reach(torch: Any) -> None:
    """The bytes needed are those up to the last element, whatever the strides and the offset."""
    function = tc.compile(ROWS, backend="interpret")
    base = torch.arange(24.0)
    views = {
        96: base.view(4, 6)[:, 1:],
        92: base.view(4, 6)[:, :5],
        68: base[1:17].view(4, 4),
        88: base.view(4, 6)[1:, 2:4],
        8: base[1:2].expand(4, 3),
        96 - 4: base.view(6, 4).T[:3],
    }
    for needed, view in views.items():
        np.testing.assert_array_equal(function(view).numpy(), view.sum(1).numpy())
        base.untyped_storage().resize_(needed)
        function(view)
        base.untyped_storage().resize_(needed - 1)
        with pytest.raises(tc.InputError, match=f"reaches {needed} bytes into its storage"):
            function(view)
        base.untyped_storage().resize_(96)
        base.copy_(torch.arange(24.0))


def test_empty_tensors_need_no_storage(torch: Any) -> None:
    function = tc.compile(ROWS, backend="interpret")
    x = torch.ones(0, 3)
    x.untyped_storage().resize_(0)
    assert function(x).shape == (0,)
    assert function(torch.ones(3, 0)).tolist() == [0, 0, 0]


def test_a_lazy_negation_is_read_from_memory_that_stays(torch: Any) -> None:
    x = torch.complex(torch.zeros(10_000), torch.ones(10_000)).conj().imag
    function = tc.compile(TWICE)
    for _ in range(3):
        torch.testing.assert_close(function(x), torch.full((10_000,), -2.0))


def test_an_array_at_address_0() -> None:
    """numpy would read memory of its own."""
    import ctypes

    class Null:
        """A DLPack tensor of three floats whose address is 0."""

        def __init__(self) -> None:
            self.shape = (ctypes.c_int64 * 1)(3)
            words = (ctypes.c_int64 * 8)()
            words[1] = 1  # the CPU, number 0
            words[2] = 1 | (2 | 32 << 8 | 1 << 16) << 32  # one dimension, float of 32 bits
            words[3] = ctypes.addressof(self.shape)
            self.words = words

        def __dlpack_device__(self) -> tuple[int, int]:
            return 1, 0

        def __dlpack__(self, **_: Any) -> Any:
            make = ctypes.pythonapi.PyCapsule_New
            make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p,
                                                             ctypes.c_void_p)  # fmt: skip
            return make(ctypes.addressof(self.words), b"dltensor", None)

        def __array_namespace__(self) -> Any:
            return np

    with pytest.raises(tc.InputError, match="x has no memory: its address is 0"):
        tc.compile(TWICE, backend="interpret")(Null())


def test_memory_that_is_exported_stays() -> None:
    """What numpy borrowed cannot be given back while the array is there."""
    raw = bytearray(np.ones(3, np.float32).tobytes())
    view = memoryview(raw)
    x = np.asarray(view.cast("f"))
    assert tc.compile(TWICE, backend="interpret")(x).tolist() == [2, 2, 2]
    with pytest.raises(BufferError):
        raw.extend(b"more")
