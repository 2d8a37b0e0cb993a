"""Software prefetch in nests of loops that compute, of what the other nests of a loop touch.

In each iteration of a loop, some nests of loops wait for memory, and compute little: those that
pack blocks of an input into private memory, or go over rows as the first ones. Another computes
on what is in the caches, while memory has nothing to do. There the blocks and rows are asked for
that the others touch next.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, prod
from typing import TypeAlias

from tc.device import LINE
from tc.dtypes import INT64
from tc.kernel.analysis.access_sites import Enclosing, map_loops, range_of, with_evenly, work_of
from tc.kernel.folding import binary, select
from tc.kernel.ir import (
    Buffer,
    Compare,
    Const,
    Expr,
    For,
    Kernel,
    Let,
    Prefetch,
    Stmt,
    Store,
    Var,
    statements,
)
from tc.kernel.passes.prefetch.footprints import BufferFootprint, Footprints, accesses
from tc.kernel.passes.prefetch.hosts import Nest
from tc.kernel.rebuild import Stmts, changed, map_regions
from tc.kernel.walk import assigned_in, loads_in, stored_in

COPY_WORK = 8
"""Operations on vectors for each hint at a block: these keep the units for arithmetic busy, and a
hint takes one of the loads that they leave free."""

SWEEP_WORK = 4
"""Operations on vectors for each hint at a row: with fewer, memory has no time to spare. Half of
them do for long rows, of which the processor itself asks for less ahead: it stops at the end of
each page."""

LONG = 1 << 10
"""Bytes of a long row. Measured on rows of 4 KiB and 16 KiB; the shorter ones win less."""

WASTE = 1.25
"""Hints for each line of a row at most, on average."""

PART = 4
"""A block is no larger than this part of the cache: the next one has a place beside it."""


def prefetch_copies(kernel: Kernel, cache: int) -> Kernel:
    """The kernel with hints at what is packed next, of inputs larger than a cache of so many bytes
    (0: it is not known how many, and there are no hints).

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.ir import Binary, Load, Ramp, Set
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
    return _hinted(kernel, cache, _Region.copied)


