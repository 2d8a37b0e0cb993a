"""Expressions that rewrites make, all of which stand for one place in the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tc.builtins import identity
from tc.dtypes import BOOL, INT64, DType
from tc.semantics import program as p
from tc.source import Span


@dataclass(frozen=True, slots=True)
class Expressions:
    """Makes expressions of INT64, tests and selections.

    >>> from tc.semantics.ranges.symbolic_text import to_text
    >>> from tc.source import Source
    >>> of = Expressions(Span(Source(""), 0, 0))
    >>> place = of.plus(of.binary("*", of.index("c"), of.number(8)), -1)
    >>> to_text(of.select(of.compare("<", place, of.number(3)), place, of.number(0)))
    'c * 8 - 1 < 3 ? c * 8 - 1 : 0'
    >>> [to_text(digit) for digit in of.digits(of.index("n"), (2, 3, 4))]
    ['n / 12', 'n / 4 % 3', 'n % 4']
    """

    span: Span

    def index(self, name: str) -> p.Index:
        return p.Index(name, span=self.span)

    def number(self, value: int) -> p.Expr:
        return p.Literal(value, INT64, span=self.span)

    def identity(self, op: str, dtype: DType) -> p.Expr:
        """The value that a reduction by an operator starts at (R2)."""
        return p.Literal(identity(op, dtype), dtype, span=self.span)

    def binary(self, op: str, left: p.Expr, right: p.Expr) -> p.Expr:
        return p.Binary(op, left, right, INT64, span=self.span)

    def plus(self, expr: p.Expr, number: int) -> p.Expr:
        if not number:
            return expr
        op = "+" if number > 0 else "-"
        return self.binary(op, expr, self.number(abs(number)))

    def plus_all(self, *terms: p.Expr) -> p.Expr:
        total, *others = terms
        for term in others:
            total = self.binary("+", total, term)
        return total

    def times(self, expr: p.Expr, number: int) -> p.Expr:
        return expr if number == 1 else self.binary("*", expr, self.number(number))

    def flattened(self, places: Sequence[p.Expr], extents: Sequence[int]) -> p.Expr:
        """The number of a place in some dimensions, from 0, the last one counting fastest."""
        if not places:
            return self.number(0)
        number, *others = places
        for place, extent in zip(others, extents[1:], strict=True):
            number = self.binary("+", self.times(number, extent), place)
        return number

    def digits(self, number: p.Expr, extents: Sequence[int]) -> list[p.Expr]:
        """The place in some dimensions that has a number."""
        found: list[p.Expr] = []
        stride = prod(extents)
        for position, extent in enumerate(extents):
            stride //= max(extent, 1)
            digit = self.binary("/", number, self.number(stride)) if stride > 1 else number
            if position and extent:
                digit = self.binary("%", digit, self.number(extent))
            found.append(digit)
        return found

    def compare(self, op: str, left: p.Expr, right: p.Expr) -> p.Expr:
        return p.Compare(op, left, right, span=self.span)

    def select(self, test: p.Expr, then: p.Expr, otherwise: p.Expr) -> p.Expr:
        return p.Select(test, then, otherwise, then.dtype, span=self.span)

    def converted(self, expr: p.Expr, dtype: DType) -> p.Expr:
        return expr if expr.dtype == dtype else p.Convert(expr, dtype, span=self.span)

    def either(self, left: p.Expr, right: p.Expr) -> p.Expr:
        """A disjunction, both of whose sides may be evaluated at any time."""
        return p.Binary("|", left, right, BOOL, span=self.span)


def conjunction(tests: Sequence[p.Expr]) -> p.Expr | None:
    """The conjunction of tests, evaluated in order; None of none."""
    result: p.Expr | None = None
    for test in tests:
        result = test if result is None else p.Logical("&&", (result, test), span=test.span)
    return result
