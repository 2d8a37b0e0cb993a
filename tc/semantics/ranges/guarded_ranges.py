"""The ranges that a statement would have if reads counted only where they are made.

Range inference uses the reads of both branches of `?:` wherever they stand (Y6). A read behind a
condition that decides the range, as in `i < N-1 ? x(i+1) : 0`, then cuts the range for the sake of
points where it is not made. What is found here is what warnings and repairs offer as a `where`.

    wider_ranges = rounds as of G2, in which a guarded read bounds a variable by the first value
                   with which it is made and leaves its tensor, whatever the variables that are
                   still open; then the ranges as clauses, with which all reads that are made stay
                   in bounds
"""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from tc import sets
from tc.affine.intervals import is_empty
from tc.semantics import affine
from tc.semantics import program as p
from tc.semantics.affine import Guard, linear_form
from tc.semantics.ranges.accesses import SubscriptAccess
from tc.semantics.ranges.preconditions import LeavesTensor, check_accesses, is_usable
from tc.semantics.ranges.rounds import (
    Bound,
    NoRange,
    RangeFixpoint,
    ShapingContext,
    bounds_of_round,
    resolve,
    where_ranges,
)
from tc.semantics.ranges.symbolic import bounds_inside, in_symbols
from tc.semantics.size_values import MAX_OFFSET, evaluate

_ANY = 2**31
"""Where an index variable without a range is taken to end when conditions are judged."""

_MOST_STARTS = 64
"""How many values from 0 are tried as the first of a range."""


@dataclass(frozen=True, slots=True)
class WrittenRange:
    """A range that a `where` may give to a variable."""

    variable: str
    range: p.Range


@dataclass(frozen=True, slots=True)
class MadeBound:
    """A guarded access that bounds a variable, beside what it says wherever it stands.

    `made_end` is the first value of the variable with which the read is made and leaves its
    tensor, None where there is none.
    """

    strict: Bound
    guards: tuple[Guard, ...]
    made_end: int | None

    @property
    def access(self) -> SubscriptAccess:
        return self.strict.access


def usable_guards(context: ShapingContext) -> dict[int, tuple[Guard, ...]]:
    """The affine conditions on index variables behind which reads stand, by the numbers of their
    accesses. A bare read inside of pad counts wherever it stands (G9)."""
    found: dict[int, tuple[Guard, ...]] = {}
    known = context.known
    for read in context.accesses.reads:
        if read.read.bare_only or not read.guards or not read.accesses:
            continue
        guards = []
        for condition, value in read.guards:
            names = p.index_names(condition)
            box = dict.fromkeys(names, (0, _ANY - 1))
            if names and is_usable((condition, value), known, box):
                guards.append((condition, value))
        if guards:
            found.update((access.number, tuple(guards)) for access in read.accesses)
    return found


def wider_ranges(context: ShapingContext) -> tuple[WrittenRange, ...]:
    """The ranges of as few variables as give a statement the ranges that it would have if reads
    counted only where they are made; where these are none, if that were so for those variables
    alone that have no range otherwise. Empty where there are none such either."""
    guards = usable_guards(context) if context.statement.is_plain else {}
    if not guards or not context.accesses.tensors <= context.known.shapes.keys():
        return ()
    return _written(context, guards, False) or _written(context, guards, True)


def _written(
    context: ShapingContext, guards: Mapping[int, tuple[Guard, ...]], only_for_want: bool
) -> tuple[WrittenRange, ...]:
    try:
        return _checked(context, _resolve_as_made(context, guards, only_for_want))
    except NoRange:
        return ()


def _checked(context: ShapingContext, wide: Mapping[str, p.Range]) -> tuple[WrittenRange, ...]:
    """Ranges as those of as few variables as they follow from, none where a read that is made
    leaves its tensor."""
    chosen = _clauses(context, wide)
    try:
        rounds = resolve(context, _given(context, chosen))
        if any(name not in rounds.ranges for name in context.statement.variables):
            return ()
        check_accesses(_with_shape(context, rounds), rounds)
    except (NoRange, LeavesTensor):
        return ()
    return tuple(WrittenRange(name, found) for name, found in chosen.items())


def _with_shape(context: ShapingContext, rounds: RangeFixpoint) -> ShapingContext:
    """The context with the shape that the ranges give to the target, where it has none (G4)."""
    known, statement = context.known, context.statement
    if statement.target in known.shapes:
        return context
    shape = tuple(rounds.ranges[name].end for name in statement.outer)
    known = replace(known, shapes={**known.shapes, statement.target: shape})
    return replace(context, known=known)


