"""Ranges and shapes as expressions of the sizes: `(H - KH) / 2 + 1`, `min(N, M - K + 1)`.

They are simplified as polynomials (`tc.semantics.ranges.polynomials`). An expression made here has,
for the sizes at hand, the value that inference found; where none is found, there is none.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import TypeAlias

from tc.semantics import program as p
from tc.semantics.ranges.polynomials import (
    NOUGHT,
    ONE,
    Poly,
    Symbols,
    is_at_most,
    is_of_sizes,
    linear,
    quotient,
    to_expr,
    to_poly,
    value_of,
)
from tc.semantics.ranges.symbolic_text import to_text
from tc.semantics.size_values import KnownSizes

__all__ = ["Symbols", "bounds_inside", "in_symbols", "least", "to_text"]

ANY_SIZES = KnownSizes({}, {}, {})
"""Of symbols of which nothing is known but that sizes are above 0."""


class SignOfSizes(Exception):
    """The sizes decide whether an expression is above 0."""


def sign_of(poly: Poly, symbols: Symbols) -> int:
    """The sign of a polynomial: -1, 0 or 1; SignOfSizes where sizes decide and none are known."""
    if symbols.known is not ANY_SIZES:
        value = value_of(poly, symbols)
        return (value > 0) - (value < 0)
    if not poly:
        return 0
    if is_of_sizes(poly):
        return 1
    if is_of_sizes(poly * -1):
        return -1
    raise SignOfSizes


def in_symbols(expr: p.Expr, symbols: Symbols) -> p.Expr:
    """A size expression, simplified: `N - 1 + N` is `2 * N - 1`."""
    match expr:
        case p.Literal(value=value) if isinstance(value, int):
            return symbols.number(int(value))
        case p.Size(name=name) if "." not in name:
            return expr
    return to_expr(to_poly(expr, symbols), symbols)


def least(exprs: list[p.Expr], symbols: Symbols) -> p.Expr:
    """The minimum of some expressions, without those that another never exceeds."""
    exprs = list(dict.fromkeys(part for expr in exprs for part in _minimum_of(expr)))
    if len(exprs) == 1:
        return exprs[0]
    kept: list[Poly] = []
    for expr in exprs:
        poly = to_poly(expr, symbols)
        if not any(is_at_most(other, poly, symbols) for other in kept):
            kept = [other for other in kept if not is_at_most(poly, other, symbols)] + [poly]
    parts = (to_expr(poly, symbols) for poly in kept)
    return functools.reduce(functools.partial(symbols.binary, "min"), parts)


def _minimum_of(expr: p.Expr) -> tuple[p.Expr, ...]:
    """The expressions of which an expression is the minimum."""
    match expr:
        case p.Binary(op="min", left=left, right=right):
            return (*_minimum_of(left), *_minimum_of(right))
        case _:
            return (expr,)


def bounds_inside(
    subscript: p.Expr,
    variable: str,
    extent: p.Expr,
    ranges: Mapping[str, p.Range],
    symbols: Symbols,
) -> tuple[p.Expr, p.Expr] | None:
    """Begin and end of a variable such that a subscript stays inside an extent.

    With subscript = a * variable + rest the end is (extent - 1 - max(rest)) / a + 1, and for a
    falling subscript min(rest) / -a + 1. In a quotient (..) / c it is that of (..) with as many
    times the room; the larger of two is bounded by the one with the variable. None where the
    subscript is not linear otherwise, or the range of another variable has no expression. What
    they say is only true where such a range exists.
    """
    most = to_poly(extent, symbols) - ONE
    found = _between(subscript, variable, (NOUGHT, most), ranges, symbols)
    return None if found is None else (to_expr(found[0], symbols), to_expr(found[1], symbols))


Extremes: TypeAlias = tuple[Poly, Poly]


def ends_over(
    begin: p.Expr, end: p.Expr, ranges: Mapping[str, p.Range], symbols: Symbols
) -> tuple[p.Expr, p.Expr] | None:
    """The least begin and the greatest end of a dependent range over the ranges of the variables in
    its bounds (W2); None where a bound is not linear or a range has no expression."""
    first, last = least_of(begin, ranges, symbols), greatest_of(end, ranges, symbols)
    return None if first is None or last is None else (first, last)


def least_of(expr: p.Expr, ranges: Mapping[str, p.Range], symbols: Symbols) -> p.Expr | None:
    """The least value of an expression, as of `greatest_of`."""
    found = _extreme(expr, 0, ranges, symbols)
    return None if found is None else to_expr(found, symbols)


def greatest_of(expr: p.Expr, ranges: Mapping[str, p.Range], symbols: Symbols) -> p.Expr | None:
    """The greatest value of an expression that is linear in index variables, or the lesser or the
    larger of such; None where it has no expression of the sizes."""
    found = _extreme(expr, 1, ranges, symbols)
    return None if found is None else to_expr(found, symbols)


def _extreme(
    expr: p.Expr, side: int, ranges: Mapping[str, p.Range], symbols: Symbols
) -> Poly | None:
    """The least value of an expression where `side` is 0, the greatest where it is 1."""
    match expr:
        case p.Binary(op=("min" | "max") as op, left=left, right=right):
            parts = [_extreme(part, side, ranges, symbols) for part in (left, right)]
            if parts[0] is None or parts[1] is None:
                return None
            return _lesser_or_larger(op, parts[0], parts[1], symbols)
    form = linear(expr, symbols)
    if form is None:
        return None
    found = form.constant
    for name, coefficient in form.terms.items():
        extremes = _interval(name, {}, ranges, symbols)
        if extremes is None:
            return None
        rises = sign_of(coefficient, symbols) > 0
        found += coefficient * extremes[side if rises else 1 - side]
    return found


def _lesser_or_larger(op: str, left: Poly, right: Poly, symbols: Symbols) -> Poly | None:
    """The lesser or the larger of two values, where it is the same at all sizes."""
    for one, other in ((left, right), (right, left)):
        if is_at_most(one, other, symbols):
            return one if op == "min" else other
    return None


def _between(
    subscript: p.Expr,
    variable: str,
    inside: Extremes,
    ranges: Mapping[str, p.Range],
    symbols: Symbols,
) -> Extremes | None:
    """Begin and end of a variable such that a subscript is neither less nor more than this."""
    match subscript:
        case p.Binary(op="max", left=left, right=right):  # neither may be more
            sides = [side for side in (left, right) if variable in p.index_names(side)]
            return (
                _between(sides[0], variable, inside, ranges, symbols) if len(sides) == 1 else None
            )
    quotients: dict[str, p.Expr] = {}
    form = linear(subscript, symbols, quotients)
    if form is None:
        return None
    holders = [n for n in form.terms if variable in (n, *_names_in(quotients.get(n)))]
    if len(holders) != 1 or sign_of(form.terms[holders[0]], symbols) == 0:
        return None
    factor, rest = form.terms[holders[0]], form.without(holders[0])
    intervals = {n: _interval(n, quotients, ranges, symbols) for n in rest.terms}
    low = high = rest.constant
    for name, coefficient in rest.terms.items():
        extremes = intervals[name]
        if extremes is None:
            return None
        rises = sign_of(coefficient, symbols) > 0
        low += coefficient * extremes[not rises]
        high += coefficient * extremes[rises]
    below, above = inside[0] - low, inside[1] - high
    if sign_of(factor, symbols) < 0:
        factor, below, above = factor * -1, above * -1, below * -1
    # rounded up: (below + factor - 1) / factor
    begin = quotient(below + (factor - ONE), factor, symbols)
    end = quotient(above, factor, symbols) + ONE
    holder = quotients.get(holders[0])
    if not isinstance(holder, p.Binary):
        return begin, end
    divisor = to_poly(holder.right, symbols)
    if sign_of(divisor, symbols) <= 0:
        return None
    room = begin * divisor, end * divisor - ONE
    return _between(holder.left, variable, room, ranges, symbols)


def _names_in(expr: p.Expr | None) -> tuple[str, ...]:
    return () if expr is None else p.index_names(expr)


def _interval(
    name: str, quotients: Mapping[str, p.Expr], ranges: Mapping[str, p.Range], symbols: Symbols
) -> Extremes | None:
    """The least and the largest value of a variable, or of a quotient of one."""
    match quotients.get(name):
        case p.Binary(left=p.Index(name=inner), right=divisor):
            whole = _interval(inner, {}, ranges, symbols)
            by = to_poly(divisor, symbols)
            if whole is None or sign_of(by, symbols) <= 0:
                return None
            return quotient(whole[0], by, symbols), quotient(whole[1], by, symbols)
        case None:
            begin, end = ranges[name].symbolic_begin, ranges[name].symbolic_end
            if begin is None or end is None:
                return None
            return to_poly(begin, symbols), to_poly(end, symbols) - ONE
    return None
