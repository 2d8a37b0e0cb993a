"""In-place updates (P1): no element that a statement reads from its own target may be written by
another instance of it, since the whole right-hand side is read before anything is written.

Decided exactly on the concrete ranges and guards. Reduction variables count as part of the
instance: with two values of `k`, `C(i) += C(i) * A(i, k)` reads what another instance writes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tc import sets
from tc.affine.intervals import Box, is_empty, surely
from tc.errors import RangeError
from tc.extents.sizes import is_tracked
from tc.semantics import affine
from tc.semantics.affine import Guard, linear_form
from tc.semantics.faults import twice
from tc.semantics.program import (
    Binary,
    Expr,
    Index,
    Range,
    Read,
    Statement,
    children,
    index_names,
    shifted_variable,
    with_children,
)
from tc.semantics.ranges.accesses import GuardedRead
from tc.semantics.ranges.preconditions import is_exact, is_usable
from tc.semantics.ranges.rounds import ShapingContext
from tc.semantics.size_values import KnownSizes, evaluate
from tc.semantics.suggest import before, element, unused
from tc.source import Edit, Span

_OTHER = "'"  # the second instance of a pair has primed variables


def check_in_place(context: ShapingContext, ranges: Mapping[str, Range]) -> None:
    """Raises RangeError for the first read of one of the statement's own targets that P1 and S6
    forbid, and where a plain `=` writes one element twice (S2).

    A statement of at most one instance may read anything.
    """
    statement, known = context.statement, context.known
    _check_once(context, ranges)
    own = [r for r in context.accesses.reads if r.read.tensor in statement.targets]
    if not own or math.prod(r.extent for r in ranges.values()) <= 1:
        return
    space = affine.box_of(ranges, statement.variables)
    for read in own:
        if _is_pointwise(context, read, ranges):
            continue
        subscripts = (*read.read.subscripts, *statement.subscripts)
        if not all(is_exact(s, known, space) for s in subscripts):
            raise _error(context, read, _not_affine(context, read))
        try:
            pair = _conflict(context, read.guards, read.read.subscripts, space)
        except sets.TooComplex:
            raise _error(context, read, "is too complex to show that no other instance writes "
                         "what it reads") from None  # fmt: skip
        if pair is not None:
            raise _error(context, read, _described(context, read, *pair))


def is_written_once(context: ShapingContext, ranges: Mapping[str, Range]) -> bool:
    """Whether no two instances of a plain `=` can write one element (S2); always of a reduction,
    whose instances may meet."""
    statement, known = context.statement, context.known
    if statement.op != "=" or _have_dimensions(statement, known):
        return True
    if math.prod(r.extent for r in ranges.values()) <= 1:
        return True
    space = affine.box_of(ranges, statement.variables)
    told = {v for s in statement.subscripts if is_exact(s, known, space) for v in index_names(s)}
    free = (v for v in statement.variables if v not in told)
    # what guards leave of tracked sizes would be asked of isl, and pinned
    is_short = not context.accesses.guards or any(is_tracked(r.extent) for r in ranges.values())
    if is_short and any(surely(ranges[v].extent, ">", 1) for v in free):
        return False  # of two instances that differ in it alone, only data tell the places apart
    try:
        return _meeting(context, ranges) is None
    except sets.TooComplex:
        return False


def _have_dimensions(statement: Statement, known: KnownSizes) -> bool:
    """Whether each variable alone says the place in some dimension, as in a plain left side, and in
    `o(2*i,j+1)`."""
    alone = {shifted_variable(s) for s in statement.subscripts}
    for subscript in statement.subscripts:
        form = linear_form(subscript, known, exact=True)
        if form is not None and len(form.terms) == 1:
            ((name, factor),) = form.terms.items()
            if surely(abs(factor), ">", 0):
                alone.add(name)
    return alone.issuperset(statement.variables)


def _meeting(
    context: ShapingContext, ranges: Mapping[str, Range]
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Two instances that may write one element, by the dimensions that are affine."""
    statement, known = context.statement, context.known
    space = affine.box_of(ranges, statement.variables)
    exact = tuple(s if is_exact(s, known, space) else None for s in statement.subscripts)
    return _conflict(context, context.accesses.guards, exact, space)


def _check_once(context: ShapingContext, ranges: Mapping[str, Range]) -> None:
    """Raise where a plain `=` certainly writes one element twice (S2)."""
    statement, known = context.statement, context.known
    if statement.op != "=" or _have_dimensions(statement, known):
        return
    space = affine.box_of(ranges, statement.variables)
    if is_empty(space) or not all(is_exact(s, known, space) for s in statement.subscripts):
        return
    if not all(is_usable(guard, known, space) for guard in context.accesses.guards):
        return  # the instances that meet may not exist
    try:
        pair = _meeting(context, ranges)
    except sets.TooComplex:
        return
    if pair is not None:
        first, second = pair
        at = context.known.at(first)
        place = ", ".join(str(evaluate(s, at)) for s in statement.subscripts)
        raise twice(statement, place, first, second)


def _not_affine(context: ShapingContext, read: GuardedRead) -> str:
    for subscript in read.read.subscripts:
        if affine.has_too_many_pieces(subscript, context.known):
            return (
                f"reads a place with {affine.pieces(subscript)} of / % min max ?: and conditions, "
                f"and with more than {affine.MAX_PIECES} it does not count as affine: another "
                "instance may write there"
            )
    return "reads a place that is not affine: another instance may write there"


