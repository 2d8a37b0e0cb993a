"""Where along a loop a comparison of loop variables holds: certainly, possibly, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tc.affine.intervals import Interval
from tc.builtins.operators import MIRRORED
from tc.dtypes import INT64, UINT64, limits
from tc.kernel import ir
from tc.kernel.folding import binary, cast, compare, integer, negation, select
from tc.kernel.intervals import Bounds, interval
from tc.kernel.walk import names_in

_FAR = 1 << 59
"""Sums and differences of a few smaller numbers do not wrap around."""


@dataclass(frozen=True, slots=True)
class GuardRange:
    """The iterations of a loop between `begin` and `end`, all expressions of what is known before
    the loop. Outside of `possible` the comparison holds nowhere, inside of `certain`, a part of
    it, everywhere; `falls`: both begin where the loop does, else they end where it ends."""

    certain: tuple[ir.Expr, ir.Expr]
    possible: tuple[ir.Expr, ir.Expr]
    falls: bool


def guard_range(
    test: ir.Compare, loop: ir.For, inner: Mapping[str, Interval], bounds: Bounds
) -> GuardRange | None:
    """Where `test` holds for the values of `inner` variables; None where its form does not tell.
    `bounds` are those of the variables around the loop.

    >>> from tc.kernel.printer import expression_text
    >>> i, k = ir.Var("i", INT64), ir.Var("k", INT64)
    >>> row = binary("+", binary("*", i, integer(4)), ir.Var("r", INT64))
    >>> loop = ir.For("k", integer(0), integer(99), ())
    >>> found = guard_range(ir.Compare("<=", k, row), loop, {"r": (0, 3)}, {"i": (0, 24)})
    >>> [expression_text(end) for _, end in (found.certain, found.possible)]
    ['i * 4 + 1', 'min(i * 4 + 4, 99)']
    """
    sides = _ordered(test)
    if sides is None:
        return None
    around = {**bounds, loop.var: _values(loop, bounds)}
    if not all(_is_near(side, {**around, **inner}) for side in (*sides, loop.begin, loop.end)):
        return None
    small, large = (_along(loop.var, side) for side in sides)
    if small is None or large is None:
        return None
    slope = small[0] - large[0]
    extremes = [
        _extreme(rest, inner, greatest)
        for rest, greatest in ((large[1], False), (small[1], True), (large[1], True),
                               (small[1], False))
    ]  # fmt: skip
    if any(extreme is None for extreme in extremes):
        return None
    # slope * var <= gap holds for all inner values, and for some
    known = [e for e in extremes if e is not None]
    gaps = binary("-", known[0], known[1]), binary("-", known[2], known[3])
    begin, end = loop.begin, loop.end

    def within(value: ir.Expr) -> ir.Expr:
        return binary("max", binary("min", value, end, bounds), begin, bounds)

    if slope == 0:
        ends = [select(compare(">=", gap, integer(0), bounds), end, begin) for gap in gaps]
        return GuardRange((begin, ends[0]), (begin, ends[1]), falls=True)
    if slope > 0:
        quotients = [binary("/", gap, integer(slope)) for gap in gaps]
        ends = [within(binary("+", quotient, integer(1))) for quotient in quotients]
        return GuardRange((begin, ends[0]), (begin, ends[1]), falls=True)
    # var >= gap / slope, rounded up
    begins = [
        within(binary("/", binary("-", integer(-slope - 1), gap), integer(-slope))) for gap in gaps
    ]
    return GuardRange((begins[0], end), (begins[1], end), falls=False)


def selected_value(test: ir.Compare, var: str, bounds: Bounds) -> ir.Expr | None:
    """The one value of a variable for which two integers are equal, None where the form of the
    comparison does not tell. `bounds` are those of the variables.

    >>> from tc.dtypes import INT32
    >>> from tc.kernel.folding import cast
    >>> from tc.kernel.printer import expression_text
    >>> place = binary("+", binary("*", ir.Var("i", INT64), integer(8)), ir.Var("j", INT64))
    >>> test = ir.Compare("==", ir.Load("I", (ir.Var("n", INT64),), INT32), cast(place, INT32))
    >>> expression_text(selected_value(test, "j", {"i": (0, 9), "j": (0, 7)}))
    'int64(I[n]) - i * 8'
    """
    for one, other in ((test.left, test.right), (test.right, test.left)):
        if var not in names_in(one) or not one.dtype.is_integer or one.dtype == UINT64:
            continue
        if isinstance(one, ir.Cast):
            least, greatest = interval(one.operand, bounds)
            first, last = limits(one.dtype)
            if one.operand.dtype != INT64 or least < first or greatest > last:
                continue  # it wraps around, or may
            one = one.operand
        found = _along(var, one) if _is_near(one, bounds) else None
        if found is not None and found[0] in (1, -1):
            rest, given = found[1], cast(other, INT64)
            return binary("-", given, rest) if found[0] == 1 else binary("-", rest, given)
    return None


def _ordered(test: ir.Compare) -> tuple[ir.Expr, ir.Expr] | None:
    """Two expressions of which the comparison says that the first is not more than the second."""
    op, left, right = test.op, test.left, test.right
    if left.dtype != INT64:
        return None
    if op in (">", ">="):
        op, left, right = MIRRORED[op], right, left
    if op == "<":
        return binary("+", left, integer(1)), right
    return (left, right) if op == "<=" else None


def _values(loop: ir.For, bounds: Bounds) -> Interval:
    return interval(loop.begin, bounds)[0], interval(loop.end, bounds)[1] - 1


def _is_near(expr: ir.Expr, bounds: Bounds) -> bool:
    """Whether neither an expression nor a part of it is far from 0, let alone wraps around."""
    return all(
        node.dtype == INT64 and max(map(abs, interval(node, bounds))) < _FAR
        for node in ir.walk(expr)
    )


def _along(var: str, expr: ir.Expr) -> tuple[int, ir.Expr] | None:
    """A factor and a rest without a variable: the expression is factor * variable + rest."""
    if var not in names_in(expr):
        return 0, expr
    match expr:
        case ir.Var():
            return 1, integer(0)
        case ir.Binary(op="+" | "-" as op, left=left, right=right):
            one, other = _along(var, left), _along(var, right)
            if one is None or other is None:
                return None
            sign = 1 if op == "+" else -1
            return one[0] + sign * other[0], binary(op, one[1], other[1])
        case (
            ir.Binary(op="*", left=ir.Const() as factor, right=operand)
            | ir.Binary(op="*", left=operand, right=ir.Const() as factor)
        ):
            found = _along(var, operand)
            if found is None:
                return None
            return found[0] * int(factor.value), binary("*", found[1], factor)
        case ir.Unary(operand=operand):
            found = _along(var, operand)
            return None if found is None else (-found[0], negation(found[1]))
        case _:
            return None


def _extreme(expr: ir.Expr, inner: Mapping[str, Interval], greatest: bool) -> ir.Expr | None:
    """A bound of an expression over the values of inner variables, reached where each of these
    occurs once."""
    if names_in(expr).isdisjoint(inner):
        return expr
    match expr:
        case ir.Var(name=name):
            return integer(inner[name][greatest])
        case ir.Binary(op="+" | "-" | "min" | "max" as op, left=left, right=right):
            one = _extreme(left, inner, greatest)
            other = _extreme(right, inner, greatest != (op == "-"))
            return None if one is None or other is None else binary(op, one, other)
        case (
            ir.Binary(op="*", left=ir.Const() as factor, right=operand)
            | ir.Binary(op="*" | "/", left=operand, right=ir.Const() as factor)
        ):
            if expr.op == "/" and factor.value <= 0:
                return None
            found = _extreme(operand, inner, greatest == (factor.value >= 0))
            return None if found is None else binary(expr.op, found, factor)
        case ir.Unary(operand=operand):
            found = _extreme(operand, inner, not greatest)
            return None if found is None else negation(found)
        case _:
            return None
