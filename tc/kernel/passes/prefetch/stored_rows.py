"""Software prefetch of outputs: parts of large outputs that are stored in jumps after long work.

A line of an output that is stored in part, or in two vectors, is read first. Where results are
written as many short rows far from each other, as a tile of a convolution's is to the planes of an
image, the core waits for these lines, after it fetched nothing during the whole computation.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from tc.device import LINE
from tc.dtypes import INT64
from tc.kernel.analysis.access_sites import (
    Enclosing,
    TouchedElements,
    always_touched,
    count_accesses,
    elements_of,
    range_of,
    work_of,
)
from tc.kernel.analysis.cache_lines import Indices, lasts_of_lines, together
from tc.kernel.folding import binary
from tc.kernel.ir import (
    Buffer,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Prefetch,
    Stmt,
    Store,
    Var,
    statements,
)
from tc.kernel.local_names import LocalNames
from tc.kernel.passes.prefetch.hosts import iteration_number, times
from tc.kernel.rebuild import Stmts, changed, map_blocks, map_regions, map_statements
from tc.kernel.walk import assigned_in

BURST = 32
"""Lines that are asked for at once, at most: a core waits for about so many."""

WORK = 32
"""Statements for each hint: the hints take no more than a few hundredths of the time."""

FEWEST = 16
"""Lines that are stored: as many vectors wait for their lines without stopping the core."""

PART = 4
"""What is stored is no larger than this part of the cache: it is there until it is."""

MOST = 64
"""Stores of a part: more are hardly in so few lines."""


def prefetch_outputs(kernel: Kernel, cache: int) -> Kernel:
    """The kernel with hints at elements of outputs larger than a cache of so many bytes (0: it is
    not known how many, and there are no hints).

    A loop stores rows with gaps between them, and before it, in each iteration around both, runs
    a loop with far more to do. In each of its iterations that asks for a part of the rows, from
    their ends: a line in which one begins is often that in which another ended before.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.ir import Ramp, Set
    >>> from tc.kernel.printer import statement_lines
    >>> vector, lanes = FLOAT32.vector(16), Ramp(Const(0, INT64), 1, INT64.vector(16))
    >>> b, k, s = Var("b", INT64), Var("k", INT64), Var("s", vector)
    >>> work = For("i", Const(0, INT64), Const(30, INT64), (Set("s", s),) * 80)
    >>> rows = For("k", Const(0, INT64), Const(60, INT64), (Store("o", (k, b, lanes), s),))
    >>> body = (Let("s", Const(0.0, vector)), work, rows)
    >>> loop = For("b", Const(0, INT64), Const(9, INT64), body)
    >>> o = Buffer("o", FLOAT32, (60, 9, 16), (144, 16, 1), "output")
    >>> hinted = prefetch_outputs(Kernel("f", (o,), ((loop,),)), o.bytes - 1)
    >>> print(*list(statement_lines(hinted.regions[0][0]))[2:7], sep="\\n")
      for i in 0:30
        let part: int64 = min(i * 2, 59)
        prefetch o[part, b, 15]
        let part_1: int64 = min(i * 2 + 1, 59)
        prefetch o[part_1, b, 15]
    """
    outputs = {b.name: b for b in kernel.arguments if b.bytes > cache and b.role == "output"}
    if not cache or not outputs:
        return kernel
    names = LocalNames(kernel)
    return map_regions(kernel, lambda region: _Region(region, outputs, cache, names).hinted(region))


@dataclass(frozen=True)
class _Part:
    """What an iteration of the last of some loops stores to: `lines` are elements, one a line."""

    loops: tuple[For, ...]
    buffer: str
    lines: tuple[tuple[TouchedElements, int], ...]

    @property
    def count(self) -> int:
        """How many of these parts there are."""
        return _trips(self.loops)

    def places(self, number: str) -> list[Indices]:
        """The elements for the part that has this number."""
        values: dict[str, Expr] = {}
        rest = self.count
        for loop in self.loops:
            trips = range_of(loop)
            rest //= len(trips)
            digit = binary("/", Var(number, INT64), Const(rest, INT64), {})
            if loop is not self.loops[0]:
                digit = binary("%", digit, Const(len(trips), INT64), {})
            values[loop.var] = binary("+", digit, Const(trips[0], INT64), {})
        return [touch.element(lane, values) for touch, lane in self.lines]


class _Region:
    """The hints are found loop by loop; by identity of loops, `_hints` stand at their begin, and
    `_ahead` in front of them."""

    def __init__(
        self,
        region: tuple[Stmt, ...],
        outputs: Mapping[str, Buffer],
        cache: int,
        names: LocalNames,
    ) -> None:
        inside = tuple(statements(region))
        past = {stmt.buffer for stmt in inside if isinstance(stmt, Store) and stmt.non_temporal}
        self._outputs = {name: b for name, b in outputs.items() if name not in past}
        self._assigned = assigned_in(region)
        self._cache, self._names = cache, names
        self._hints: dict[int, list[Stmt]] = defaultdict(list)
        self._ahead: dict[int, list[Stmt]] = {}

    def hinted(self, region: Stmts) -> Stmts:
        """The region with hints."""
        self._visit(region, Enclosing())
        return self._with_hints(region) if self._hints or self._ahead else region

    def _with_hints(self, block: Stmts) -> Stmts:
        def each(stmt: Stmt) -> Iterable[Stmt]:
            new = map_blocks(stmt, self._with_hints)
            if isinstance(new, For) and (hints := self._hints.get(id(stmt))):
                new = changed(new, body=(*hints, *new.body))
            return (*self._ahead.get(id(stmt), ()), new)

        return map_statements(block, each)

    def _visit(self, stmts: tuple[Stmt, ...], around: Enclosing) -> None:
        """Looks for loops and other statements behind long loops, and in all bodies of loops."""
        long: For | None = None
        last = max((p for p, stmt in enumerate(stmts) if isinstance(stmt, For)), default=-1)
        for place, stmt in enumerate(stmts):
            match stmt:
                case For(body=body):
                    if long is not None and work_of((long,)) > work_of((stmt,)):
                        self._ask(stmt, around, long)
                    else:
                        long = stmt
                    self._visit(body, around.inside(stmt))
                    if stmt is long and place == last:
                        self._ask_ahead(stmts[place + 1 :], around, long)
                case If(then=then, otherwise=otherwise):
                    self._visit(then, around)
                    self._visit(otherwise, around)
                case Let():
                    around = around.after(stmt, self._assigned)

    def _ask(self, stored: For, around: Enclosing, long: For) -> None:
        """The hints for what a loop stores to, in the long one before it."""
        part = self._part(stored, around)
        if part is None or not part.count * len(part.lines) >= FEWEST:
            return
        if part.count * len(part.lines) * LINE > self._cache // PART:
            return
        loops: tuple[For, ...] = ()
        for loop in _chain(long):
            loops = (*loops, loop)
            parts = -(-part.count // _trips(loops))
            hints = parts * len(part.lines)
            if hints <= BURST and _trips(loops) * hints * WORK <= work_of((long,)):
                self._hints[id(loop)] += self._hints_for(part, parts, loops)
                return

    def _ask_ahead(self, stmts: tuple[Stmt, ...], around: Enclosing, long: For) -> None:
        """The hints for what statements behind a long loop store to, before it."""
        if not 0 < self._count(stmts) <= MOST:
            return
        part = self._part_of(stmts, around, ())
        if part is not None and FEWEST <= len(part.lines) <= work_of((long,)) // WORK:
            places = [touch.element(lane, {}) for touch, lane in part.lines]
            self._ahead[id(long)] = [Prefetch(part.buffer, place) for place in together(places)]

    def _hints_for(self, part: _Part, parts: int, loops: Sequence[For]) -> Iterator[Stmt]:
        """Those for so many parts in each iteration of the last of some loops."""
        number = times(iteration_number(loops), parts)
        for shift in range(parts):
            name = self._names.fresh("part")
            which = binary("+", number, Const(shift, INT64), {})
            yield Let(name, binary("min", which, Const(part.count - 1, INT64), {}))
            yield from (Prefetch(part.buffer, place) for place in together(part.places(name)))

    # --- what is stored -------------------------------------------------------------------------

    def _part(self, stored: For, around: Enclosing) -> _Part | None:
        """A part with few lines, of stores with jumps between them; None if there is none."""
        loops: tuple[For, ...] = ()
        for loop in _chain(stored):
            loops, around = (*loops, loop), around.inside(loop)
            if not 0 < self._count(loop.body) <= MOST:
                continue
            if part := self._part_of(loop.body, around, loops):
                return part
        return None

    def _part_of(
        self, stmts: tuple[Stmt, ...], around: Enclosing, loops: tuple[For, ...]
    ) -> _Part | None:
        """What statements in some loops store to, if that are few lines with jumps between them."""
        found = list(always_touched(stmts, self._outputs, self._stores_at, around, self._assigned))
        forms = {(store.buffer, frozenset(touch.terms.items())) for store, touch in found}
        if len(forms) != 1:
            return None
        (buffer, terms), *_ = forms
        places = elements_of(touch for _, touch in found)
        line = max(1, LINE // self._outputs[buffer].dtype.bytes)
        offsets = sorted(places)
        lasts = lasts_of_lines(offsets, line)
        if len(lasts) > BURST or not _jumps(offsets, dict(terms), loops, line):
            return None
        return _Part(loops, buffer, tuple(places[last] for last in lasts))

    def _count(self, stmts: tuple[Stmt, ...]) -> int:
        return count_accesses(stmts, self._stores_at)

    def _stores_at(self, stmt: Stmt) -> list[Store]:
        """A store to an output."""
        return [stmt] if isinstance(stmt, Store) and stmt.buffer in self._outputs else []


def _jumps(
    offsets: Sequence[int], terms: Mapping[Expr, int], loops: Sequence[For], line: int
) -> bool:
    """Whether there are gaps of a line between these elements, or to those of other iterations."""
    if any(after - before > line for before, after in pairwise(offsets)):
        return True
    extent = offsets[-1] - offsets[0] + 1
    for loop in reversed(loops):
        step, count = abs(terms.get(Var(loop.var, INT64), 0)), len(range_of(loop))
        if count > 1 and step > extent + line:
            return True
        extent += step * (count - 1)
    return False


def _trips(loops: Sequence[For]) -> int:
    return prod(len(range_of(loop)) for loop in loops)


def _chain(loop: For) -> Iterator[For]:
    """A loop, and in each of these that with the most to do, as far as iterations are known."""
    following: For | None = loop
    while following is not None and range_of(following):
        yield following
        inner = [stmt for stmt in following.body if isinstance(stmt, For)]
        following = max(inner, key=lambda each: work_of((each,)), default=None)
