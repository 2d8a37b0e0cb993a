"""Software prefetch of blocks: what the iterations of a loop touch of large buffers.

In each iteration of a loop some statements wait for memory, and compute little: they pack a block
of an input, go over a row for the first time, or store results. One nest of loops computes most
(the host), while memory has nothing to do. There the blocks are asked for that are touched next.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.dtypes import INT64
from tc.kernel import ir
from tc.kernel.folding import binary, select
from tc.kernel.passes.prefetch.footprints import BufferFootprint, accesses, footprint
from tc.kernel.passes.prefetch.hosts import Host, SpreadHints
from tc.kernel.rebuild import Scope, Stmts, changed, map_blocks, map_regions
from tc.kernel.walk import assigned_in, iterations

MIN_LINES = 16
"""Lines of a block: the core itself waits for fewer at the same time."""

PART = 4
"""A block is no larger than this part of the cache: the next one has a place beside it."""


def prefetch_blocks(kernel: ir.Kernel, cache: int, *, line: int, page: int) -> ir.Kernel:
    """The kernel with hints at blocks of buffers larger than a cache of so many bytes (0: it is not
    known how many, and there are no hints). Lines and pages have so many bytes.

    Each block is asked for before the statements that touch it first: if these are behind the
    host, it is that of this iteration; else that of the next one, and the last iteration asks for
    the first block of the next iteration of the loop around. No block is asked for of which the
    next iteration touches a part again, or that has no room in the cache.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import statement_lines
    >>> vector, lanes = FLOAT32.vector(16), ir.Ramp(ir.Const(0, INT64), 1, INT64.vector(16))
    >>> def over(variable, *body):
    ...     return ir.For(variable, ir.Const(0, INT64), ir.Const(40, INT64), body)
    >>> b, i = ir.Var("b", INT64), ir.Var("i", INT64)
    >>> copy = over("i", ir.Store("p", (i, lanes), ir.Load("x", (b, i, lanes), vector)))
    >>> row = ir.Load("p", (ir.Var("k", INT64), lanes), vector)
    >>> terms = [ir.Binary("+", ir.Var(f"s{n}", vector), row, vector) for n in range(8)]
    >>> sums = [ir.Set(f"s{n}", term) for n, term in enumerate(terms)]
    >>> buffers = (
    ...     ir.Buffer("x", FLOAT32, (40, 40, 16), (640, 16, 1), "input"),
    ...     ir.Buffer("p", FLOAT32, (40, 16), (16, 1), "scratch"),
    ... )
    >>> kernel = ir.Kernel("f", buffers, ((over("b", copy, over("k", *sums)),),))
    >>> hinted = prefetch_blocks(kernel, 65536, line=64, page=4096)
    >>> print(*list(statement_lines(hinted.regions[0][0]))[3:5], sep="\\n")
      for k in 0:40
        prefetch x[b + 1, 0, k * 16 + 15]
    """
    large = {b.name: b for b in kernel.arguments if b.bytes > cache}
    if not cache or not large:
        return kernel

    def hinted(region: Stmts) -> Stmts:
        places = _Region(large, Scope(assigned_in(region)), cache // PART, line, page)
        return places.hinted(region, frozenset())

    return map_regions(kernel, hinted)


@dataclass(frozen=True)
class _Region:
    """A region whose loops are met from outside in: what one asks for is not asked for again in the
    loops inside."""

    large: Mapping[str, ir.Buffer]
    scope: Scope
    room: int
    line: int
    page: int

    def hinted(self, block: Stmts, known: frozenset[str]) -> Stmts:
        """Statements with hints at all but `known` buffers."""

        def each(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
            names = known
            if isinstance(stmt, ir.For):
                names, stmt = self._with_hints(stmt, known)
            with self.scope.inside(stmt):
                yield map_blocks(stmt, lambda inner: self.hinted(inner, names))

        return self.scope.map(block, each)

    def _with_hints(self, loop: ir.For, known: frozenset[str]) -> tuple[frozenset[str], ir.For]:
        """The buffers that are known then, and a loop with hints in its host."""
        host = Host.of(loop.body) if iterations(loop) else None
        if host is None:
            return known, loop
        place = next(p for p, stmt in enumerate(loop.body) if stmt is host.loops[0])
        spreads: list[SpreadHints] = []
        room = self.room
        for block, values in self._blocks(loop, place, known):
            size = block.lines(self.line) * self.line
            if MIN_LINES * self.line <= size <= room and (
                spread := host.spread(block, values, self.line, spreads)
            ):
                room -= size
                spreads.append(spread)
                known |= {block.buffer.name}
        body = (*loop.body[:place], host.with_hints(spreads), *loop.body[place + 1 :])
        return known, changed(loop, body=body) if spreads else loop

    def _blocks(
        self, loop: ir.For, place: int, known: frozenset[str]
    ) -> Iterator[tuple[BufferFootprint, Mapping[str, ir.Expr]]]:
        """What an iteration of a loop touches and the next one does not, with the values of
        variables for which the host, at this place of the body, asks for it. Rows that the host
        reads itself are not waited for where they are streams."""
        body, around = loop.body, [each for each in self.scope.loops if isinstance(each, ir.For)]
        following = _next_iteration(loop, around)
        before, host, after = body[:place], body[place : place + 1], body[place + 1 :]
        with self.scope.inside(loop):
            for stmts, values in (before, following), (host, following), (after, {}):
                stores = stmts is not host
                touched = {name: None for name, _ in accesses(stmts, stores=stores)}
                for name in touched:
                    if name in self.large and name not in known:
                        found = footprint(self.large[name], stmts, self.scope, stores=stores)
                        streams = not stores and found and found.is_streams(self.line, self.page)
                        if found and not streams and found.is_left_by(loop):
                            yield found, values
                known |= touched.keys()
                for stmt in stmts:
                    self.scope.learn(stmt)


def _next_iteration(loop: ir.For, around: Sequence[ir.For]) -> dict[str, ir.Expr]:
    """The variables of a loop and of the one around it, where they change: behind the last
    iteration follows the first one of the next."""
    variable, values = ir.Var(loop.var, INT64), iterations(loop)
    following = binary("+", variable, ir.Const(1, INT64), {})
    if not around:
        return {loop.var: following}
    outer = ir.Var(around[-1].var, INT64)
    wraps = ir.Compare(">=", variable, ir.Const(values[-1], INT64))
    later = binary("+", outer, ir.Const(1, INT64), {})
    return {
        loop.var: select(wraps, loop.begin, following),
        outer.name: select(wraps, later, outer),
    }
