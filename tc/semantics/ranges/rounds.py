"""Range inference of one statement in rounds (G1, G2, G5, G8).

In each round every subscript with exactly one unresolved variable bounds it, for all values of
the others; bounds of one round are intersected. Linear subscripts need only arithmetic; isl
decides the rest exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tc import sets
from tc.affine.forms import LinearForm
from tc.affine.intervals import Box, is_empty, minimum
from tc.errors import RangeError
from tc.extents.sizes import at_hint
from tc.semantics import affine
from tc.semantics import program as p
from tc.semantics.dependent_ranges import LOW, dependent, hull
from tc.semantics.ranges.accesses import Accesses, SubscriptAccess
from tc.semantics.ranges.symbolic import (
    Symbols,
    bounds_inside,
    ends_over,
    greatest_of,
    in_symbols,
    least,
    to_text,
)
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
        """The extent below which an access must stay; None where the shape is not known. A size
        clause says that of a target (S4)."""
        found = self.known.extent(access.tensor, access.axis)
        clause = self.clause(access) if found is None else None
        return found if clause is None else evaluate(clause.value, self.known)

    def clause(self, access: SubscriptAccess) -> p.SizeClause | None:
        own = (c for c in self.statement.sizes if access.read is None and c.axis == access.axis)
        return next((clause for clause in own if clause.target == access.tensor), None)

    def symbolic_extent(self, access: SubscriptAccess) -> p.Expr:
        if access.tensor not in self.known.shapes and (clause := self.clause(access)):
            return clause.value
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
    given = {clause.variable for clause in statement.where if clause.kind != p.DATA}
    while len(rounds.ranges) < len(statement.variables):
        bounds = bounds_of_round(context, rounds.ranges)
        bounds = {name: found for name, found in bounds.items() if name not in given}
        if not bounds:
            break
        rounds = _intersect(context, rounds, bounds)
        rounds = replace(rounds, ranges=_with_hulls(context, rounds.ranges))
    return rounds


def where_ranges(
    context: ShapingContext, start: Mapping[str, p.Range] | None = None
) -> dict[str, p.Range]:
    """The ranges of `start`, and of the statement's `where` as far as their bounds are known."""
    ranges = dict(start or {})
    for clause in context.statement.where:
        if clause.variable not in ranges and clause.kind == p.SIZES:
            found = _where_range(context, clause)
            if found is not None:
                ranges[clause.variable] = found
    return _with_hulls(context, ranges)


def _with_hulls(context: ShapingContext, ranges: Mapping[str, p.Range]) -> dict[str, p.Range]:
    """The ranges, with the hulls of those that depend on variables which have one (W2)."""
    found = dict(ranges)
    for name, clause in dependent(context.statement).items():
        if name not in found and all(other in found for other in clause.depends_on):
            found[name] = _hull(context, clause, found)
    return found


def _hull(context: ShapingContext, clause: p.WhereRange, ranges: Mapping[str, p.Range]) -> p.Range:
    known, name = context.known, clause.variable
    for bound in (clause.begin, clause.end):
        if not affine.is_affine(bound, known):
            why = why_unknown(bound, known)
            if affine.has_too_many_pieces(bound, known):
                why = f"it has more than {affine.MAX_PIECES} of / % min max ?: and conditions"
            raise RangeError(
                f"the bound '{bound.span.line}' of '{name}' is not affine at these sizes: {why}",
                rule="W2",
                span=clause.span,
                repair="write bounds that are sums of index variables and sizes, the former "
                "times constants",
            )
    try:
        begin, end = hull(clause, context.statement, ranges, known) or (0, 0)
    except sets.TooComplex:
        raise RangeError(
            f"the range of '{name}' is too complex to tell where it begins and ends",
            rule="W2",
            span=clause.span,
            repair=f"where {name} in 0:N, of the whole range, with a condition",
        ) from None
    _check_ends(context, clause, begin, end)
    ends = ends_over(clause.begin, clause.end, ranges, context.symbols) or (None, None)
    first, last = (
        each if each is not None and evaluate(each, known) == value else None
        for each, value in zip(ends, (begin, end), strict=True)
    )
    return p.Range(begin, end, first, last, (clause.span,), 0)


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
        told = (_lesser_size(context, name, found), _lost(context, found, ranges, name))
        warnings += [warning for warning in told if warning is not None]
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
    if access.side:
        if form is not None:
            return _bound_of_side(access, form, variable, extent, box)
        if not affine.is_affine(access.subscript, known):
            return None
        try:
            return _exact_bound_of_side(access, variable, known, extent, box)
        except sets.TooComplex:
            return None
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