def _clauses(context: ShapingContext, wide: Mapping[str, p.Range]) -> dict[str, p.Range]:
    """The ranges that do not follow from the other ranges."""
    chosen = dict(wide)
    for name in wide:
        fewer = {n: r for n, r in chosen.items() if n != name}
        try:
            found = resolve(context, _given(context, fewer)).ranges
        except NoRange:
            continue
        if all(n in found and found[n].end == r.end for n, r in wide.items()):
            chosen = fewer
    return chosen


def _given(context: ShapingContext, chosen: Mapping[str, p.Range]) -> RangeFixpoint:
    return RangeFixpoint({**where_ranges(context), **chosen})


def _resolve_as_made(
    context: ShapingContext, guards: Mapping[int, tuple[Guard, ...]], only_for_want: bool
) -> dict[str, p.Range]:
    """The ranges without those of the statement's own `where`, in the order of their rounds. A
    variable that cannot have one yet waits for others.

    Raises NoRange where there are none, or empty ones.
    """
    given = where_ranges(context)
    ranges = dict(given)
    found: dict[str, p.Range] = {}
    while len(ranges) < len(context.statement.variables):
        bounds = bounds_of_round(context, ranges)
        waiting = {clause.variable for clause in context.statement.where}
        bounds = {name: own for name, own in bounds.items() if name not in waiting}
        failed: NoRange | None = None
        count = len(found)
        for name in (n for n in context.statement.variables if n in bounds):
            has_range = not any(bound.problem for bound in bounds[name])
            usable = {} if only_for_want and has_range else guards
            try:
                found[name] = _chosen(context, name, bounds[name], usable, ranges)
            except NoRange as failure:  # perhaps for want of the range of another
                failed = failure
        if len(found) == count:
            raise failed or NoRange("", (), RangeFixpoint(ranges))
        ranges = {**given, **found}
    return found


def _chosen(
    context: ShapingContext,
    name: str,
    bounds: tuple[Bound, ...],
    guards: Mapping[int, tuple[Guard, ...]],
    ranges: Mapping[str, p.Range],
) -> p.Range:
    """The range of a variable: where accesses without a guard bound it, as far as they and the
    reads that are made allow; else as `_end_of_guarded` says."""
    plain = [b for b in bounds if b.access.number not in guards]
    made = [
        _as_made(context, b, name, guards[b.access.number], ranges)
        for b in bounds
        if b.access.number in guards
    ]
    ends = [m.made_end for m in made if m.made_end is not None]
    fails = any(b.problem for b in plain) or any(m.strict.problem and m.made_end == 0 for m in made)
    end: int | None = min([*(b.end for b in plain), *ends], default=None)
    if not plain:
        end = _end_of_guarded(context, name, made, end, ranges)
    if fails or not end or end > MAX_OFFSET:
        raise NoRange(name, bounds, RangeFixpoint(ranges))
    deciding = {m.access.number for m in made if m.made_end == end}
    deciding |= {b.access.number for b in plain if b.end == end}
    symbolic = _symbolic(context, name, bounds, deciding, end, ranges)
    number = context.symbols.number
    return p.Range(0, end, number(0), symbolic or number(end))


def _as_made(
    context: ShapingContext,
    bound: Bound,
    name: str,
    guards: tuple[Guard, ...],
    ranges: Mapping[str, p.Range],
) -> MadeBound:
    """The first value with which the read is made and leaves its tensor; variables that are still
    open may have any value from 0. Where isl gives up, the read counts wherever it stands."""
    if bound.access.others(name) and is_empty(affine.box_of(ranges, bound.access.others(name))):
        return MadeBound(bound, guards, bound.end)
    try:
        made = _Made(context, bound.access, name, guards, ranges)
        return MadeBound(bound, guards, made.first_outside())
    except sets.TooComplex:
        return MadeBound(bound, guards, bound.end)


