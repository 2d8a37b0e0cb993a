"""Calls like an earlier one: what differs goes the usual way, with the usual result or message."""

from __future__ import annotations

import gc
import os
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tc
from tc import function as functions
from tc.function import Compiled
from tc.runtime.entries import inline_cache
from tests.runtime.array_strategies import BASE, arrays
from tests.support.bounds import assert_computes
from tests.support.processes import ended_well, run_python, told
from tests.support.threads import run_at_once

ADD = "def add(float(N,M) A, float(N,M) B) -> (C) { C(i,j) = A(i,j) + 2 * B(i,j) }"
TWO = "def two(float(N) A) -> (S, D) { S(i) = A(i) + A(i)  D(i) = A(i) - A(i) }"
CHAIN = """def chain(float(N,M) A, float(M,K) B, float(K,N) C) -> (D) {
  T(i,j) +=! A(i,k) * B(k,j)
  D(i,j) +=! T(i,k) * C(k,j)
}"""
TAKE = "def take(float(N) X, int32(M) I) -> (Y) { Y(i) = X(I(i)) }"

BACKENDS = ["numba", "c"]


@pytest.fixture(autouse=True, params=["1", "0"], ids=["native", "python"])
def native(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of it by guards in machine code, and by those in Python."""
    monkeypatch.setenv("TC_NATIVE_CALLS", request.param)


def floats(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).random(shape, np.float32)


def repeating(text: str, *inputs: Any, outputs: Any = None, backend: str = "numba") -> Compiled:
    """A function after two equal calls."""
    function = tc.compile(text, backend=backend)
    for _ in range(2):
        function(*inputs, outputs=outputs)
    assert function._entry is not None
    return function


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Grows by whether an entry served a call."""
    seen: list[bool] = []
    new = functions.new_entry

    def noting(entry: inline_cache.CacheEntry, inputs: tuple[Any, ...], outputs: Any) -> Any:
        try:
            result = entry.serve(inputs, outputs)
        except tc.TCError:
            seen.append(True)
            raise
        seen.append(result is not None)
        return result

    def noted(*arguments: Any) -> Any:
        entry = new(*arguments)
        return entry and replace(entry, serve=partial(noting, entry))

    monkeypatch.setattr(functions, "new_entry", noted)
    return seen


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("passed", [False, True])
def test_the_same_again(served: list[bool], backend: str, passed: bool) -> None:
    a, b = floats(3, 5), floats(3, 5)
    out = np.zeros((3, 5), np.float32) if passed else None
    function = repeating(ADD, a, b, outputs=out, backend=backend)
    other = floats(3, 5) + 1
    result = function(other, b, outputs=out)
    assert served == [True]
    assert result is out or not passed
    assert_computes(ADD, [other, b], result, other + 2 * b)
    if not passed:
        assert function(a, b) is not function(a, b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_several_results_and_temporaries(served: list[bool], backend: str) -> None:
    a = floats(7)
    two = repeating(TWO, a, backend=backend)
    result = two(a)
    assert (a + a == result.S).all()
    assert (result.D == 0).all()
    given = [np.empty(7, np.float32), np.empty(7, np.float32)]
    repeated = repeating(TWO, a, outputs=given, backend=backend)
    for outputs in (given, tuple(given)):
        result = repeated(a, outputs=outputs)
        assert result.S is given[0]
        assert result.D is given[1]
    x, y, z = floats(4, 6), floats(6, 5), floats(5, 4)
    chain = repeating(CHAIN, x, y, z, backend=backend)
    assert_computes(CHAIN, [x, y, z], chain(x, y, z), x @ y @ z)
    assert all(served)


@pytest.mark.parametrize("passed", [False, True])
def test_the_other_way_of_outputs(served: list[bool], passed: bool) -> None:
    a, b, out = floats(2, 3), floats(2, 3), np.zeros((2, 3), np.float32)
    function = repeating(ADD, a, b, outputs=out if passed else None)
    result = function(a, b, outputs=None if passed else out)
    assert served == [False]
    assert (result is out) != passed
    assert_computes(ADD, [a, b], result, a + 2 * b)


class Special(np.ndarray):
    pass


A, B = floats(4, 6), floats(4, 6)
UNALIGNED = np.zeros(4 * 6 * 4 + 1, np.uint8)[1:].view(np.float32).reshape(4, 6)
READ_ONLY = np.zeros((4, 6), np.float32)
READ_ONLY.flags.writeable = False
OTHERS: dict[str, Callable[[], tuple[Any, Any, Any]]] = {
    "shape": lambda: (floats(5, 6), floats(5, 6), np.zeros((5, 6), np.float32)),
    "only one shape": lambda: (floats(5, 6), B, np.zeros((4, 6), np.float32)),
    "only the output's shape": lambda: (A, B, np.zeros((6, 4), np.float32)),
    "rank": lambda: (A, B.reshape(4, 6, 1), np.zeros((4, 6), np.float32)),
    "strides": lambda: (floats(6, 4).T, B, np.zeros((4, 6), np.float32)),
    "reversed": lambda: (A[::-1], B, np.zeros((4, 6), np.float32)),
    "broadcast": lambda: (np.broadcast_to(A[:1], (4, 6)), B, np.zeros((4, 6), np.float32)),
    "dtype": lambda: (A.astype(np.float64), B, np.zeros((4, 6), np.float32)),
    "integers": lambda: (A.view(np.int32), B, np.zeros((4, 6), np.float32)),
    "byte order": lambda: (A.astype(">f4"), B, np.zeros((4, 6), np.float32)),
    "another dtype object": lambda: (
        A.view(np.dtype(np.float32, metadata={"a": 1})),
        B,
        np.zeros((4, 6), np.float32),
    ),
    "subclass": lambda: (A.view(Special), B, np.zeros((4, 6), np.float32)),
    "no array": lambda: (A.tolist(), B, np.zeros((4, 6), np.float32)),
    "None": lambda: (None, B, np.zeros((4, 6), np.float32)),
    "unaligned input": lambda: (UNALIGNED, B, np.zeros((4, 6), np.float32)),
    "unaligned output": lambda: (A, B, UNALIGNED),
    "read-only input": lambda: (READ_ONLY, B, np.zeros((4, 6), np.float32)),
    "read-only output": lambda: (A, B, READ_ONLY),
    "output in columns": lambda: (A, B, np.zeros((6, 4), np.float32).T),
    "output's dtype": lambda: (A, B, np.zeros((4, 6))),
    "output is an input": lambda: ((x := floats(4, 6)), B, x),
    "output overlaps an input": lambda: ((x := np.zeros(48, np.float32))[8:32].reshape(4, 6), B,
                                         x[24:].reshape(4, 6)),
    "output beside an input": lambda: ((x := np.zeros(48, np.float32))[:24].reshape(4, 6), B,
                                       x[24:].reshape(4, 6)),
    "outputs as a list": lambda: (A, B, [np.zeros((4, 6), np.float32)]),
    "outputs as a dict": lambda: (A, B, {"C": np.zeros((4, 6), np.float32)}),
    "too many outputs": lambda: (A, B, [np.zeros((4, 6), np.float32)] * 2),
    "no outputs": lambda: (A, B, []),
    "outputs of one None": lambda: (A, B, [None]),
}  # fmt: skip


def outcome(function: Compiled, inputs: tuple[Any, ...], outputs: Any) -> Any:
    try:
        return np.asarray(function(*inputs, outputs=outputs)).tolist()
    except tc.TCError as error:
        return str(error)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("passed", [False, True])
def test_what_differs_ends_as_it_would_without(other: str, passed: bool) -> None:
    """The result or the whole message; and the function serves the first arrays afterwards."""
    out = np.zeros((4, 6), np.float32)
    function = repeating(ADD, A, B, outputs=out if passed else None)
    expected = outcome(tc.compile(ADD), *_split(OTHERS[other]()))
    for _ in range(3):
        assert outcome(function, *_split(OTHERS[other]())) == expected
    assert_computes(ADD, [A, B], function(A, B, outputs=out), A + 2 * B)


def _split(arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
    return arrays[:-1], arrays[-1]


def test_too_few_and_too_many_inputs() -> None:
    function = repeating(ADD, A, B)
    for inputs in ((), (A,), (A, B, B)):
        with pytest.raises(tc.InputError, match="takes 2 inputs"):
            function(*inputs)
    assert (function(A, B=B) == function(A, B)).all()


def test_inputs_and_outputs_are_counted_apart() -> None:
    function = repeating(ADD, A, B, outputs=np.zeros((4, 6), np.float32))
    for inputs, outputs in (((A,), [B, np.zeros((4, 6), np.float32)]), ((A, B, A.copy()), [])):
        with pytest.raises(tc.InputError, match="takes 2 inputs"):
            function(*inputs, outputs=outputs)


def test_outputs_without_memory_go_the_usual_way(
    served: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(inline_cache, "_maker", lambda *_: refuse)
    function = repeating(ADD, A, B)
    assert_computes(ADD, [A, B], function(A, B), A + 2 * B)
    assert served == [False]


def test_without_memory_for_one_more_call_the_usual_way_is_taken(
    served: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has memory left from earlier calls."""

    def refuse(*_: object) -> None:
        raise MemoryError

    function = tc.compile(ADD)
    function(A, B)
    monkeypatch.setattr("tc.backends.numba.backend.CallMemory", refuse)
    monkeypatch.setattr("tc.backends.clike.backend.CallMemory", refuse)
    function(A, B)
    assert_computes(ADD, [A, B], function(A, B), A + 2 * B)
    assert served == [False]


def test_threads_are_set_while_an_entry_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """By another thread, say: the entry would go on with as many as before."""
    new = functions.new_entry

    def interrupted(*arguments: Any) -> Any:
        made = new(*arguments)
        tc.set_threads(1)
        return made

    monkeypatch.setattr(functions, "new_entry", interrupted)
    try:
        function = tc.compile(ADD)
        for _ in range(2):
            function(A, B)
        assert function._entry is None
        function(A, B)
        assert function._entry is not None
        assert function._entry.frames.threads == 1
    finally:
        tc.set_threads(None)


def test_calls_that_are_not_served_keep_the_entry() -> None:
    """Named inputs, and outputs as a dict."""
    out = np.empty((4, 6), np.float32)
    function = repeating(ADD, A, B, outputs=out)
    entry = function._entry
    for _ in range(3):
        function(A, B=B, outputs=out)
        function(A, B, outputs={"C": out})
    assert function._entry is entry
    other = A.view(np.dtype(np.float32, metadata={"a": 1}))
    for _ in range(2):
        function(other, B, outputs=out)
    assert function._entry is not entry


@pytest.mark.parametrize("threads", [None, 1, 2])
def test_a_shared_kernel_and_the_first_of_its_failures(
    served: list[bool], threads: int | None
) -> None:
    x, rows = floats(3000), np.arange(0, 600_000, dtype=np.int32) % 3000
    function = tc.compile(TAKE, options=tc.Options(threads=threads))
    for _ in range(2):
        function(x, rows)
    wrong = rows.copy()
    wrong[[100, 400_000, 599_999]] = 3001, 3002, 3003
    for _ in range(3):
        with pytest.raises(tc.AccessError, match="3001"):
            function(x, wrong)
        assert (function(x, rows) == x[rows]).all()
    assert served == [True] * 6


def test_other_threads_go_on_meanwhile() -> None:
    a = floats(700, 700)
    function = repeating("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }",
                         a, a)  # fmt: skip
    running = threading.Event()
    steps = 0

    def call() -> None:
        running.set()
        try:
            for _ in range(1000):
                function(a, a)
                if steps > 20:
                    break
        finally:
            running.clear()

    thread = threading.Thread(target=call)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # nobody is asked for the lock
    try:
        thread.start()
        running.wait()
        while running.is_set():
            steps += 1
            time.sleep(0)
    finally:
        sys.setswitchinterval(before)
    thread.join()
    assert steps > 20


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks on this platform")
def test_in_a_forked_child() -> None:
    """Where threads are shared, the child's first call starts its own."""
    done = run_python(FORKING)
    assert ended_well(done), told(done)


FORKING = """
import os, numpy as np, tc
from tc.runtime.thread_pool import NativePool, pool
mm = tc.compile("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
add = tc.compile("def add(float(N) A) -> (C) { C(i) = A(i) + 1 }")
a, row = np.eye(300, dtype=np.float32), np.ones(5, np.float32)
for _ in range(3):
    mm(a, a), add(row)
assert mm._entry.serve((a, a), None) is not None
child = os.fork()
shared = any(s.runner.shared for s in mm._specialiser.made.values())
if not child:
    try:
        assert add._entry.serve((row,), None) is not None
        native = isinstance(pool(), NativePool)  # its threads have to be started
        assert (mm._entry.serve((a, a), None) is None) == (shared and native)
        for _ in range(3):
            assert (mm(a, a) == a).all()
        assert mm._entry.serve((a, a), None) is not None
    except BaseException:
        os._exit(1)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert mm._entry.serve((a, a), None) is not None
"""


def test_a_failed_check_is_told(served: list[bool]) -> None:
    x, rows = floats(5), np.array([0, 4, 2], np.int32)
    function = repeating(TAKE, x, rows)
    with pytest.raises(tc.AccessError, match="7"):
        function(x, np.array([1, 7, 2], np.int32))
    assert (function(x, rows) == x[rows]).all()
    assert served == [True, True]


def test_empty_arrays(served: list[bool]) -> None:
    empty = np.zeros((0, 6), np.float32)
    function = repeating(ADD, empty, empty, outputs=np.zeros((0, 6), np.float32))
    assert function(empty, empty, outputs=np.zeros((0, 6), np.float32)).shape == (0, 6)
    assert served == [True]


SHIFTED = "def shifted(float(N) X, int32 k, float s) -> (Y) { Y(i) = X(i + k) * s where i in 0:3 }"


@pytest.mark.parametrize("passed", [False, True])
def test_values_that_decide_about_the_code(served: list[bool], passed: bool) -> None:
    """Scalars in subscripts: a call with another value is no repetition, and one with the same
    value is served with other values of those that decide nothing."""
    function, x, out = tc.compile(SHIFTED), floats(9), floats(3) if passed else None
    for k in (1, 1, 1, 2, 2, 2, 1):
        for n, kind in enumerate((int, np.int64, partial(np.array, dtype=np.int32))):
            assert (function(x, kind(k), n, outputs=out) == x[k : k + 3] * n).all()
    assert served == [*[True] * 7, *[False] * 2, *[True] * 7, *[False] * 2, True]


@pytest.mark.parametrize(
    "value", [1.0, "1", None, 2**31, 9, -1, np.ones(1, np.int32), np.float32(1)]
)
def test_other_values_that_decide_about_the_code(value: Any) -> None:
    x = floats(9)
    function = repeating(SHIFTED, x, 1, 2.5)
    expected = outcome(tc.compile(SHIFTED), (x, value, 2.5), None)
    assert outcome(function, (x, value, 2.5), None) == expected


def test_sizes_as_numbers_alone(served: list[bool]) -> None:
    """Outputs that are given are served, too, where no input is an array."""
    text = "def halve(int N, float by) -> (o) { o(i) = o(i) / by where i in 0:N }"
    given = np.ones(4, np.float32)
    function = repeating(text, 4, 2, outputs=given)
    assert function(4, 8, outputs=given) is given
    assert (given == 1 / 32).all()
    assert served == [True]
    with pytest.raises(tc.InputError):
        function(5, 8, outputs=given)
    assert served == [True, False]


def test_a_number_and_an_array_of_rank_0() -> None:
    text = "def scaled(float(N) X, float s) -> (Y) { Y(i) = X(i) * s }"
    function, x = tc.compile(text), floats(9)
    for scale in (2.0, 2.0, 3.0, *[np.array(4, np.float32)] * 3, 5.0, 6):
        np.testing.assert_array_equal(function(x, scale), x * np.float32(scale))


SCALED = "def scaled(float(N) X, float s, int32 n) -> (Y) { Y(i) = X(i) * s + n }"


@pytest.mark.parametrize("passed", [False, True])
def test_numbers_are_served(served: list[bool], passed: bool) -> None:
    x, out = floats(9), np.zeros(9, np.float32) if passed else None
    function = repeating(SCALED, x, 0.5, 3, outputs=out)
    for scale, shift in (
        (0.5, 3),
        (-2, 2**31 - 1),
        (np.float32(7), np.int32(-1)),
        (True, False),
        (np.float64(0.25), np.int64(4)),
        (np.int8(2), np.uint64(3)),
    ):
        result = function(x, scale, shift, outputs=out)
        expected = x * np.float32(scale) + np.float32(shift)
        assert_computes(SCALED, [x, scale, shift], result, expected)
    for scale in (float("inf"), float("nan")):
        np.testing.assert_array_equal(function(x, scale, 0, outputs=out), x * np.float32(scale))
    assert served == [True] * 8


@pytest.mark.parametrize("numbers", [(1e39, 1), (0.5, 2**31), (0.5, 1.0), ("1", 1), (None, 1),
                                     (np.float64(1e39), 1), (0.5, np.int64(2**31)), ([0.5], 1),
                                     (np.ones(1, np.float32), 1), (0.5, 1 + 0j)])  # fmt: skip
def test_numbers_that_do_not_fit(numbers: tuple[Any, Any]) -> None:
    x = floats(9)
    function = repeating(SCALED, x, 0.5, 3)
    expected = outcome(tc.compile(SCALED), (x, *numbers), None)
    assert isinstance(expected, str)
    assert outcome(function, (x, *numbers), None) == expected
    assert outcome(function, (0.5, *numbers), None) == outcome(
        tc.compile(SCALED), (0.5, *numbers), None
    )


LARGEST = float(np.finfo(np.float32).max)
EDGES = [
    *(0.0, -0.0, 1e-46, 0.1, LARGEST, -LARGEST, np.nextafter(LARGEST, 1e39), LARGEST * (1 + 2e-8)),
    *(1e39, -1e39, float("inf"), -float("inf"), float("nan"), 5e-324),
    *(0, -1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1),
    *(True, np.float32(1.5), np.float64(0.1), np.float64(1e300), np.int32(-5), np.int64(2**40)),
    *(np.array(3, np.float32), np.array(3, np.int64), None, "1", 1 + 0j),
]


@pytest.mark.parametrize("dtype", ["float", "double", "int32", "int64"])
def test_any_number_is_taken_or_refused_as_ever(dtype: str) -> None:
    text = f"def moved({dtype}(N) X, {dtype} s) -> (Y) {{ Y(i) = X(i) + s }}"
    x = np.zeros(3, {"float": np.float32, "double": np.float64}.get(dtype, dtype))
    first: Any = 1.5 if x.dtype.kind == "f" else 2
    function, *others = [tc.compile(text) for _ in (None, *EDGES)]  # messages name the line
    for _ in range(2):
        function(x, first)
    for value, other in zip(EDGES, others, strict=True):
        expected = outcome(other, (x, value), None)
        assert repr(outcome(function, (x, value), None)) == repr(expected)
    assert (function(x, first) == first).all()


@pytest.mark.parametrize("kind", [list, tuple])
def test_several_outputs_of_a_call(served: list[bool], kind: Any) -> None:
    a = floats(7)
    given = [np.empty(7, np.float32), np.empty(7, np.float32)]
    function = repeating(TWO, a, outputs=kind(given))
    before = list(map(sys.getrefcount, given))
    for _ in range(5):
        result = function(a + 1, outputs=kind(given))
        assert result.S is given[0]
        assert result.D is given[1]
        assert (2 * (a + 1) == result.S).all()
        del result
    assert list(map(sys.getrefcount, given)) == before
    assert served == [True] * 5
    for wrong in (given[:1], [*given, given[0]], [given[0]] * 2, [given[0], None], [], given[0]):
        outputs = wrong if isinstance(wrong, np.ndarray) else kind(wrong)
        assert function._entry is not None
        assert function._entry.serve((a,), outputs) is None
    del wrong, outputs
    assert list(map(sys.getrefcount, given)) == before


def test_numbers_alone(served: list[bool]) -> None:
    function = repeating("def sum(float a, float b) -> (c) { c = a + b }", 1, 2.5)
    assert function(3, 4.5) == function(np.array(3, np.float32), 4.5) == 7.5
    assert served == [True, True]


def test_from_several_threads() -> None:
    """Each call has memory of its own, while many are under way."""
    x, y, z = floats(40, 60), floats(60, 50), floats(50, 40)
    function = repeating(CHAIN, x, y, z)

    def calls(number: int) -> None:
        scaled = x * np.float32(number)
        expected = function(scaled, y, z)
        for _ in range(200):
            assert (function(scaled, y, z) == expected).all()

    run_at_once(partial(calls, n) for n in range(1, 7))
    assert function._entry is not None
    assert len(function._entry.frames.pool.idle) <= 4


def test_arrays_are_not_kept() -> None:
    function = repeating(ADD, floats(3, 4), floats(3, 4))
    a = floats(3, 4)
    before = sys.getrefcount(a)
    for _ in range(10):
        function(a, a)
    assert sys.getrefcount(a) == before


def test_results_belong_to_the_caller_alone() -> None:
    """Also where a call is not served after all, or fails."""
    out, small = np.zeros((4, 6), np.float32), np.zeros((3, 6), np.float32)
    fresh, given = repeating(ADD, A, B), repeating(ADD, A, B, outputs=out)
    several, take = repeating(TWO, A[0]), repeating(TAKE, A[0], np.zeros(3, np.int32))
    kept = [None, A, B, out, small]
    before = [sys.getrefcount(each) for each in kept]
    for _ in range(100):
        assert sys.getrefcount(fresh(A, B)) == sys.getrefcount(object())
        results = several(A[0])
        assert {sys.getrefcount(results[0]), sys.getrefcount(results[1])} == {2}
        del results
        assert given(A, B, outputs=out) is out
        with pytest.raises(tc.AccessError):
            take(A[0], np.full(3, 99, np.int32))
        with pytest.raises(tc.InputError):
            given(A, B, outputs=small)
        with pytest.raises(tc.InputError):
            fresh(A, B, B)
    assert all(abs(sys.getrefcount(each) - n) < 20 for each, n in zip(kept, before, strict=True))


def test_outputs_of_the_other_kind_are_not_served(served: list[bool]) -> None:
    out = np.zeros((4, 6), np.float32)
    given, fresh = repeating(ADD, A, B, outputs=out), repeating(ADD, A, B)
    for _ in range(2):
        assert given._entry is not None
        assert fresh._entry is not None
        assert given._entry.serve((A, B), None) is None
        assert fresh._entry.serve((A, B), out) is None
        assert fresh._entry.serve((A, B), ()) is None
        assert fresh._entry.serve((A, B, out), None) is None
        assert given._entry.serve((A,), out) is None
        assert given._entry.serve((A, B), A) is None
    assert not any(served)
    assert given._entry.serve((A, B), [out]) is out


def test_a_failure_whose_error_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call neither fails nor waits."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    x, rows = floats(30), np.arange(30, dtype=np.int32)
    function = repeating(TAKE, x, rows)
    with monkeypatch.context() as patch:
        patch.setattr(inline_cache, "access_error", interrupt)
        with pytest.raises(KeyboardInterrupt):
            function(x, rows + 30)
    assert (function(x, rows) == x).all()
    with pytest.raises(tc.AccessError):
        function(x, rows + 30)


def test_a_call_within_a_call() -> None:
    """By a finaliser that the call itself runs."""
    big = np.ones((600, 600), np.float32)
    function = repeating(ADD, big, big)

    class Last:
        def __del__(self) -> None:
            found.append(function(big, big))

    found: list[Any] = []
    for _ in range(3):
        cycle: Any = Last()
        cycle.itself = cycle
        del cycle
        results = [function(big, big) for _ in range(300)]
        assert all((result == 3).all() for result in results[::50])
    gc.collect()
    assert all((result == 3).all() for result in found)
    assert found


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", BACKENDS)
def test_functions_are_whole_until_the_process_ends(backend: str) -> None:
    """What `sys` refers to outlives the modules of tc."""
    done = run_python(ENDING, backend, environment={"PYTHONMALLOC": "debug"})
    assert ended_well(done), told(done)
    assert done.stdout == "serve"


ENDING = """
import os, sys, numpy as np, tc
add = tc.compile("def add(float(N) A) -> (C) { C(i) = A(i) + 1 }", backend=sys.argv[1])
for _ in range(3):
    add(np.ones(3, np.float32))

class Last:
    def __del__(self, serve=add._entry.serve, write=os.write):
        write(1, serve.__name__.encode())

sys.last = Last(), tc
"""


@given(st.lists(st.tuples(arrays(), arrays(), arrays() | st.none()), min_size=1, max_size=4))
def test_any_arrays_in_any_order(calls: list[tuple[Any, Any, Any]]) -> None:
    """Each call, made three times in a row, ends as with a function that is new to it."""
    function = tc.compile(ADD)
    for a, b, out in calls:
        saved = BASE.copy()
        expected = outcome(tc.compile(ADD), (a, b), None if out is None else out.copy())
        for _ in range(3):
            target = None if out is None else out.copy()
            assert outcome(function, (a, b), target) == expected
        shared = outcome(function, (a, b), out)
        assert shared == expected or "[R4]" in shared
        BASE[...] = saved
