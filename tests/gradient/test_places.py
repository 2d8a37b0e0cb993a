"""Gradients of computed places (D20), domains (D21) and chosen terms (D22): texts against those of
the rules, by hand or by numpy; generated programs against differences."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tc
from tc.gradient import symbolic_ranges
from tests.fuzz.places import generate
from tests.gradient.differences import forward
from tests.gradient.places_campaign import GRADIENTS, judge, known_of
from tests.support.campaigns import Passed

NUMBERS = np.random.default_rng(3)
ROW, COL = np.int32([0, 2, 2, 5]), np.int32([1, 0, 3, 3, 2])

TEXTS: dict[str, tuple[str, str]] = {
    "prefix sums (D21)": (
        "def f(double(B,N) x) -> (o) { o(b,i) +=! x(b,j) * x(b,j) where j in 0:i+1 }",
        "d_x(b, j) +=! 2 * d_o(b, i) * x(b, j) where i in j:N",
    ),
    "exclusive prefix sums (D21)": (
        "def f(double(N) x) -> (o) { o(i) +=! x(j) where j in 0:i }",
        "d_x(j) +=! d_o(i) where i in j + 1 : N + 1",
    ),
    "suffix sums (D21)": (
        "def f(double(N) x) -> (o) { o(i) +=! x(j) where j in i:N, i in 0:N }",
        "d_x(j) +=! d_o(i) where i in 0 : j + 1",
    ),
    "a band, by a condition of two variables (D21)": (
        "def f(double(N,N) A, double(N) x) -> (o) { "
        " o(i) +=! A(i,j) * x(j) where j <= i, i < j + 3 }",
        "d_A(i, j) = j <= i && i < j + 3 ? d_o(i) * x(j) : 0"
        " d_x(j) +=! d_o(i) * A(i, j) where j <= i, i < j + 3",
    ),
    "windows cut at the edges (D21)": (
        "def f(double(N) x) -> (o) { o(i) +=! x(j) where i in 0:N, j in max(i-2,0):min(i+3,N) }",
        "d_x(j) +=! d_o(i) where j in max(i - 2, 0):min(i + 3, N)",
    ),
    "ranges whose hull has no expression (D21)": (
        "def f(double(M) x) -> (o) { o(i) +=! x(j) * x(j) where j in i/2:i, i in 0:M }",
        "d_x(i) = 0 d_x(j) += 2 * d_o(i) * x(j) where j in i / 2 : i, exists x(j)",
    ),
    "a gather is the gradient of a scatter (D20)": (
        "def f(double(N) x, double(N) w, int(N) I) -> (double(6) o) { o(I(n)) +=! x(n) * w(n) }",
        "d_x(n) = d_o(I(n)) * w(n) d_w(n) = d_o(I(n)) * x(n)",
    ),
    "a scatter is the gradient of a gather (D20, D13)": (
        "def f(double(V,K) T, int(N) I) -> (o) { o(n,k) = T(I(n),k) * T(I(n),k) }",
        "d_T(I(n), k) +=! 2 * d_o(n, k) * T(I(n), k)",
    ),
    "a gather of what a product of indices reads (D20)": (
        "def f(double(N) A, double(M) S) -> (o) { o(i,j) = A(i*j) * S(j) where i in 0:3 }",
        "d_A(i * j) +=! d_o(i, j) * S(j) d_S(j) +=! d_o(i, j) * A(i * j)",
    ),
    "a gather under a condition (D20, D7)": (
        "def f(double(V) T, int(N) I) -> (o) { o(n) = I(n) >= 0 ? T(I(n)) : 0 }",
        "d_T(I(n)) +=! d_o(n) where I(n) >= 0",
    ),
    "a padded gather (D20, G9)": (
        "def f(double(V) T, int(N) I) -> (o) { o(n) = pad(T(I(n)), 0) }",
        "d_T(I(n)) +=! d_o(n) where 0 <= I(n), I(n) < V",
    ),
    "extremes of segments (D20, D11)": (
        "def f(double(N) x, int(N) I) -> (double(4) o) { o(I(n)) max=! x(n) }",
        "n_o(I(n)) +=! x(n) == o(I(n)) ? 1 : 0 where n_o.0 = 4"
        " d_x(n) = x(n) == o(I(n)) ? d_o(I(n)) / n_o(I(n)) : 0",
    ),
    "a written permutation (D20)": (
        "def f(double(N) x, int(N) p) -> (double(N) o) { o(p(i)) = x(i) * x(i) }",
        "d_x(i) = 2 * d_o(p(i)) * x(i)",
    ),
    "places overwritten keep nothing of before (D20, D9)": (
        "def f(double(N) x, double(M) y, int(M) p) -> (o) { o(i) = x(i) * x(i)  o(p(j)) = y(j) }",
        "b_o_1(i) = d_o(i) b_o_1(p(j)) = 0 d_y(j) = d_o(p(j)) d_x(i) = 2 * b_o_1(i) * x(i)",
    ),
    "rows of any length (D21, D20)": (
        "def f(int(R1) row, int(E) col, double(E) v, double(C) x) -> (y) {"
        " y(r) +=! v(e) * x(col(e)) where e in row(r):row(r+1) }",
        "d_v(e) +=! d_y(r) * x(col(e)) where e in row(r):row(r + 1)"
        " d_x(col(e)) +=! d_y(r) * v(e) where e in row(r):row(r + 1)",
    ),
    "a maximum and its place (D22)": (
        "def f(double(N,K) x) -> (m, at) { m(n), at(n) max=! x(n,k), k }",
        "d_x(n, at(n)) +=! d_m(n) where at(n) < K",
    ),
    "what is carried along (D22)": (
        "def f(double(N) x, double(N) y) -> (m, v) { m, v max=! x(n), y(n) * y(n) }",
        "o_m, o_v, p_m max=! x(n), y(n) * y(n), n d_y(p_m) +=! 2 * d_v * y(p_m) where p_m < N"
        " d_x(p_m) +=! d_m where p_m < N",
    ),
    "an exchange (V1)": (
        "def f(double(N) x, double(N) y) -> (a, b) {"
        " a(i), b(i) = x(i), 2 * y(i)  a(i), b(i) = b(i) * x(i), a(i) }",
        "d_x(i) = d_a(i) * b_1(i) + d_a_1(i)",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_gradient_reads_as_the_rule_says(name: str) -> None:
    text, wanted = TEXTS[name]
    body = " ".join(tc.grad(text).partition("{\n")[2].removesuffix("}\n").split())
    assert body.endswith(wanted), body


WITHOUT_HULL = {
    "a window": "o(i) +=! x(j) * x(j) where j in max(i-K,0):min(i+K,M), i in 0:M",
    "a causal convolution": "o(i) +=! x(i-k) * w(k) where k in 0:min(K,i+1), i in 0:M",
    "the first three": "o(i) +=! x(j) * x(i) where j in 0:min(i,3), i in 0:M",
    "behind the middle": "o(i) +=! x(j) * x(j) where j in i/2:i, i in 0:M",
    "blocks of four": "o(i) +=! x(j) * x(j) where j in i/4*4:i+1, i in 0:M",
    "remainders": "o(i) +=! x(j) * x(j) where j in 0:i%3, i in 0:M",
    "maxima": "o(i) max=! x(j) * x(j) where j in 0:min(i+1,4), i in 0:M",
    "two statements": "o(i) +=! x(j) * x(j) where j in 0:min(i,2), i in 0:M  o(i) += x(i)",
}


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("name", WITHOUT_HULL)
def test_dependent_ranges_of_any_form(name: str) -> None:
    """D4, D21: one text for all sizes; elements that no range holds get 0, also in results of the
    caller."""
    inputs = {"x": "double(M) x", "w": "double(K) w", "K": "int K"}
    body = WITHOUT_HULL[name]
    taken = ["x", *(["w"] if "w(" in body else ["K"] if "K" in body else [])]
    text = f"def f({', '.join(inputs[n] for n in taken)}) -> (o) {{ {body} }}"
    gradient = tc.grad(text)
    for m in (1, 2, 3, 5, 9):
        known: dict[str, Any] = {"x": NUMBERS.random(m), "w": NUMBERS.random(2), "K": np.int32(2)}
        known = {n: known[n] for n in taken}
        d_o = NUMBERS.random(m)
        floats = [n for n in taken if n != "K"]
        results = {f"d_{n}": np.full(known[n].shape, 7.0) for n in floats}
        given = {n: a for n, a in {**known, "d_o": d_o}.items() if f") {n}" in gradient or n == "K"}
        tc.compile(gradient)(**given, outputs=results)
        for n in floats:
            for place in range(len(known[n])):
                ends = []
                for step in (1e-6, -1e-6):
                    moved = known[n].copy()
                    moved[place] += step
                    ends.append(d_o @ tc.interpret(text, {**known, n: moved}))
                difference = (ends[0] - ends[1]) / 2e-6
                np.testing.assert_allclose(results[f"d_{n}"][place], difference, atol=1e-6)


def _numpy_csr(known: Mapping[str, Any], d_y: Any) -> dict[str, Any]:
    d_v, d_x = np.zeros(5), np.zeros(4)
    for r in range(3):
        for e in range(ROW[r], ROW[r + 1]):
            d_v[e] += d_y[r] * known["x"][COL[e]]
            d_x[COL[e]] += d_y[r] * known["v"][e]
    return {"d_v": d_v, "d_x": d_x}


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_rule_D21_of_a_sparse_product_by_loops(backend: str) -> None:
    known = {"row": ROW, "col": COL, "v": NUMBERS.random(5), "x": NUMBERS.random(4)}
    d_y = NUMBERS.random(3)
    gradient = tc.grad(TEXTS["rows of any length (D21, D20)"][0])
    found = tc.compile(gradient, backend=backend)(**known, d_y=d_y)
    for name, wanted in _numpy_csr(known, d_y).items():
        np.testing.assert_allclose(getattr(found, name), wanted, rtol=1e-13)


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_rule_D22_no_term_gets_what_no_row_has(backend: str) -> None:
    """A row without terms has no place; gradients of it go nowhere."""
    text = "def f(double(N,K) x) -> (m, at) { m(n), at(n) max=! x(n,k), k where x(n,k) > 0 }"
    x = np.array([[-1.0, -2.0], [3.0, 4.0], [5.0, 5.0]])
    _, at = tc.compile(text, backend=backend)(x)
    assert at.tolist() == [2147483647, 1, 0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        found = tc.compile(tc.grad(text), backend=backend)(x=x, at=at, d_m=np.ones(3))
    np.testing.assert_array_equal(found, [[0, 0], [0, 1], [1, 0]])


def test_rule_D22_the_value_before_may_win() -> None:
    text = """def f(double(N) x, double(N) y) -> (m, v) {
      m(n), v(n) = 0, y(n)
      m(n), v(n) max= x(n), x(n) * y(n)
    }"""
    known = {"x": np.array([-1.0, 2.0]), "y": np.array([3.0, 5.0])}
    found = forward(tc.grad(text), {**known, "d_m": np.ones(2), "d_v": np.ones(2)})
    np.testing.assert_array_equal(found["d_x"], [0, 1 + 5])
    np.testing.assert_array_equal(found["d_y"], [1, 2])


def test_rule_D20_products_at_places() -> None:
    """The others of a product are the terms at its place; zeros are terms like others (D12)."""
    text = "def f(double(N) x, int(N) I) -> (double(3) o) { o(I(n)) *=! x(n) }"
    known = {"x": np.array([2.0, 0.0, 3.0, 5.0]), "I": np.int32([0, 1, 0, 1])}
    found = forward(tc.grad(text), {**known, "d_o": np.array([1.0, 1.0, 1.0])})
    np.testing.assert_array_equal(found["d_x"], [3, 5, 2, 0])


def test_rule_D26_places_and_bounds_carry_no_gradient() -> None:
    text = """def f(double(N) x, double(N) y) -> (o) {
      k(i) = int32(2 * x(i))
      o(k(i)) +=! y(i) where x(i) > 0, o.0 = 9
    }"""
    known = {"x": np.array([1.0, 2.0, -3.0]), "y": np.ones(3)}
    found = forward(tc.grad(text), {**known, "d_o": np.arange(9.0)})
    np.testing.assert_array_equal(found["d_x"], [0, 0, 0])
    np.testing.assert_array_equal(found["d_y"], [2, 4, 0])


def test_rule_D27_a_batch_of_scatters() -> None:
    text = """def f(double(N) x, int(N) I) -> (o, n) {
      o(I(i)), n(I(i)) +=! x(i), 1 where o.0 = 3, n.0 = 3
    }"""
    x, keys = NUMBERS.random((2, 4)), np.int32([[0, 2, 2, 1], [1, 1, 1, 0]])
    found = forward(tc.batch(text, 0), {"x": x, "I": keys})
    for b in range(2):
        one = forward(text, {"x": x[b], "I": keys[b]})
        np.testing.assert_allclose(found["o"][b], one["o"])
        np.testing.assert_array_equal(found["n"][b], one["n"])


def test_rule_D28_second_derivatives_scatter_again() -> None:
    text = "def f(double(V) T, int(N) I) -> (o) { o +=! T(I(n)) * T(I(n)) * T(I(n)) }"
    first = tc.grad(text)
    known = {"T": np.array([1.0, 2.0, 3.0]), "I": np.int32([0, 2, 2]), "d_o": np.array(1.0)}
    again = forward(tc.grad(first, "T"), {**known, "d_d_T": np.ones(3)})
    np.testing.assert_allclose(again["d_T_2"], [6, 0, 36])


def test_a_cotangent_that_another_target_began() -> None:
    """What a statement reads of one target adds to what goes on of that target."""
    text = """def f(double(N) x, double(N) y) -> (p, q) {
      p(n), q(n) = y(n), 2 * y(n)
      p(n), q(n) max= x(n), x(n) * p(n)
    }"""
    known = {"x": np.array([3.0, -9.0]), "y": np.array([1.0, 1.0])}
    found = forward(tc.grad(text), {**known, "d_p": np.ones(2), "d_q": np.ones(2)})
    np.testing.assert_array_equal(found["d_x"], [1 + 1, 0])
    np.testing.assert_array_equal(found["d_y"], [3, 1 + 2])


def test_values_of_a_caller_that_go_on_twice() -> None:
    """D9: the cotangent of what the caller gave is a result of its own."""
    text = "def f(float(N) x) -> (float(N) C) { t(i) = C(i)  C(i) *= t(i)  C(i) *= x(i) }"
    known = {"x": np.array([2.0, 3.0]), "C_0": np.array([5.0, 7.0])}
    found = forward(tc.grad(text.replace("float", "double")), {**known, "d_C": np.ones(2)})
    np.testing.assert_array_equal(found["d_C_0"], [2 * 5 * 2, 2 * 7 * 3])
    np.testing.assert_array_equal(found["d_x"], [25, 49])


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.drawn(6)
@pytest.mark.parametrize("start", range(0, 600, 12))
def test_generated_programs(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first program from a number on that has a gradient; more by `python -m
    tests.gradient.places_campaign`."""
    monkeypatch.setattr(symbolic_ranges, "CLIMBS", 40)
    monkeypatch.setattr(symbolic_ranges, "STEPS", 300)
    for number in range(start, start + 12):
        case = generate.case(31, number, lambda _: None, calls=False)
        backend = ("numba", "c", "evaluate")[number % 3]
        try:
            assert [*judge(case, number, (backend,))]
        except (Passed, tc.GradError):
            continue
        return


def test_the_campaign_finds_a_wrong_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    text = TEXTS["a gather under a condition (D20, D7)"][0]
    case = generate.Case(
        text,
        {"T": np.array([1.0, 2.0]), "I": np.int32([-1, 1, 1])},
        {},
        (),
        (),
        frozenset(),
    )
    assert known_of(case, text, NUMBERS)
    assert len([*judge(case, 1, ())]) == 6
    wrong = tc.grad(text).replace("+=! d_o(n)", "+=! d_o(0)")
    monkeypatch.setattr(tc, "grad", lambda *_, **__: wrong)
    with pytest.raises(AssertionError, match="<g, Jt>"):
        list(judge(case, 1, ()))
    assert GRADIENTS
