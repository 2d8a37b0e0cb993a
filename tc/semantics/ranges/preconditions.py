"""Which accesses are proven in bounds, which fail, and which only running shows (G6, G7).

An affine access that took no part in a round must stay in bounds over the iteration space, as far
as its guards let it happen (Y6): that is a precondition, decided here exactly. What depends on data
is proven by interval arithmetic or by a guard that says the same, or else checked at run time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tc import sets
from tc.affine.intervals import Box, is_empty
from tc.semantics import affine
from tc.semantics.affine import Guard, linear_form
from tc.semantics.program import Expr, Precondition
from tc.semantics.ranges.accesses import Comparison, Division, GuardedRead, SubscriptAccess
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


def check_accesses(
    context: ShapingContext, rounds: RangeFixpoint
) -> tuple[tuple[Precondition, ...], frozenset[int]]:
    """The preconditions of a statement, and the sites to check at run time.

    Raises LeavesTensor where a precondition fails.
    """
    statement, found = context.statement, context.accesses
    space = affine.box_of(rounds.ranges, statement.variables)
    preconditions = []
    written = affine.box_of(rounds.ranges, statement.outer) if statement.init else space
    for access in found.written:
        if access.number not in rounds.used:
            preconditions.append(_precondition(context, access))
            if not is_empty(written):
                _check(context, access, (), written)
    checked = set()
    for read in found.reads:
        before, is_proven = _check_read(context, rounds, read, space)
        preconditions += before
        if not is_proven:
            checked.add(read.read.site)
    for division in found.divisions:
        if not is_empty(space) and not _is_nonzero(context.known, division, space):
            checked.add(division.node.site)
    return tuple(dict.fromkeys(preconditions)), frozenset(checked)


def _precondition(context: ShapingContext, access: SubscriptAccess) -> Precondition:
    return Precondition(context.statement.name, access.text, span=access.span)


def _check_read(
    context: ShapingContext, rounds: RangeFixpoint, read: GuardedRead, space: Box[str]
) -> tuple[list[Precondition], bool]:
    """The preconditions of a read, and whether nothing is left to check at run time."""
    known, has_no_points = context.known, is_empty(space)
    guards = read.guards
    preconditions = []
    is_proven = True
    for access, said in zip(read.accesses, read.comparisons, strict=True):
        is_used = access.number in rounds.used
        if is_used and (access.is_bare or has_no_points):
            continue
        form = linear_form(access.subscript, known, exact=True)
        if is_used and form is not None:
            continue
        exact = form is not None or is_exact(access.subscript, known, space)
        if (is_used and exact) or _is_guarded(access, said, known, space):
            continue
        usable = tuple(g for g in guards if is_usable(g, known, space))
        if exact and len(usable) == len(guards) and not read.read.late and not is_used:
            preconditions.append(_precondition(context, access))
            if has_no_points or _check(context, access, usable, space):
                continue
        if not has_no_points and not _is_proven(access, exact, usable, known, space):
            is_proven = False
    return preconditions, is_proven


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
    access: SubscriptAccess,
    exact: bool,
    guards: tuple[Guard, ...],
    known: KnownSizes,
    space: Box[str],
) -> bool:
    """Whether a read that needs no precondition stays in bounds all the same."""
    extent = known.extent(access.tensor, access.axis)
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
    access: SubscriptAccess, said: tuple[Comparison, ...], known: KnownSizes, space: Box[str]
) -> bool:
    """Whether guards that compare the subscript itself keep it in bounds (`pad`, G9)."""
    extent = known.extent(access.tensor, access.axis)
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
