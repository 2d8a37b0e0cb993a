"""Software prefetch of copies: blocks of large inputs that are packed before they are computed on.

Each iteration of a loop packs a block of an input into private memory, and waits for the block;
then it computes on what is in the caches, while memory has nothing to do. There the block that
the next iteration copies is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tc.device import LINE
from tc.dtypes import INT64
from tc.kernel.analysis.access_sites import Enclosing, map_loops, range_of, with_evenly, work_of
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import binary, select
from tc.kernel.ir import (
    Buffer,
    Compare,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Prefetch,
    Set,
    Stmt,
    Store,
    Var,
    statements,
    walk,
)
from tc.kernel.rebuild import Stmts, changed, map_regions, substitute
from tc.kernel.walk import assigned_in, loads_in, names_in, stored_in

WORK = 8
"""Vectors that are added to something, for each hint: these keep the units for arithmetic busy,
and a hint takes one of the loads that they leave free."""

PART = 4
"""A block is no larger than this part of the cache: the next one has a place beside it."""


def prefetch_copies(kernel: Kernel, cache: int) -> Kernel:
    """The kernel with hints at elements of inputs larger than a cache of so many bytes (0: it is
    not known how many, and there are no hints).

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.ir import Binary, Ramp
    >>> from tc.kernel.printer import statement_lines
    >>> vector, lanes = FLOAT32.vector(16), Ramp(Const(0, INT64), 1, INT64.vector(16))
    >>> def over(variable, *body):
    ...     return For(variable, Const(0, INT64), Const(40, INT64), body)
    >>> b, i = Var("b", INT64), Var("i", INT64)
    >>> copy = over("i", Store("p", (i, lanes), Load("x", (b, i, lanes), vector)))
    >>> row = Load("p", (Var("k", INT64), lanes), vector)
    >>> sums = [Set(f"s{n}", Binary("+", Var(f"s{n}", vector), row, vector)) for n in range(8)]
    >>> buffers = (
    ...     Buffer("x", FLOAT32, (40, 40, 16), (640, 16, 1), "input"),
    ...     Buffer("p", FLOAT32, (40, 16), (16, 1), "scratch"),
    ... )
    >>> kernel = Kernel("f", buffers, ((over("b", copy, over("k", *sums)),),))
    >>> print(*list(statement_lines(prefetch_copies(kernel, 65536).regions[0][0]))[3:5], sep="\\n")
      for k in 0:40
        prefetch x[b + 1, 0, k * 16]
    """
    inputs = {b.name: b for b in kernel.arguments if b.bytes > cache}
    if not cache or not inputs:
        return kernel
    private = frozenset(b.name for b in kernel.buffers) - {b.name for b in kernel.arguments}
    return map_regions(
        kernel, lambda region: _Region(region, inputs, private, cache).hinted(region, Enclosing())
    )


@dataclass(frozen=True)
class _Host:
    """Nested loops, outermost first, each but the last with the next as its only loop; the last
    computes."""

    loops: tuple[For, ...]

    @classmethod
    def of(cls, loop: For) -> _Host | None:
        loops: tuple[For, ...] = ()
        while range_of(loop):
            loops = (*loops, loop)
            nested = [s for s in loop.body if isinstance(s, For | If) and _has_loops((s,))]
            match nested:
                case []:
                    is_straight = not any(isinstance(stmt, If) for stmt in loop.body)
                    return cls(loops) if is_straight else None
                case [For() as loop]:
                    pass
                case _:
                    return None
        return None

    @property
    def sums(self) -> int:
        """The vectors that an iteration of the last loop adds to something."""
        sets = (stmt for stmt in self.loops[-1].body if isinstance(stmt, Set))
        return sum(stmt.value.dtype.lanes > 1 for stmt in sets)

    @property
    def counts(self) -> list[int]:
        return [len(range_of(loop)) for loop in self.loops]

    def number(self, count: int) -> Expr:
        """That of an iteration of the first of these loops, counted from 0."""
        number: Expr = Const(0, INT64)
        for loop, trips in zip(self.loops[:count], self.counts, strict=False):
            own = binary("-", Var(loop.var, INT64), loop.begin, {})
            number = binary("+", _times(number, trips), own, {})
        return number


@dataclass(frozen=True)
class _Span:
    """What is read along one dimension: from `low` to `high`, behind the sum of `terms`, which are
    expressions and their factors."""

    terms: Mapping[Expr, int]
    low: int
    high: int

    @property
    def extent(self) -> int:
        return self.high - self.low + 1

    def around(self, other: _Span) -> _Span | None:
        if self.terms != other.terms:
            return None
        return _Span(self.terms, min(self.low, other.low), max(self.high, other.high))

    def start(self, values: Mapping[str, Expr]) -> Expr:
        start: Expr = Const(self.low, INT64)
        for term, factor in self.terms.items():
            start = binary("+", _times(substitute(term, values, {}), factor), start, {})
        return start


@dataclass(frozen=True)
class _Block:
    """What an iteration copies of a buffer: a range of each dimension."""

    buffer: Buffer
    spans: Sequence[_Span]

    def is_left_by(self, loop: For) -> bool:
        """Whether the next iteration of a loop copies nothing of it again."""
        variable = Var(loop.var, INT64)
        others = (term for span in self.spans for term in span.terms if term != variable)
        if any(loop.var in names_in(term) for term in others):
            return False
        return any(abs(span.terms.get(variable, 0)) >= span.extent for span in self.spans)

    @property
    def rows(self) -> tuple[int, int, int] | None:
        """The dimension of which each index is a row, the number of rows, and the elements of one,
        without gaps as long as a line; None where rows are along several dimensions, or their
        elements not one behind the other."""
        if self.buffer.strides[-1] != 1 or min(self.buffer.strides) < 0:
            return None
        line, extent = LINE // self.buffer.dtype.bytes, 1
        for number in reversed(range(len(self.spans))):
            count, stride = self.spans[number].extent, self.buffer.strides[number]
            if count == 1:
                continue
            if stride - extent >= line:
                several = any(span.extent > 1 for span in self.spans[:number])
                return None if several else (number, count, extent)
            extent += (count - 1) * stride
        return 0, 1, extent

    def hints(self, host: _Host, values: Mapping[str, Expr], cache: int) -> list[Prefetch]:
        """Those of each iteration of a host, at these values of outer variables."""
        if self.rows is None or not all(host.counts):
            return []
        dimension, count, extent = self.rows
        if count * extent * self.buffer.dtype.bytes > cache / PART:
            return []
        line, outer = LINE // self.buffer.dtype.bytes, 0 if count == 1 else len(host.loops) - 1
        rows = -(-count // prod(host.counts[:outer]))
        step = -(-extent // prod(host.counts[outer:]))
        lines = -(-step // line)
        inner = _Host(host.loops[outer:])
        along = _times(inner.number(len(inner.loops)), step if lines == 1 else lines * line)
        first = _times(host.number(outer), rows)
        starts = [span.start(values) for span in self.spans]
        found = []
        for row, number in product(range(rows), range(lines)):
            place = list(starts)
            for at, term, shift in (
                (dimension, first, row),
                (len(place) - 1, along, number * line),
            ):
                moved = binary("+", term, Const(shift, INT64), {})
                place[at] = binary("+", place[at], moved, {})
            found.append(Prefetch(self.buffer.name, tuple(place)))
        return found


class _Region:
    """The loops of a region, from outside in."""

    def __init__(
        self,
        region: tuple[Stmt, ...],
        inputs: Mapping[str, Buffer],
        private: frozenset[str],
        cache: int,
    ) -> None:
        inside = tuple(statements(region))
        known = {stmt.buffer for stmt in inside if isinstance(stmt, Store | Prefetch)}
        self._inputs = {name: b for name, b in inputs.items() if name not in known}
        self._assigned = assigned_in(region)
        self._private = private
        self._cache = cache

    def hinted(self, block: Stmts, around: Enclosing) -> Stmts:
        """Statements with hints in the outermost loops that copy and compute."""
        return map_loops(block, around, self._assigned, self._hinted_loop)

    def _hinted_loop(self, loop: For, around: Enclosing) -> For:
        new = self._asking(loop, around)
        return changed(loop, body=new or self.hinted(loop.body, around.inside(loop)))

    def _asking(self, loop: For, around: Enclosing) -> Stmts | None:
        """The body of a loop, with hints; None where it has none."""
        nests = [stmt for stmt in loop.body if isinstance(stmt, For)]
        if len(nests) < 2 or not range_of(loop):
            return None
        host = _Host.of(max(nests, key=lambda nest: work_of((nest,))))
        if host is None:
            return None
        values = _next_iteration(loop, around)
        hints: list[Prefetch] = []
        for block in self._blocks(loop, host, around):
            found = block.hints(host, values, self._cache)
            if (len(hints) + len(found)) * WORK <= host.sums:
                hints += found
        if not hints:
            return None
        whole = host.loops[0]
        hinted = with_evenly(host.loops, hints)
        return tuple(hinted if stmt is whole else stmt for stmt in loop.body)

    def _blocks(self, loop: For, host: _Host, around: Enclosing) -> Iterator[_Block]:
        """What is copied in an iteration, and then what the host itself reads."""
        whole = host.loops[0]
        own = tuple(stmt for stmt in loop.body if stmt is whole or isinstance(stmt, Let))
        rest = tuple(stmt for stmt in loop.body if stmt is not whole)
        copied = [name for name in self._inputs if self._is_copied(name, rest, own)]
        direct = [name for name in self._inputs if not _reads(rest, name) and _reads(own, name)]
        within = around.inside(loop)
        for names, stmts in (copied, rest), (direct if copied else [], own):
            for name in names:
                spans = self._spans(self._inputs[name], stmts, within, {})
                block = _Block(self._inputs[name], spans or ())
                if block.is_left_by(loop):
                    yield block

    def _is_copied(self, name: str, stmts: tuple[Stmt, ...], others: tuple[Stmt, ...]) -> bool:
        """Whether those of the statements that read a buffer write to private memory alone."""
        readers = [stmt for stmt in stmts if _reads((stmt,), name)]
        is_private = stored_in(tuple(readers)) <= self._private
        return bool(readers) and is_private and not _reads(others, name)

    def _spans(
        self,
        buffer: Buffer,
        stmts: tuple[Stmt, ...],
        around: Enclosing,
        inner: Mapping[Expr, range],
    ) -> list[_Span] | None:
        """What statements read of a buffer, in inner loops of these ranges: nothing if it is not
        known; an empty list if they do not read it."""
        found: list[_Span] = []
        for stmt in stmts:
            new: list[_Span] | None = []
            match stmt:
                case For(body=body):
                    ranges = {**inner, Var(stmt.var, INT64): range_of(stmt)}
                    new = self._spans(buffer, body, around.inside(stmt), ranges)
                case If(then=then, otherwise=otherwise):
                    new = self._spans(buffer, (*then, *otherwise), around, inner)
                case _:
                    for load in loads_in((stmt,)):
                        if load.buffer == buffer.name:
                            new = _joined(new, self._read(load, buffer, around, inner))
                    if isinstance(stmt, Let):
                        around = around.after(stmt, self._assigned)
            joined = _joined(found, new)
            if joined is None:
                return None
            found = joined
        return found

    def _read(
        self, load: Load, buffer: Buffer, around: Enclosing, inner: Mapping[Expr, range]
    ) -> list[_Span] | None:
        spans = []
        for index, size in zip(load.indices, buffer.shape, strict=True):
            index = substitute(index, around.lets, {})
            place = lane_offsets((index,), (1,), index.dtype.lanes, {})
            low = place.constant + min(place.distances)
            high = place.constant + max(place.distances)
            for variable, values in inner.items():
                factor = place.scalars.pop(variable, 0)
                if factor and not values:
                    return None
                ends = [factor * v for v in (values[0], values[-1])] if factor else [0]
                low, high = low + min(ends), high + max(ends)
            names = {name for term in place.scalars for name in names_in(term)}
            inside = {name for variable in inner for name in names_in(variable)}
            is_known = names.isdisjoint(around.opaque | self._assigned | inside)
            is_loaded = any(isinstance(e, Load) for term in place.scalars for e in walk(term))
            if place.vectors or not is_known or is_loaded:
                return None
            if not place.scalars:  # masks keep to the buffer
                low, high = max(low, 0), min(high, size - 1)
            spans.append(_Span(place.scalars, low, high))
        return spans


def _has_loops(stmts: tuple[Stmt, ...]) -> bool:
    return any(isinstance(stmt, For) for stmt in statements(stmts))


def _reads(stmts: tuple[Stmt, ...], buffer: str) -> bool:
    return any(load.buffer == buffer for load in loads_in(stmts))


def _joined(one: list[_Span] | None, other: list[_Span] | None) -> list[_Span] | None:
    """The ranges around both; None where one is unknown or they are too different."""
    if not one or not other:
        return None if one is None or other is None else one or other
    found = [a.around(b) for a, b in zip(one, other, strict=True)]
    return None if None in found else [span for span in found if span is not None]


def _next_iteration(loop: For, around: Enclosing) -> dict[str, Expr]:
    """The variables of a loop and of the one around it, where they change: behind the last
    iteration follows the first one of the next."""
    variable, values = Var(loop.var, INT64), range_of(loop)
    following = binary("+", variable, Const(1, INT64), {})
    if not around.loops:
        return {loop.var: following}
    outer = Var(around.loops[-1].var, INT64)
    wraps = Compare(">=", variable, Const(values[-1], INT64))
    later = binary("+", outer, Const(1, INT64), {})
    return {
        loop.var: select(wraps, loop.begin, following),
        outer.name: select(wraps, later, outer),
    }


def _times(expr: Expr, factor: int) -> Expr:
    return binary("*", expr, Const(factor, INT64), {})
