"""Guards: what fits compiled code, decided in machine code as in the Python that defines it."""

from __future__ import annotations

import ctypes
import platform
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.runtime import loaded
from tc.runtime.arrays import address, numpy_records
from tc.runtime.guards import ADMITTED, DONE, FAILED, OTHER, GuardFrame, guard_of
from tc.runtime.guards_llvm import MACHINES, NativeGuardFrame, frame_kind
from tc.runtime.loaded import Direct
from tests.runtime.array_strategies import arrays

NATIVE = pytest.mark.skipif(
    not (loaded.is_allowed(MACHINES) and numpy_records.is_known()), reason="no machine code here"
)
KINDS = pytest.mark.parametrize(
    "kind", [GuardFrame, pytest.param(NativeGuardFrame, marks=NATIVE)], ids=["python", "native"]
)


class Special(np.ndarray[Any, Any]):
    pass


A, OUT = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros((4, 6), np.float32)
B = np.asfortranarray(A)
BOTH = np.zeros(60, np.float32)
UNALIGNED = np.zeros(97, np.uint8)[1:].view(np.float32).reshape(4, 6)
READ_ONLY = np.zeros((4, 6), np.float32)
READ_ONLY.flags.writeable = False
SCALAR = np.float32(3)
ONE = np.array(3, np.float32)


def changed(array: Any, place: int) -> tuple[Any, ...]:
    """The arrays of a call in which all arrays but one fit."""
    return tuple(array if i == place else given for i, given in enumerate((A, B, ONE, OUT)))


CASES: dict[str, tuple[bool, tuple[Any, ...]]] = {
    "the same": (True, (A, B, ONE, OUT)),
    "others like them": (True, (A + 1, B.copy("F"), ONE.copy(), OUT.copy())),
    "an input twice": (False, (A, A, ONE, OUT)),  # B is in columns
    "too few": (False, (A, B, ONE)),
    "too many": (False, (A, B, ONE, OUT, OUT.copy())),
    "none": (False, ()),
    "shape": (False, changed(A[:3], 0)),
    "transposed shape": (False, changed(np.zeros((6, 4), np.float32), 0)),
    "an empty array": (False, changed(A[:0], 0)),
    "higher rank": (False, changed(A[None], 0)),
    "lower rank": (False, changed(A.ravel(), 0)),
    "rank 0 for rank 2": (False, changed(ONE, 0)),
    "rank 1 for rank 0": (False, changed(np.ones(1, np.float32), 2)),
    "in columns": (False, changed(B, 0)),
    "in rows": (False, changed(A, 1)),
    "reversed": (False, changed(A[::-1], 0)),
    "broadcast": (False, changed(np.broadcast_to(A[:1], (4, 6)), 0)),
    "every second": (False, changed(np.zeros((4, 12), np.float32)[:, ::2], 0)),
    "float64": (False, changed(A.astype(np.float64), 0)),
    "int32": (False, changed(A.view(np.int32), 0)),
    "byte order": (False, changed(A.astype(">f4"), 0)),
    "another dtype object": (
        False,
        changed(A.view(np.dtype(np.float32, metadata={"a": 1})), 0),
    ),
    "objects": (False, changed(A.astype(object), 0)),
    "subclass": (False, changed(A.view(Special), 0)),
    "masked": (False, changed(np.ma.masked_array(A), 0)),
    "a matrix": (False, changed(A.view(np.recarray), 0)),
    "a list": (False, changed(A.tolist(), 0)),
    "bytes": (False, changed(A.tobytes(), 0)),
    "None": (False, changed(None, 0)),
    "a type": (False, changed(np.ndarray, 0)),
    "a number": (False, changed(3.0, 2)),
    "numpy's number": (False, changed(SCALAR, 2)),
    "a large number": (False, changed(1 << 80, 2)),
    "unaligned input": (False, changed(UNALIGNED, 0)),
    "unaligned output": (False, changed(UNALIGNED, 3)),
    "read-only input": (True, changed(READ_ONLY, 0)),
    "read-only output": (False, changed(READ_ONLY, 3)),
    "output in columns": (False, changed(np.zeros((6, 4), np.float32).T, 3)),
    "output's type": (False, changed(np.zeros((4, 6)), 3)),
    "output is an input": (False, (OUT, B, ONE, OUT)),
    "output is the last input": (False, (A, B, OUT[0, 0:1].reshape(()), OUT)),
    "output overlaps an input": (
        False,
        (BOTH[:24].reshape(4, 6), B, ONE, BOTH[23:47].reshape(4, 6)),
    ),
    "an input overlaps output": (
        False,
        (BOTH[23:47].reshape(4, 6), B, ONE, BOTH[:24].reshape(4, 6)),
    ),
    "output beside an input": (
        True,
        (BOTH[:24].reshape(4, 6), B, ONE, BOTH[24:48].reshape(4, 6)),
    ),
    "inputs overlap": (True, (BOTH[:24].reshape(4, 6), B, BOTH[3:4].reshape(()), OUT)),
}


