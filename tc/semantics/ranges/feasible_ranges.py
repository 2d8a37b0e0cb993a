"""Ranges for which accesses stay in bounds: what errors of range inference offer as a `where`."""

from __future__ import annotations

from collections.abc import Mapping

from tc import sets
from tc.affine.intervals import Box, is_empty
from tc.semantics import affine
from tc.semantics.program import Expr, Range
from tc.semantics.ranges.accesses import SubscriptAccess
from tc.semantics.ranges.guarded_ranges import (
    extent_of_one_tensor,
    run_where_made,
    usable_guards,
)
from tc.semantics.ranges.rounds import Bound, ShapingContext
from tc.semantics.ranges.symbolic import bounds_inside
from tc.semantics.ranges.where_repairs import size_text
from tc.semantics.size_values import MAX_OFFSET, evaluate


def feasible_range(
    context: ShapingContext,
    name: str,
    bounds: tuple[Bound, ...],
    ranges: Mapping[str, Range],
) -> str | None:
    """The first values of a variable for which all its accesses stay in bounds wherever they are
    made, as the bounds of a `where`; None where there are none.

    What reads behind conditions leave open ends where they would leave their tensors, and what
    they alone bound, with the tensor that they read.
    """
    guards = usable_guards(context)
    begin, end = 0, MAX_OFFSET
    begin_text = end_text = ""
    for bound in bounds:
        access = bound.access
        box = affine.box_of(ranges, access.others(name))
        first, last = _allowed(context, access, name, box)
        extent = context.symbolic_extent(access)
        found = bounds_inside(access.subscript, name, extent, ranges, context.symbols)
        if access.number in guards:
            made = run_where_made(context, access, name, guards[access.number], ranges)
            if made is not None:
                first, last = made[0], last if made[1] is None else made[1]
        if first >= begin:
            begin, begin_text = first, _if_equal(context, found and found[0], first)
        if last <= end:
            end, end_text = last, _if_equal(context, found and found[1], last)
    if all(bound.access.number in guards for bound in bounds):
        whole = extent_of_one_tensor(context, [bound.access for bound in bounds], name)
        if whole is not None and begin < whole < end:
            extent = context.symbolic_extent(bounds[0].access)
            end, end_text = whole, _if_equal(context, extent, whole)
    if begin >= end:
        return None
    if end == MAX_OFFSET:  # nothing says how far
        return f"{begin_text}:{begin + 2}"
    return f"{begin_text}:{end_text}"


def _if_equal(context: ShapingContext, expr: Expr | None, value: int) -> str:
    if expr is not None and evaluate(expr, context.known) != value:
        expr = None
    return size_text(context, expr, value)


def shrunk_range(
    context: ShapingContext, access: SubscriptAccess, name: str, box: Box[str]
) -> dict[str, str]:
    """A smaller range of another variable with which the first can at least be 0."""
    for other in access.others(name):
        begin, end = _allowed(context, access, other, {**box, name: (0, 0)})
        begin, end = max(begin, box[other][0]), min(end, box[other][1] + 1)
        if begin < end:
            return {other: f"{begin}:{end}"}
    return {}


def widest_ranges(
    context: ShapingContext, access: SubscriptAccess, ranges: Mapping[str, Range]
) -> dict[str, str]:
    """Ranges that keep an access in bounds, one of a variable of each subscript that leaves."""
    clauses: dict[str, str] = {}
    for other in context.accesses.all:
        if other is access or (access.read is not None and other.read is access.read):
            found = _widest(context, other, ranges)
            if found is not None:
                clauses.setdefault(*found)
            elif other is access:
                return {}
    return clauses


def _widest(
    context: ShapingContext, access: SubscriptAccess, ranges: Mapping[str, Range]
) -> tuple[str, str] | None:
    """A variable, and the range of it that keeps an access in bounds; None where none does, or
    where all are.

    Rather one of the left side than of a reduction: a sum over part of its terms is another sum.
    Then the one that loses the smallest part of its values.
    """
    found: list[tuple[bool, float, str, str]] = []
    for name in access.variables:
        own = ranges[name]
        box = affine.box_of(ranges, access.others(name))
        first, last = _allowed(context, access, name, box)
        begin, end = max(first, own.begin), min(last, own.end)
        if begin >= end:
            continue
        if (begin, end) == (own.begin, own.end):
            return None
        extent = context.symbolic_extent(access)
        texts = bounds_inside(access.subscript, name, extent, ranges, context.symbols)
        low = own.symbolic_begin if begin == own.begin else texts and texts[0]
        high = own.symbolic_end if end == own.end else texts and texts[1]
        bounds = f"{_if_equal(context, low, begin)}:{_if_equal(context, high, end)}"
        lost = 1 - (end - begin) / own.extent
        reduced = name not in context.statement.outer
        found.append((reduced, lost, name, bounds))
    return min(found)[2:] if found else None


def _allowed(
    context: ShapingContext, access: SubscriptAccess, name: str, box: Box[str]
) -> tuple[int, int]:
    """The first run of values >= 0 of a variable for which an access stays in bounds, whatever
    the others are; empty where there is none."""
    known, extent = context.known, context.extent(access)
    if extent is None or is_empty(box):
        return 0, 0
    form = affine.linear_form(access.subscript, known)
    if form is not None:
        low, high = form.without(name).interval(box)
        factor = form.terms.get(name, 0)
        if factor == 0:
            return 0, 0
        room = extent - 1 - high
        if factor > 0:
            return max(0, -(low // factor)), room // factor + 1
        return max(0, -(room // -factor)), low // -factor + 1
    if not affine.is_affine(access.subscript, known):
        return 0, 0
    try:
        with sets.bounded():
            return _allowed_exactly(context, access, name, box, extent)
    except sets.TooComplex:
        return 0, 0


def _allowed_exactly(
    context: ShapingContext, access: SubscriptAccess, name: str, box: Box[str], extent: int
) -> tuple[int, int]:
    space, subscript = affine.function_on(
        access.subscript, context.known, access.variables, {**box, name: (0, None)}
    )
    bad = sets.leaving(space, subscript, extent)
    for begin in range(64):
        end = sets.smallest(bad.intersect(space.box({name: (begin, None)})), space, name)
        if end is None:
            return begin, MAX_OFFSET
        if end > begin:
            return begin, end
    return 0, 0
