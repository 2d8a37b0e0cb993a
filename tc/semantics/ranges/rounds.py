"""Range inference of one statement in rounds (G1, G2, G5, G8).

In each round every subscript with exactly one unresolved variable bounds it, for all values of
the others; bounds of one round are intersected. Linear subscripts need only arithmetic; isl
decides the rest exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tc import sets
from tc.affine.forms import LinearForm
from tc.affine.intervals import Box, is_empty, minimum
from tc.errors import RangeError
from tc.extents.sizes import at_hint
from tc.semantics import affine
from tc.semantics import program as p
from tc.semantics.ranges.accesses import Accesses, SubscriptAccess
from tc.semantics.ranges.symbolic import Symbols, bounds_inside, in_symbols, least, to_text
from tc.semantics.size_values import MAX_OFFSET, KnownSizes, evaluate, why_unknown
from tc.source import Span

INFEASIBLE = "infeasible"
NEGATIVE = "negative"


@dataclass(frozen=True, slots=True)
class ShapingContext:
    """A statement whose ranges are sought, and the shapes, sizes and symbols known around it.

    `fixed_by` tells for each tensor which statement or declaration fixed its shape.
    """

    statement: p.Statement
    accesses: Accesses
    known: KnownSizes
    symbols: Symbols
    fixed_by: Mapping[str, Span]
    tensors: Mapping[str, p.Tensor]

    def extent(self, access: SubscriptAccess) -> int | None:
        """The extent below which an access must stay; None where the shape is not known."""
        return self.known.extent(access.tensor, access.axis)

    def symbolic_extent(self, access: SubscriptAccess) -> p.Expr:
        return self.symbols.extent(access.tensor, access.axis)


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound that one subscript gives to a variable: the variable must stay below `end`.

    `problem` is INFEASIBLE where 0 itself is out of bounds, NEGATIVE where the range would have a
    size below 0 (G5).
    """

    access: SubscriptAccess
    end: int
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RangeFixpoint:
    """The ranges resolved so far, the numbers of the accesses that bounded them, and warnings."""

    ranges: Mapping[str, p.Range]
    used: frozenset[int] = frozenset()
    warnings: tuple[p.ProgramWarning, ...] = ()
    count: int = 0


class NoRange(Exception):
    """A variable cannot have a range; `tc.semantics.ranges.range_errors` says it in words."""

    def __init__(self, variable: str, bounds: tuple[Bound, ...], rounds: RangeFixpoint) -> None:
        super().__init__(variable)
        self.variable = variable
        self.bounds = bounds
        self.rounds = rounds


def resolve(context: ShapingContext, start: RangeFixpoint | None = None) -> RangeFixpoint:
    """As many ranges as follow from what is known; those of `start` stay.

    Raises NoRange where a range is impossible, whatever else becomes known, and RangeError where
    it is because of a where clause.
    """
    statement = context.statement
    rounds = start or RangeFixpoint({})
    if statement.where:
        ranges = where_ranges(context, rounds.ranges)
        rounds = RangeFixpoint(ranges, rounds.used, rounds.warnings, rounds.count)
    given = {clause.variable for clause in statement.where}
    while len(rounds.ranges) < len(statement.variables):
        bounds = bounds_of_round(context, rounds.ranges)
        bounds = {name: found for name, found in bounds.items() if name not in given}
        if not bounds:
            break
        rounds = _intersect(context, rounds, bounds)
    return rounds


def where_ranges(
    context: ShapingContext, start: Mapping[str, p.Range] | None = None
) -> dict[str, p.Range]:
    """The ranges of `start`, and of the statement's `where` as far as their bounds are known."""
    ranges = dict(start or {})
    for clause in context.statement.where:
        if clause.variable not in ranges:
            found = _where_range(context, clause)
            if found is not None:
                ranges[clause.variable] = found
    return ranges


def bounds_of_round(
    context: ShapingContext, ranges: Mapping[str, p.Range]
) -> dict[str, tuple[Bound, ...]]:
    """What the subscripts with one open variable say of it, by variable."""
    bounds: dict[str, tuple[Bound, ...]] = {}
    for access in context.accesses.all:
        free = [name for name in access.variables if name not in ranges]
        if len(free) == 1 and free[0] in access.boundable and access.constrains:
            bound = _bound_of(access, free[0], context, ranges)
            if bound is not None:
                bounds[free[0]] = (*bounds.get(free[0], ()), bound)
    return bounds