@KINDS
@pytest.mark.parametrize("case", CASES)
def test_what_is_admitted(kind: Any, case: str) -> None:
    expected, given_arrays = CASES[case]
    guard = guard_of([A, B, ONE], [(OUT.shape, OUT.dtype)])
    frame = kind(guard, 4, [], None)
    assert frame.serve(*given_arrays) == (ADMITTED if expected else OTHER)
    if expected:
        assert list(frame.addresses) == [address(array) for array in given_arrays]


LAYOUTS = {  # shape, strides, bytes before and from the first element on
    "rows": ((4, 6), (24, 4), 0, 96),
    "reversed": ((4, 6), (-24, -4), 92, 4),
    "one way each": ((4, 6), (48, -8), 40, 148),
    "broadcast": ((4, 6), (0, 4), 0, 24),
    "one row": ((1, 6), (1000, 4), 0, 24),
    "rank 0": ((), (), 0, 4),
    "rank 5": ((2, 1, 3, 1, 2), (24, 24, 8, 8, 4), 0, 48),
}


@KINDS
@pytest.mark.parametrize("layout", LAYOUTS)
def test_memory_just_beside_an_input(kind: Any, layout: str) -> None:
    """An output is refused from the first byte of an input to the last, and not beside."""
    shape, strides, below, above = LAYOUTS[layout]
    room, start = np.zeros(4096, np.uint8), 1024
    given_array = np.ndarray(shape, np.float32, room.data, start, strides)
    guard = guard_of([given_array], [((8,), room.dtype)])
    frame = kind(guard, 2, [], None)
    for at, fits in (
        (start - below - 8, True),
        (start - below - 7, False),
        (start + above - 1, False),
        (start + above, True),
    ):
        assert frame.serve(given_array, room[at : at + 8]) == (ADMITTED if fits else OTHER), at


@given(st.lists(arrays(), min_size=1, max_size=3), st.data())
def test_the_twins_decide_alike(examples: list[Any], data: st.DataObject) -> None:
    """Whatever the guard was made of, and whatever it is given."""
    inputs = data.draw(st.integers(0, len(examples)))
    outputs = [(array.shape, array.dtype) for array in examples[inputs:]]
    guard = guard_of(examples[:inputs], outputs)
    frames = [kind(guard, len(examples), [], None) for kind in (GuardFrame, NativeGuardFrame)]
    calls = [examples, data.draw(st.lists(arrays() | st.none(), max_size=4))]
    calls += [
        [*examples[:i], data.draw(arrays()), *examples[i + 1 :]] for i in range(len(examples))
    ]
    for call in calls:
        one, other = (frame.serve(*call) for frame in frames)
        assert one == other
        if one == ADMITTED:
            assert list(frames[0].addresses) == list(frames[1].addresses)


test_the_twins_decide_alike = NATIVE(test_the_twins_decide_alike)


