"""Software prefetch of sweeps: rows that several loops go over, one behind the other.

The loop that is the first to touch a row waits for memory, and often computes little; another
computes on what is in the caches, while memory has nothing to do. There the rows that the others
touch next are asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tc.device import LINE
from tc.dtypes import INT64
from tc.kernel.analysis.access_sites import Enclosing, map_loops, range_of, touches, with_evenly
from tc.kernel.analysis.cache_lines import Indices
from tc.kernel.folding import binary
from tc.kernel.ir import (
    Binary,
    Buffer,
    Call,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Prefetch,
    Store,
    Var,
    expressions,
)
from tc.kernel.rebuild import Stmts, changed, map_regions, substitute
from tc.kernel.walk import assigned_in, names_in

WORK = 4
"""Operations on vectors for each line: with fewer, memory has no time to spare. Half of them do for
long rows, of which the processor itself asks for less ahead: it stops at the end of each page."""

LONG = 1 << 10
"""Bytes of a long row. Measured on rows of 4 KiB and 16 KiB; the shorter ones win less."""

WASTE = 1.25
"""Hints for each line at most, on average."""

PART = 4
"""The rows are no larger than this part of the cache: all of them stay until they are touched."""


def prefetch_sweeps(kernel: Kernel, cache: int) -> Kernel:
    """The kernel with hints at rows of buffers larger than a cache of so many bytes (0: it is not
    known how many, and there are no hints).

    In each iteration of a loop, several nests of loops (sweeps) go over rows. One that is the
    first to touch none of them, and computes enough, is given the hints for all: for those that
    are touched later in this iteration, and for those that were touched before in this one and
    are touched in the next, if there is one.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.ir import Ramp, Set
    >>> from tc.kernel.printer import statement_lines
    >>> vector, n = FLOAT32.vector(16), Var("n", INT64)
    >>> def over(variable, statement):
    ...     start = Binary("*", Var(variable, INT64), Const(16, INT64), INT64)
    ...     lanes = Ramp(start, 1, INT64.vector(16))
    ...     return For(variable, Const(0, INT64), Const(9, INT64), (statement((n, lanes)),))
    >>> def square(place):
    ...     term = Load("x", place, vector)
    ...     for _ in range(8):
    ...         term = Binary("*", term, Const(0.5, vector), vector)
    ...     return Store("t", (Const(0, INT64), place[1]), term)
    >>> first = over("i", lambda place: Set("s", Load("x", place, vector)))
    >>> middle = over("j", square)
    >>> last = over("k", lambda place: Store("o", place, Var("s", vector)))
    >>> loop = For("n", Const(0, INT64), Const(99, INT64), (first, middle, last))
    >>> buffers = tuple(
    ...     Buffer(name, FLOAT32, (99, 144), (144, 1), role)
    ...     for name, role in (("x", "input"), ("o", "output"))
    ... )
    >>> hinted = prefetch_sweeps(Kernel("f", buffers, ((loop,),)), 32 << 10)
    >>> print(*list(statement_lines(hinted.regions[0][0]))[3:6], sep="\\n")
      for j in 0:9
        prefetch x[n + 1, j * 16]
        prefetch o[n, j * 16]
    """
    large = {b.name: b for b in kernel.arguments if b.bytes > cache}
    if not cache or not large:
        return kernel
    return map_regions(
        kernel, lambda region: _Region(region, large, cache).hinted(region, Enclosing())
    )


@dataclass(frozen=True)
class _Sweep:
    """Nested loops, outermost first, each but the last with the next as its only loop, and what is
    around the statements of the last."""

    loops: tuple[For, ...]
    around: Enclosing

    @property
    def ranges(self) -> list[range]:
        return [range_of(loop) for loop in self.loops]

    @property
    def work(self) -> int:
        """How many operations on vectors an iteration of the last loop makes."""
        nodes = (expr for stmt in self.loops[-1].body for expr in expressions(stmt))
        return sum(isinstance(e, Binary | Call) and e.dtype.lanes > 1 for e in nodes)

    @property
    def total(self) -> int:
        """As `work`, but of all iterations."""
        return self.work * prod(map(len, self.ranges))

    def accesses(self, large: Mapping[str, Buffer]) -> Iterator[tuple[str, Indices]]:
        """Of each access to a buffer its name and indices; not those past the caches."""
        for stmt in self.loops[-1].body:
            for expr in expressions(stmt):
                if isinstance(expr, Load) and expr.buffer in large:
                    yield expr.buffer, expr.indices
            if isinstance(stmt, Store) and stmt.buffer in large and not stmt.non_temporal:
                yield stmt.buffer, stmt.indices


@dataclass(frozen=True)
class _Row:
    """So many elements of a buffer one behind the other, from these indices on; a sweep touches
    them in its last loop."""

    buffer: Buffer
    start: Indices
    extent: int
    sweep: _Sweep

    def hints(self, host: _Sweep, later: Mapping[str, Expr]) -> list[Prefetch]:
        """Those of each iteration of a sweep; `later` are the values of outer variables then. None
        where the sweeps do not match."""
        count = len(host.ranges[-1])
        line = LINE // self.buffer.dtype.bytes
        lines = -(-self.extent // (count * line))
        if self.sweep.ranges[:-1] != host.ranges[:-1] or lines * line * count > WASTE * self.extent:
            return []
        pairs = zip(self.sweep.loops[:-1], host.loops[:-1], strict=True)
        values = {**later, **{own.var: Var(other.var, INT64) for own, other in pairs}}
        *rows, start = (substitute(index, values, {}) for index in self.start)
        first = binary("-", Var(host.loops[-1].var, INT64), host.loops[-1].begin, {})
        step = binary("*", first, Const(lines * line, INT64), {})
        place = binary("+", step, start, {})
        shifts = (Const(number * line, INT64) for number in range(lines))
        return [
            Prefetch(self.buffer.name, (*rows, binary("+", place, shift, {}))) for shift in shifts
        ]


class _Region:
    def __init__(self, region: Stmts, large: Mapping[str, Buffer], cache: int) -> None:
        self._large = large
        self._cache = cache
        self._assigned = assigned_in(region)

    def hinted(self, block: Stmts, around: Enclosing) -> Stmts:
        """Statements with hints in the outermost loops that have several sweeps."""
        return map_loops(block, around, self._assigned, self._hinted_loop)

    def _hinted_loop(self, loop: For, around: Enclosing) -> For:
        within = around.inside(loop)
        found = dict(self._sweeps(loop.body, within))
        several = len(found) > 1
        new = self._asking(loop, found) if several else self.hinted(loop.body, within)
        return changed(loop, body=new)

    def _sweeps(self, body: Stmts, around: Enclosing) -> Iterator[tuple[int, _Sweep]]:
        """Those that are statements of a body, by their places in it."""
        for place, stmt in enumerate(body):
            if isinstance(stmt, Let):
                around = around.after(stmt, self._assigned)
            elif isinstance(stmt, For) and (sweep := self._sweep(stmt, around)) is not None:
                yield place, sweep

    def _sweep(self, loop: For, around: Enclosing) -> _Sweep | None:
        loops: tuple[For, ...] = ()
        while range_of(loop):
            loops, around = (*loops, loop), around.inside(loop)
            for let in loop.body:
                around = around.after(let, self._assigned) if isinstance(let, Let) else around
            nested = [stmt for stmt in loop.body if isinstance(stmt, For | If)]
            if not nested:
                return _Sweep(loops, around)
            if len(nested) > 1 or isinstance(nested[0], If):
                return None
            loop = nested[0]
        return None

    def _asking(self, loop: For, sweeps: Mapping[int, _Sweep]) -> Stmts:
        """The body of a loop, with hints in one of the sweeps."""
        rows = self._rows(loop, sweeps)
        waiting = {place for place, _ in rows}
        hosts = [place for place in sweeps if place not in waiting]
        size = sum(
            row.extent * row.buffer.dtype.bytes * prod(map(len, row.sweep.ranges[:-1]))
            for _, row in rows
        )
        if not hosts or size > self._cache / PART:
            return loop.body
        host = max(hosts, key=lambda place: (sweeps[place].total, place))  # the last is soonest
        following = binary("+", Var(loop.var, INT64), Const(1, INT64), {})
        hints: list[Prefetch] = []
        for place, row in rows:
            found = row.hints(sweeps[host], {loop.var: following} if place < host else {})
            if not found:
                return loop.body
            hints += found
        is_long = all(row.extent * row.buffer.dtype.bytes >= LONG for _, row in rows)
        if not hints or sweeps[host].work < (WORK // 2 if is_long else WORK) * len(hints):
            return loop.body
        hinted = with_evenly(sweeps[host].loops, hints)
        return (*loop.body[:host], hinted, *loop.body[host + 1 :])

    def _rows(self, loop: For, sweeps: Mapping[int, _Sweep]) -> list[tuple[int, _Row]]:
        """Rows that differ between iterations, each with the first sweep that touches it."""
        found: list[tuple[int, _Row]] = []
        known: set[str] = set()
        for place, sweep in sweeps.items():
            accesses = defaultdict(list)
            for name, indices in sweep.accesses(self._large):
                accesses[name].append(indices)
            for name in (name for name in accesses if name not in known):
                row = self._row(self._large[name], sweep, accesses[name])
                if row is not None and any(loop.var in names_in(index) for index in row.start):
                    found.append((place, row))
            known |= accesses.keys()
        return found

    def _row(self, buffer: Buffer, sweep: _Sweep, accesses: Sequence[Indices]) -> _Row | None:
        """What a sweep touches of a buffer, if it is a row in steps without gaps."""
        last = sweep.loops[-1]
        found = [
            list(touches(buffer, indices, sweep.around, (), self._assigned)) for indices in accesses
        ]
        kinds = {frozenset(touch.terms.items()) for each in found for touch in each}
        if not all(found) or len(kinds) != 1 or buffer.strides[-1] != 1:
            return None
        elements = {
            offset: (touch, lane) for (touch,) in found for lane, offset in enumerate(touch.offsets)
        }
        first = min(elements)
        touch, lane = elements[first]
        step = touch.terms.get(Var(last.var, INT64), 0)
        if step != len(elements) or max(elements) - first + 1 != step:
            return None
        if any(last.var in names_in(index) for index in touch.element(lane, {})[:-1]):
            return None
        start = touch.element(lane, {last.var: last.begin})
        extent = min(step * len(sweep.ranges[-1]), buffer.shape[-1])  # masks may keep to it
        return _Row(buffer, start, extent, sweep)