def _intersect(
    context: ShapingContext, rounds: RangeFixpoint, bounds: Mapping[str, tuple[Bound, ...]]
) -> RangeFixpoint:
    number = rounds.count + 1
    ranges = dict(rounds.ranges)
    warnings = list(rounds.warnings)
    for name in context.statement.variables:
        if name not in bounds:
            continue
        found = bounds[name]
        end = minimum(*(b.end for b in found))
        if end > MAX_OFFSET or any(b.problem for b in found):
            raise NoRange(name, found, rounds)
        ranges[name] = p.Range(
            0,
            end,
            context.symbols.number(0),
            _symbolic_end(context, name, found, end, rounds.ranges),
            tuple(dict.fromkeys(b.access.span for b in found if at_hint(b.end) == at_hint(end))),
            number,
        )
        warning = _lesser_size(context, name, found)
        if warning is not None:
            warnings.append(warning)
    used = rounds.used | {b.access.number for found in bounds.values() for b in found}
    return RangeFixpoint(ranges, used, tuple(warnings), number)


# --- one subscript ----------------------------------------------------------------------------


def _bound_of(
    access: SubscriptAccess, variable: str, context: ShapingContext, ranges: Mapping[str, p.Range]
) -> Bound | None:
    """How a subscript bounds its one unresolved variable, None where it does not.

    It does not where the tensor's shape is unknown, the subscript is not affine or too complex,
    another variable in it has an empty range, or no value of the variable leads out of bounds.
    """
    known, extent = context.known, context.extent(access)
    if extent is None:
        return None
    if access.is_bare:
        return Bound(access, extent)
    box = affine.box_of(ranges, access.others(variable))
    if is_empty(box):
        return None
    form = affine.linear_form(access.subscript, known)
    if form is not None:
        return _linear_bound(access, form, variable, extent, box)
    if not affine.is_affine(access.subscript, known):
        return None
    try:
        return _exact_bound(access, variable, known, extent, box)
    except sets.TooComplex:
        return None


