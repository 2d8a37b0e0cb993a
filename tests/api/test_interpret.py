"""tc.interpret and tc.error_bound: arguments, results, and arrays that stay untouched."""

from __future__ import annotations

import pickle
import warnings
from collections import deque
from typing import Any

import numpy as np
import pytest

import tc

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
MINMAX = "def minmax(float(N) x) -> (lo, hi) { lo min=! x(i)  hi max=! x(i) }"
SUM = "def sum(float(N) x) -> (s) { s += x(i) }"
SGEMM = """
def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {
    C(i,j) = b * C(i,j)
    C(i,j) += a * A(i,k) * B(k,j)
}"""
A = np.arange(6, dtype=np.float32).reshape(2, 3)
B = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_sequence_and_mapping() -> None:
    for inputs in ([A, B], (A, B), deque([A, B]), {"B": B, "A": A}):
        result = tc.interpret(MM, inputs)
        assert type(result) is np.ndarray
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, A @ B)


def test_several_outputs_are_a_named_tuple_that_pickles() -> None:
    result = tc.interpret(MINMAX, [A[0]])
    assert result._fields == ("lo", "hi")
    assert (result.lo, result.hi) == (0, 2)
    assert pickle.loads(pickle.dumps(result)) == result
    assert type(pickle.loads(pickle.dumps(result))) is type(result)


def test_names_that_are_no_fields() -> None:
    text = "def f() -> (2x, in, _y, out_2x, count) { 2x = 1 in = 2 _y = 3 out_2x = 4 count = 5 }"
    result = tc.interpret(text, [])
    assert result._fields == ("out_2x_", "out_in", "out__y", "out_2x", "count")
    assert [int(value) for value in result] == [1, 2, 3, 4, 5]


def test_no_inputs() -> None:
    result = tc.interpret("def f() -> (o) { o(i) = i * i where i in 0:4 }", {})
    np.testing.assert_array_equal(result, [0, 1, 4, 9])
    assert result.dtype == np.int32


def test_entry_and_source() -> None:
    text = MM + MINMAX
    assert tc.interpret(text, [A[0]], entry="minmax").hi == 2
    with pytest.raises(tc.InputError, match="N4"):
        tc.interpret(text, [A, B])
    with pytest.raises(tc.ParseError, match=r"my\.tc:1:5"):
        tc.interpret(tc.Source("def def", "my.tc"), [])


def compiled(text: str, inputs: list[Any], outputs: Any) -> Any:
    return tc.compile(text, backend="numba")(*inputs, outputs=outputs)


@pytest.mark.parametrize("function", [tc.interpret, compiled])
def test_outputs_are_those_returned(function: Any) -> None:
    """Rule R4."""
    c = np.ones((2, 4), np.float32)
    wanted = 2 * A @ B + 3
    for outputs in (c, [c], {"C": c}):
        c[...] = 1
        assert function(SGEMM, [2.0, 3.0, A, B], outputs=outputs) is c
        np.testing.assert_array_equal(c, wanted)


def test_some_outputs_by_name() -> None:
    """Rule R4: a dict may name some of the outputs."""
    hi = np.array(9, np.float32)
    result = tc.interpret(MINMAX, [A[0]], outputs={"hi": hi})
    assert result.hi is hi
    assert hi == 2
    assert result.lo == 0


def test_previous_results_may_be_outputs() -> None:
    first = tc.interpret(MINMAX, [A[0]])
    second = tc.interpret(MINMAX, [A[1]], outputs=first)
    assert second.lo is first.lo
    assert (first.lo, first.hi) == (3, 5)


def test_continuing_without_outputs_warns() -> None:
    """Rule R3."""
    with pytest.warns(tc.TCWarning, match=r"\[R3\].*s holds.*starts at 0") as caught:
        assert tc.interpret(SUM, [A[0]]) == 3
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        s = np.array(10, np.float32)
        assert tc.interpret(SUM, [A[0]], outputs=s) == 13


def test_warnings_point_at_the_caller() -> None:
    """Rule N1's warning, of the text itself."""
    text = "def f(float(W) x, float(W) W) -> (o) { o(i) = x(i) + W(i) * W }"
    with pytest.warns(tc.TCWarning, match="N1") as caught:
        tc.interpret(text, [A[0], A[0]])
    assert caught[0].filename == __file__


def test_a_failure_touches_nothing() -> None:
    """Rule G7."""
    text = "def gather(float(N) x, int32(M) I) -> (o) { o(i) = x(I(i)) }"
    o = np.full(3, 7, np.float32)
    with pytest.raises(tc.AccessError, match="G7"):
        tc.interpret(text, [A[0], np.array([0, 1, 3], np.int32)], outputs=o)
    assert (o == 7).all()


def test_error_bound_is_shaped_like_the_result() -> None:
    """Rule R5: terms x unit roundoff x magnitudes, give or take a small factor."""
    bound = tc.error_bound(MM, [A, B])
    assert type(bound) is np.ndarray
    assert (bound.shape, bound.dtype) == ((2, 4), np.float64)
    magnitude = np.abs(A) @ np.abs(B)
    unit = np.finfo(np.float32).eps / 2
    assert (bound <= 20 * unit * magnitude + 1e-30).all()
    bounds = tc.error_bound(MINMAX, {"x": A[0]})
    assert bounds._fields == ("lo", "hi")


def test_error_bound_reads_outputs_and_leaves_them() -> None:
    """Rule R4."""
    c = np.full((2, 4), 1e6, np.float32)
    small = tc.error_bound(SGEMM, [0.1, 0.0, A, B], outputs=np.zeros((2, 4), np.float32))
    large = tc.error_bound(SGEMM, [0.1, 0.7, A, B], outputs=c)
    assert (large > small).all()
    assert (c == 1e6).all()
    with pytest.raises(tc.InputError, match="R4"):
        tc.error_bound(SGEMM, [1.0, 1.0, A, B])


def test_numbers_become_the_declared_type() -> None:
    """Rule Y3."""
    text = "def f(bool b, uint8 n, half h, double d) -> (p, q, r, s) { p = b q = n r = h s = d }"
    result = tc.interpret(text, [True, 255, 1, 2])
    assert [str(value.dtype) for value in result] == ["bool", "uint8", "float16", "float64"]
    assert tc.interpret(text, [np.bool_(False), np.uint8(3), np.float16(1), np.float64(2)]).q == 3
    arrays = [np.array(True), np.array(4, np.uint8), np.array(1, np.float16), np.array(2.0)]
    assert tc.interpret(text, arrays).q == 4
    assert tc.interpret(text, [True, True, True, 10**30]).q == 1
