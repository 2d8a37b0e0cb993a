"""The errors of range inference, and the repairs that they offer: the ranges for which accesses
stay in bounds, as the `where` of a statement, and the edits that write it."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Iterable, Iterator, Mapping

from tc import sets
from tc.affine.intervals import Box, is_empty
from tc.errors import Notes, RangeError
from tc.semantics import affine
from tc.semantics import program as p
from tc.semantics.affine import Guard, linear_form
from tc.semantics.dependent_ranges import dependent
from tc.semantics.program import Expr, ProgramWarning, Range, index_names
from tc.semantics.ranges.accesses import SubscriptAccess
from tc.semantics.ranges.compared_ranges import (
    ComparedRange,
    compared_ranges,
    number_given,
    size_instead,
)
from tc.semantics.ranges.guarded_ranges import (
    WrittenRange,
    cut_ranges,
    extent_of_one_tensor,
    run_where_made,
    usable_guards,
    wider_ranges,
)
from tc.semantics.ranges.inplace import is_shifted, no_recurrence
from tc.semantics.ranges.polynomials import Symbols, to_poly
from tc.semantics.ranges.preconditions import LeavesTensor
from tc.semantics.ranges.rounds import (
    NEGATIVE,
    Bound,
    NoRange,
    RangeFixpoint,
    ShapingContext,
    resolve,
)
from tc.semantics.ranges.symbolic import bounds_inside, to_text
from tc.semantics.size_values import MAX_OFFSET, evaluate
from tc.semantics.suggest import before, number_written, one_line, respelled, unused
from tc.source import Edit, Span, merged, within
from tc.wording import listed


def written_where(
    context: ShapingContext, ranges: Mapping[str, str], instead: Mapping[str, Span] | None = None
) -> tuple[str, tuple[Edit, ...]]:
    """The whole `where` of a statement once it has these ranges (texts such as "1:N", by variable),
    and the edits that give it them; no edits where the statement is one that has no `where`.

    `instead` are the places of conditions that become ranges, by variable.
    """
    statement = context.statement
    clauses = {**{clause.variable: clause.span for clause in statement.where}, **(instead or {})}
    texts = {name: f"{name} in {bounds}" for name, bounds in ranges.items()}
    alone = f"where {', '.join(texts.values())}"
    if any(access.is_made for access in context.accesses.written):
        return alone, ()
    source, (start, end) = statement.span.source, _where_of(statement.span)
    edits = [Edit(clauses[n], text) for n, text in texts.items() if n in clauses]
    new = ", ".join(text for name, text in texts.items() if name not in clauses)
    if start is None:
        edits.append(Edit(Span(source, end, end), f" where {new}"))
        return alone, tuple(edits)
    if new:
        edits.append(Edit(Span(source, end, end), f", {new}"))
    ends = (Edit(Span(source, start, start), ""), Edit(Span(source, end, end), ""))
    kept = [e for e in ends if not any(o.span.start <= e.span.start <= o.span.end for o in edits)]
    whole = " ".join(merged((*edits, *kept)).text.split())
    return (alone if "#" in whole else whole), tuple(edits)


def whole_shape(
    context: ShapingContext, ranges: Mapping[str, p.Range]
) -> tuple[str, tuple[Edit, ...]] | None:
    """What gives the target of a statement the shape that it needs, where another statement, which
    writes a part, has fixed a lesser one: its declaration as an output, or a statement that writes
    all of a temporary. None where no size is known to serve."""
    statement = context.statement
    target = context.tensors[statement.target]
    fixed = context.fixed_by.get(target.name)
    if target.shape is not None or fixed is None or target.span.text != target.name:
        return None
    dims = [_dimension(context, name, ranges) for name in statement.outer]
    if not all(dims) or fixed == statement.span or fixed.source != statement.span.source:
        return None
    if target.role == "output":
        declared = f"{target.dtype}({','.join(map(str, dims))}) {target.name}"
        return f"declare its shape: -> ({declared})", (Edit(target.span, declared),)
    clauses = ", ".join(f"{n} in 0:{d}" for n, d in zip(statement.outer, dims, strict=True))
    zero = f"{target.name}({', '.join(statement.outer)}) = 0 where {clauses}"
    return f"write all of it before: {zero}", (before(fixed, zero),)


def _dimension(context: ShapingContext, name: str, ranges: Mapping[str, p.Range]) -> str | None:
    """A size or a number to declare for what a variable walks through: the end of its range, or
    the extent of what it alone indexes elsewhere."""
    found = ranges.get(name)
    exprs = [(found.symbolic_end, found.end)] if found is not None else [
        (context.symbolic_extent(a), context.extent(a) or 0)
        for a in context.accesses.all
        if a.is_bare and name in a.variables and a.tensor != context.statement.target
    ]  # fmt: skip
    texts = (size_text(context, expr, value) for expr, value in exprs)
    return next((text for text in texts if re.fullmatch(r"\w+", text)), None)


def behind_parameters(span: Span, inputs: str) -> tuple[Edit, ...]:
    """The insertion of declarations behind the parameters of the def in which a span stands."""
    source, start = span.source, _def_at(span)
    text = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), source.text)
    header = re.compile(r"def\s+\w+\s*\((?:[^()]|\([^()]*\))*").match(text, start)
    if header is None:
        return ()
    end = start + len(header[0].rstrip())
    gap = "" if header[0].rstrip().endswith("(") else ", "
    return (Edit(Span(source, end, end), gap + inputs),)


def _where_of(span: Span) -> tuple[int | None, int]:
    """Where the `where` of a statement begins, None if it has none, and where one ends, or would
    if it were written last."""
    text = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), span.text)
    where = re.search(r"\bwhere\b", text)
    annotation = text.find("<=>")
    end = len(text)
    if where is not None and annotation > where.start():
        end = len(text[:annotation].rstrip())
    return None if where is None else span.start + where.start(), span.start + end


def size_text(context: ShapingContext, expr: p.Expr | None, value: int) -> str:
    """An expression of the sizes as a bound that the def of the statement can write, else the
    number: the sizes of a def that another one calls are its own."""
    if expr is None:
        return str(value)
    symbols = context.symbols
    span = context.statement.span
    names = {n.name for n in p.walk(expr) if isinstance(n, p.Size)}
    names |= {n.tensor for n in p.walk(expr) if isinstance(n, p.Extent | p.Read)}
    if context.statement.target in names:
        return str(value)
    entry = {size.span for size in symbols.sizes.values() if "." not in size.name}
    if not any("." in name for name in symbols.sizes) or _def_at(span) in map(_def_at, entry):
        return str(value) if any("." in name for name in names) else to_text(expr, compact=True)
    return _in_own_sizes(expr, symbols, span) or str(value)


def _in_own_sizes(expr: p.Expr, symbols: Symbols, span: Span) -> str | None:
    """The expression as a size of the def in which the span stands, and a number."""
    wanted = to_poly(expr, symbols)
    if wanted.is_constant:
        return to_text(expr, compact=True)
    for size in symbols.sizes.values():
        if "." not in size.name or _def_at(size.span) != _def_at(span):
            continue
        rest = wanted - to_poly(p.Size(size.name, span=size.span), symbols)
        if rest.is_constant:
            name, number = size.name.rpartition(".")[2], rest.constant
            return name if not number else f"{name}{number:+d}"
    return None


def _def_at(span: Span) -> int:
    """Where the def begins in which a span stands."""
    return span.source.text.rfind("def ", 0, span.start + 1)


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
        return error(
            cause, idiom=f"pad({access.text}, 0), for 0 where {access.tensor} has no element"
        )
    where, edits = written_where(context, {name: bounds})
    if not (below or access.side) and _falls_from_the_size(context, access, name):
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
    names = [v for v in names if v not in dependent(statement)] or names
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
    by_data = next((c for c in statement.where if c.kind == p.DATA and c.variable in names), None)
    if by_data is not None:
        return error(
            f"{cause}; the box of '{by_data.variable}', of which '{by_data.span.line}' is a part "
            "for each row, follows from its other accesses",
            idiom=f"where ..., exists x({by_data.variable}), of a tensor x with an element for "
            f"each {by_data.variable}" + size_instead(statement, by_data.variable),
        )
    takes = "it takes" if len(names) == 1 else "they take"
    tested = compared_ranges(statement, context.known)
    suggested = _suggested(context, rounds, tested)
    if _is_of_caller(context, names):
        sizes = [unused(size, span) for size in ("N", "M", "K", "L", "P", "Q")[: len(names)]]
        suggested = {n: f"0:{size}" for n, size in zip(names, sizes, strict=False)}
        inputs = ", ".join(f"int {size}" for size in sizes)
        where, edits = written_where(context, suggested)
        repair = f"say which values {takes}: {inputs} as input, and {where}"
        return error(cause, repair=repair, edits=(*edits, *behind_parameters(span, inputs)))
    instead = {n: tested[n].span for n in suggested if n in tested}
    where, edits = written_where(context, suggested, instead)
    if instead.keys() >= suggested.keys() and all(tested[n].has_end for n in suggested):
        cause += "; conditions do not change ranges (W1)"
        return error(cause, repair=f"say which values {takes}: {where}", edits=edits)
    if alone := number_given(context, names):
        return error(
            cause,
            idiom=f"int {alone}, among the parameters, if '{alone}' is a number that is given; "
            f"{where}, for several values",
        )
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


def _suggested(
    context: ShapingContext, rounds: RangeFixpoint, tested: Mapping[str, ComparedRange]
) -> dict[str, str]:
    """Ranges for as few open variables as settle the statement: those that conditions tell, then
    reduction variables first."""
    statement = context.statement
    clauses: dict[str, str] = {}
    for _ in statement.variables:
        open_ = [v for v in statement.variables if v not in rounds.ranges]
        names = [v for v in open_ if v not in dependent(statement)]
        if not names:
            break
        name = next((v for v in names if v in tested), None) or next(
            (v for v in names if v not in statement.outer), names[0]
        )
        if name in tested:
            begin, end, clauses[name] = tested[name].begin, tested[name].end, tested[name].text
        else:
            begin, (end, text) = 0, _suggested_end(context, name, names)
            clauses[name] = f"0:{text}"
        number = context.symbols.number
        given = RangeFixpoint(
            {**rounds.ranges, name: Range(begin, end, number(begin), number(end))}
        )
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
    padded = f"; pad({access.text}, 0), for 0 there" if access.read is not None else ""
    if access.read is not None and is_shifted(context, access.read):
        idiom = no_recurrence(context, access.read)
    elif extent == 1 and access.is_bare and access.at_zero is not None:
        repair = f"{access.at_zero} for {access.text}, which takes that element for all"
    elif widest:
        where, edits = written_where(context, widest)
        repair = f"let the index stay in bounds: {where}"
    elif access.read is None and value is not None and value >= extent and size.isdecimal():
        repair = f"give dimension {access.axis} of {access.tensor} at least the size {value + 1}"
    elif value == extent and not access.variables and _names_size(access, size):
        idiom = f"{size}-1, for the last element{padded}"
    elif access.read is None and (whole := whole_shape(context, ranges)) is not None:
        repair, edits = whole
    elif value is not None and value >= extent:
        repair = f"give dimension {access.axis} of {access.tensor} at least the size {value + 1}"
    elif value is not None and not access.variables and -extent <= value:
        idiom = f"{size}-{-value}, which counts from the end{padded}"
    elif access.read is None:
        repair = "start the ranges of its variables later, with a 'where'"
    else:
        repair = f"pad the read: pad({access.text}, 0)"
        edits = (Edit(access.span, f"pad({access.text}, 0)"),)
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