@KINDS
def test_what_runs(kind: Any) -> None:
    """The guard passes the arguments, reports a failure, and does not call while its word forbids
    calls."""
    seen: list[tuple[int, ...]] = []
    results = [0, 1, 0]

    @ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)
    def function(*arguments: int) -> int:
        seen.append((*arguments, *memory))
        return results.pop()

    memory, ready = (ctypes.c_int64 * 3)(), ctypes.c_int64(0)
    place = ctypes.cast(function, ctypes.c_void_p).value
    assert place is not None
    for where in (0, ctypes.addressof(ready)):
        direct = Direct(
            place, (1, 2, 3, 4, 5, 6, -7), ctypes.addressof(memory), where, lambda: None, function
        )
        temporary = np.zeros(2, np.float32)
        frame = kind(guard_of([A], [(OUT.shape, OUT.dtype)]), 3, [temporary], direct)
        expected = (1, 2, 3, 4, 5, 6, -7, *map(address, (A, OUT, temporary)))
        if where:
            assert frame.serve(A, OUT) == OTHER
            ready.value = 1
            assert frame.serve(A, OUT) == DONE
            assert seen == [expected]
        else:
            assert [frame.serve(A, OUT) for _ in range(2)] == [DONE, FAILED]
            assert frame.serve(A, A) == OTHER
            assert seen == [expected] * 2
            seen.clear()


@KINDS
def test_what_runs_at_addresses(kind: Any) -> None:
    """The same for arrays that have been tested, of which only addresses are passed."""
    seen: list[tuple[int, ...]] = []
    results = [0, 1]

    @ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)
    def function(*arguments: int) -> int:
        seen.append((*arguments, *memory))
        return results.pop()

    memory, ready = (ctypes.c_int64 * 3)(), ctypes.c_int64(0)
    place = ctypes.cast(function, ctypes.c_void_p).value
    assert place is not None
    ready_at = ctypes.addressof(ready)
    direct = Direct(
        place, (1, 2, 3, 4, 5, 6, -7), ctypes.addressof(memory), ready_at, lambda: None, function
    )
    temporary = np.zeros(2, np.float32)
    guard = guard_of([A], [(OUT.shape, OUT.dtype)])
    frame = kind(guard, 3, [temporary], direct)
    at = [address(A), address(OUT)]
    assert frame.run(*at) == OTHER
    ready.value = 1
    assert [frame.run(*at), frame.run(0, 2**47)] == [FAILED, DONE]
    whole = (1, 2, 3, 4, 5, 6, -7)
    assert seen == [(*whole, *at, address(temporary)), (*whole, 0, 2**47, address(temporary))]
    for wrong in ((), at[:1], [*at, 1]):
        assert frame.run(*wrong) == OTHER
    with pytest.raises((TypeError, OverflowError)):
        frame.run(at[0], "x")
    with pytest.raises((TypeError, OverflowError, ctypes.ArgumentError)):
        frame.run(at[0], 1.5)
    assert len(seen) == 2
    alone = kind(guard, 3, [temporary], None)
    assert alone.run(*at) == ADMITTED
    assert list(alone.addresses) == [*at, address(temporary)]


UNKNOWN: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "switched off": lambda patch: patch.setenv(loaded.VARIABLE, "0"),
    "another system": lambda patch: patch.setattr(sys, "platform", "darwin"),
    "another processor": lambda patch: patch.setattr(platform, "machine", lambda: "riscv64"),
    "another Python": lambda patch: patch.setattr(sys.implementation, "name", "pypy"),
    "free-threaded": lambda patch: patch.setattr(sys, "abiflags", "t"),
    "without its lock": lambda patch: patch.setattr(
        sys, "_is_gil_enabled", lambda: False, raising=False
    ),
    "another layout": lambda patch: patch.setattr(numpy_records, "is_known", lambda: False),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_where_the_text_may_not_be_true_python_decides(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    UNKNOWN[case](monkeypatch)
    assert frame_kind() is GuardFrame


@NATIVE
def test_here_machine_code_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in (None, "", "1"):
        monkeypatch.delenv(loaded.VARIABLE, raising=False)
        if value is not None:
            monkeypatch.setenv(loaded.VARIABLE, value)
        assert frame_kind() is NativeGuardFrame


def test_numpys_records_are_known_here() -> None:
    assert numpy_records.is_known()
    assert not numpy_records.is_laid_out(np.float32(1.5))  # type: ignore[arg-type]  # no array
