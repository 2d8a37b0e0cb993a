"""In-place updates (P1): no element that a statement reads from its own target may be written by
another instance of it, since the whole right-hand side is read before anything is written.

Decided exactly on the concrete ranges and guards. Reduction variables count as part of the
instance: with two values of `k`, `C(i) += C(i) * A(i, k)` reads what another instance writes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping

from tc import sets
from tc.affine.intervals import Box
from tc.errors import RangeError
from tc.semantics import affine
from tc.semantics.program import Index, Range
from tc.semantics.ranges.accesses import GuardedRead
from tc.semantics.ranges.preconditions import is_exact, is_usable
from tc.semantics.ranges.rounds import ShapingContext
from tc.semantics.size_values import evaluate
from tc.semantics.suggest import before, element, unused
from tc.source import Edit, Span

_OTHER = "'"  # the second instance of a pair has primed variables


def check_in_place(context: ShapingContext, ranges: Mapping[str, Range]) -> None:
    """Raises RangeError for the first read of the statement's own target that P1 forbids.

    A statement of at most one instance may read anything.
    """
    statement, known = context.statement, context.known
    own = [r for r in context.accesses.reads if r.read.tensor == statement.target]
    if not own or math.prod(r.extent for r in ranges.values()) <= 1:
        return
    space = affine.box_of(ranges, statement.variables)
    for read in own:
        if _is_pointwise(context, read, ranges):
            continue
        subscripts = read.read.subscripts
        if not all(is_exact(s, known, space) for s in subscripts):
            raise _error(context, read, _not_affine(context, read))
        try:
            pair = _conflict(context, read, space)
        except sets.TooComplex:
            raise _error(context, read, "is too complex to show that no other instance writes "
                         "what it reads") from None  # fmt: skip
        if pair is not None:
            raise _error(context, read, _described(context, read, *pair))


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
    """Whether each instance reads exactly the element that only it writes."""
    statement = context.statement
    return (
        all(ranges[name].extent <= 1 for name in statement.reduction)
        and read.read.subscripts == statement.subscripts
        and all(isinstance(s, Index) for s in statement.subscripts)
    )


def _conflict(
    context: ShapingContext, read: GuardedRead, space: Box[str]
) -> tuple[dict[str, int], dict[str, int]] | None:
    """Two different instances of which the first reads what the second writes."""
    statement, known = context.statement, context.known
    guards = tuple(g for g in read.guards if is_usable(g, known, space))
    names = tuple(space)
    others = tuple(name + _OTHER for name in names)
    with sets.bounded():
        pairs = sets.Space((*names, *others))
        here = {name: pairs.variable(name) for name in names}
        there = {name: pairs.variable(name + _OTHER) for name in names}
        same = pairs.box({**space, **{n + _OTHER: b for n, b in space.items()}})
        same = same.intersect(affine.points_of_guards(guards, known, pairs, here))
        for subscript, written in zip(read.read.subscripts, statement.subscripts, strict=True):
            place = affine.function_of(subscript, known, pairs, here)
            own = affine.function_of(written, known, pairs, there)
            same = same.intersect(sets.compare("==", place, own))
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
    place = f"{_name(context)}({indices})" if indices else _name(context)

    def listed(point: dict[str, int]) -> str:
        return ", ".join(f"{name} = {value}" for name, value in point.items())

    return (
        f"reads {place} in the instance {listed(first)}, "
        f"and the instance {listed(second)} writes it"
    )


def _error(context: ShapingContext, read: GuardedRead, what: str) -> RangeError:
    """The error for a read that P1 forbids. That `a(i,j) = a(j,i)` is meant to read what `a` held
    is plain; of `a(i) = a(i-1)` it is not, which may be meant as a recurrence."""
    name, statement = _name(context), context.statement
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
    return error(
        idiom=f"a statement reads all before it writes any, so that there are no recurrences; to "
        f"read what '{name}' held: {copy}, before this statement, and {old} here",
    )


def _is_transposed(context: ShapingContext, read: GuardedRead) -> bool:
    """Whether the subscripts of a read are those of the left side in another order."""
    statement = context.statement
    own = [s.name for s in read.read.subscripts if isinstance(s, Index)]
    left = [s.name for s in statement.subscripts if isinstance(s, Index)]
    return not statement.reduction and len(own) == len(left) and sorted(own) == sorted(left)


def _name(context: ShapingContext) -> str:
    """The target as its def writes it."""
    return context.statement.target.rpartition(".")[2]
