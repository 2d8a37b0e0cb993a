"""Gradients of products whose terms have narrower types than the result (D12)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc

STEPS = 40
FACTORS = {
    "int8": ("int8(N,K) v", "v(j,k)", -3),
    "uint8": ("uint8(N,K) v", "v(j,k)", 3),
    "int": ("int(N,K) v", "v(j,k)", -3),
    "int64": ("int64(N,K) v", "v(j,k)", -3),
    "float": ("float(N,K) v", "v(j,k)", -1.5),
    "integers": ("int(N,K) v", "v(j,k) * 2 + 1", -5),
    "an integer": ("", "-3", -3),
    "a number": ("", "0.1", 0.1),
    "a choice": ("double(N) w", "(w(j) < 0 ? 0.1 : 0.3)", 0.3),
}
VALUES = {"v(j,k)": lambda factor: factor, "v(j,k) * 2 + 1": lambda factor: (factor - 1) // 2}


def given(declared: str, result: str, term: str, factor: float) -> dict[str, Any]:
    found: dict[str, Any] = {"c": np.array([1.25, -2.0], "f8" if result == "double" else "f4")}
    if "v" in term:
        numpy_type = {"float": "f4", "int": "i4", "int8": "i1", "uint8": "u1", "int64": "i8"}
        name = declared.split("(N,K) v")[0].split()[-1]
        found["v"] = np.full((2, STEPS), VALUES[term](factor)).astype(numpy_type[name])
    if "w" in term:
        found["w"] = np.array([1.0, 2.0])
    return found


@pytest.mark.parametrize("result", ["double", "float"])
@pytest.mark.parametrize("kind", FACTORS)
def test_the_product_of_many_narrow_terms(kind: str, result: str) -> None:
    """The gradient, and the tangent, are the factor to the power of the number of terms: far more
    than 32 bits of an integer or the digits of a float hold."""
    declared, term, factor = FACTORS[kind]
    inputs = ", ".join(filter(None, (f"{result}(N) c", declared)))
    where = "" if "v" in term else f" where k in 0:{STEPS}"
    text = f"def f({inputs}) -> (o) {{ o(j) = c(j)  o(j) *= {term}{where} }}"
    known = given(declared, result, term, factor)
    wanted = float(factor) ** STEPS
    precise = 1e-13 if result == "double" else 1e-5
    gradient = tc.grad(text, "c")
    weights = {"d_o": np.ones(2, known["c"].dtype)}
    names = tc.compile(gradient).program.inputs
    found = tc.interpret(gradient, {n: {**known, **weights}[n] for n in names})
    assert np.asarray(found) == pytest.approx(wanted, rel=precise)
    compiled = tc.compile(gradient)(*({**known, **weights}[n] for n in names))
    assert np.asarray(compiled) == pytest.approx(wanted, rel=precise)
    tangent = tc.interpret(tc.jvp(text, ["c"]), {**known, "t_c": weights["d_o"]})
    assert np.asarray(tangent[1]) == pytest.approx(wanted, rel=precise)


def test_terms_of_both_kinds() -> None:
    """Each term's gradient is the product of the other terms, in the type of the result."""
    text = "def f(double(K) a, int(K) v) -> (o) { o *=! a(k) o *= v(k) }"
    a, v = np.array([2.0, -0.5, 4.0]), np.array([70_000, 80_000, -90_000], "i4")
    others = np.array([-2.0, 8.0, -1.0])
    found = tc.interpret(tc.grad(text), {"v": v, "a": a, "d_o": np.array(1.0)})
    assert np.asarray(found) == pytest.approx(others * float(70_000 * 80_000 * -90_000), rel=1e-14)


def test_no_product_of_others_where_no_term_has_a_gradient() -> None:
    text = "def f(double(N) c, int(N,K) v) -> (o) { o(j) = c(j) o(j) *= v(j,k) }"
    assert "x_o" not in tc.grad(text)
