"""0.18: length is not depth, and messages about long texts are short."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import assert_computes

X = np.array([-1.5, 0.25, 2.0])


@pytest.mark.parametrize("backend", ["interpret", "numba"])
def test_a_flat_sum_is_not_deep(backend: str) -> None:
    """0.18: 201 terms were "more than 200 operations deep"."""
    rng = np.random.default_rng(1)
    factors = np.round(rng.uniform(-2, 2, 450), 3)
    terms = "".join(f" {'-' if c < 0 else '+'} {abs(c)} * x(i)" for c in factors)
    text = f"def f(double(N) x) -> (o) {{ o(i) = 1.5{terms} }}"
    found = tc.compile(text, backend=backend)(X)
    assert_computes(text, [X], found, 1.5 + factors.sum() * X)


def test_chains_of_conditions_are_not_deep() -> None:
    """0.18, next door."""
    below = " && ".join(f"x(i) < {k + 1}" for k in range(400))
    equal = " || ".join(f"x(i) == {k}" for k in range(400))
    text = f"def f(double(N) x) -> (a, b) {{ a(i) = {below} ? 1 : 0  b(i) = {equal} ? 1 : 0 }}"
    a, b = tc.interpret(text, [np.array([0.5, 1.0, 399.0, 400.0])])
    np.testing.assert_array_equal(a, [1, 0, 0, 0])
    np.testing.assert_array_equal(b, [0, 1, 1, 0])


@pytest.mark.parametrize("chain", [" + ".join(["k(i)"] * 300), " * ".join(["x(i)"] * 300)])
def test_what_is_not_grouped_says_so(chain: str) -> None:
    """0.18: integers may wrap around in another order, and products overflow."""
    text = f"def f(double(N) x, int(N) k) -> (o) {{ o(i) = {chain} }}"
    with pytest.raises(tc.ParseError, match="more than 200 operations stand in a row") as caught:
        tc.compile(text)
    assert caught.value.repair == "split the expression into several statements"


LONG = 300_000 * "a"


@pytest.mark.parametrize(
    "call",
    [
        lambda: tc.compile(f"def f(float(N) x) -> (o) {{ o(i) = {LONG}(i) }}"),
        lambda: tc.compile(f"def f(float(N) x) -> (o) {{ o(i) = x(i) + {LONG} }}"),
        lambda: tc.compile(f"def f(float(N) x) -> ({LONG}) {{ o(i) = x(i) }}"),
        lambda: tc.compile(f"def f(float(N) x) -> (o) {{ o(i) = x(i) where i in 0:{LONG} }}"),
        lambda: tc.compile("def f(float(N) x) -> (o) { o(i) = x(i) }", entry=LONG),
        lambda: tc.compile("def f(float(N) x) -> (o) { o(i) = x(i) }", backend=LONG),
        lambda: tc.interpret("def f(float(N) x) -> (o) { o(i) = x(i) }", {LONG: X}),
    ],
)
def test_messages_about_long_names_are_short(call: Callable[[], Any]) -> None:
    """0.18: an unknown name of 1 MB gave a message of 2 MB."""
    with pytest.raises(tc.TCError) as caught:
        call()
    assert len(str(caught.value)) < 1500


def test_many_statements_without_a_call_are_no_calls() -> None:
    """0.18: the repair was to call fewer defs."""
    statements = " ".join(f"t{k}(i) = x(i)" for k in range(10_000))
    with pytest.raises(tc.CheckError) as caught:
        tc.compile(f"def f(float(N) x) -> (o) {{ {statements} o(i) = x(i) }}")
    assert caught.value.cause == "'f' has more than 10000 statements"
    assert caught.value.repair == "divide it into several defs, which the host language calls"