def _linear_bound(
    access: SubscriptAccess, form: LinearForm, variable: str, extent: int, box: Box[str]
) -> Bound | None:
    low, high = form.without(variable).interval(box)
    factor = form.terms.get(variable, 0)
    if factor < 0:
        if extent == 0:
            return Bound(access, 0)
        if low < 0 or high >= extent:
            return Bound(access, 0, INFEASIBLE)
        return Bound(access, low // -factor + 1)
    if low < 0:
        return Bound(access, 0, INFEASIBLE)
    if high > extent:
        return Bound(access, 0, NEGATIVE)
    if factor == 0:
        return Bound(access, 0) if high == extent else None
    return Bound(access, (extent - 1 - high) // factor + 1)


def _exact_bound(
    access: SubscriptAccess, variable: str, known: KnownSizes, extent: int, box: Box[str]
) -> Bound | None:
    rising = {**box, variable: (0, None)}
    with sets.bounded():
        space, subscript = affine.function_on(access.subscript, known, access.variables, rising)
        end = sets.smallest(sets.leaving(space, subscript, extent), space, variable)
        if end is None or end > 0:
            return None if end is None else Bound(access, end)
        first = space.fix(space.everything(), variable, 0)
        if sets.smallest_value(first, subscript) < 0:
            return Bound(access, 0, INFEASIBLE)
        high = sets.largest_value(first, subscript)
    try:
        falls = _falls(access, variable, known, box)
    except sets.TooComplex:
        falls = True
    if falls:
        return Bound(access, 0, INFEASIBLE)
    return Bound(access, 0, NEGATIVE if high > extent else "")


def _falls(access: SubscriptAccess, variable: str, known: KnownSizes, box: Box[str]) -> bool:
    """Whether the subscript ever falls as the variable grows by 1."""
    rising = {**box, variable: (0, None)}
    with sets.bounded():
        space, before = affine.function_on(access.subscript, known, access.variables, rising)
        values = {name: space.variable(name) for name in access.variables}
        values[variable] = sets.add(values[variable], space.constant(1))
        after = affine.function_of(access.subscript, known, space, values)
        falls = sets.compare("<", after, before)
        return sets.smallest(falls, space, variable) is not None


# --- where clauses, expressions, warnings -----------------------------------------------------


def _where_range(context: ShapingContext, clause: p.WhereRange) -> p.Range | None:
    """The range of a where clause (G8), None where it waits for a shape."""
    known, name = context.known, clause.variable

    def refused(cause: str, repair: str, rule: str = "G8") -> RangeError:
        return RangeError(cause, rule=rule, span=clause.span, repair=repair)

    begin, end = evaluate(clause.begin, known), evaluate(clause.end, known)
    if begin is None or end is None:
        if _waits(clause.begin, known) or _waits(clause.end, known):
            return None
        why = why_unknown(clause.begin if begin is None else clause.end, known)
        raise refused(
            f"a bound of '{name}' has no value: {why}",
            "write bounds that have a value at these sizes",
        )
    if end < begin:
        raise refused(
            f"the range of '{name}' is {begin}:{end}, a size below 0",
            "write the lesser bound first; for a falling index, T(N - 1 - i) reads from the end",
            "G5",
        )
    if begin < 0 and name in context.statement.outer:
        raise refused(
            f"'{name}' is on the left side, and its range {begin}:{end} starts below 0, where "
            f"{context.statement.target} has no elements",
            f"let '{name}' start at 0, and write {name} - {-begin} for {name} on the right",
        )
    if end > MAX_OFFSET or begin < -MAX_OFFSET:
        raise refused(
            f"the range of '{name}' is {begin}:{end}, beyond 2**62", "write bounds below 2**62"
        )
    symbols = context.symbols.at(clause.span)

    def simplified(bound: p.Expr, value: int) -> p.Expr:
        found = in_symbols(bound, symbols)
        return found if found is bound or evaluate(found, known) == value else bound

    first, last = simplified(clause.begin, begin), simplified(clause.end, end)
    return p.Range(begin, end, first, last, (clause.span,), 0)


def _waits(expr: p.Expr, known: KnownSizes) -> bool:
    return any(
        isinstance(n, p.Size | p.Extent) and evaluate(n, known) is None for n in p.walk(expr)
    )


def _symbolic_end(
    context: ShapingContext,
    variable: str,
    bounds: tuple[Bound, ...],
    end: int,
    ranges: Mapping[str, p.Range],
) -> p.Expr | None:
    symbols = context.symbols
    ends: list[p.Expr] = []
    for bound in bounds:
        extent = context.symbolic_extent(bound.access)
        if bound.access.is_bare:
            ends.append(extent)
            continue
        found = bounds_inside(bound.access.subscript, variable, extent, ranges, symbols)
        if found is None:
            return None
        ends.append(found[1])
    symbolic = least(ends, symbols)
    return symbolic if evaluate(symbolic, context.known) == end else None


def _lesser_size(
    context: ShapingContext, variable: str, bounds: tuple[Bound, ...]
) -> p.ProgramWarning | None:
    """The warning that two bare subscripts of one variable have different extents (G2)."""
    bare = [b for b in bounds if b.access.is_bare and not b.access.is_made]
    if len({b.end for b in bare}) < 2:
        return None
    lesser = min(bare, key=lambda b: b.end)
    other = next(b for b in bare if b.end != lesser.end)
    end = min(b.end for b in bounds)

    def described(bound: Bound) -> str:
        text = to_text(context.symbolic_extent(bound.access))
        size = text if text == str(bound.end) else f"{text} = {bound.end}"
        return f"'{bound.access.text}', of size {size} in dimension {bound.access.axis}"

    return p.ProgramWarning(
        "G2",
        f"'{variable}' indexes {described(lesser)}, and {described(other)}: its range is 0:{end}",
        span=other.access.span,
        repair=_one_size(lesser.access, variable, end),
    )


def _one_size(access: SubscriptAccess, variable: str, end: int) -> str:
    """What makes the sizes one. Where the lesser is 1, other languages repeat its element along
    the other, and here the text says so."""
    if end == 1 and access.at_zero is not None:
        return f"{access.at_zero} for {access.text}, which takes that element for all '{variable}'"
    return f"declare both with one size, or add: where {variable} in 0:{end}"
