"""Failed reads and divisions (rules G7, Y4): the first failing instance, named with its values."""

from __future__ import annotations

import textwrap
from typing import Any

import numpy as np
import pytest

from tc.errors import AccessError
from tests.support.interpreting import bound, run


def failure(text: str, **inputs: Any) -> AccessError:
    """The error of the interpreter; the bound's must be the same, and so in small blocks."""
    errors = []
    for call, limit in ((run, 1 << 28), (run, 1 << 14), (run, 1 << 10), (bound, 1 << 28)):
        with pytest.raises(AccessError) as caught:
            call(text, memory_limit=limit, **inputs)
        errors.append(caught.value)
    assert len({str(error) for error in errors}) == 1
    return errors[0]


def test_rule_G7_a_gather_out_of_bounds_says_all() -> None:
    text = "def f(float(N) X, int32(A,B) I) -> (o) { o(i,j) = X(I(i,j)) }"
    index = np.zeros((4, 6), np.int32)
    index[2, 5], index[3, 0], index[2, 3] = 9, -1, 7
    error = failure(text, X=np.zeros(7, np.float32), I=index)
    assert str(error) == textwrap.dedent("""\
        AccessError [G7]: S0, o(i,j) = X(I(i,j)), at i = 2, j = 3, reads X(7), but X has shape \
(7): the subscript must be 0 to 6
         --> <string>:1:52
          |
        1 | def f(float(N) X, int32(A,B) I) -> (o) { o(i,j) = X(I(i,j)) }
          |                                                   ^^^^^^^^^
        repair: correct the subscript's data, or write pad(X(I(i,j)), 0)""").replace("1:52", "1:51")


def test_rule_G7_the_dimension_that_failed() -> None:
    text = "def f(float(N,M) X, int32(A) I) -> (o) { o(i,k) = X(k,I(i)) }"
    error = failure(text, X=np.zeros((2, 3), np.float32), I=np.array([0, 3], np.int32))
    assert "at i = 1, k = 0, reads X(0, 3), but X has shape (2, 3): subscript 1 must be 0 to 2" in (
        error.cause
    )


def test_rule_G7_the_first_instance_in_lexicographic_order() -> None:
    """Over blocks, over sites, and although reduction variables run innermost."""
    rng = np.random.default_rng(0)
    text = """def f(float(N) X, int32(A,B) I, int32(A,B) J) -> (o) {
      o(i) +=! X(I(i,k)) * X(J(i,k))
    }"""
    for _ in range(10):
        i, j = np.zeros((2, 20, 5), np.int32)
        places = rng.integers(0, 100, 6)
        i.flat[places[:3]] = rng.integers(5, 8, 3)
        j.flat[places[3:]] = -rng.integers(1, 4, 3)
        first = int(places.min())
        bad = i.flat[first] or j.flat[first]
        error = failure(text, X=np.zeros(5, np.float32), I=i, J=j)
        assert f"at i = {first // 5}, k = {first % 5}, reads X({bad})" in error.cause


def test_rule_G7_of_one_instance_the_first_in_text_order() -> None:
    text = "def f(float(N) X, int32(A) I) -> (o) { o(i) = X(I(i) + 1) + X(I(i)) }"
    error = failure(text, X=np.zeros(2, np.float32), I=np.array([5], np.int32))
    assert "reads X(6)" in error.cause


def test_rule_G7_nested_gathers_report_the_inner_one() -> None:
    text = "def f(float(N) X, int32(M) I, int32(A) J) -> (o) { o(i) = X(I(J(i))) }"
    arrays = {"X": np.zeros(2, np.float32), "I": np.zeros(3, np.int32)}
    error = failure(text, J=np.array([0, 3], np.int32), **arrays)
    assert "reads I(3), but I has shape (3)" in error.cause


def test_rule_G7_behind_a_guard_of_data() -> None:
    text = "def f(float(N) X, int32(A) I) -> (o) { o(i) = I(i) < 9 ? X(I(i)) : 0 }"
    x = np.zeros(4, np.float32)
    assert run(text, X=x, I=np.array([9, 3, 10], np.int32)).shape == (3,)
    error = failure(text, X=x, I=np.array([9, 3, 8, 4], np.int32))
    assert "at i = 2, reads X(8)" in error.cause