def _bound_of_side(
    access: SubscriptAccess, form: LinearForm, variable: str, extent: int, box: Box[str]
) -> Bound | None:
    """The bound by an end of a dependent range: the least subscript is not below 0, the greatest
    below the extent (W2)."""
    low, high = form.without(variable).interval(box)
    factor = form.terms.get(variable, 0)
    if access.side == LOW:
        if low < 0:
            return Bound(access, 0, INFEASIBLE)
        return Bound(access, low // -factor + 1) if factor < 0 else None
    if factor > 0:
        if high > extent:
            return Bound(access, 0, NEGATIVE)
        return Bound(access, (extent - 1 - high) // factor + 1)
    if high < extent:
        return None
    if high > extent:
        return Bound(access, 0, NEGATIVE)
    return Bound(access, 0, INFEASIBLE if factor < 0 and extent else "")


def _exact_bound_of_side(
    access: SubscriptAccess, variable: str, known: KnownSizes, extent: int, box: Box[str]
) -> Bound | None:
    rising = {**box, variable: (0, None)}
    with sets.bounded():
        space, subscript = affine.function_on(access.subscript, known, access.variables, rising)
        limit = space.constant(0 if access.side == LOW else extent)
        beyond = sets.compare("<" if access.side == LOW else ">=", subscript, limit)
        end = sets.smallest(beyond, space, variable)
        if end is None or end > 0:
            return None if end is None else Bound(access, end)
        if access.side == LOW:
            return Bound(access, 0, INFEASIBLE)
        first = space.fix(space.everything(), variable, 0)
        high = sets.largest_value(first, subscript)
    if high > extent:
        return Bound(access, 0, NEGATIVE)
    falls = extent > 0 and _falls(access, variable, known, box)
    return Bound(access, 0, INFEASIBLE if falls else "")


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
    _check_ends(context, clause, begin, end)
    symbols = context.symbols.at(clause.span)

    def simplified(bound: p.Expr, value: int) -> p.Expr:
        found = in_symbols(bound, symbols)
        return found if found is bound or evaluate(found, known) == value else bound

    first, last = simplified(clause.begin, begin), simplified(clause.end, end)
    return p.Range(begin, end, first, last, (clause.span,), 0)


def _check_ends(context: ShapingContext, clause: p.WhereRange, begin: int, end: int) -> None:
    """Raise for a range that leads out of every tensor."""
    name = clause.variable
    bare = (s.name for s in context.statement.subscripts if isinstance(s, p.Index))
    if begin < 0 and name in bare:
        raise RangeError(
            f"'{name}' is on the left side, and its range {begin}:{end} starts below 0, where "
            f"{context.statement.target} has no elements",
            rule="G8",
            span=clause.span,
            repair=f"let '{name}' start at 0, and write {name} - {-begin} for {name} on the right",
        )
    if end > MAX_OFFSET or begin < -MAX_OFFSET:
        raise RangeError(
            f"the range of '{name}' is {begin}:{end}, beyond 2**62",
            rule="G8",
            span=clause.span,
            repair="write bounds below 2**62",
        )


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
    """The warning that two bare subscripts of one variable have different extents (G2). A size that
    the statement itself says is meant to be larger."""
    bare = [b for b in bounds if b.access.is_bare and not b.access.is_made]
    bare = [b for b in bare if context.clause(b.access) is None]
    if len({b.end for b in bare}) < 2:
        return None
    inner = {b.access.tensor: b.end for b in bounds if not b.access.is_bare and not b.problem}
    ends = {min(b.end, inner.get(b.access.tensor, b.end)) for b in bare}
    if len(ends) < 2:  # `row(r)` beside `row(r+1)`, where others have one element less
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


def _lost(
    context: ShapingContext, bounds: tuple[Bound, ...], ranges: Mapping[str, p.Range], name: str
) -> p.ProgramWarning | None:
    """The warning that a place of this statement ends the range of a variable before what is read
    does, as another statement that writes less has fixed the shape (G1, G3, S1)."""
    statement = context.statement
    places = [b for b in bounds if b.access.read is None and not b.access.side]
    others = [b for b in bounds if b not in places and b.access.is_bare]
    if statement.op != "=" or not places or places[0].access.is_bare or not others:
        return None
    place, read = (min(some, key=lambda b: b.end) for some in (places, others))
    tensor, axis = place.access.tensor, place.access.axis
    fixed = context.fixed_by.get(tensor)
    if place.end >= read.end or fixed is None or fixed == statement.span:
        return None
    if context.tensors[tensor].shape is not None:
        return None
    symbols = context.symbols
    end = context.symbolic_extent(read.access)
    whole = {**ranges, name: p.Range(0, read.end, symbols.number(0), end, (), 0)}
    last = greatest_of(place.access.subscript, whole, symbols)
    size = None if last is None else symbols.binary("+", last, symbols.number(1))
    needed = "..." if size is None else to_text(in_symbols(size, symbols))
    length = context.extent(place.access)
    lost = f"{place.end}" if read.end - place.end == 1 else f"{place.end} to {read.end - 1}"
    return p.ProgramWarning(
        "G2",
        f"nothing is written for {name} = {lost}: '{read.access.text}' has {read.end} elements in "
        f"dimension {read.access.axis}, and '{place.access.text}' must be below {length}, which is "
        f"the size of dimension {axis} of {tensor} by '{fixed.line}'",
        span=place.access.span,
        repair=f"say the size in '{fixed.line}': where {tensor}.{axis} = {needed}",
    )


def _one_size(access: SubscriptAccess, variable: str, end: int) -> str:
    """What makes the sizes one. Where the lesser is 1, other languages repeat its element along
    the other, and here the text says so."""
    if end == 1 and access.at_zero is not None:
        return f"{access.at_zero} for {access.text}, which takes that element for all '{variable}'"
    return f"declare both with one size, or add: where {variable} in 0:{end}"
