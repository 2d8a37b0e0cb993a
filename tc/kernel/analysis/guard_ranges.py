"""Where along a loop a comparison of loop variables holds: certainly, possibly, or nowhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tc.affine.forms import Form, constant_form, variable_form
from tc.affine.intervals import Interval, magnitude
from tc.builtins.operators import MIRRORED
from tc.dtypes import INT64, UINT64, limits
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import binary, cast, compare, integer, of_form, select
from tc.kernel.intervals import Bounds, interval, loop_interval
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
    around = {**bounds, loop.var: loop_interval(loop.begin, loop.end, bounds)}
    test = _with_near_loads(test, loop.var, around[loop.var])
    gap = _gap(test, {**around, **inner})
    if gap is None or not all(_is_near(end, around) for end in (loop.begin, loop.end)):
        return None
    variable = ir.Var(loop.var, INT64)
    slope, rest = -gap.terms.get(variable, 0), gap.without(variable)
    if any(loop.var in names_in(term) for term in rest.terms):
        return None
    # slope * var <= gap holds for all inner values, and for some
    least, most = (_extreme(rest, inner, greatest) for greatest in (False, True))
    if least is None or most is None:
        return None
    begin, end = loop.begin, loop.end

    def within(value: ir.Expr) -> ir.Expr:
        return binary("max", binary("min", value, end, bounds), begin, bounds)

    if slope < 0:  # var >= gap / slope, rounded up
        up = (of_form(gap.times(-1).shifted(-slope - 1)) for gap in (least, most))
        begins = [within(binary("/", each, integer(-slope))) for each in up]
        return GuardRange((begins[0], end), (begins[1], end), falls=False)
    gaps = of_form(least), of_form(most)
    if slope == 0:
        ends = [select(compare(">=", gap, integer(0), bounds), end, begin) for gap in gaps]
    else:
        quotients = [binary("/", gap, integer(slope)) for gap in gaps]
        ends = [within(binary("+", quotient, integer(1))) for quotient in quotients]
    return GuardRange((begin, ends[0]), (begin, ends[1]), falls=True)


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
        found = _form(one, bounds)
        factor = 0 if found is None else found.terms.get(ir.Var(var, INT64), 0)
        if found is None or abs(factor) != 1:
            continue
        rest = found.without(ir.Var(var, INT64))
        if not any(var in names_in(term) for term in rest.terms):
            apart = variable_form(cast(other, INT64)) - rest
            return of_form(apart if factor == 1 else apart.times(-1))
    return None


def _with_near_loads(test: ir.Compare, var: str, values: Interval) -> ir.Compare:
    """A comparison of a loop's variable with a number of 64 bits that is loaded, which may be far
    from 0, as one with the nearest number for which it holds as often."""
    op, sides = test.op, (test.left, test.right)
    if op not in ("<", "<=", ">", ">=") or ir.Var(var, INT64) not in sides:
        return test
    low, high = values
    if sides[0] != ir.Var(var, INT64):
        op = MIRRORED[op]
    first = low if op in ("<", ">=") else low - 1
    ends = integer(first), integer(first + high - low + 1)

    def near(side: ir.Expr) -> ir.Expr:
        if not (isinstance(side, ir.Load) and side.dtype == INT64):
            return side
        return binary("min", binary("max", side, ends[0]), ends[1])

    return ir.Compare(test.op, near(test.left), near(test.right))


def _gap(test: ir.Compare, bounds: Bounds) -> Form[ir.Expr, int] | None:
    """A form of which the comparison says that it is at least 0."""
    op, left, right = test.op, test.left, test.right
    if op in (">", ">="):
        op, left, right = MIRRORED[op], right, left
    if left.dtype != INT64 or op not in ("<", "<="):
        return None
    small, large = _form(left, bounds), _form(right, bounds)
    if small is None or large is None:
        return None
    return (large - small).shifted(-1 if op == "<" else 0)


def less(one: ir.Expr, other: ir.Expr, bounds: Bounds) -> ir.Expr:
    """`one < other`, a constant where they are always as far apart.

    >>> i = ir.Var("i", INT64)
    >>> less(binary("-", i, integer(1)), i, {"i": (0, 9)}).value
    True
    """
    test = compare("<", one, other, bounds)
    gap = _gap(test, bounds) if isinstance(test, ir.Compare) else None
    if gap is None or gap.terms:
        return test
    return compare(">=", integer(gap.constant), integer(0), bounds)


def _is_near(expr: ir.Expr, bounds: Bounds) -> bool:
    """Whether neither an expression nor a part of it is far from 0, let alone wraps around. What is
    loaded is a number like any other."""
    if expr.dtype != INT64 or magnitude(interval(expr, bounds)) >= _FAR:
        return False
    match expr:
        case ir.Cast(operand=ir.Load()):
            return True
        case ir.Binary(op="min", left=ir.Binary(op="max", left=ir.Load())):
            return True
    return all(_is_near(operand, bounds) for operand in ir.children(expr))


def _form(expr: ir.Expr, bounds: Bounds) -> Form[ir.Expr, int] | None:
    """An expression as a form of its terms; None where it, or a part of it, may be far from 0."""
    form = lane_offsets((expr,), (1,), 1, {}).scalars if _is_near(expr, bounds) else None
    if form is None or any(
        abs(factor) * magnitude(interval(term, bounds)) >= _FAR
        for term, factor in form.terms.items()
    ):
        return None
    return form


def _extreme(
    form: Form[ir.Expr, int], inner: Mapping[str, Interval], greatest: bool
) -> Form[ir.Expr, int] | None:
    """A bound of a form over the values of inner variables, reached where each of these occurs
    once."""
    total: Form[ir.Expr, int] = Form(form.constant, {})
    for term, factor in form.terms.items():
        found = _extreme_term(term, inner, greatest == (factor > 0))
        if found is None:
            return None
        total = total.plus(found, factor)
    return total


def _extreme_term(
    term: ir.Expr, inner: Mapping[str, Interval], greatest: bool
) -> Form[ir.Expr, int] | None:
    if names_in(term).isdisjoint(inner):
        return variable_form(term)
    match term:
        case ir.Var(name=name):
            return constant_form(inner[name][greatest])
        case ir.Binary(op="min" | "max" | "/" as op, left=left, right=right):
            if op == "/" and not (isinstance(right, ir.Const) and right.value > 0):
                return None
            sides = [lane_offsets((side,), (1,), 1, {}).scalars for side in (left, right)]
            one, other = (_extreme(side, inner, greatest) for side in sides)
            if one is None or other is None:
                return None
            return variable_form(binary(op, of_form(one), of_form(other)))
        case _:
            return None