class _Made:
    """The points where a guarded read is made, in the space of all variables that it or its guards
    mention."""

    def __init__(
        self,
        context: ShapingContext,
        access: SubscriptAccess,
        name: str,
        guards: tuple[Guard, ...],
        ranges: Mapping[str, p.Range],
    ) -> None:
        mentioned = {*access.variables, *(n for c, _ in guards for n in p.index_names(c))}
        names = tuple(n for n in context.statement.variables if n in mentioned)
        box: dict[str, tuple[int, int | None]] = {
            n: (ranges[n].begin, ranges[n].end - 1) if n in ranges and n != name else (0, None)
            for n in names
        }
        known, extent = context.known, context.extent(access)
        assert extent is not None
        self.name = name
        self.is_of_one = len(names) == 1
        with sets.bounded():
            self.space, self.subscript = affine.function_on(access.subscript, known, names, box)
            points = affine.points_of_guards(guards, known, self.space)
            self.points = points.intersect(self.space.box(box))
            self.subscript = self.subscript.intersect_domain(points)
            self.outside = sets.leaving(self.space, self.subscript, extent)

    def first_outside(self) -> int | None:
        with sets.bounded():
            return sets.smallest(self.outside, self.space, self.name)

    def first_run(self) -> tuple[int, int | None] | None:
        with sets.bounded():
            for begin in range(_MOST_STARTS):
                behind = self.space.box({self.name: (begin, None)})
                end = sets.smallest(self.outside.intersect(behind), self.space, self.name)
                if end is None or end > begin:
                    return begin, end
        return None

    def is_made_below(self, end: int) -> bool:
        with sets.bounded():
            first = sets.smallest(self.points, self.space, self.name)
        return first is not None and first < end

    def run(self) -> tuple[int, int] | None:
        """From the first value with which the read is made to behind the last, where it has one."""
        with sets.bounded():
            first = sets.smallest(self.points, self.space, self.name)
            if first is None:
                return None
            coordinate = self.space.variable(self.name)
            try:
                return first, sets.largest_value(self.points, coordinate) + 1
            except sets.TooComplex:
                return None


def run_where_made(
    context: ShapingContext,
    access: SubscriptAccess,
    name: str,
    guards: tuple[Guard, ...],
    ranges: Mapping[str, p.Range],
) -> tuple[int, int | None] | None:
    """The first run of values from 0 of a variable with which a read leaves its tensor nowhere that
    it is made; None as its end where nothing ends it, and in all where isl gives up."""
    try:
        made = _Made(context, access, name, guards, ranges)
        return made.first_run()
    except sets.TooComplex:
        return None


# --- a variable that guarded reads alone bound -------------------------------------------------


def _end_of_guarded(
    context: ShapingContext,
    name: str,
    made: list[MadeBound],
    end: int | None,
    ranges: Mapping[str, p.Range],
) -> int | None:
    """The end of a range that no access without a guard bounds, from that to which the reads that
    are made allow it (None: any).

    `i > 0 ? x(i-1) : 0` allows i = N, too, though a shift has the size of what it shifts: what one
    tensor alone bounds ends with that tensor, and what an index itself reads, with its extent,
    unless some read is then made nowhere (`i < N ? a(i) : b(i-N)`).
    """
    plain = [m.strict.end for m in made if not m.strict.problem]
    least = min(plain) if len(plain) == len(made) else 0
    extents = [e for m in made if (e := _extent_by_one(context, m.access, name)) is not None]
    if end is None:
        return max([*plain, *extents, *_ends_made(context, name, made, ranges)], default=None)
    caps = [m.strict.end for m in made if m.access.is_bare and m.made_end is not None]
    whole = extent_of_one_tensor(context, [m.access for m in made], name)
    if whole is not None:
        caps.append(whole)
    for cap in sorted(caps):
        if least <= cap < end and _all_made(context, name, made, cap, ranges):
            return cap
    return end


def extent_of_one_tensor(
    context: ShapingContext, accesses: Sequence[SubscriptAccess], name: str
) -> int | None:
    """The extent that all of some accesses walk through in steps of one element, if it is one
    dimension of one tensor."""
    extents = {_extent_by_one(context, access, name) for access in accesses}
    is_one = len({(access.tensor, access.axis) for access in accesses}) == 1
    return extents.pop() if is_one and len(extents) == 1 else None


def _extent_by_one(context: ShapingContext, access: SubscriptAccess, name: str) -> int | None:
    """The extent of what a subscript walks through in steps of one element."""
    form = linear_form(access.subscript, context.known)
    return context.extent(access) if form and form.terms.get(name) in (1, -1) else None


def _all_made(
    context: ShapingContext,
    name: str,
    made: list[MadeBound],
    end: int,
    ranges: Mapping[str, p.Range],
) -> bool:
    """Whether each of several reads is made somewhere below an end."""
    if len({id(m.access.read) for m in made}) == 1:
        return True
    try:
        return all(
            _Made(context, m.access, name, m.guards, ranges).is_made_below(end) for m in made
        )
    except sets.TooComplex:
        return False


