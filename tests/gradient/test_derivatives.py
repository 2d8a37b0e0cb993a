"""The derivatives of the built-in functions, against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.builtins import BUILTINS
from tc.builtins.derivatives import DERIVATIVES
from tests.gradient.differences import along_directions, cotangents, forward

POSITIVE = ("log", "log10", "log2", "sqrt", "rsqrt", "y0", "y1", "pow")
DOMAIN = {
    "acosh": (1.2, 4.0),
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv", "erfcinv"), (0.1, 0.9)),
    **dict.fromkeys(("normcdfinv",), (0.05, 0.95)),
    "log1p": (-0.8, 3.0),
    **dict.fromkeys(POSITIVE, (0.3, 4.0)),
}


def text_of(function: str) -> str:
    names = "xyzw"[: BUILTINS[function].arity]
    inputs = ", ".join(f"double(N) {n}" for n in names)
    reads = ", ".join(f"{n}(i)" for n in names)
    return f"def f({inputs}) -> (o) {{ o(i) = {function}({reads}) }}"


def test_every_function_has_a_derivative_or_none_on_purpose() -> None:
    assert set(DERIVATIVES) == set(BUILTINS)
    assert all(len(d) == BUILTINS[n].arity for n, d in DERIVATIVES.items() if d is not None)


@pytest.mark.parametrize("function", [n for n, d in DERIVATIVES.items() if d is not None])
def test_a_derivative_equals_differences(function: str) -> None:
    numbers = np.random.default_rng(3)
    low, high = DOMAIN.get(function, (-2.0, 2.0))
    names = "xyzw"[: BUILTINS[function].arity]
    inputs = {n: numbers.uniform(low, high, 5) for n in names}
    given = {"d_o": np.ones(5)}
    text = text_of(function)
    derived = forward(tc.grad(text), {**inputs, **forward(text, inputs), **given})
    for difference, slope in along_directions(text, inputs, given, derived):
        assert slope == pytest.approx(difference, rel=1e-7, abs=1e-7)


@pytest.mark.parametrize("function", ["lgamma", "tgamma"])
def test_a_function_without_a_derivative_is_named(function: str) -> None:
    with pytest.raises(tc.GradError, match=function) as caught:
        tc.grad(text_of(function))
    assert caught.value.rule == "D10"


def test_a_size_of_a_called_def_is_a_value() -> None:
    """The size N of the called def is the size M of the entry: s is the sum of (M * b)^2."""
    text = (
        "def g(double(N) a) -> (o) { o(i) = a(i) * N }\n"
        "def f(double(M) b) -> (s) { t = g(b)  s +=! t(i) * t(i) }"
    )
    b = np.array([1.0, -2.0, 3.0])
    for save in ("outputs", "none"):
        made = forward(tc.grad(text, entry="f", save=save), {"b": b, "d_s": np.float64(0.5)})
        assert made["d_b"] == pytest.approx(0.5 * 2 * 3**2 * b)


# --- Sizes at which ranges are compared, for gradients that hold for all sizes (D4).


FITTING = {
    "a size that is one number": (
        "def f(double(N) a) -> (o) { o(i) = a(64 - i) * a(i) where i in 0:65 }",
        {"a": (65,)},
    ),
    "sizes that are equal": (
        "def f(double(N,K,2) a, double(M,L,2) b, double(P,Q,3) c) -> (o) {\n"
        "  t = concat(a, b, c)\n  o(i) +=! t(i, k, l) where l in N - 2:2 }",
        {"a": (3, 2, 2), "b": (3, 2, 2), "c": (3, 2, 3)},
    ),
    "ranges between sizes": (
        "def f(double(N,M) a, double(K,L) b, double(P,Q) c) -> (o) {\n"
        "  o(i,j) +=! a(i, j) * b(j, i) * c(k, j) where i in N - 2:K, j in M / 2:7, k in L:P }",
        {"a": (7, 9), "b": (7, 8), "c": (10, 8)},
    ),
}


@pytest.mark.parametrize("name", FITTING)
def test_sizes_that_few_fit_are_found(name: str) -> None:
    text, shapes = FITTING[name]
    numbers = np.random.default_rng(1)
    known = {n: numbers.uniform(1, 2, shape) for n, shape in shapes.items()}
    results = forward(text, known)
    given = cotangents(results, numbers)
    gradients = forward(tc.grad(text), {**known, **results, **given})
    assert [*gradients] == [f"d_{n}" for n in shapes]
    for difference, slope in along_directions(text, known, given, gradients):
        assert slope == pytest.approx(difference, rel=1e-7, abs=1e-7)


def test_ranges_are_those_of_statements_that_are_not_empty() -> None:
    """Where the first statement is empty, the second has the shape: it is at most sizes that fit
    the ranges of all of them."""
    text = """