def _is_pointwise(context: ShapingContext, read: GuardedRead, ranges: Mapping[str, Range]) -> bool:
    """Whether each instance reads exactly the element that only it writes: at the place of the left
    side word for word, where no other instance writes (P1, S6)."""
    statement = context.statement
    if any(ranges[name].extent > 1 for name in statement.reduction):
        return False
    own, place = read.read.subscripts, statement.subscripts
    if len(own) != len(place) or any(map(_differ, own, place)):
        return False
    return statement.op == "=" or statement.has_plain_places


def _differ(left: Expr, right: Expr) -> bool:
    """Whether two expressions are not the same, word for word."""
    return _form(left) != _form(right)


def _form(expr: Expr) -> Expr:
    """The expression without the numbers of its reads and divisions."""
    if isinstance(expr, Read | Binary):
        expr = replace(expr, site=-1)
    return with_children(expr, tuple(map(_form, children(expr))))


def _conflict(
    context: ShapingContext,
    guards: tuple[Guard, ...],
    place: Sequence[Expr | None],
    space: Box[str],
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Two different instances of which the first, where some guards hold, touches at `place` (None:
    any) what the second writes."""
    statement, known = context.statement, context.known
    usable = tuple(g for g in guards if is_usable(g, known, space))
    exists = tuple(g for g in context.accesses.guards if is_usable(g, known, space))
    names = tuple(space)
    others = tuple(name + _OTHER for name in names)
    with sets.bounded():
        pairs = sets.Space((*names, *others))
        here = {name: pairs.variable(name) for name in names}
        there = {name: pairs.variable(name + _OTHER) for name in names}
        same = pairs.box({**space, **{n + _OTHER: b for n, b in space.items()}})
        same = same.intersect(affine.points_of_guards(usable, known, pairs, here))
        same = same.intersect(affine.points_of_guards(exists, known, pairs, there))
        for subscript, written in zip(place, statement.subscripts, strict=True):
            if subscript is None:
                continue
            touched = affine.function_of(subscript, known, pairs, here)
            own = affine.function_of(written, known, pairs, there)
            same = same.intersect(sets.compare("==", touched, own))
        for name in names:
            differ = same.intersect(sets.compare("!=", here[name], there[name]))
            point = sets.point(differ, pairs)
            if point is not None:
                first = {n: point[n] for n in names}
                return first, {n: point[n + _OTHER] for n in names}
    return None


def _described(
    context: ShapingContext, read: GuardedRead, first: dict[str, int], second: dict[str, int]
) -> str:
    known = context.known.at(first)
    indices = ", ".join(str(evaluate(s, known)) for s in read.read.subscripts)
    name = read.read.tensor.rpartition(".")[2]
    place = f"{name}({indices})" if indices else name

    def listed(point: dict[str, int]) -> str:
        return ", ".join(f"{name} = {value}" for name, value in point.items())

    return (
        f"reads {place} in the instance {listed(first)}, "
        f"and the instance {listed(second)} writes it"
    )


def _error(context: ShapingContext, read: GuardedRead, what: str) -> RangeError:
    """The error for a read that P1 forbids. That `a(i,j) = a(j,i)` is meant to read what `a` held
    is plain; of `a(i) = a(i-1)` it is not, which may be meant as a recurrence."""
    name, statement = read.read.tensor.rpartition(".")[2], context.statement
    rank = len(read.read.subscripts)
    at = read.read.span
    old = unused(f"{name}_old", at)
    copy = f"{element(old, rank)} = {element(name, rank)}"
    error = functools.partial(RangeError, f"'{at.line}' {what}", rule="P1", span=at)
    if _is_transposed(context, read) and at.text.startswith(name):
        first = Span(at.source, at.start, at.start + len(name))
        return error(
            repair=f"{copy}, before this statement, and read {old} here",
            edits=(before(statement.span, copy), Edit(first, old)),
        )
    return error(idiom=no_recurrence(context, read.read))


def no_recurrence(context: ShapingContext, read: Read) -> str:
    """What is written in place of a read of the statement's own target."""
    name, at = read.tensor.rpartition(".")[2], read.span
    rank, old = len(read.subscripts), unused(f"{name}_old", at)
    running = "for a running sum: o(i) +=! x(j) where j in 0:i + 1; "
    return (
        "a statement reads all before it writes any, so that there are no recurrences; "
        f"{running if is_shifted(context, read) else ''}to read what '{name}' held: "
        f"{element(old, rank)} = {element(name, rank)}, before this statement, and {old} here"
    )


def is_shifted(context: ShapingContext, read: Read) -> bool:
    """Whether a read is that of a neighbour, as in a recurrence: the place of the left side but
    for constants."""
    statement, known = context.statement, context.known
    if statement.reduction or read.tensor not in statement.targets or not read.subscripts:
        return False
    pairs = zip(read.subscripts, statement.subscripts, strict=True)
    forms = [(affine.linear_form(s, known), affine.linear_form(w, known)) for s, w in pairs]
    return all(s is not None and w is not None and s.terms == w.terms for s, w in forms)


def _is_transposed(context: ShapingContext, read: GuardedRead) -> bool:
    """Whether a read is at the place of the left side, or has its variables in another order."""
    statement = context.statement
    if not any(map(_differ, read.read.subscripts, statement.subscripts)):
        return not statement.reduction and bool(statement.subscripts)
    if not statement.has_plain_places:
        return False
    own = [s.name for s in read.read.subscripts if isinstance(s, Index)]
    left = [s.name for s in statement.subscripts if isinstance(s, Index)]
    return not statement.reduction and len(own) == len(left) and sorted(own) == sorted(left)
