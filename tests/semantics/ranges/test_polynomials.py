"""Polynomials of sizes, against the values of the expressions that they stand for."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterator

from hypothesis import event, given
from hypothesis import strategies as st

from tc.dtypes import INT64
from tc.semantics import program as p
from tc.semantics.ranges.polynomials import (
    NOTHING,
    Symbols,
    decide,
    linear,
    quotient,
    to_expr,
    to_poly,
)
from tc.semantics.size_values import KnownSizes, evaluate
from tc.source import Source, Span

SPAN = Span(Source(""), 0, 0)
SYMBOLS = Symbols({}, {}, NOTHING, SPAN)
SIZES = ("M", "N")
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def number(value: int) -> p.Expr:
    return p.Literal(value, INT64, span=SPAN)


def binary(op: str, left: p.Expr, right: p.Expr) -> p.Expr:
    return p.Binary(op, left, right, INT64, span=SPAN)


def expressions(*indices: str) -> st.SearchStrategy[p.Expr]:
    """Sums, differences, products, minima and quotients of sizes, numbers and indices."""
    leaves = st.one_of(
        st.integers(-3, 4).map(number),
        st.sampled_from([p.Size(name, span=SPAN) for name in SIZES]),
        *(st.just(p.Index(name, span=SPAN)) for name in indices),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.builds(binary, st.sampled_from(("+", "-", "*", "min")), inner, inner),
            st.builds(binary, st.just("/"), inner, st.integers(1, 4).map(number)),
            inner.map(lambda e: p.Unary("-", e, INT64, span=SPAN)),
        ),
        max_leaves=6,
    )


def values(expr: p.Expr, *, least: int = 0, **ends: int) -> Iterator[int]:
    """The values of an expression at some sizes and all indices from 0 below their ends, which are
    sizes plus a number."""
    for sizes in itertools.product(range(least, 5), repeat=len(SIZES)):
        known = dict(zip(SIZES, sizes, strict=True))
        for place in itertools.product(*(range(max(0, known["N"] + end)) for end in ends.values())):
            at = KnownSizes(known, {}, {}, dict(zip(ends, place, strict=True)))
            found = evaluate(expr, at)
            assert found is not None
            yield found


@given(expressions())
def test_a_polynomial_has_the_values_of_its_expression(expr: p.Expr) -> None:
    poly = to_poly(expr, SYMBOLS)
    assert list(values(to_expr(poly, SYMBOLS))) == list(values(expr))
    assert all(poly.terms.values())


@given(expressions(), expressions())
def test_arithmetic(left: p.Expr, right: p.Expr) -> None:
    a, b = to_poly(left, SYMBOLS), to_poly(right, SYMBOLS)
    for made, op in ((a + b, "+"), (a - b, "-"), (a * b, "*")):
        assert list(values(to_expr(made, SYMBOLS))) == list(values(binary(op, left, right)))


@given(expressions(), st.integers(1, 5))
def test_quotients(dividend: p.Expr, divisor: int) -> None:
    found = quotient(to_poly(dividend, SYMBOLS), to_poly(number(divisor), SYMBOLS), SYMBOLS)
    whole = binary("/", dividend, number(divisor))
    assert list(values(to_expr(found, SYMBOLS))) == list(values(whole))


@given(st.sampled_from(sorted(COMPARISONS)), expressions("i"), expressions("i"), st.integers(-1, 2))
def test_what_sizes_decide(op: str, left: p.Expr, right: p.Expr, end: int) -> None:
    """A comparison that is decided has that value at all sizes and places; of what is not decided,
    nothing is claimed."""
    ends = {"i": binary("+", p.Size("N", span=SPAN), number(end))}
    decided = decide(op, to_poly(left, SYMBOLS), to_poly(right, SYMBOLS), SYMBOLS, ends)
    event(f"decided: {decided}")
    if decided is not None:
        pairs = zip(values(left, i=end), values(right, i=end), strict=True)
        assert all(COMPARISONS[op](a, b) == decided for a, b in pairs)


@given(expressions("i", "j"))
def test_forms_with_polynomials_as_coefficients(expr: p.Expr) -> None:
    form = linear(expr, SYMBOLS)
    event(f"linear: {form is not None}")
    if form is None:
        return
    total = to_expr(form.constant, SYMBOLS)
    for name, coefficient in form.terms.items():
        term = binary("*", to_expr(coefficient, SYMBOLS), p.Index(name, span=SPAN))
        total = binary("+", total, term)
    assert list(values(total, i=1, j=0)) == list(values(expr, i=1, j=0))
