"""Choices in choices and functions of functions: texts of derivatives grow with those of programs,
and have the values of derivatives without parts."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tc.gradient import nested
from tests.gradient.differences import along_directions, cotangents, forward

FAMILIES = {
    "max and abs": "max(abs({inner}), x(i))",
    "max": "max({inner}, {k} * x(i))",
    "abs": "abs({inner} - x(i))",
    "choices": "(x(i) > {k} ? {inner} * x(i) : {k} * x(i) + w)",
    "quotients": "x(i) / (1 + {inner})",
    "functions": "sin({inner})",
    "powers": "pow(abs({inner}) + 1, w)",
    "clamps": "min(max({inner}, -{k}), {k} * w)",
    "products": "{inner} * exp(x(i) - {k})",
}


def program(family: str, depth: int) -> str:
    """A program of one statement in which a form is nested."""
    inner = "e(i)"
    for k in range(1, depth + 1):
        inner = FAMILIES[family].format(inner=inner, k=k)
    return f"def f(double(N) e, double(N) x, double w) -> (y) {{ y(i) = {inner} }}"


@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_grow_with_programs(family: str) -> None:
    """From seven deep to ten: by no more for each level than from four to seven, and a bit."""
    four, seven, ten = (len(tc.grad(program(family, depth))) for depth in (4, 7, 10))
    assert ten - seven <= 1.5 * (seven - four) + 300
    assert ten <= 25 * len(program(family, 10))


@pytest.mark.parametrize("family", FAMILIES)
def test_tangents_grow_with_programs(family: str) -> None:
    four, seven, ten = (len(tc.jvp(program(family, depth))) for depth in (4, 7, 10))
    assert ten - seven <= 1.5 * (seven - four) + 300
    assert ten <= 25 * len(program(family, 10))


def test_second_gradients_grow_with_first_ones() -> None:
    first = [tc.grad(program("max and abs", depth)) for depth in (2, 4)]
    two, four = (tc.grad(text, ("e", "x")) for text in first)
    assert len(four) <= 2.5 * len(two)
    assert len(four) <= 12 * len(first[1])


def test_what_is_short_has_no_parts() -> None:
    gelu = "0.5 * x(i) * (1 + tanh(0.79 * (x(i) + 0.044715 * x(i) * x(i) * x(i))))"
    for rhs in (
        gelu,
        "min(max(x(i), 0), 6)",
        "max(abs(w), x(i))",
        "exp(-x(i) * x(i)) / (w * x(i))",
    ):
        text = tc.grad(f"def f(double(N) x, double w) -> (y) {{ y(i) = {rhs} }}")
        assert "v_y" not in text, text


def drawn(numbers: random.Random, depth: int) -> str:
    """An expression of choices, functions and products, with ties at whole numbers."""
    if not depth:
        return numbers.choice(("e(i)", "x(i,k)", "x(i,k)", "q(k)", "w", "2", "e(i+1)"))
    inner = drawn(numbers, depth - 1)
    other = drawn(numbers, numbers.choice((0, 0, 1)))
    forms = (
        f"max({inner}, {other})",
        f"max({inner}, {other})",
        f"min(-{inner}, {other})",
        f"abs({inner})",
        f"({other} > 0 ? {inner} : {other})",
        f"(J(i) < 3 ? g(J(i)) * ({inner}) : {other})",  # read under its condition alone
        f"({inner}) * {other}",
        f"({inner}) / ({other} * {other} + 1)",
        f"sin({inner})",
        f"fmax({inner}, {other})",
        f"({inner}) - {other}",
    )
    return numbers.choice(forms)


STATEMENTS = (
    "y(i,k) = {}",
    "y(i) +=! {}",
    "y(k) +=! {}",
    "y +=! {} where k in 1:K",
    "y(i,k) = {} where i in 1:N, k in 0:K",
    "y(i) max=! {}",
    "y(i) *=! {}",
)
INPUTS = "double(M) e, double(N,K) x, double(K) q, double w, double(3) g, int(N) J"


def drawn_program(seed: int) -> str:
    numbers = random.Random(seed)
    rhs = f"x(i,k) + 0 * e(i+1) + q(k) * 0 + {drawn(numbers, numbers.choice((2, 3, 3, 4)))}"
    statement = numbers.choice(STATEMENTS).format(rhs)
    if numbers.random() < 0.25:  # sums that begin below 0, and gradients of parts of them
        statement = "y(i) +=! " + rhs.replace("x(i,k)", "x(i,k+1)").replace("q(k)", "q(k+1)")
        statement += " where k in -1:K-1"
    return f"def f({INPUTS}) -> (y) {{ {statement} }}"


def inputs(seed: int, whole: bool) -> dict[str, Any]:
    numbers = np.random.default_rng(seed)
    shapes = {"e": (4,), "x": (3, 2), "q": (2,), "w": (), "g": (3,)}
    known: dict[str, Any] = {n: numbers.integers(-2, 3, s) * 1.0 for n, s in shapes.items()}
    if not whole:
        known = {n: v + numbers.uniform(-0.3, 0.3, v.shape) for n, v in known.items()}
    return {**known, "J": np.array([0, 4, 2], np.int32)}


@settings(max_examples=4)
@given(st.integers(0, 2**32), st.booleans())
def test_gradients_are_those_without_parts(seed: int, whole: bool) -> None:
    """At ties and kinks, too; and where the forward program computes the parts and saves them."""
    text, known = drawn_program(seed), inputs(seed, whole)
    results = forward(text, known)
    weights = cotangents(results, np.random.default_rng(seed))
    full = {**known, **results, **weights}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nested, "FEWEST_NODES", 10**9)
        wanted = forward(tc.grad(text), full)
        directions = directions_of(known, seed)
        tangents = forward(tc.jvp(text), {**known, **directions})
        patch.setattr(nested, "FEWEST_NODES", 20)
        patch.setattr(nested, "MOST_TIMES_AS_LONG", 3)
        many = forward(tc.grad(text), full)
        both = tc.vjp(text)
        saved = forward(both.forward, known)
        backward = forward(both.backward, {**known, **saved, **weights})
        many_tangents = forward(tc.jvp(text), {**known, **directions})
    for found in (forward(tc.grad(text), full), many, backward):
        for name, value in wanted.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-9, err_msg=text)
    np.testing.assert_allclose(saved["y"], results["y"], rtol=1e-12)
    for found in (forward(tc.jvp(text), {**known, **directions}), many_tangents):
        for name, value in tangents.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-9, atol=1e-9, err_msg=text)


def directions_of(known: dict[str, Any], seed: int) -> dict[str, Any]:
    numbers = np.random.default_rng(seed + 1)
    return {f"t_{n}": numbers.uniform(-1, 1, v.shape) for n, v in known.items() if n != "J"}


@pytest.mark.parametrize("seed", range(3))
def test_gradients_are_the_slopes(seed: int) -> None:
    text, known = drawn_program(seed + 50), inputs(seed, whole=False)
    results = forward(text, known)
    weights = cotangents(results, np.random.default_rng(seed))
    gradients = forward(tc.grad(text), {**known, **results, **weights})
    for slope, derived in along_directions(text, known, weights, gradients):
        assert abs(slope - derived) <= 1e-5 * max(1, abs(slope)), text


def test_parts_of_halves_are_floats() -> None:
    """As they are computed (Y8): a gradient rounds to halves where it is stored alone."""
    gradient = tc.grad(program("max and abs", 4).replace("double", "half"), ("e", "x"))
    x, e, ones = (np.full(3, v, np.float16) for v in (0.25, -1.5, 1))
    found = tc.interpret(gradient, {"e": e, "x": x, "d_y": ones})
    made = dict(zip(tc.compile(gradient).program.outputs, found, strict=True))
    np.testing.assert_array_equal(made["d_e"], -ones)
    kinds = {n: t.dtype.name for n, t in tc.compile(gradient).program.tensors.items()}
    assert {kinds[n] for n in kinds if n.startswith("v_y")} == {"float32"}
