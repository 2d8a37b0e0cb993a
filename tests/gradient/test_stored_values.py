"""Values that outputs hold, recognised in products of every form: each gradient beside the one that
recognises nothing, and beside the slopes of differences."""

from __future__ import annotations

import dataclasses
import itertools
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tc.gradient import terms as e
from tc.gradient.reverse_mode import _Reverse
from tc.gradient.stored_values import Product, StoredValues
from tests.gradient.differences import along_directions, cotangents, forward

SIZES = {"N": 2, "K": 3}
INPUTS = (
    *("double(N) o", "double(N,K) p", "double(K) q", "double z", "int(K) J", "double(N) s"),
    *("int(N) I",),
)
"""`J` and `I` are whole: what they are multiplied with and divided by is real."""

FACTORS = (
    *("o(i)", "p(i,k)", "q(k)", "z", "J(k)", "I(i)", "2", "0.5", "i", "N", "s(i)", "z"),
    *("exp(o(i))", "exp(-p(i,k))", "tanh(z * q(k))", "sqrt(s(i))", "pow(q(k), 3)", "max(o(i), z)"),
    *("pow(s(i), z)", "(o(i) > z ? o(i) : -q(k))", "abs(p(i,k))", "(J(k) / 2)", "(o(i) - z)"),
)
DOUBLES = ("z", "o(i)", "p(i,k)", "-q(k)", "exp(s(i))", "exp(-o(i) * z)")
DIVISORS = ("z", "s(i)", "q(k)", "J(k)", "2", "exp(o(i))", "-z", "(z * s(i))", "I(i)", "N")
STORED = ("y(i,k)", "y(i,k)", "y(i,k)")


def term(numbers: random.Random, factors: tuple[str, ...]) -> str:
    """A product with signs, divisors and parentheses in any places."""

    def signed(text: str) -> str:
        return f"-({text})" if numbers.random() < 0.25 else text

    def factor() -> str:
        own = numbers.choice(factors)
        return f"(-{own})" if numbers.random() < 0.2 else own

    text = signed(f"{numbers.choice(DOUBLES)}")
    for _ in range(numbers.choice((1, 1, 2, 3))):
        if numbers.random() < 0.4:
            text = f"{text} / ({numbers.choice(DIVISORS)})"
        elif numbers.random() < 0.7:
            text = f"{text} * {factor()}"
        else:
            text = f"{factor()} * ({text})"
        text = signed(text)
    return text


def program(seed: int) -> str:
    """A program that stores a product in an output, and then multiplies or sums the product."""
    numbers = random.Random(seed)
    first = f"y(i,k) = {term(numbers, FACTORS)}"
    sums = [f"t(i) +=! {term(numbers, FACTORS)}", f"t(i) +=! {term(numbers, (*STORED, *FACTORS))}"]
    second = numbers.choice(
        [
            *(
                f"t(i,k) = {term(numbers, (*STORED, *FACTORS))}",
                f"t(i) +=! y(i,k) * {term(numbers, FACTORS)}",
            ),
            *(sums[0], sums[1], f"t(k) +=! {term(numbers, (*STORED, *FACTORS))}"),
            *(f"t +=! {term(numbers, (*STORED, *FACTORS))}", "t(i,k) = exp(-y(i,k)) / -z"),
        ]
    )
    where = "where i in 0:N, k in 0:K"
    third = numbers.choice(["", "", "u(i,k) = -y(i,k) / s(i)", "u(k) +=! -y(i,k) * y(i,k) / z"])
    lines = [f"{line} {where}" for line in (first, second, third) if line]
    returns = "y, t, u" if third else "y, t"
    return f"def f({', '.join(INPUTS)}) -> ({returns}) {{\n" + "\n".join(lines) + "\n}"


def inputs(seed: int) -> dict[str, Any]:
    numbers = np.random.default_rng(seed)
    known: dict[str, Any] = {}
    for declared in INPUTS:
        kind, name = declared.split()
        dtype, _, dims = kind.partition("(")
        shape = tuple(SIZES[d] for d in dims.rstrip(")").split(",") if d)
        if dtype == "int":
            known[name] = numbers.integers(1, 6, shape).astype("int32")
        else:
            sign = 1 if name in ("z", "s", "q") else numbers.choice([-1, 1], shape)
            known[name] = np.asarray(sign * numbers.uniform(0.4, 1.6, shape))
    return known


