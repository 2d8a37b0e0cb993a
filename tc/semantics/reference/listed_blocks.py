"""Blocks of the instances of a statement whose ranges use other index variables or tensors (W2,
W3): a list of the values of these variables, times a box of the others.

Only what exists is in the list: rows of a sparse matrix take as much room as they have elements.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tc.affine.forms import LinearForm
from tc.dtypes import Array
from tc.semantics import program as p
from tc.semantics.dependent_ranges import in_order
from tc.semantics.reference.instance_blocks import InstanceBlock, Pick, strided_pick

Bounds = Callable[["ListedBlock", p.WhereRange], tuple[Array, Array]]
"""The begins and the ends of a range for each entry of a list without a box."""


@dataclass(frozen=True, slots=True)
class ListedBlock:
    """Values of some variables, an entry of `lists` for each of `length` along the first axis, and
    a box of other variables along the axes behind it."""

    lists: Mapping[str, Array]
    length: int
    box: InstanceBlock

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length, *self.box.shape)

    def values(self, variable: str) -> Array:
        if variable in self.lists:
            return self.lists[variable].reshape(-1, *([1] * len(self.box.shape)))
        return self.box.values(variable)[None]

    def point(self, position: Sequence[int]) -> dict[str, int]:
        entry, *rest = position
        listed = {name: int(values[entry]) for name, values in self.lists.items()}
        return {**listed, **self.box.point(rest)}

    def strided(self, forms: Sequence[LinearForm], shape: Sequence[int]) -> Pick | None:
        if any(name in self.lists for form in forms for name in form.terms):
            return None
        pick = strided_pick(forms, shape, self.box)
        return None if pick is None else lambda array: pick(array)[None]


def listed_variables(statement: p.Statement) -> tuple[str, ...]:
    """The variables whose values are listed, each behind those in the bounds of its range."""
    clauses = [clause for clause in in_order(statement) if clause.kind != p.SIZES]
    own = [clause.variable for clause in clauses]
    free = {name for clause in clauses for name in clause.depends_on} - set(own)
    return (*(name for name in statement.variables if name in free), *own)


def upstream(statement: p.Statement, clause: p.WhereRange) -> tuple[str, ...]:
    """The variables that the bounds of a range use, and those that their ranges use, each behind
    those in its bounds."""
    needed = set(clause.depends_on)
    for other in reversed(in_order(statement)):
        if other.variable in needed:
            needed |= set(other.depends_on)
    return tuple(name for name in listed_variables(statement) if name in needed)


def listed_blocks(
    shaped: p.ShapedStatement,
    box_variables: Sequence[str],
    most: int,
    bounds: Bounds,
    listed: Sequence[str] | None = None,
) -> Iterator[ListedBlock]:
    """The instances of a statement in lexicographic order of the `listed` variables (None: all that
    must be), blocks of at most `most` instances (and at least one), with the axes of a box of
    other variables."""
    statement = shaped.statement
    ranges = [shaped.ranges[name] for name in box_variables]
    lengths = [r.extent for r in ranges]
    for axis, length in enumerate(lengths):
        size = int(np.prod(lengths, dtype=object)) if lengths else 1
        if size <= most:
            break
        lengths[axis] = max(1, length * most // size)
    size = max(1, int(np.prod(lengths, dtype=object)))
    names = listed_variables(statement) if listed is None else listed
    clauses = {clause.variable: clause for clause in statement.where if clause.kind != p.SIZES}

    def lists(depth: int, found: dict[str, Array], length: int) -> Iterator[dict[str, Array]]:
        if depth == len(names):
            if length:
                yield found
            return
        name = names[depth]
        if name in clauses:
            begins, ends = bounds(ListedBlock(found, length, _POINT), clauses[name])
            begins = np.broadcast_to(begins.reshape(-1), (length,))
            counts = np.maximum(np.broadcast_to(ends.reshape(-1), (length,)) - begins, 0)
        else:
            begins = np.full(length, shaped.ranges[name].begin)
            counts = np.full(length, shaped.ranges[name].extent)
        for first, last, skipped, taken in _pieces(counts, max(1, most // size)):
            own = counts[first:last] if taken is None else np.array([taken])
            rows = np.repeat(np.arange(first, last), own)
            offsets = np.arange(rows.size) - np.repeat(np.cumsum(own) - own, own) + skipped
            more = {other: values[rows] for other, values in found.items()}
            more[name] = begins[rows] + offsets
            yield from lists(depth + 1, more, rows.size)

    for found in lists(0, {}, 1):
        length = next(iter(found.values())).size if found else 1
        steps = (
            range(r.begin, r.end, step) for r, step in zip(ranges, map(_some, lengths), strict=True)
        )
        for corner in itertools.product(*steps):
            shape = tuple(
                min(step, r.end - begin)
                for r, step, begin in zip(ranges, lengths, corner, strict=True)
            )
            yield ListedBlock(found, length, InstanceBlock(tuple(box_variables), corner, shape))


_POINT = InstanceBlock((), (), ())


def _some(length: int) -> int:
    return max(1, length)


def _pieces(counts: Array, most: int) -> Iterator[tuple[int, int, int, int | None]]:
    """Rows first to last whose counts are at most `most` together; of a longer row, parts: how many
    elements are skipped, and taken."""
    ends = np.cumsum(counts)
    first = 0
    while first < len(counts):
        before = int(ends[first - 1]) if first else 0
        last = int(np.searchsorted(ends, before + most, side="right"))
        if last > first:
            yield first, last, 0, None
            first = last
            continue
        length = int(counts[first])
        for skipped in range(0, length, most):
            yield first, first + 1, skipped, min(most, length - skipped)
        first += 1
