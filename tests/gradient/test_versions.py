"""Gradients of programs that overwrite and change tensors (D9), and of the largest, products,
halves and choices among subscripts (D11, D12, D14, D17), against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.api import _program
from tests.gradient.differences import along_directions, cotangents, forward
from tests.gradient.pairs import as_double
from tests.gradient.tangents_of import assert_transposed
from tests.support.bounds import assert_computes

IN = "def f(float(N) A, float(N) B) -> (O)"

CHANGED = {
    "part": f"{IN} {{ O(i) = A(i)  O(i) = A(i) * B(i) where i in 1:N }}",
    "middle": f"{IN} {{ O(i) = A(i) * B(i)  O(i) = sin(A(i)) where i in 2:4  O(i) += B(i) }}",
    "whole, by itself": f"{IN} {{ O(i) = A(i) * B(i)  O(i) = O(i) * O(i) * A(i) }}",
    "part, by itself": f"{IN} {{ O(i) = A(i)  O(i) = O(i) * O(i) * B(i) where i in 1:4 }}",
    "three times": f"{IN} {{ t(i) = A(i)  t(i) = exp(t(i))  t(i) *= B(i)  O(i) = t(i) * A(i) }}",
    "by one element": f"{IN} {{ O(i) = A(i)  O(i) = O(0) * B(i) where i in 1:N }}",
    "joined": f"{IN} {{ t(i) = A(i)  t(i) += B(i)  O(i) = t(N-1-i) * t(i) }}",
    "added after a read": f"{IN}"
    " { t(i) = A(i)  s +=! t(i) * t(i)  t(i) += B(i)  O(i) = t(i) * s }",
    "sum of itself": f"{IN} {{ O(i) = A(i)  O(i) += O(i) * B(i)  O(i) += O(i) * A(i) }}",
    "scaled": f"{IN} {{ O(i) = A(i)  O(i) *= B(i)  O(i) *= A(i) where i in 1:3 }}",
    "product goes on": "def f(float(N,K) A, float(N) B) -> (O) { O(i) = B(i)  O(i) *= A(i,k) }",
    "product of a part": "def f(float(N,K) A, float(N) B) -> (O)"
    " { O(i) = B(i)  O(i) *= A(i,k) where i in 1:3, k in 1:K }",
    "product from 1": "def f(float(N,K) A) -> (O) { O(i) *=! A(i,k) where k in 1:K }",
    "product of shifted": "def f(float(N,K) A) -> (O) { O(i) *=! A(i,k+1) where k in -1:2 }",
    "largest goes on": "def f(float(N,K) A, float(N) B) -> (O) { O(i) = B(i)  O(i) max= A(i,k) }",
    "least of a part": "def f(float(N,K) A, float(N) B) -> (O)"
    " { O(i) = B(i)  O(i) min= A(i,k) where i in 1:3 }",
    "largest of later rows": "def f(float(N,K) A, float(N) B) -> (O)"
    " { O(i) = B(i)  O(i) max=! A(i,k) * B(i) where i in 1:N }",
    "largest, scaled": "def f(float(N,K) A, float(N) B) -> (O)"
    " { O(i) max=! A(i,k)  O(i) *= B(i)  O(i) += A(i,0) }",
    "concat": "def f(float(N,K) A, float(N) B) -> (O)"
    " { t(i) = B(i) * B(i)  s +=! B(i)  r(i) = s * A(i,0)  O = concat(t, r, B) }",
    "part of a concat": "def f(float(N) A, float(N) B) -> (O)"
    " { O = concat(A, B)  O(i) = 3 where i in 0:N-2 }",
    "edge": f"{IN} {{ O(i) +=! A(min(max(i + k - 1, 0), N-1)) * B(k) where i in 0:N, k in 0:3 }}",
    "choice": f"{IN} {{ O(i) = A(i > 2 ? i - 2 : N - 1 - i) * B(i) where i in 0:N }}",
    "largest index": f"{IN} {{ O(i) = A(max(i, 2)) * B(min(i, N - 2)) where i in 0:N }}",
    "quotients": f"{IN} {{ O(i) = A(i/2) * A((i+3)/2) * B(N-1-i/3) }}",
    "last": f"{IN} {{ O(i) = A(N-1) * B(0) * A(i) }}",
    "guarded place": f"{IN} {{ O(i) = N > 9 ? A(9) * B(i) : B(i) }}",
    "not begun": "def f(float(N) A, float(N) B) -> (O) { O(i) += A(i) * B(i)  O(i) += A(i) }",
}


def known_of(text: str, entry: str | None = None) -> dict[str, Any]:
    program = _program(text, entry)
    numbers = np.random.default_rng(4)
    shapes = {"N": 5, "K": 4, "M": 6}
    known: dict[str, Any] = {}
    for name in program.inputs:
        dims = [shapes[d.name] for d in program.tensors[name].shape or ()]
        known[name] = numbers.uniform(0.3, 1.7, dims)
    return known


def assert_slopes(text: str, derived: str, known: dict[str, Any]) -> None:
    given = cotangents(forward(text, known), np.random.default_rng(5))
    gradients = forward(derived, {**known, **forward(text, known), **given})
    assert_transposed(text, known, given, gradients)
    for difference, slope in along_directions(text, known, given, gradients):
        assert slope == pytest.approx(difference, rel=1e-7, abs=1e-7), derived


@pytest.mark.drawn(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHANGED)
@pytest.mark.parametrize("save", ["outputs", "none"])
def test_a_gradient_equals_differences(name: str, save: str) -> None:
    text = as_double(CHANGED[name])
    assert_slopes(text, tc.grad(text, save=save), known_of(text))


SMOOTH = ("part", "whole, by itself", "part, by itself", "scaled", "product of a part", "concat")


@pytest.mark.drawn(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SMOOTH)
def test_a_second_derivative_equals_differences(name: str) -> None:
    """D18."""
    text = as_double(CHANGED[name])
    known = known_of(text)
    known |= cotangents(forward(text, known), np.random.default_rng(5))
    first = tc.grad(text, save="none")
    given = cotangents(forward(first, known), np.random.default_rng(6))
    second = tc.grad(first, save="none")
    found = forward(second, {**known, **given})
    floating = [n for n in _program(first, None).inputs if n in known]
    gradients = dict(zip((f"d_{n}" for n in floating), found.values(), strict=True))
    for difference, slope in along_directions(first, known, given, gradients):
        assert slope == pytest.approx(difference, rel=1e-6, abs=1e-6), second


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CHANGED)
def test_a_gradient_at_sizes_equals_differences(name: str) -> None:
    text = as_double(CHANGED[name])
    known = known_of(text)
    derived = tc.grad(text, sizes=known)
    assert "N" not in derived.replace("NAN", "")
    assert_slopes(text, derived, known)


def test_the_first_of_ties_gets_all() -> None:
    text = "def f(double(N,K) A) -> (O) { O(i) max=! A(i,k) }"
    known = {"A": np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]]), "d_O": np.array([1.0, 5.0])}
    known["O"] = known["A"].max(axis=1)
    shared = forward(tc.grad(text), known)["d_A"]
    np.testing.assert_array_equal(shared, [[0, 0.5, 0.5], [5 / 3, 5 / 3, 5 / 3]])
    first = forward(tc.grad(text, ties="first"), known)["d_A"]
    np.testing.assert_array_equal(first, [[0, 1, 0], [5, 0, 0]])


def test_what_was_there_before_is_the_first_of_ties() -> None:
    text = "def f(double(N) B, double(N,K,L) A) -> (O) { O(i) = B(i)  O(i) min= A(i,k,l) }"
    known = {"B": np.array([1.0, 2.0, 3.0]), "d_O": np.array([1.0, 1.0, 1.0])}
    known["A"] = np.array([[[2, 1], [1, 1]], [[2, 1], [3, 1]], [[4, 4], [5, 6]]], float)
    known["O"] = np.minimum(known["B"], known["A"].min(axis=(1, 2)))
    found = forward(tc.grad(text, ties="first"), known)
    np.testing.assert_array_equal(found["d_B"], [1, 0, 1])
    np.testing.assert_array_equal(found["d_A"].sum(axis=(1, 2)), [0, 1, 0])
    assert found["d_A"][1, 0, 1] == 1


def test_halves_are_summed_up_as_floats() -> None:
    text = "def f(half(N) A, half(M) W) -> (O) { O(i) = A(i) * W(j) * 2048 where j in 0:1 }"
    text = "def f(half(N) A, half(M) W) -> (O, S) { O(i) = A(i) * A(i)  S +=! A(i) * W(j) }"
    program = _program(tc.grad(text), None)
    assert [program.tensors[n].dtype.name for n in program.outputs] == ["float16", "float16"]
    numbers = np.random.default_rng(2)
    known = {"A": numbers.random(5).astype("float16"), "W": np.ones(4096, "float16")}
    known |= {"d_O": np.zeros(5, "float16"), "d_S": np.float16(1)}
    found = tc.interpret(tc.grad(text), {n: known[n] for n in program.inputs})
    assert np.all(found[0] == 4096)  # summed up as halves, it would stay at 2048
    assert found[0].dtype == found[1].dtype == np.float16


def test_a_zero_begins_in_the_type_of_its_tensor() -> None:
    """A temporary that begins with 0 would be of whole numbers."""
    text = "def f(double(N) A) -> (O) { t(i) = A(i) / 3  O = t(0) * t(N-1) }"
    known = known_of(text)
    assert_slopes(text, tc.grad(text), known)


def test_numbers_and_what_the_caller_gives_have_gradients() -> None:
    """Rule D15."""
    text = "def f(double(N) a, double s) -> (C) { C(i) = s * C(i) * a(i) }"
    numbers = np.random.default_rng(3)
    known = {"a": numbers.random(4), "s": np.float64(0.7), "C_0": numbers.random(4)}
    known["d_C"] = numbers.random(4)
    derived = tc.grad(text)
    found, names = forward(derived, known), tc.compile(derived).program.outputs
    a, s, old, d = known["a"], known["s"], known["C_0"], known["d_C"]
    expected = {"d_s": np.sum(d * old * a), "d_C_0": d * s * a, "d_a": d * s * old}
    given = {name: known[name] for name in ("a", "s", "C_0", "d_C")}
    found, expected = ([each[n] for n in names] for each in (found, expected))
    assert_computes(derived, given, tuple(found), tuple(expected))


SOFTMAX = """def softmax(double(N,K) X) -> (Y) {
  m(n) max=! X(n,d)
  z(n) +=! exp(X(n,d) - m(n))
  Y(n,d) = exp(X(n,d) - m(n)) / z(n)
}"""


def test_what_outputs_hold_is_not_computed_again() -> None:
    """Neither the exponentials nor their sums, also where the indices have other names (D17)."""
    for text in (SOFTMAX, SOFTMAX.replace("z(n) +=! exp(X(n,d)", "z(n) +=! exp(X(n,k)")):
        derived = tc.grad(text, constant="m")
        assert "exp" not in derived
        assert "m(n)" not in derived
        known = known_of(text)
        assert_slopes(text, derived, known)


def test_a_sum_is_read_in_place_of_its_terms() -> None:
    text = """def f(double(N,M) p, double(M,K) v, double(N) z) -> (O) {
      O(t,e) +=! p(t,u) * v(u,e) / z(t)
    }"""
    derived = tc.grad(text)
    assert "  d_z(t) +=! -d_O(t, e) * O(t, e) / z(t)\n" in derived
    assert_slopes(text, derived, known_of(text))


@pytest.mark.parametrize(
    "text",
    [
        # the range of Y is a part of that of z
        """def f(double(N,K) X) -> (Y) {
          z(n) +=! exp(X(n,d))
          Y(n,d) = exp(X(n,d)) / z(n) where d in 0:2
        }""",
        # the output has another value at the end
        """def f(double(N,K) X) -> (Y) {
          z(n) +=! exp(X(n,d))
          Y(n,d) = exp(X(n,d)) / z(n)
          Y(n,d) = Y(n,d) * X(n,d)
        }""",
        # a diagonal, and indices that trade places
        """def f(double(N,N) X) -> (Y) {
          z(n) +=! exp(X(d,n))
          Y(n,d) = exp(X(n,d)) / z(n)
        }""",
        # terms are added to what is there
        """def f(double(N,K) X, double(N) b) -> (Y, z) {
          z(n) = b(n)
          z(n) += exp(X(n,d)) * b(n)
          Y(n,d) = exp(X(n,d)) / z(n)
        }""",
        # a sum of two kinds of terms, of which one is in the output
        """def f(double(N,K) X, double(N,M) b) -> (Y) {
          z(n) +=! exp(X(n,d))
          z(n) += b(n,k)
          Y(n,d) = exp(X(n,d)) / z(n)
        }""",
        """def f(double(N,K) X, double(N,M) b) -> (Y) {
          z(n) +=! b(n,k)
          z(n) += exp(X(n,d))
          Y(n,d) = exp(X(n,d)) / z(n)
        }""",
        # two sums in one
        """def f(double(N,K) X, double(N) b) -> (O) {
          O(n) +=! X(n,d) / b(n)
          O(n) += X(n,d) * X(n,d) / b(n)
        }""",
        # the largest of the terms
        "def f(double(N,K) X, double(N) b) -> (O) { O(n) max=! X(n,d) / b(n) }",
        # squares
        "def f(double(N,K) X, double(N) b) -> (O) { O(n) +=! X(n,d) / b(n) / b(n) }",
        # the factor of a sum is within a condition
        """def f(double(N,K) X) -> (Y) {
          z(n) +=! X(n,d) > 0 ? exp(X(n,d)) : 1
          Y(n,d) = exp(X(n,d)) / z(n)
        }""",
    ],
)
def test_values_that_outputs_hold_in_part(text: str) -> None:
    for save in ("outputs", "none", "all"):
        derived = tc.grad(text, save=save)
        known = known_of(text)
        if save == "all":
            known |= forward(tc.vjp(text, save=save).forward, known)
        assert_slopes(text, derived, known)


def test_what_is_read_under_a_condition_says_no_range() -> None:
    """`l` goes on where `e` ends: the gradient says so, though the cotangent has that dimension."""
    text = """def f(double(N) d, double(N,M) e) -> (o) {
      o(l,j) = (l < 4 ? e(j, l) : 1) * d(j) where l in 0:8
    }"""
    numbers = np.random.default_rng(1)
    known = {"d": numbers.random(5), "e": numbers.random((5, 4))}
    assert_slopes(text, tc.grad(text), known)


@pytest.mark.parametrize("save", ["outputs", "all", "none"])
def test_a_concat_of_a_value_that_is_overwritten(save: str) -> None:
    """The concat holds the squares of `a` and `b`, and `t` is `a` cubed afterwards: o is `a` cubed
    times the sum s of the squares of the concat."""
    text = (
        "def f(double(N) a, double(M) b) -> (o) {\n"
        "t(i) = a(i) * a(i)  c = concat(t, b)  t(i) = t(i) * a(i)\n"
        "o(i) +=! c(j) * t(i) * c(j) }"
    )
    a, b, given = np.array([1.0, -2.0]), np.array([0.5, 3.0, 2.0]), np.array([1.5, -1.0])
    found = forward(tc.grad(text, save=save), {"a": a, "b": b, "d_o": given, **kept(text, a, b)})
    s, weighted = (a**4).sum() + (b**2).sum(), (given * a**3).sum()
    assert found["d_a"] == pytest.approx(3 * a**2 * given * s + 4 * a**3 * weighted)
    assert found["d_b"] == pytest.approx(2 * b * weighted)


def kept(text: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> dict[str, Any]:
    """The values of the program that its gradient may take."""
    t = a**3
    return {**forward(text, {"a": a, "b": b}), "t": t, "c": np.concatenate([a**2, b])}
