"""The errors of range inference in words: the variable, the accesses, the numbers, a `where`."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping

from tc import sets
from tc.affine.intervals import Box
from tc.edits import Edit, within
from tc.errors import Notes, RangeError
from tc.semantics import affine
from tc.semantics.affine import Guard, linear_form
from tc.semantics.program import ProgramWarning, Range, index_names
from tc.semantics.ranges.accesses import SubscriptAccess
from tc.semantics.ranges.feasible_ranges import feasible_range, shrunk_range, widest_ranges
from tc.semantics.ranges.guarded_ranges import (
    WrittenRange,
    cut_ranges,
    usable_guards,
    wider_ranges,
)
from tc.semantics.ranges.preconditions import LeavesTensor
from tc.semantics.ranges.rounds import (
    NEGATIVE,
    Bound,
    NoRange,
    RangeFixpoint,
    ShapingContext,
    resolve,
)
from tc.semantics.ranges.symbolic import to_text
from tc.semantics.ranges.where_repairs import (
    behind_parameters,
    size_text,
    whole_shape,
    written_where,
)
from tc.semantics.size_values import evaluate
from tc.semantics.suggest import listed, number_written, one_line, respelled, unused

# --- a variable without a range (G5) ----------------------------------------------------------


def no_range(context: ShapingContext, failure: NoRange) -> RangeError:
    """A variable whose bounds leave it no range that starts at 0."""
    name, ranges = failure.variable, failure.rounds.ranges
    worst = next((b for b in failure.bounds if b.problem), failure.bounds[0])
    access, box = worst.access, affine.box_of(ranges, worst.access.others(name))
    notes = (
        *_least_bound(name, worst, failure.bounds),
        *shape_notes(context, (b.access for b in failure.bounds)),
    )
    error = functools.partial(RangeError, rule="G5", span=access.span, notes=notes)
    if not worst.problem:
        return error(
            f"'{access.text}' lets '{name}' run to {worst.end}, more than 2**62",
            repair="give it a range that ends before that",
        )
    below = worst.problem == NEGATIVE
    place = _place_outside(context, access, {**box, name: (0, 0)}, highest=below)
    starts = f"the range of '{name}' would have a size below 0" if below else (
        f"'{name}' cannot start at 0"
    )  # fmt: skip
    cause = f"{starts}: {place}"
    guards = usable_guards(context).get(access.number, ())
    if guards:
        cause += f"; {_held(guards)} where this is read, but conditions do not change ranges (Y6)"
    if wide := wider_ranges(context):
        where, edits = written_where(context, _texts(context, wide))
        return error(cause, repair=f"say which values '{name}' takes: {where}", edits=edits)
    shrunk = shrunk_range(context, access, name, box) if below else {}
    if shrunk:
        place = f"{access.tensor}.{access.axis}, which is {context.extent(access)}"
        where, edits = written_where(context, shrunk)
        repair = f"make {place}, as large as the offsets, or say which of them count: {where}"
        return error(cause, repair=repair, edits=edits)
    bounds = feasible_range(context, name, failure.bounds, ranges)
    if bounds is None:
        target = [b for b in failure.bounds if b.access.read is None]
        whole = whole_shape(context, ranges) if target else None
        if whole is not None:
            return error(f"{cause}, and '{target[0].access.text}' ends before", repair=whole[0],
                         edits=whole[1])  # fmt: skip
        return error(cause, idiom=_padded(access))
    where, edits = written_where(context, {name: bounds})
    if not below and _falls_from_the_size(context, access, name):
        size = _size(context, access)
        idiom = f"{size}-1-{name}, to read from the end; {where}, for what is written"
        return error(cause, idiom=idiom)
    return error(cause, repair=f"say which values '{name}' takes: {where}", edits=edits)


def _least_bound(name: str, worst: Bound, bounds: tuple[Bound, ...]) -> Notes:
    """The note on the other access that bounds the variable most."""
    others = [b for b in bounds if b is not worst and not b.problem]
    if not others:
        return ()
    least = min(others, key=lambda b: b.end)
    text = f"'{name}' is also bounded by '{least.access.text}', to 0:{least.end}"
    return ((least.access.span, text),)


def _padded(access: SubscriptAccess) -> str:
    return f"pad({access.text}, 0), for 0 where {access.tensor} has no element"


def _held(guards: tuple[Guard, ...]) -> str:
    """The conditions of a read in words: "'i > 0' holds and 'j > 0' does not hold".

    Each guard is a condition with the value that it has where the read is made.
    """
    parts = []
    for wanted, words in ((True, ("holds", "hold")), (False, ("does not hold", "do not hold"))):
        texts = list(dict.fromkeys(one_line(c.span) for c, value in guards if value is wanted))
        if texts:
            parts.append(f"{listed(texts)} {words[len(texts) > 1]}")
    return " and ".join(parts)


def _texts(context: ShapingContext, ranges: Iterable[WrittenRange]) -> dict[str, str]:
    """Ranges as the bounds of a `where`, by variable."""
    return {
        w.variable: f"0:{size_text(context, w.range.symbolic_end, w.range.end)}" for w in ranges
    }


def cut_warnings(context: ShapingContext, ranges: Mapping[str, Range]) -> Iterator[ProgramWarning]:
    """Reads that cut the range of a variable for the sake of points where they are not made."""
    for access, guards, name, wide in cut_ranges(context, ranges):
        of_name = tuple(g for g in guards if name in index_names(g[0]))
        longer = next(w.range for w in wide if w.variable == name)
        own = [WrittenRange(w.variable, ranges[w.variable]) for w in wide]
        where, _ = written_where(context, _texts(context, wide))
        kept, _ = written_where(context, _texts(context, own))
        yield ProgramWarning(
            "Y6",
            f"'{access.text}' is read only where {_held(of_name or guards)}, and yet cuts the "
            f"range of '{name}' from {longer} to {ranges[name]}, since ranges follow from the "
            f"reads of both branches; {kept} says that this is meant",
            span=access.span,
            repair=where,
        )


def _falls_from_the_size(context: ShapingContext, access: SubscriptAccess, name: str) -> bool:
    """Whether the subscript is the size less the variable, whose first value is one too many."""
    form = linear_form(access.subscript, context.known)
    start = context.extent(access)
    return form is not None and form.terms == {name: -1} and form.constant == start


def _size(context: ShapingContext, access: SubscriptAccess) -> str:
    return to_text(context.symbolic_extent(access), compact=True)


def unresolved(context: ShapingContext, rounds: RangeFixpoint) -> RangeError:
    """Variables that no access bounds (G5)."""
    statement = context.statement
    names = [v for v in statement.variables if v not in rounds.ranges]
    span = statement.variable_spans.get(names[0], statement.span)
    empty = _empty_that_leaves_open(context, rounds, names)
    nothing = f"no access mentions {'it' if len(names) == 1 else 'them'}"
    reasons = list(dict.fromkeys(_reasons(context, names)))[:4] or [nothing]
    kind = "range" if len(names) == 1 else "ranges"
    cause = empty or f"the {kind} of {listed(names)} cannot be inferred: {'; '.join(reasons)}"
    notes = shape_notes(context, context.accesses.all)
    error = functools.partial(RangeError, rule="G5", span=span, notes=notes)
    products = _products_of(context, names)
    if products:
        are = "are names" if len(products) > 1 else "is a name"
        return error(
            f"{cause}; {listed(list(products))} {are}, since names may begin with digits",
            edits=within(statement.span, respelled(statement.span, products)),
        )
    takes = "it takes" if len(names) == 1 else "they take"
    suggested = _suggested(context, rounds)
    if _is_of_caller(context, names):
        sizes = [unused(size, span) for size in ("N", "M", "K", "L", "P", "Q")[: len(names)]]
        suggested = {n: f"0:{size}" for n, size in zip(names, sizes, strict=False)}
        inputs = ", ".join(f"int {size}" for size in sizes)
        where, edits = written_where(context, suggested)
        repair = f"say which values {takes}: {inputs} as input, and {where}"
        return error(cause, repair=repair, edits=(*edits, *behind_parameters(span, inputs)))
    where, edits = written_where(context, suggested)
    repair = f"say which values {takes}, for example: {where}"
    return error(cause, repair=repair, example=edits)


def _is_of_caller(context: ShapingContext, names: list[str]) -> bool:
    """Whether open variables index nothing but an output that the caller passes."""
    statement = context.statement
    own = [a for a in context.accesses.all if set(a.variables) & set(names)]
    reads = any(a.read is not None for a in own) or statement.continues == "caller"
    return reads and all(a.tensor == statement.target for a in own)


def _products_of(context: ShapingContext, names: list[str]) -> dict[str, str]:
    """The reduction variables that were meant as products of open ones, `2i` of `i`."""
    statement = context.statement
    given = {clause.variable for clause in statement.where}
    spelled = {n: number_written(n, names) for n in statement.reduction if n not in given}
    return {name: text for name, text in spelled.items() if text}


def _reasons(context: ShapingContext, names: list[str]) -> Iterator[str]:
    """Why the subscripts that mention open variables do not bound them."""
    unknown: dict[str, str] = {}
    explained: set[str] = set()
    for access in context.accesses.all:
        free = [v for v in access.variables if v in names]
        if not free:
            continue
        if context.extent(access) is None:
            unknown[access.text] = access.tensor
            continue
        explained.update(free)
        yield _reason(context, access, free)
    if not explained.issuperset(names):
        for text, tensor in unknown.items():
            yield f"nothing fixes the shape of {tensor} in '{text}'"


def _reason(context: ShapingContext, access: SubscriptAccess, free: list[str]) -> str:
    subscript = f"subscript {access.axis} of '{access.text}'"
    if not access.constrains:
        return f"{subscript}, inside pad, is no bare variable (G9)"
    if affine.has_too_many_pieces(access.subscript, context.known):
        return (
            f"{subscript} has {affine.pieces(access.subscript)} of / % min max ?: and conditions, "
            f"and with more than {affine.MAX_PIECES} it does not count as affine (G7)"
        )
    if not affine.is_affine(access.subscript, context.known):
        return f"{subscript} is not affine (G7)"
    if len(free) > 1:
        return f"{subscript} leaves {' and '.join(free)} open"
    if free[0] not in access.boundable:
        return f"in {subscript} {free[0]} occurs only under %"
    return f"no value of {free[0]} leads out of bounds in {subscript}"


def _empty_that_leaves_open(
    context: ShapingContext, rounds: RangeFixpoint, names: list[str]
) -> str | None:
    for access in context.accesses.all:
        free = [v for v in access.variables if v in names]
        for name in access.variables:
            found = rounds.ranges.get(name)
            if free and found is not None and found.extent == 0:
                by = f" from '{found.fixed_by[0].line}'" if found.fixed_by else ""
                return (
                    f"'{name}' has the empty range {found}{by}, so that "
                    f"'{access.text}' does not bound '{free[0]}'"
                )
    return None


def _suggested(context: ShapingContext, rounds: RangeFixpoint) -> dict[str, str]:
    """Ranges for as few open variables as settle the statement, reduction variables first."""
    statement = context.statement
    clauses: dict[str, str] = {}
    for _ in statement.variables:
        names = [v for v in statement.variables if v not in rounds.ranges]
        if not names:
            break
        name = next((v for v in names if v not in statement.outer), names[0])
        end, text = _suggested_end(context, name, names)
        clauses[name] = f"0:{text}"
        number = context.symbols.number
        given = RangeFixpoint({**rounds.ranges, name: Range(0, end, number(0), number(end))})
        try:
            rounds = resolve(context, given)
        except NoRange:
            rounds = given
    return clauses


def _suggested_end(context: ShapingContext, name: str, names: list[str]) -> tuple[int, str]:
    """The size of what a variable alone indexes (inside pad), or else a window that fits: the
    step of what slides over it, 2 in `2*i + k`."""
    for access in context.accesses.all:
        extent = context.extent(access)
        form = linear_form(access.subscript, context.known)
        if extent is None or form is None or name not in form.terms:
            continue
        steps = [abs(c) for v, c in form.terms.items() if v in names and v != name]
        if not steps and extent > 0:
            return extent, _size(context, access)
        end = max(1, min(max([2, *steps]), extent))
        return end, str(end)
    return 2, "2"


# --- an access out of bounds (G3, G6) ---------------------------------------------------------


def outside(
    context: ShapingContext, failure: LeavesTensor, ranges: Mapping[str, Range]
) -> RangeError:
    """An access that leaves its tensor at a point of the iteration space. Where a condition stands
    before it, a `where` would lose what the other branch says there."""
    access, point = failure.access, failure.point
    value = evaluate(access.subscript, context.known.at(point))
    extent, size = context.extent(access) or 0, _size(context, access)
    widest = {} if failure.is_guarded else widest_ranges(context, access, ranges)
    repair = idiom = None
    edits: tuple[Edit, ...] = ()
    if extent == 1 and access.is_bare and access.at_zero is not None:
        repair = f"{access.at_zero} for {access.text}, which takes that element for all"
    elif widest:
        where, edits = written_where(context, widest)
        repair = f"let the index stay in bounds: {where}"
    elif value == extent and not access.variables and _names_size(access, size):
        idiom = f"{size}-1, for the last element; pad({access.text}, 0), for 0 there"
    elif access.read is None and (whole := whole_shape(context, ranges)) is not None:
        repair, edits = whole
    elif value is not None and value >= extent:
        repair = f"give dimension {access.axis} of {access.tensor} at least the size {value + 1}"
    elif value is not None and not access.variables and -extent <= value:
        idiom = f"{size}-{-value}, which counts from the end; pad({access.text}, 0), for 0 there"
    else:
        repair = f"pad the read: pad({access.text}, 0)"
        edits = (Edit(access.span, f"pad({access.text}, 0)"),) if access.read else ()
    return RangeError(
        _place(context, access, point),
        rule="G3" if access.read is None else "G6",
        span=access.span,
        repair=repair,
        idiom=idiom,
        edits=edits,
        notes=shape_notes(context, (access,)),
    )


def _names_size(access: SubscriptAccess, size: str) -> bool:
    """Whether a read such as `A(K)` names the size that it runs into, and grows with it."""
    return re.search(rf"(?<![\w.]){re.escape(size)}(?!\w)", access.text) is not None


def shape_notes(context: ShapingContext, accesses: Iterable[SubscriptAccess]) -> Notes:
    """Notes on the statements and declarations that fixed the shapes of tensors accessed."""
    notes = []
    for name in dict.fromkeys(access.tensor for access in accesses):
        shape, span = context.known.shapes.get(name), context.fixed_by.get(name)
        if context.tensors[name].role == "input":
            continue
        if shape is not None and span is not None and span != context.statement.span:
            notes.append((span, f"the shape of {name}, {shape}, is fixed here"))
    return tuple(notes)


def _place(context: ShapingContext, access: SubscriptAccess, point: Mapping[str, int]) -> str:
    """Where an access leaves its tensor, in words."""
    value = evaluate(access.subscript, context.known.at(point))
    extent = context.extent(access)
    values = ", ".join(f"{name} = {point[name]}" for name in access.variables)
    at = f"at {values} " if values else ""
    size = f"{access.tensor}.{access.axis} is {extent}"
    text = to_text(context.symbolic_extent(access))
    if text not in (str(extent), f"{access.tensor}.{access.axis}"):
        size = f"{access.tensor}.{access.axis} is {text} = {extent}"
    return f"{at}subscript {access.axis} of '{access.text}' is {value}, but {size}"


def _place_outside(
    context: ShapingContext, access: SubscriptAccess, box: Box[str], highest: bool = False
) -> str:
    """A point of a small box where an access leaves its tensor, in words."""
    form = linear_form(access.subscript, context.known)
    if form is not None:
        low, _ = form.interval(box)
        point = {
            v: box[v][1] if (form.terms.get(v, 0) > 0) == (highest or low >= 0) else box[v][0]
            for v in access.variables
        }
        return _place(context, access, point)
    found, extent = None, context.extent(access) or 0
    with contextlib.suppress(sets.TooComplex):
        found = affine.first_outside(access.subscript, extent, context.known, access.variables, box)
    return _place(context, access, found or {v: b for v, (b, _) in box.items()})
