"""Which tensors must be zeroed first, as some of their elements are never written (G4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from tc.errors import InternalError
from tc.semantics.program import (
    Binary,
    Expr,
    Extent,
    Index,
    Literal,
    Read,
    ShapedProgram,
    ShapedStatement,
    Size,
    walk,
)

Box: TypeAlias = "tuple[tuple[int, int], ...]"
"""A half-open range per dimension."""


def zero_fills(shaped: ShapedProgram, initial: frozenset[str]) -> Mapping[str, int]:
    """The outputs and temporaries to fill with zeros, and the statement to do it before.

    Left out are those whose every element is written before any is read, and outputs in
    `initial`, which hold the caller's values.
    """
    program = shaped.program
    fresh = (t for t in (*program.outputs, *program.temporaries) if t not in initial)
    found = ((t, _first_need(t, shaped, initial)) for t in fresh)
    return {tensor: position for tensor, position in found if position is not None}


def starts_fresh(shaped_statement: ShapedStatement, initial: frozenset[str]) -> bool:
    """Whether a reduction starts at the identity rather than at what the tensor holds (R3)."""
    statement = shaped_statement.statement
    is_unknown = statement.continues == "caller" and statement.target not in initial
    return statement.init or is_unknown or statement.continues == "nothing"


def writes(shaped_statement: ShapedStatement, initial: frozenset[str]) -> bool:
    """Whether the statement has instances, or elements to start at the identity (R2)."""
    if any(shaped_statement.ranges[v].extent == 0 for v in shaped_statement.statement.outer):
        return False
    return not shaped_statement.is_empty or starts_fresh(shaped_statement, initial)


def subtract(boxes: Iterable[Box], hole: Box) -> Iterator[Box]:
    """Disjoint boxes that cover what the boxes cover, but for the hole.

    >>> list(subtract([((0, 4), (0, 2))], ((1, 4), (0, 1))))
    [((0, 1), (0, 2)), ((1, 4), (1, 2))]
    """
    for box in boxes:
        rest = box
        for axis, ((begin, end), (low, high)) in enumerate(zip(box, hole, strict=True)):
            low, high = min(max(low, begin), end), max(min(high, end), begin)
            if low >= high:
                yield rest
                break
            for piece in ((begin, low), (high, end)):
                if piece[0] < piece[1]:
                    yield (*rest[:axis], piece, *rest[axis + 1 :])
            rest = (*rest[:axis], (low, high), *rest[axis + 1 :])


def _first_need(tensor: str, shaped: ShapedProgram, initial: frozenset[str]) -> int | None:
    """The first statement that touches the tensor, if that needs zeros in it."""
    shape = shaped.shapes[tensor]
    unwritten: list[Box] = [] if 0 in shape else [tuple((0, extent) for extent in shape)]
    first: int | None = None
    for position, shaped_statement in enumerate(shaped.statements):
        is_read = _reads(shaped_statement, tensor, initial)
        is_written = shaped_statement.statement.target == tensor
        is_written = is_written and writes(shaped_statement, initial)
        if first is None and (is_read or is_written):
            first = position
        if is_read and unwritten:
            return first
        if is_written:
            unwritten = list(subtract(unwritten, _target_box(shaped_statement, shaped)))
    return (first or 0) if unwritten else None


def _reads(shaped_statement: ShapedStatement, tensor: str, initial: frozenset[str]) -> bool:
    if shaped_statement.is_empty:
        return False
    statement = shaped_statement.statement
    accumulates = statement.op != "=" and not starts_fresh(shaped_statement, initial)
    if accumulates and statement.target == tensor:
        return True
    return any(isinstance(e, Read) and e.tensor == tensor for e in walk(statement.rhs))


def _target_box(shaped_statement: ShapedStatement, shaped: ShapedProgram) -> Box:
    ranges = shaped_statement.ranges
    starts = {name: r.begin for name, r in ranges.items()}
    ends = {name: r.end for name, r in ranges.items()}
    return tuple(
        (_subscript(s, starts, shaped), _subscript(s, ends, shaped))
        for s in shaped_statement.statement.subscripts
    )


def _subscript(expr: Expr, indices: Mapping[str, int], shaped: ShapedProgram) -> int:
    """The value of a left-hand subscript: an index variable, plus an offset after concat."""
    match expr:
        case Index(name=name):
            return indices[name]
        case Literal(value=value):
            return int(value)
        case Size(name=name):
            return shaped.sizes[name]
        case Extent(tensor=tensor, axis=axis):
            return shaped.shapes[tensor][axis]
        case Binary(op="+", left=left, right=right):
            return _subscript(left, indices, shaped) + _subscript(right, indices, shaped)
        case _:
            raise InternalError(f"a left-hand subscript is a {type(expr).__name__}")