def without_recognition(text: str, **options: Any) -> str:
    """The gradient in which nothing counts as stored."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoredValues, "is_right_side_alone", lambda *_: False)
        patch.setattr(_Reverse, "_is_stored", lambda *_: False)
        return tc.grad(text, **options)


def assert_as_without(text: str, seed: int) -> str:
    """The gradient; its values must be equal to the gradient made without recognising stored
    values."""
    known = inputs(seed)
    results = forward(text, known)
    weights = cotangents(results, np.random.default_rng(seed))
    full = {**known, **results, **weights}
    made, plain = tc.grad(text), without_recognition(text)
    for name, value in forward(plain, full).items():
        found = forward(made, full)[name]
        np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-9, err_msg=f"{text}\n{made}")
    return made


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_gradients_are_those_without_recognition(seed: int) -> None:
    text = program(seed)
    assert_as_without(text, seed)


def test_many_of_them_are_recognised() -> None:
    """The programs are such that stored values are used, under both signs."""
    texts = [program(seed) for seed in range(16)]
    recognised = sum(tc.grad(text) != without_recognition(text) for text in texts)
    assert recognised > 6, recognised


@pytest.mark.parametrize("seed", range(4))
def test_gradients_are_the_slopes(seed: int) -> None:
    text, known = program(100 + seed), inputs(seed)
    weights = cotangents(forward(text, known), np.random.default_rng(seed))
    gradients = forward(tc.grad(text), {**known, **forward(text, known), **weights})
    for slope, derived in along_directions(text, known, weights, gradients):
        assert abs(slope - derived) <= 1e-5 * max(1, abs(slope)), text


# --- one product over another ---------------------------------------------------------------------

PRODUCTS = ("o(i) * z", "-o(i) * z", "o(i) / z", "-(o(i) / -z)", "-exp(o(i)) / (z * -q(i))")


def product_of(text: str) -> Product:
    declared = "double(N) o, double z, double(N) q, double(N) w"
    shaped = tc.compile(f"def f({declared}) -> (y) {{ y(i) = {text} where i in 0:N }}")
    return Product.of(shaped.program.statements[0].rhs)


@pytest.mark.parametrize(
    ("sign", "other", "own"), [*itertools.product(("", "-"), PRODUCTS, PRODUCTS[:2])]
)
def test_a_product_over_one_of_its_factors_has_the_sign_of_both(
    sign: str, other: str, own: str
) -> None:
    whole = product_of(f"{sign}({other}) * w(i) * ({own})")
    rest = whole.over(product_of(other), {})
    assert rest is not None
    wanted = product_of(f"{sign}w(i) * ({own})")
    assert (rest.sign, e.text(rest.expr)) == (wanted.sign, e.text(wanted.expr))


def test_a_product_without_a_factor_of_the_other_is_not_divided() -> None:
    assert product_of("o(i) * w(i)").over(product_of("o(i) * z"), {}) is None
    assert product_of("o(i) * z").over(product_of("o(i) / z"), {}) is None
    twice = dataclasses.replace(product_of("o(i) * z"), factors=product_of("z * z").factors)
    assert product_of("o(i) * z").over(twice, {}) is None
    assert product_of("o(i) * 3.0 * z").over(product_of("o(i) * 2.0"), {}) is None


def test_other_indices_stand_for_one_another_alone() -> None:
    bound: dict[str, str] = {}
    text = (
        "def f(double(N) a, double(N) b) -> (y, t) { y(i) = -a(i) * b(i) t(n) = a(n) * b(n) * 2 }"
    )
    first, second = (Product.of(s.rhs) for s in tc.compile(text).program.statements)
    rest = second.over(first, bound)
    assert rest is not None
    assert (rest.sign, bound) == (-1, {"i": "n"})