def _ends_made(
    context: ShapingContext, name: str, made: list[MadeBound], ranges: Mapping[str, p.Range]
) -> Iterator[int]:
    """Where the values end with which reads are made that mention this variable alone. Where they
    are just those with which the read stays in its tensor, and others come before, as in
    `i > 0 && i <= N ? x(i-1) : 0`, as many others come behind."""
    for m in made:
        try:
            points = _Made(context, m.access, name, m.guards, ranges)
            run = points.run() if points.is_of_one else None
        except sets.TooComplex:
            continue
        if run is None:
            continue
        begin, end = run
        yield end
        form = linear_form(m.access.subscript, context.known)
        extent = context.extent(m.access)
        if form is None or form.terms.get(name) != 1 or extent is None:
            continue
        is_one = all(o.access.subscript == m.access.subscript for o in made)
        if is_one and (-form.constant, extent - form.constant) == run:
            yield end + begin


def _symbolic(
    context: ShapingContext,
    name: str,
    bounds: tuple[Bound, ...],
    deciding: Container[int],
    end: int,
    ranges: Mapping[str, p.Range],
) -> p.Expr | None:
    """The end as an expression of the sizes: what a deciding access allows, an extent, or what
    another access allows; where both sides are padded, with the offset once more."""
    symbols = context.symbols
    first, extents, texts, padded = list[p.Expr](), list[p.Expr](), list[p.Expr](), list[p.Expr]()
    for bound in sorted(bounds, key=lambda b: not b.access.is_bare):
        extents.append(context.symbolic_extent(bound.access))
        found = bounds_inside(bound.access.subscript, name, extents[-1], ranges, symbols)
        if found is not None:
            (first if bound.access.number in deciding else texts).append(found[1])
            padded.append(in_symbols(symbols.binary("+", found[1], found[0]), symbols))
    sums = (
        in_symbols(symbols.binary(op, text, symbols.number(by)), symbols)
        for by, text, op in itertools.product((1, 2), (*extents, *texts), "+-")
    )
    found_texts = itertools.chain(first, extents, texts, padded, sums)
    return next((t for t in found_texts if evaluate(t, context.known) == end), None)


# --- the warning --------------------------------------------------------------------------------


def cut_ranges(
    context: ShapingContext, ranges: Mapping[str, p.Range]
) -> Iterator[tuple[SubscriptAccess, tuple[Guard, ...], str, tuple[WrittenRange, ...]]]:
    """The guarded reads that cut the range of a variable for points where they are not made, each
    with its guards, the variable, and the ranges that do without."""
    guards = usable_guards(context) if context.statement.has_plain_places else {}
    suspects = {
        name: access
        for name, own in ranges.items()
        for access in context.accesses.all
        if access.number in guards and access.span in own.fixed_by and name in access.variables
        if not _is_bound_alike(context, name)
    }
    if not suspects:
        return
    wide = wider_ranges(context)
    told = {w.variable for w in wide if w.range.end > ranges[w.variable].end}
    for name, access in suspects.items():
        found = wide if name in told else _widened_alone(context, name, guards, ranges)
        if found:
            yield access, guards[access.number], name, found


def _widened_alone(
    context: ShapingContext,
    name: str,
    guards: Mapping[int, tuple[Guard, ...]],
    ranges: Mapping[str, p.Range],
) -> tuple[WrittenRange, ...]:
    """The range of one variable, if it is wider once those of all others are as they are: what is
    read may depend on variables that had no range yet when this one got its own."""
    others = {n: r for n, r in ranges.items() if n != name}
    if any(own.extent == 0 for own in ranges.values()):
        return ()
    try:
        bounds = bounds_of_round(context, others)[name]
        wide = _chosen(context, name, bounds, guards, others)
    except NoRange:
        return ()
    if wide.end <= ranges[name].end:
        return ()
    given = {clause.variable for clause in context.statement.where}
    free = {n: r for n, r in ranges.items() if n not in given}
    found = _checked(context, {**free, name: wide})
    return found if name in {w.variable for w in found} else ()


def _is_bound_alike(context: ShapingContext, name: str) -> bool:
    """Whether a variable stands alone in all its subscripts, of one extent: no range is wider."""
    own = [access for access in context.accesses.all if name in access.variables]
    return all(a.is_bare for a in own) and len({context.extent(a) for a in own}) == 1


def without_own_shape(context: ShapingContext) -> ShapingContext:
    """The context as it was before the statement fixed the shape of its target."""
    known = context.known
    shapes = {n: s for n, s in known.shapes.items() if n != context.statement.target}
    return replace(context, known=replace(known, shapes=shapes))
