"""Gradients of maxima and minima over what is rounded (0.6).

What is due is computed here, by numpy: terms are the values of the statement as the tensor of the
maximum holds them, those that equal the largest share the cotangent (D11).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tc
from tc.api import _program

BACKENDS = ("interpret", "numba", "c")
COMPILED = (("half", "interpret"), ("half", "numba"), ("float", "c"), ("double", "numba"))
"""Types, and what runs them: doubles and floats round otherwise where they are compiled."""
TYPES = {"half": "float16", "float": "float32", "double": "float64"}
SMALL = {"half": 4e-3, "float": 2e-5, "double": 1e-12}
Arrays = dict[str, Any]


def shares(terms: Any, axes: tuple[int, ...], extreme: Callable[..., Any] = np.max) -> Any:
    """What each term gets of a cotangent of 1."""
    equal = terms == extreme(terms, axis=axes, keepdims=True)
    return equal / equal.sum(axis=axes, keepdims=True)


def gradients(text: str, backend: str, known: Arrays, **options: Any) -> Arrays:
    """The gradients of all inputs for cotangents d_O among `known`, all of it compiled."""
    function = tc.compile(text, backend=backend)
    found = function({n: known[n] for n in function.program.inputs})
    names = function.program.outputs
    results = dict(zip(names, [found] if len(names) == 1 else found, strict=True))
    gradient = tc.compile(tc.grad(text, **options), backend=backend)
    found = gradient({n: {**known, **results}[n] for n in gradient.program.inputs})
    names = gradient.program.outputs
    return dict(zip(names, [found] if len(names) == 1 else found, strict=True))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_product_of_halves(backend: str) -> None:
    """0.6: d_x was [0, 0, 0]."""
    x, w = np.array([1.1, 2.3, 0.7], "float16"), np.array([0.3, 0.9, 0.1], "float16")
    text = "def f(half(N) x, half(N) w) -> (y) { y max=! x(i) * w(i) }"
    found = gradients(text, backend, {"x": x, "w": w, "d_y": np.float16(1)})
    np.testing.assert_array_equal(found["d_x"], np.array([0, 0.9, 0], "float16"))
    np.testing.assert_array_equal(found["d_w"], np.array([0, 2.3, 0], "float16"))


@dataclass(frozen=True)
class Extreme:
    """The body of a program with inputs x(N,K), w(N,K) and v(K) and an output y, and the gradients
    of these for a cotangent d(N): what each is multiplied with for each n and k, by the terms."""

    body: str
    terms: Callable[[Any], Any]
    slopes: Callable[[Any], tuple[Any, Any, Any]]
    extreme: Callable[..., Any] = np.max


EXTREMES: Mapping[str, Extreme] = {
    "product": Extreme(
        "y(n) max=! x(n,k) * w(n,k)", lambda a: a.x * a.w, lambda a: (a.w, a.x, 0 * a.x)
    ),
    "sum of products": Extreme(
        "y(n) max=! x(n,k) * w(n,k) + x(n,k) * v(k)",
        lambda a: a.x * a.w + a.x * a.v,
        lambda a: (a.w + a.v, a.x, a.x),
    ),
    "least of quotients": Extreme(
        "y(n) min=! x(n,k) / (2 + w(n,k) * w(n,k))",
        lambda a: a.x / (2 + a.w * a.w),
        lambda a: (1 / (2 + a.w * a.w), -2 * a.w * a.x / (2 + a.w * a.w) ** 2, 0 * a.x),
        np.min,
    ),
    "function": Extreme(
        "y(n) max=! exp(x(n,k)) - v(k) * v(k)",
        lambda a: np.exp(a.x) - a.v * a.v,
        lambda a: (np.exp(a.x), 0 * a.x, -2 * a.v + 0 * a.x),
    ),
    "of a temporary": Extreme(
        "t(n,k) = x(n,k) * w(n,k) + v(k)  y(n) max=! t(n,k)",
        lambda a: a.x * a.w + a.v,
        lambda a: (a.w, a.x, 1 + 0 * a.x),
    ),
    "of a temporary that a statement scales": Extreme(
        "t(n,k) = x(n,k) * w(n,k)  y(n) min=! t(n,k) * v(k)",
        lambda a: a.x * a.w * a.v,
        lambda a: (a.w * a.v, a.x * a.v, a.x * a.w),
        np.min,
    ),
    "several statements": Extreme(
        "y(n) max=! x(n,k) * w(n,k) where k in 0:4  y(n) max= x(n,k) * w(n,k) where k in 4:K",
        lambda a: a.x * a.w,
        lambda a: (a.w, a.x, 0 * a.x),
    ),
}


@pytest.mark.drawn(4)
@pytest.mark.parametrize(("type", "backend"), COMPILED)
@pytest.mark.parametrize("name", EXTREMES)
def test_each_row_has_its_gradient(name: str, type: str, backend: str) -> None:
    """0.6: 9 of 24 rows were wrong."""
    case, numbers = EXTREMES[name], np.random.default_rng(6)
    dtype = TYPES[type]
    x, w = (numbers.standard_normal((24, 9)).astype(dtype) for _ in range(2))
    v = numbers.standard_normal(9).astype(dtype)
    d = numbers.uniform(0.5, 1.5, 24).astype(dtype)
    text = f"def f({type}(N,K) x, {type}(N,K) w, {type}(K) v) -> (y) {{ {case.body} }}"
    known = {"x": x, "w": w, "v": v, "d_y": d}
    wide = SimpleNamespace(**{n: known[n].astype("float64") for n in "xwv"})
    terms = case.terms(wide).astype(dtype)
    share = shares(terms, (1,), case.extreme) * d.astype("float64")[:, None]
    dx, dw, dv = (share * slope for slope in case.slopes(wide))
    found = gradients(text, backend, known)
    for key, wanted in (("d_x", dx), ("d_w", dw), ("d_v", dv.sum(0))):
        size = np.abs(wanted).max() + 1
        np.testing.assert_allclose(found[key], wanted, rtol=0, atol=SMALL[type] * size)


@pytest.mark.parametrize(("type", "backend"), COMPILED)
def test_ties_of_what_is_rounded(type: str, backend: str) -> None:
    """Small whole numbers, whose products are equal in each computation."""
    numbers, dtype = np.random.default_rng(2), TYPES[type]
    x, w = (numbers.integers(-2, 3, (24, 9)).astype(dtype) for _ in range(2))
    text = f"def f({type}(N,K) x, {type}(N,K) w) -> (y) {{ y(n) max=! x(n,k) * w(n,k) + w(n,k) }}"
    known = {"x": x, "w": w, "d_y": np.ones(24, dtype)}
    terms = (x * w + w).astype("float64")
    share = shares(terms, (1,))
    assert share.max(1).min() < 1  # there are ties
    found = gradients(text, backend, known)
    np.testing.assert_allclose(found["d_x"], share * w, atol=SMALL[type])
    np.testing.assert_allclose(found["d_w"], share * (x + 1), atol=SMALL[type])
    first = np.arange(9) == terms.argmax(1)[:, None]
    found = gradients(text, backend, known, ties="first")
    np.testing.assert_array_equal(found["d_x"], (first * w).astype(dtype))


def test_ties_of_halves_that_rounding_makes() -> None:
    """Two terms that round to the same half share the gradient, as terms in torch do."""
    x = np.array([1.0, 1.0], "float16")
    w = np.array([1.0009765625, 1.0], "float16")
    c = np.array([0.0, 0.0009765625 * 0.75], "float16")
    text = "def f(half(N) x, half(N) w, half(N) c) -> (y) { y max=! x(i) * w(i) + c(i) }"
    terms = (x.astype("float64") * w + c).astype("float16")
    assert terms[0] == terms[1]
    found = gradients(text, "numba", {"x": x, "w": w, "c": c, "d_y": np.float16(1)})
    np.testing.assert_array_equal(found["d_c"], [0.5, 0.5])


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_a_sum_that_is_computed_again(backend: str) -> None:
    """0.6: 5 of 8 rows were 0; what is saved is the maximum, and not the sums."""
    numbers = np.random.default_rng(3)
    a = numbers.standard_normal((8, 33, 50)).astype("float32")
    b = numbers.standard_normal(50).astype("float32")
    text = """def f(float(N,K,J) a, float(J) b) -> (y) {
      t(n,k) +=! a(n,k,j) * b(j)  y(n) max=! t(n,k)
    }"""
    found = gradients(text, backend, {"a": a, "b": b, "d_y": np.ones(8, "float32")})
    terms = np.einsum("nkj,j->nk", a.astype("float64"), b.astype("float64"))
    best = terms.argmax(1)
    wanted = np.zeros(a.shape)
    wanted[np.arange(8), best] = b
    np.testing.assert_array_equal(found["d_a"], wanted.astype("float32"))
    np.testing.assert_allclose(found["d_b"], a[np.arange(8), best].sum(0), rtol=1e-5)


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_a_mask_of_the_largest(backend: str) -> None:
    """A condition that compares an output with what the gradient computes again."""
    numbers = np.random.default_rng(4)
    x, w = (numbers.standard_normal((8, 33, 20)).astype("float32") for _ in range(2))
    v = numbers.standard_normal(33).astype("float32")
    text = """def f(float(N,K,J) x, float(N,K,J) w, float(K) v) -> (m, y) {
      t(n,k) +=! x(n,k,j) * w(n,k,j)
      m(n) max=! t(n,k)
      y(n) +=! t(n,k) >= m(n) ? v(k) : 0
    }"""
    none, one = np.zeros(8, "float32"), np.ones(8, "float32")
    found = gradients(text, backend, {"x": x, "w": w, "v": v, "d_m": none, "d_y": one})
    best = np.einsum("nkj,nkj->nk", x.astype("float64"), w.astype("float64")).argmax(1)
    np.testing.assert_array_equal(found["d_v"], np.bincount(best, minlength=33))


@pytest.mark.parametrize(("type", "backend"), COMPILED)
def test_forward_mode(type: str, backend: str) -> None:
    numbers, dtype = np.random.default_rng(8), TYPES[type]
    x, w, t, u = (numbers.standard_normal((24, 9)).astype(dtype) for _ in range(4))
    text = f"def f({type}(N,K) x, {type}(N,K) w) -> (y) {{ y(n) max=! x(n,k) * w(n,k) + x(n,0) }}"
    found = tc.compile(tc.jvp(text), backend=backend)(x=x, w=w, t_x=t, t_w=u)
    a, b, da, db = (each.astype("float64") for each in (x, w, t, u))
    share = shares((a * b + a[:, :1]).astype(dtype), (1,))
    slope = (share * (da * b + a * db + da[:, :1])).sum(1)
    np.testing.assert_allclose(
        found.t_y, slope, rtol=0, atol=SMALL[type] * (1 + np.abs(slope).max())
    )


@pytest.mark.parametrize("backend", ["interpret", "c"])
def test_second_derivatives_and_batches(backend: str) -> None:
    """y = max of x * x * w: the second derivative is that of the term."""
    numbers = np.random.default_rng(9)
    x, w, s = (numbers.standard_normal((6, 9)).astype("float32") for _ in range(3))
    one = tc.grad("def f(float(K) x, float(K) w) -> (y) { y max=! x(k) * x(k) * w(k) }", "x")
    text = tc.batch(tc.grad(one, "x"), {"x": 0, "w": 0, "d_d_x": 0})
    given = {"x": x, "w": w, "d_d_x": s, "d_y": np.float32(1)}
    second = tc.compile(text, backend=backend)
    found = second({n: given[n] for n in second.program.inputs})
    share = shares(x.astype("float64") ** 2 * w, (1,))
    np.testing.assert_allclose(found, share * 2 * w * s, rtol=1e-5, atol=1e-6)


PLAIN = (
    "x(n,k)", "-x(n,k)", "abs(x(n,k))", "max(x(n,k), w(n,k))", "x(n,k) > w(n,k) ? x(n,k) : 0.5",
    "pad(x(n,k-1), 0)",
)  # fmt: skip


@pytest.mark.parametrize("term", PLAIN)
def test_terms_that_are_not_rounded_are_not_stored(term: str) -> None:
    """Neither in reverse nor in forward mode, and the maximum is that which is saved."""
    where = " where n in 0:N, k in 0:K" if "pad" in term else ""
    text = f"def f(float(N,K) x, float(N,K) w) -> (y) {{ y(n) max=! {term}{where} }}"
    for made in (tc.grad(text), tc.vjp(text).backward, tc.jvp(text)):
        program = _program(made, None)
        assert not [name for name in program.tensors if name.startswith("e_")]
    assert "y" in _program(tc.grad(text), None).inputs


ROUNDED = (
    "half(x(n,k))", "x(n,k) + 0.1", "2 * x(n,k)", "sqrt(w(n,k))", "x(n,k) * 1.5 > 1 ? x(n,k) : 0",
    "x(n,k) > 0.1 * w(n,k) ? x(n,k) : w(n,k)", "n * x(n,k)",
)  # fmt: skip


@pytest.mark.parametrize("term", ROUNDED)
def test_terms_that_are_rounded_are_stored(term: str) -> None:
    """No comparison of a gradient computes a term: it reads what is stored."""
    text = f"def f(float(N,K) x, float(N,K) w) -> (y) {{ y(n) max=! {term} }}"
    for made in (tc.grad(text), tc.vjp(text).backward, tc.jvp(text)):
        plain = re.sub(r"float\((e_y\(n, k\)|y\(n\))\)", r"\1", made)
        assert set(re.findall(r"(\w+\([^()]*\)) == y\(n\)", plain)) == {"e_y(n, k)"}, made
        assert "y(n) max=! e_y(n, k)" in made


RANGES = {
    "a number": "def f(double(K) x) -> (y) { y max= x(k) * x(k) }",
    "no reduction": "def f(double(K) x) -> (y) { y(i) = x(i)  y(i) max= x(i) * x(i) }",
    "itself": "def f(double(K) x) -> (y) { y(i) = x(i)  y(i) min= y(i) * x(i) }",
    "below zero": "def f(double(K) x) -> (y) {"
    " y(n) max=! x(n+k) * x(n) where k in -1:2, n in 1:K-1 }",
    "a range that another statement gives": "def f(double(K) x) -> (y) {"
    " y(n) max=! n * x(k)  y(n) += x(n) }",
    "declared": "def f(double(K) x) -> (double(K) y) { y(n) max=! (n + 1) * x(k) }",
    "an outer variable that no term has": "def f(double(K) x) -> (y) {"
    " y(n,m) max=! x(n+k) * x(n) where m in 0:3, k in 0:2 }",
    "windows": "def f(double(K) x) -> (y) { y(n) max=! x(2*n+k) * x(k) where k in 0:3 }",
    "pad": "def f(double(K) x) -> (y) {"
    " y(n) max=! pad(x(n+k-1) * 3, -1) where n in 0:K, k in 0:3 }",
    "a part": "def f(double(K) x) -> (y) { y(n) = x(n)  y(n) max= x(n) * x(k) where n in 1:K-1 }",
    "a number that goes on": "def f(double(K) x) -> (y) { y = x(0)  y max= x(k) * x(k) }",
    "after zeros": "def f(double(K) x) -> (y) { y(n) = 0  y(n) max= x(n) * x(k) }",
    "a gather": "def f(double(K) x) -> (y) { y(n) max=! x(int(abs(x(n)))) * x(n) }",
}


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("name", RANGES)
def test_ranges_of_stored_terms(name: str) -> None:
    """Gradients and tangents are those of differences."""
    text = RANGES[name]
    x = np.array([0.31, -1.2, 0.83, 1.71, -0.42, 0.57])
    slopes = np.array([0.2, 1.3, -0.7, 0.4, 0.9, -1.1])
    result = tc.interpret(text, x)
    weights = np.arange(1.0, 1 + np.size(result)).reshape(np.shape(result))
    step = 1e-6
    change = (tc.interpret(text, x + step * slopes) - tc.interpret(text, x - step * slopes)) / (
        2 * step
    )
    tangents = tc.interpret(tc.jvp(text), x, slopes)
    np.testing.assert_allclose(tangents.t_y, change, rtol=1e-7, atol=1e-7)
    found = gradients(text, "interpret", {"x": x, "d_y": weights})["d_x"]
    np.testing.assert_allclose(np.sum(found * slopes), np.sum(weights * change), rtol=1e-7)