def prefetch_sweeps(kernel: Kernel, cache: int) -> Kernel:
    """The kernel with hints at rows of buffers larger than a cache of so many bytes (0: it is not
    known how many, and there are no hints).

    In each iteration of a loop, several nests of loops (sweeps) go over rows. One that is the
    first to touch none of them, and computes enough, is given the hints for all: for those that
    are touched later in this iteration, and for those that were touched before in this one and
    are touched in the next, if there is one.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.ir import Binary, Load, Ramp, Set
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
    return _hinted(kernel, cache, _Region.swept)


@dataclass(frozen=True)
class _Group:
    """What is touched later, each at these values of outer variables: all of it is asked for, with
    `most` hints in an iteration of the host, or nothing."""

    members: Sequence[tuple[BufferFootprint, Mapping[str, Expr]]]
    waste: float = inf

    def hints(self, host: Nest, room: int, most: int) -> list[Prefetch]:
        """Those of each iteration of a host; none for more than `room` bytes."""
        found: list[Prefetch] = []
        for footprint, values in self.members:
            room -= footprint.bytes(LINE)
            new = footprint.hints(host, values, LINE, self.waste) if room >= 0 else []
            if not new:
                return []
            found += new
        return found if len(found) <= most else []


@dataclass(frozen=True)
class _Plan:
    """Groups of hints for a host, with `most` of them in all in each iteration."""

    host: Nest
    groups: Sequence[_Group]
    most: int


_Find: TypeAlias = "Callable[[_Region, For, Enclosing], _Plan | None]"


def _hinted(kernel: Kernel, cache: int, find: _Find) -> Kernel:
    large = {b.name: b for b in kernel.arguments if b.bytes > cache}
    if not cache or not large:
        return kernel
    private = frozenset(b.name for b in kernel.buffers) - {b.name for b in kernel.arguments}
    return map_regions(
        kernel,
        lambda region: _Region(region, large, private, cache, find).hinted(region, Enclosing()),
    )


class _Region:
    """The loops of a region, from outside in: the outermost ones that have hosts have hints."""

    def __init__(
        self,
        region: Stmts,
        large: Mapping[str, Buffer],
        private: frozenset[str],
        cache: int,
        find: _Find,
    ) -> None:
        inside = tuple(statements(region))
        self._large = large
        self._known = {stmt.buffer for stmt in inside if isinstance(stmt, Store | Prefetch)}
        self._assigned = assigned_in(region)
        self._footprints = Footprints(self._assigned)
        self._private = private
        self._room = cache // PART
        self._find = find

    def hinted(self, block: Stmts, around: Enclosing) -> Stmts:
        """Statements with hints."""
        return map_loops(block, around, self._assigned, self._hinted_loop)

    def _hinted_loop(self, loop: For, around: Enclosing) -> For:
        new = self._with_hints(loop, around)
        return changed(loop, body=new or self.hinted(loop.body, around.inside(loop)))

    def _with_hints(self, loop: For, around: Enclosing) -> Stmts | None:
        """The body of a loop, with hints; None where it has none."""
        several = sum(isinstance(stmt, For) for stmt in loop.body) > 1 and range_of(loop)
        found = self._find(self, loop, around) if several else None
        if found is None:
            return None
        hints: list[Prefetch] = []
        for group in found.groups:
            hints += group.hints(found.host, self._room, found.most - len(hints))
        if not hints:
            return None
        loops = found.host.loops
        hinted = with_evenly(loops, hints)
        return tuple(hinted if stmt is loops[0] else stmt for stmt in loop.body)

    # --- blocks that are packed -----------------------------------------------------------------

    def copied(self, loop: For, around: Enclosing) -> _Plan | None:
        """What is packed in the next iteration of a loop, and what the host itself reads then: the
        nest with the most to do."""
        nests = [stmt for stmt in loop.body if isinstance(stmt, For)]
        host = Nest.of(max(nests, key=lambda nest: work_of((nest,))))
        if host is None:
            return None
        values = _next_iteration(loop, around)
        groups = [
            _Group([(footprint, values)])
            for footprint in self._blocks(loop, host.loops[0], around.inside(loop))
            if footprint.is_left_by(loop)
        ]
        return _Plan(host, groups, host.sums // COPY_WORK)

    def _blocks(self, loop: For, host: For, within: Enclosing) -> Iterator[BufferFootprint]:
        own = tuple(stmt for stmt in loop.body if stmt is host or isinstance(stmt, Let))
        rest = tuple(stmt for stmt in loop.body if stmt is not host)
        inputs = [name for name in self._large if name not in self._known]
        copied = [name for name in inputs if self._is_copied(name, rest, own)]
        direct = [name for name in inputs if not _reads(rest, name) and _reads(own, name)]
        for names, stmts in (copied, rest), (direct if copied else [], own):
            for name in names:
                found = self._footprints.of(self._large[name], stmts, within)
                if found is not None:
                    yield found

    def _is_copied(self, name: str, stmts: tuple[Stmt, ...], others: tuple[Stmt, ...]) -> bool:
        """Whether those of the statements that read a buffer write to private memory alone."""
        readers = [stmt for stmt in stmts if _reads((stmt,), name)]
        is_private = stored_in(tuple(readers)) <= self._private
        return bool(readers) and is_private and not _reads(others, name)

    # --- rows that are swept --------------------------------------------------------------------

    def swept(self, loop: For, around: Enclosing) -> _Plan | None:
        """The rows that differ between iterations of a loop, and for which another nest than the
        host waits first."""
        made = ((place, _nest(stmt)) for place, stmt in enumerate(loop.body))
        nests = {place: nest for place, nest in made if nest is not None}
        rows = list(self._rows(loop, nests, around.inside(loop)))
        waiting = {place for place, _ in rows}
        hosts = [place for place in nests if place not in waiting]
        if not hosts:
            return None

        def total(place: int) -> int:
            return nests[place].operations * prod(nests[place].counts)

        chosen = max(hosts, key=lambda place: (total(place), place))  # the last is soonest
        later = {loop.var: binary("+", Var(loop.var, INT64), Const(1, INT64), {})}
        is_long = all(row.spans[-1].extent * row.buffer.dtype.bytes >= LONG for _, row in rows)
        work = SWEEP_WORK // 2 if is_long else SWEEP_WORK
        members = [(row, later if place < chosen else {}) for place, row in rows]
        return _Plan(nests[chosen], [_Group(members, WASTE)], nests[chosen].operations // work)

    def _rows(
        self, loop: For, nests: Mapping[int, Nest], within: Enclosing
    ) -> Iterator[tuple[int, BufferFootprint]]:
        """Those of each nest that touches them first."""
        known: set[str] = set()
        for place, nest in nests.items():
            whole = nest.loops[0]
            own = tuple(stmt for stmt in loop.body if stmt is whole or isinstance(stmt, Let))
            inside = tuple(statements((whole,)))
            touched = dict.fromkeys(name for name, _ in accesses(inside, stores=True))
            for name in touched:
                if name in self._large and name not in known:
                    row = self._footprints.of(self._large[name], own, within, stores=True)
                    if row is not None and row.moves_with(loop):
                        yield place, row
            known |= touched.keys()


def _nest(stmt: Stmt) -> Nest | None:
    return Nest.of(stmt) if isinstance(stmt, For) else None


def _reads(stmts: tuple[Stmt, ...], buffer: str) -> bool:
    return any(load.buffer == buffer for load in loads_in(stmts))


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