def f(double(N,P) c, double(Q,R) d, double(S) g) -> (o) {
  o(w,i) +=! c(t, i + q) * d(w, r) where t in N - 40:2, q in 0:2, r in R - 30:2
  o(w,l) += g(w) where w in 0:S, l in 3:P - 1
}"""
    head, _ = tc.grad(text).split("->")
    assert "double(Q, OI) d_o" in head.replace("\n", " ")
    shapes = {"c": (41, 7), "d": (5, 31), "g": (3,)}
    numbers = np.random.default_rng(1)
    known = {n: numbers.uniform(1, 2, shape) for n, shape in shapes.items()}
    results = forward(text, known)
    given = cotangents(results, numbers)
    gradients = forward(tc.grad(text), {**known, **results, **given})
    for difference, slope in along_directions(text, known, given, gradients):
        assert slope == pytest.approx(difference, rel=1e-7, abs=1e-7)


def test_what_is_always_empty_has_a_gradient() -> None:
    text = "def f(double(N) a) -> (o) { o(i) = a(i)\n o(i) += a(i) * a(k) where k in N:N }"
    known = {"a": np.ones(3), "d_o": np.arange(3.0)}
    found = forward(tc.grad(text), known)
    np.testing.assert_array_equal(found["d_a"], np.arange(3.0))


def test_what_is_empty_wherever_the_program_is_legal_asks_for_sizes() -> None:
    """P1: only where j has no values is nothing read that another instance writes."""
    text = (
        "def f(double(65,N) a, double(M) b) -> (o) {\n  o(j,w) = a(j, w) * b(0)\n"
        "  o(i,j) max= o(i, j) + t where j in M - 2:3, t in 0:7 }"
    )
    with pytest.raises(tc.GradError, match="and this statement is not empty") as caught:
        tc.grad(text)
    assert caught.value.rule == "D4"
    assert caught.value.span is not None
    assert caught.value.span.line.strip().startswith("o(i,j) max=")
    sizes = eval(f"dict({caught.value.repair})")["sizes"]
    assert sizes["M"] == 5
    assert "d_a" in tc.grad(text, sizes=sizes)


@pytest.mark.parametrize("save", ["outputs", "all", "none"])
def test_an_integer_that_is_computed_decides(save: str) -> None:
    """It is computed again: as an input, ranges would depend on a number that no sample has."""
    text = """def f(double(N) x, int k) -> (o, y) {
      o = 2 * k
      y(i) = o == 2 ? x(i) * x(i) : 3 * x(i)
    }"""
    x, d = np.array([0.5, -1.0, 2.0]), np.array([1.0, 2.0, 3.0])
    for k, wanted in ((1, 2 * x * d), (2, 3 * d)):
        gradient = tc.grad(text, save=save)
        known = {"x": x, "k": np.int32(k), "d_y": d}
        names = tc.compile(gradient).program.inputs
        np.testing.assert_array_equal(tc.interpret(gradient, {n: known[n] for n in names}), wanted)
        made = tc.vjp(text, save=save)
        results = dict(zip(("o", "y", *made.saved), tc.interpret(made.forward, x, k), strict=False))
        names = tc.compile(made.backward).program.inputs
        found = tc.interpret(made.backward, {n: {**results, **known}[n] for n in names})
        np.testing.assert_array_equal(found, wanted)
