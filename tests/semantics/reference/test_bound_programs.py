"""The error bound of whole programs (R5): it covers every order, and is 0 or infinite where it
must."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tc.errors import AccessError, TCError
from tc.runtime.arrays.encoded_arrays import numbers
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import MEMORY_LIMIT_BYTES, execute, interpret
from tests.fuzz.legal import Call
from tests.fuzz.strategies import calls
from tests.support.bounds import assert_within
from tests.support.interpreting import bound, run, shaped_with
from tests.support.programs import CASES
from tests.support.variant import Variant

RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


def test_whole_numbers_in_floats_have_no_error() -> None:
    """So that tests on small whole numbers demand the same bits of every backend."""
    a, b = (RNG.integers(-4, 5, (6, 7)).astype(np.float32) for _ in range(2))
    text = """def f(float(N,M) A, float(N,M) B) -> (O) {
      t(i,j) = pad(A(i,j-1), 0) + A(i,j) where j in 0:M
      O(i) +=! t(i,k) * B(i,k) / 2
      O(i) = max(O(i), 0) - 0.25
    }"""
    assert not bound(text, A=a, B=b).any()
    assert bound(text, A=a + 0.1, B=b).all()


@pytest.mark.parametrize("type_", ["int8", "uint16", "int64", "bool"])
def test_integers_have_no_error(type_: str) -> None:
    a = RNG.integers(0, 100, (5, 6)).astype(type_)
    text = f"def f({type_}(N,M) a) -> (o, p, q) {{ o(i) +=! a(i,j)  p(i) max=! a(i,j) \
q(i,j) = a(i,j) < a(0,j) ? 3 : int32(a(i,j)) }}"
    assert not any(b.any() for b in bound(text, a=a))


def test_rule_R5_differences_of_squares_as_written() -> None:
    """The bound of (a-b)*(a-b) is too sharp for a*a - 2*a*b + b*b (R5)."""
    a = 1000 + floats(50)
    b = a + 1e-3 * floats(50)
    text = "def f(float(N) a, float(N) b) -> (o) { o(i) = (a(i) - b(i)) * (a(i) - b(i)) }"
    result, error = run(text, a=a, b=b), bound(text, a=a, b=b)
    expanded = a * a - 2 * a * b + b * b
    assert (np.abs(expanded - result) > error).mean() > 0.9
    exact = (a.astype(np.float64) - b) ** 2
    assert_within(result, exact.astype(np.float32), error)


def test_a_comparison_that_may_flip_counts_both_branches() -> None:
    text = "def f(float(N) a, float(N) b) -> (o) { o(i) = a(i) * b(i) > 1 ? 10.0 : -10.0 }"
    third = np.array([3, 3, 3], np.float32)
    factors = np.array([1 / 3, 0.3, 0.4], np.float32)
    error = bound(text, a=third, b=factors)
    assert error[0] >= 20
    assert not error[1:].any()


def test_a_place_that_may_differ_makes_anything_possible() -> None:
    text = "def f(float(N) x, float(M) p) -> (o) { o(i) = x(int32(p(i) * 10)) }"
    error = bound(text, x=floats(8), p=np.array([0.3, 0.35], np.float32))
    assert error[0] == np.inf  # 0.3 * 10 rounds to 3, or falls short of it
    assert error[1] == 0


def test_a_read_outside_the_tensor_on_the_path_that_another_may_take() -> None:
    text = (
        "def f(float(N) x, float(M) p, int32(M) j) -> (o) { o(i) = p(i) * 3 > 1 ? 0.0 : x(j(i)) }"
    )
    third = np.float32(1 / 3)
    above = np.array([np.nextafter(third, np.float32(1)), 0.5, 0.1], np.float32)
    error = bound(text, x=floats(8), p=above, j=np.array([99, 99, 3], np.int32))
    assert error.tolist() == [np.inf, 0, 0]


def test_division_by_what_may_be_zero() -> None:
    text = "def f(float(N) a, float(N) b) -> (o) { o(i) = 1 / (a(i) * b(i) - 1) }"
    error = bound(text, a=np.array([3, 3], np.float32), b=np.array([1 / 3, 1], np.float32))
    assert error[0] == np.inf
    assert error[1] < 1e-6


def test_what_is_stored_as_half_has_half_precision() -> None:
    a = floats(40).astype(np.float16)
    text = "def f(half(N) a) -> (o) { o(i) = a(i) * a(i) + 1 }"
    error = bound(text, a=a)
    result = run(text, a=a).astype(np.float64)
    assert (error >= 0.5 * 2**-11 * result).all()
    assert (error <= 2 * 2**-10 * result).all()
    assert not bound("def f(half(N) a) -> (o) { o(i) = a(i) }", a=a).any()


def test_float64_may_be_rounded_to_half_by_way_of_float32() -> None:
    a = np.array([1 + 2**-11 + 2**-30, 1.5])
    text = "def f(double(N) a) -> (o) { o(i) = half(a(i)) }"
    twice = a.astype(np.float32).astype(np.float16)
    assert_within(twice, run(text, a=a), bound(text, a=a))
    assert twice[0] != run(text, a=a)[0]
    assert bound(text, a=a)[1] == 0


def test_overflow_makes_the_bound_infinite_and_infinite_inputs_do_not() -> None:
    text = "def f(float(N,M) a) -> (o) { o(i) +=! a(i,j) }"
    big = np.array([[3e38, 3e38, -3e38], [1, np.inf, 2], [np.nan, np.inf, 1]], np.float32)
    assert bound(text, a=big).tolist() == [np.inf, 0, 0]
    exponential = "def f(float(N) a) -> (o) { o(i) = exp(a(i)) }"
    error = bound(exponential, a=np.array([1000, 100, -1000, 1], np.float32))
    assert error[1] == 0
    assert 0 <= error[2] < 1e-43
    assert 0 < error[3] < 1e-5


def test_errors_pass_through_temporaries_and_in_place_updates() -> None:
    a = floats(5, 400)
    one = "def f(float(N,M) a) -> (o) { o(i) +=! a(i,j) }"
    two = "def f(float(N,M) a) -> (o) { t(i) +=! a(i,j)  o(i) = t(i)  o(i) = o(i) * 2 }"
    assert (bound(two, a=a) >= 2 * bound(one, a=a)).all()
    assert (bound(two, a=a) <= 2.1 * bound(one, a=a) + 1e-5).all()


def test_what_continues_from_the_caller_counts_its_magnitude() -> None:
    text = "def f(float(N,M) a) -> (o) { o(i) += a(i,j) }"
    a, large = floats(2, 3), np.array([0, 1e6], np.float32)
    error = bound(text, outputs={"o": large}, a=a)
    assert error[1] > 0.1
    assert error[0] < 1e-5


def test_untouched_elements_have_no_error() -> None:
    text = "def f(float(N,M) a) -> (o) { o(i) +=! a(i,j) where i in 2:N }"
    error = bound(text, a=floats(4, 30))
    assert not error[:2].any()
    assert (error[2:] > 0).all()


def test_shape_and_type_of_bounds() -> None:
    o, p = bound("def f(float(N) a) -> (o, p) { o +=! a(i)  p(i) = 0.0 * a(i) }", a=floats(3))
    assert o.shape == ()
    assert p.shape == (3,)
    assert o.dtype == p.dtype == np.float64
    assert p.flags.writeable


def test_reordered_softmax_stays_within_its_bound() -> None:
    """All of a program in float32 with other orders and functions, against its bound."""
    i = floats(6, 300)
    text = """def f(float(N,D) I) -> (O) {
      s(n) +=! exp(I(n,d))
      O(n,d) = exp(I(n,d)) / s(n)
    }"""
    error, result = bound(text, I=i), run(text, I=i)
    wide = np.exp(i.astype(np.float64))
    for order in (slice(None), slice(None, None, -1)):
        e = wide.astype(np.float32)[:, order]
        s = np.add.accumulate(e, axis=1, dtype=np.float32)[:, -1:]
        assert_within(wide.astype(np.float32) / s, result, error)
    exact = wide / wide.sum(1, keepdims=True)
    assert_within(exact.astype(np.float32), result, error)
    assert (error < 1e-4 * exact).all()


# --- Generated programs: a legal implementation unlike the interpreter stays within the bound.


def check_variant(text: str, inputs: dict[str, object], entry: str | None, seed: int) -> float:
    """Compares; returns the part of float results whose bound is finite and above 0."""
    shaped, arrays = shaped_with(text, inputs, entry)
    expected = interpret(shaped, arrays, {})
    bounds = error_bound(shaped, arrays, {})
    variant = Variant(np.random.default_rng(seed))
    for name, other in execute(shaped, arrays, {}, variant, MEMORY_LIMIT_BYTES).items():
        assert_within(numbers(other.value), numbers(expected[name]), bounds[name])
    sizes = [b.size for b in bounds.values()]
    tested = [int(((b > 0) & (b < np.inf)).sum()) for b in bounds.values()]
    return sum(tested) / max(sum(sizes), 1)


@settings(suppress_health_check=list(HealthCheck))
@given(calls(300))
def test_rule_R5_generated_programs_in_small_blocks(case: Call) -> None:
    """Other blocks are another order; they fail at the same instances, if at all (rule G7)."""
    try:
        shaped, arrays = shaped_with(case.text, case.inputs)
    except TCError:
        return
    try:
        expected = interpret(shaped, arrays, {})
    except AccessError as error:
        with pytest.raises(AccessError, match=f"^{re.escape(str(error))}$"):
            interpret(shaped, arrays, {}, memory_limit=1)
        return
    small = interpret(shaped, arrays, {}, memory_limit=1)
    small_bounds = error_bound(shaped, arrays, {}, memory_limit=1)
    for name, error in error_bound(shaped, arrays, {}).items():
        assert_within(small[name], expected[name], error)
        assert_within(expected[name], small[name], small_bounds[name])


@settings(suppress_health_check=list(HealthCheck))
@given(calls(), st.integers(0, 10**6))
def test_rule_R5_generated_programs(case: Call, seed: int) -> None:
    try:
        part = check_variant(case.text, case.inputs, None, seed)
    except TCError as error:
        event(type(error).__name__)
        return
    event("with finite bounds" if part > 0.5 else "exact or unbounded")


def test_rule_R5_table_of_programs() -> None:
    for case in CASES:
        if case.outputs is None:
            inputs = case.inputs(np.random.default_rng(1))
            check_variant(case.text, inputs, case.def_name, 2)
