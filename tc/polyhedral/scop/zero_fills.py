"""Which tensors must be zeroed first, as some of their elements are never written (G4)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.size_values import KnownSizes

ElementBox: TypeAlias = "tuple[tuple[int, int], ...]"
"""A half-open range per dimension."""


def zero_fills(shaped: p.ShapedProgram, initial: frozenset[str]) -> Mapping[str, int]:
    """The outputs and temporaries to fill with zeros, and the statement to do it before.

    Left out are those whose every element is written before any is read, and outputs in
    `initial`, which hold the caller's values.
    """
    program = shaped.program
    fresh = (t for t in (*program.outputs, *program.temporaries) if t not in initial)
    touching = _touching(shaped, initial)
    found = ((t, _first_need(t, shaped, touching.get(t, {}))) for t in fresh)
    return {tensor: position for tensor, position in found if position is not None}


def starts_fresh(shaped_statement: p.ShapedStatement, initial: frozenset[str]) -> bool:
    """Whether a reduction starts at the identity rather than at what the tensor holds (R3)."""
    statement = shaped_statement.statement
    is_unknown = statement.continues == "caller" and statement.target not in initial
    return statement.init or is_unknown or statement.continues == "nothing"


def writes(shaped_statement: p.ShapedStatement, initial: frozenset[str]) -> bool:
    """Whether the statement has instances, or elements to start at the identity (R2)."""
    if any(shaped_statement.ranges[v].extent == 0 for v in shaped_statement.statement.outer):
        return False
    return not shaped_statement.is_empty or starts_fresh(shaped_statement, initial)


def subtract(boxes: Iterable[ElementBox], hole: ElementBox) -> Iterator[ElementBox]:
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


def _touching(
    shaped: p.ShapedProgram, initial: frozenset[str]
) -> dict[str, dict[int, tuple[bool, bool]]]:
    """For each tensor the statements that touch it, in order: whether they read and write it."""
    found: dict[str, dict[int, tuple[bool, bool]]] = {}
    for position, shaped_statement in enumerate(shaped.statements):
        read = _read(shaped_statement, initial)
        target = shaped_statement.statement.target
        written = {target} if writes(shaped_statement, initial) else set()
        for tensor in (*read, *(written - read)):
            found.setdefault(tensor, {})[position] = (tensor in read, tensor in written)
    return found


def _first_need(
    tensor: str, shaped: p.ShapedProgram, touching: Mapping[int, tuple[bool, bool]]
) -> int | None:
    """The first statement that touches the tensor, if that needs zeros in it."""
    shape = shaped.shapes[tensor]
    unwritten: list[ElementBox] = [] if 0 in shape else [tuple((0, extent) for extent in shape)]
    first = next(iter(touching), 0)
    for position, (is_read, is_written) in touching.items():
        if is_read and unwritten:
            return first
        if is_written:
            box = _target_box(shaped.statements[position], shaped)
            unwritten = list(subtract(unwritten, box))
    return first if unwritten else None


def _read(shaped_statement: p.ShapedStatement, initial: frozenset[str]) -> set[str]:
    """The tensors that a statement reads, its accumulator's among them."""
    if shaped_statement.is_empty:
        return set()
    statement = shaped_statement.statement
    read = {e.tensor for e in p.walk(statement.rhs) if isinstance(e, p.Read)}
    if statement.op != "=" and not starts_fresh(shaped_statement, initial):
        read.add(statement.target)
    return read


def _target_box(shaped_statement: p.ShapedStatement, shaped: p.ShapedProgram) -> ElementBox:
    """The elements written by a statement that has any."""
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    ranges = {name: (r.begin, r.end) for name, r in shaped_statement.ranges.items()}
    bounds = []
    for subscript in shaped_statement.statement.subscripts:
        form = linear_form(subscript, known)
        assert form is not None  # an index variable, plus an offset after concat
        low, high = form.rest("", ranges)
        bounds.append((low, high + 1))
    return tuple(bounds)
