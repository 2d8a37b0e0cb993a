"""Which accesses are proven in bounds, which fail, and which only running shows (G6, G7).

An affine access that took no part in a round must stay in bounds over the iteration space, as far
as its guards let it happen (Y6): that is a precondition, decided here exactly. What depends on data
is proven by interval arithmetic or by a guard that says the same, or else checked at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tc import sets
from tc.affine.intervals import Box, is_empty
from tc.semantics import affine
from tc.semantics.affine import Guard, linear_form
from tc.semantics.dependent_ranges import HIGH, LOW, dependent, ends_of
from tc.semantics.program import Expr, Precondition
from tc.semantics.ranges.accesses import Comparison, Division, SubscriptAccess
from tc.semantics.ranges.integer_sums import interval_of
from tc.semantics.ranges.rounds import RangeFixpoint, ShapingContext
from tc.semantics.size_values import KnownSizes, evaluate


class LeavesTensor(Exception):
    """An access fails its precondition at a point of the iteration space, behind usable guards or
    none; `tc.semantics.ranges.range_errors` says it in words."""

    def __init__(self, access: SubscriptAccess, point: Mapping[str, int], is_guarded: bool) -> None:
        super().__init__(access.text)
        self.access = access
        self.point = point
        self.is_guarded = is_guarded


@dataclass(frozen=True, slots=True)
class CheckedAccesses:
    """The preconditions of a statement; the sites of reads and divisions, and the dimensions of
    the place that it writes (S5), to check at run time."""

    preconditions: tuple[Precondition, ...]
    checked: frozenset[int]
    checked_axes: frozenset[int]


def check_accesses(context: ShapingContext, rounds: RangeFixpoint) -> CheckedAccesses:
    """What holds of the accesses of a statement, and what only running shows.

    Raises LeavesTensor where a precondition fails.
    """
    statement, found = context.statement, context.accesses
    space = affine.box_of(rounds.ranges, statement.variables)
    preconditions: list[Precondition] = []
    axes: set[int] = set()
    for access, said in zip(found.written, found.comparisons, strict=True):
        if access.is_bare and statement.init:  # the whole range is written
            if access.number not in rounds.used:
                preconditions.append(_precondition(context, access))
                written = affine.box_of(rounds.ranges, statement.outer)
                if not is_empty(written):
                    _check(context, access, (), written)
            continue
        before, is_proven = _check_access(context, rounds, access, said, found.guards, space)
        preconditions += before
        if not is_proven:
            axes.add(access.axis)
    checked = set()
    for read in found.reads:
        is_proven = True
        for access, said in zip(read.accesses, read.comparisons, strict=True):
            before, is_safe = _check_access(
                context, rounds, access, said, read.guards, space, is_late=read.read.late
            )
            preconditions += before
            is_proven = is_proven and is_safe
        if not is_proven:
            checked.add(read.read.site)
    for division in found.divisions:
        if not is_empty(space) and not _is_nonzero(context.known, division, space):
            checked.add(division.node.site)
    return CheckedAccesses(tuple(dict.fromkeys(preconditions)), frozenset(checked), frozenset(axes))


def _precondition(context: ShapingContext, access: SubscriptAccess) -> Precondition:
    return Precondition(context.statement.name, access.text, span=access.span)


def _check_access(
    context: ShapingContext,
    rounds: RangeFixpoint,
    access: SubscriptAccess,
    said: tuple[Comparison, ...],
    guards: tuple[Guard, ...],
    space: Box[str],
    *,
    is_late: bool = False,
) -> tuple[list[Precondition], bool]:
    """The preconditions of a subscript, and whether nothing is left to check at run time."""
    known, has_no_points = context.known, is_empty(space)
    is_used = access.number in rounds.used
    if context.extent(access) is None:  # of a target whose shape is left out of account
        return [], True
    if is_used and (access.is_bare or has_no_points):
        return [], True
    form = linear_form(access.subscript, known, exact=True)
    if is_used and form is not None:
        return [], True
    exact = form is not None or is_exact(access.subscript, known, space)
    if (is_used and exact) or _is_guarded(context, access, said, space):
        return [], True
    if form is not None and _ends_stay(context, access, rounds):
        return [], True
    usable = tuple(g for g in guards if is_usable(g, known, space))
    preconditions = []
    if exact and len(usable) == len(guards) and not is_late and not is_used:
        preconditions.append(_precondition(context, access))
        if has_no_points or _check(context, access, usable, space):
            return preconditions, True
    return preconditions, has_no_points or _is_proven(context, access, exact, usable, space)


def _ends_stay(context: ShapingContext, access: SubscriptAccess, rounds: RangeFixpoint) -> bool:
    """Whether an access in dependent variables is in bounds at the ends of their ranges (W2)."""
    known, extent = context.known, context.extent(access)
    if extent is None or not dependent(context.statement).keys() & set(access.variables):
        return False
    values = []
    for side in (LOW, HIGH):
        subscript = ends_of(access.subscript, context.statement, side)
        form = None if subscript is None else linear_form(subscript, known, exact=True)
        if form is None:
            return False
        box = affine.box_of(rounds.ranges, tuple(form.terms))
        if is_empty(box):
            return True
        values.append(form.interval(box)[side == HIGH])
    return values[0] >= 0 and values[1] < extent


def is_exact(expr: Expr, known: KnownSizes, space: Box[str]) -> bool:
    """Whether an expression is affine and computed as mathematics has it: nothing wraps."""
    if linear_form(expr, known, exact=True) is not None:
        return True
    if not affine.is_affine(expr, known):
        return False
    return is_empty(space) or interval_of(expr, known, space).clean


def is_usable(guard: Guard, known: KnownSizes, space: Box[str]) -> bool:
    """Whether a guard is an affine condition, computed without wrapping."""
    condition, _ = guard
    if not affine.is_affine_condition(condition, known):
        return False
    return is_empty(space) or interval_of(condition, known, space).clean


def _check(
    context: ShapingContext,
    access: SubscriptAccess,
    guards: tuple[Guard, ...],
    space: Box[str],
) -> bool:
    """Whether an affine access was decided; raises LeavesTensor where it leaves its tensor."""
    extent, known = context.extent(access), context.known
    assert extent is not None
    if _stays_in_box(access.subscript, known, space, extent):
        return True
    try:
        point = affine.first_outside(access.subscript, extent, known, tuple(space), space, guards)
    except sets.TooComplex:
        return False
    if point is None:
        return True
    raise LeavesTensor(access, point, bool(guards))


def _is_proven(
    context: ShapingContext,
    access: SubscriptAccess,
    exact: bool,
    guards: tuple[Guard, ...],
    space: Box[str],
) -> bool:
    """Whether a read that needs no precondition stays in bounds all the same."""
    known, extent = context.known, context.extent(access)
    assert extent is not None
    if interval_of(access.subscript, known, space).within(0, extent):
        return True
    if not exact:
        return False
    if not guards and linear_form(access.subscript, known) is not None:
        return _stays_in_box(access.subscript, known, space, extent)
    try:
        point = affine.first_outside(access.subscript, extent, known, tuple(space), space, guards)
        return point is None
    except sets.TooComplex:
        return False


def _stays_in_box(subscript: Expr, known: KnownSizes, space: Box[str], extent: int) -> bool:
    form = linear_form(subscript, known)
    if form is None:
        return interval_of(subscript, known, space).within(0, extent)
    low, high = form.interval(space)
    return low >= 0 and high < extent


def _is_guarded(
    context: ShapingContext,
    access: SubscriptAccess,
    said: tuple[Comparison, ...],
    space: Box[str],
) -> bool:
    """Whether guards that compare the subscript itself keep it in bounds (`pad`, G9)."""
    known, extent = context.known, context.extent(access)
    if extent is None or not said or is_empty(space):
        return False
    found = interval_of(access.subscript, known, space)
    low, high = found.low, found.high
    for op, value in _with_constants(said, known):
        match op:
            case "<" | "<=":
                high = min(high, value - (op == "<"))
            case ">" | ">=":
                low = max(low, value + (op == ">"))
            case "==":
                low, high = max(low, value), min(high, value)
    return low >= 0 and high < extent


def _with_constants(said: tuple[Comparison, ...], known: KnownSizes) -> Iterator[tuple[str, int]]:
    """The comparisons with what is a constant at these sizes."""
    for op, other in said:
        constant = evaluate(other, known)
        if constant is not None:
            yield op, constant


def _is_nonzero(known: KnownSizes, division: Division, space: Box[str]) -> bool:
    """Whether a divisor is nonzero wherever its guards let it be used."""
    divisor = division.node.right
    interval = interval_of(divisor, known, space)
    if interval.low > 0 or interval.high < 0:
        return True
    for op, value in _with_constants(division.comparisons, known):
        if (op == "!=" and value == 0) or (op == ">" and value >= 0) or (op == "<" and value <= 0):
            return True
    if not is_exact(divisor, known, space):
        return False
    usable = tuple(g for g in division.guards if is_usable(g, known, space))
    try:
        with sets.bounded():
            room, function = affine.function_on(divisor, known, tuple(space), space)
            zero = sets.compare("==", function, room.constant(0))
            zero = zero.intersect(affine.points_of_guards(usable, known, room))
            return sets.point(zero, room) is None
    except sets.TooComplex:
        return False
