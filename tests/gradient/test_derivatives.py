"""The derivatives of the built-in functions, against central differences."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.builtins import BUILTINS
from tc.builtins.derivatives import DERIVATIVES
from tests.gradient.differences import along_directions, forward

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