def test_rule_G7_a_product_of_variables() -> None:
    text = "def f(float(N) x) -> (o) { o(i,j) = x(i*j) where i in 0:3, j in 0:3 }"
    x = np.arange(5).astype(np.float32)
    assert (run(text, x=x) == np.outer(range(3), range(3))).all()
    assert "at i = 2, j = 2, reads x(4)" in failure(text, x=x[:4]).cause


def test_rule_G7_an_empty_tensor() -> None:
    text = "def f(float(N) X, int32(A) I) -> (o) { o(i) = X(I(i)) }"
    error = failure(text, X=np.zeros(0, np.float32), I=np.array([0], np.int32))
    assert "X has shape (0): it is empty" in error.cause
    assert run(text, X=np.zeros(0, np.float32), I=np.zeros(0, np.int32)).shape == (0,)


def test_rule_G7_rank_0_statements_name_no_variables() -> None:
    text = "def f(float(N) X, int32(A) I) -> (o) { o = X(I(0)) }"
    error = failure(text, X=np.zeros(2, np.float32), I=np.array([2], np.int32))
    assert error.cause.startswith("S0, o = X(I(0)), reads X(2)")


def test_rule_Y4_integer_division_by_zero() -> None:
    for op in "/%":
        text = f"def f(int32(N) a, int32(N) b) -> (o) {{ o(i) = a(i) {op} b(i) }}"
        error = failure(text, a=np.arange(4).astype(np.int32), b=np.array([1, 2, 0, 0], np.int32))
        assert error.rule == "Y4"
        assert error.cause == f"S0, o(i) = a(i) {op} b(i), at i = 2, divides by zero: b(i) is 0"
        assert error.idiom is not None
        assert error.idiom.startswith(f"(b(i) == 0 ? 0 : a(i) {op} b(i)), ")
        assert error.span is not None
        assert error.span.text == f"a(i) {op} b(i)"


def test_rule_Y4_in_place_divisions_fail_where_the_data_did() -> None:
    """Blocks written before must not be read again to find the failure."""
    text = "def f(int32(N) a) -> (o) { o(i) = a(i)  o(i) = 6 / (o(i) - 6) }"
    data = np.arange(300).astype(np.int32) % 8 + 10
    data[200], data[250] = 6, 6
    assert "at i = 200, divides" in failure(text, a=data).cause


def test_rule_G7_no_array_of_the_caller_is_touched() -> None:
    text = """def f(float(N) X, int32(M) I) -> (o, p) {
      o(i) += X(I(i))
      p(i) = X(I(i) + 1)
    }"""
    inputs = {"X": np.ones(2, np.float32), "I": np.array([0, 0, 1], np.int32)}
    outputs = {"o": np.full(3, 5, np.float32), "p": np.full(3, 6, np.float32)}
    with pytest.raises(AccessError):
        run(text, outputs=outputs, **inputs)
    assert (outputs["o"] == 5).all()
    assert (outputs["p"] == 6).all()
    assert (inputs["X"] == 1).all()


def test_rule_Y9_a_factor_beyond_int64_with_one_value() -> None:
    for factor in ("9223372036854775807", "1000000000000*1000000000000"):
        text = f"def f(float(N) a) -> (o) {{ o(i) = a(i*{factor}) }}"
        assert run(text, a=np.float32([7, 8])).tolist() == [7.0]


def test_rule_G7_a_subscript_of_many_operations_is_checked_as_it_runs() -> None:
    halves = "i" + "/2*2" * 9
    error = failure(
        f"def f(float(N) x) -> (o) {{ o(i) = x({halves}) where i in 0:5 }}",
        x=np.zeros(3, np.float32),
    )
    assert "reads x(4), but x has shape (3): the subscript must be 0 to 2; with 9 of / % min " in (
        error.cause
    )
    assert "more than 8, the subscript does not count as affine and is checked only here" in (
        error.cause
    )
    assert error.repair == f"write pad(x({halves}), 0)"
