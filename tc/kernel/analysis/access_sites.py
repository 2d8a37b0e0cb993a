"""Access sites: where a statement stands, what it touches there, and how much loops do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from operator import mul
from typing import TypeAlias

from tc.dtypes import INT64
from tc.kernel.analysis.cache_lines import Indices, lanes_of
from tc.kernel.analysis.lane_offsets import lane_offsets, remembered
from tc.kernel.folding import binary
from tc.kernel.ir import Buffer, Const, Expr, For, If, Let, Load, Set, Stmt, Store, Var, walk
from tc.kernel.rebuild import Stmts, changed, map_blocks, map_statements, substitute
from tc.kernel.walk import names_in


@dataclass(frozen=True)
class Enclosing:
    """What a statement stands in: loops, outermost first, what may be written for locals, and
    locals for which nothing may."""

    loops: tuple[For, ...] = ()
    lets: Mapping[str, Expr] = field(default_factory=dict)
    opaque: frozenset[str] = frozenset()

    def inside(self, loop: For) -> Enclosing:
        return replace(self, loops=(*self.loops, loop))

    def after(self, let: Let, assigned: frozenset[str]) -> Enclosing:
        kept = let.var not in assigned and remembered(let.value, assigned)
        if kept and let.value.dtype == INT64:
            value = substitute(let.value, self.lets, {})
            if self.opaque.isdisjoint(names_in(value)):
                return replace(self, lets={**self.lets, let.var: value})
        return replace(self, opaque=self.opaque | {let.var})


def map_loops(
    block: Stmts,
    around: Enclosing,
    assigned: frozenset[str],
    change: Callable[[For, Enclosing], Stmt],
) -> Stmts:
    """The block with its loops changed, also those in branches, by a function that knows what they
    stand in; the loops in them are left to that."""

    def each(stmt: Stmt) -> Iterable[Stmt]:
        nonlocal around
        match stmt:
            case For():
                return (change(stmt, around),)
            case Let():
                around = around.after(stmt, assigned)
                return (stmt,)
        return (map_blocks(stmt, lambda inner: map_loops(inner, around, assigned, change)),)

    return map_statements(block, each)


def with_evenly(loops: Sequence[For], hints: Sequence[Stmt]) -> For:
    """Nested loops, each but the last with the next as its only loop, with hints evenly among the
    statements of the last."""
    last, body = loops[-1], list(loops[-1].body)
    for number, hint in reversed(list(enumerate(hints))):
        body.insert(number * len(last.body) // len(hints), hint)
    made = changed(last, body=tuple(body))
    for loop in reversed(loops[:-1]):
        inside = (made if isinstance(stmt, For) else stmt for stmt in loop.body)
        made = changed(loop, body=tuple(inside))
    return made


@dataclass(frozen=True)
class TouchedElements:
    """An access at these `values` of the variables of inner loops. Of each index `lanes` has that
    of the first lane and the step to the next; lane l is `offsets[l]` elements from the sum of
    `terms`, which are expressions and their factors."""

    lanes: Sequence[tuple[Expr, int]]
    values: Mapping[str, Expr]
    offsets: Sequence[int]
    terms: Mapping[Expr, int]

    def element(self, lane: int, values: Mapping[str, Expr]) -> Indices:
        """Where a lane is, at these values of the variables of outer loops."""
        shifted = (binary("+", first, Const(step * lane, INT64), {}) for first, step in self.lanes)
        return tuple(substitute(index, {**self.values, **values}, {}) for index in shifted)


def elements_of(touched: Iterable[TouchedElements]) -> dict[int, tuple[TouchedElements, int]]:
    """All elements, each a lane, by how far they are from the sum of terms, which is the same."""
    return {offset: (each, lane) for each in touched for lane, offset in enumerate(each.offsets)}


def touches(
    buffer: Buffer,
    indices: Indices,
    around: Enclosing,
    inner: tuple[For, ...],
    assigned: frozenset[str],
) -> Iterator[TouchedElements]:
    """What an access touches in each iteration of the inner loops of those around it; nothing if
    that is not known, or depends on memory or on locals that are `assigned` to."""
    indices = tuple(substitute(index, around.lets, {}) for index in indices)
    count = max((index.dtype.lanes for index in indices), default=1)
    place = lane_offsets(indices, buffer.strides, count, {})
    names = {name for term in place.scalars for name in names_in(term)}
    lanes = [(first, step) for first, step in map(lanes_of, indices) if first is not None]
    if len(lanes) < len(indices) or not names.isdisjoint(around.opaque | assigned):
        return
    if any(isinstance(node, Load) for term in place.scalars for node in walk(term)):
        return
    steps = [place.scalars.pop(Var(loop.var, INT64), 0) for loop in inner]
    if any(loop.var in names_in(term) for loop in inner for term in place.scalars):
        return
    for values in product(*map(range_of, inner)):
        start = place.constant + sum(map(mul, steps, values))
        offsets = [start + distance for distance in place.distances]
        known = {loop.var: Const(v, INT64) for loop, v in zip(inner, values, strict=True)}
        yield TouchedElements(lanes, known, offsets, place.scalars)


AccessesOf: TypeAlias = "Callable[[Stmt], Iterable[Load | Store]]"
"""Those that a statement itself makes."""


def always_touched(
    stmts: Stmts,
    buffers: Mapping[str, Buffer],
    accesses: AccessesOf,
    around: Enclosing,
    assigned: frozenset[str],
    inner: tuple[For, ...] = (),
) -> Iterator[tuple[Load | Store, TouchedElements]]:
    """What these accesses of statements touch in each iteration of inner loops, as `touches` has
    it; not those in branches, which may not run."""
    for stmt in stmts:
        if isinstance(stmt, For):
            loops = (*inner, stmt)
            within = around.inside(stmt)
            yield from always_touched(stmt.body, buffers, accesses, within, assigned, loops)
        for access in accesses(stmt):
            buffer = buffers[access.buffer]
            for touch in touches(buffer, access.indices, around, inner, assigned):
                yield access, touch
        if isinstance(stmt, Let):
            around = around.after(stmt, assigned)


def count_accesses(stmts: Stmts, accesses: AccessesOf) -> int:
    """How many there are, but for those in branches."""
    total = 0
    for stmt in stmts:
        total += len(list(accesses(stmt)))
        if isinstance(stmt, For):
            total += len(range_of(stmt)) * count_accesses(stmt.body, accesses)
    return total


def range_of(loop: For) -> range:
    """The iterations; none where they are not known."""
    match loop:
        case For(begin=Const(value=begin), end=Const(value=end)):
            return range(int(begin), int(end))
        case _:
            return range(0)


def work_of(stmts: tuple[Stmt, ...]) -> int:
    """How many statements run."""
    total = 0
    for stmt in stmts:
        match stmt:
            case For(body=body):
                total += len(range_of(stmt)) * work_of(body)
            case If(then=then, otherwise=otherwise):
                total += max(work_of(then), work_of(otherwise))
            case Let() | Set() | Store():
                total += 1
    return total
