"""Software prefetch of blocks: parts of large inputs that are read in jumps.

A processor foresees accesses that go on in small steps. Where a block is many short rows far from
each other, as the planes of an image are in a convolution, it waits for each row of a new block.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from tc.device import LINE
from tc.dtypes import INT64
from tc.kernel.analysis.access_sites import (
    Enclosing,
    TouchedElements,
    always_touched,
    count_accesses,
    elements_of,
    map_loops,
    range_of,
    work_of,
)
from tc.kernel.analysis.cache_lines import Indices, firsts_of_lines, together
from tc.kernel.folding import binary
from tc.kernel.ir import (
    Buffer,
    Const,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    Prefetch,
    Set,
    Stmt,
    Store,
    Var,
    expressions,
    statements,
)
from tc.kernel.passes.prefetch.hosts import iteration_number, times
from tc.kernel.rebuild import Stmts, changed, map_regions
from tc.kernel.walk import assigned_in, names_in, stored_in

LINES = 8
"""Lines that an iteration asks for at most: processors wait for few at a time, and drop others."""

WORK = 16
"""Statements for each line: the hints take no more than a few hundredths of the time."""

DISTANCE = 512
"""Statements from the hint to the access, which take about as many cycles; a line comes from
memory in some 300."""

WASTE = 4.0
"""Hints for the same line at most, on average."""

BLOCKS = 8
"""Blocks one after the other that are worth hints which share lines: those in the last are in
vain."""

PART = 4
"""A block is no larger than this part of the cache: the next one has a place beside it."""

LEFT_OUT = 8
"""Hints may be further apart than a line by this part of it: as few of the lines are left out."""

PIECES = 1 << 10
"""Parts of a block that are looked at: more take long, and hardly leave no gap between them."""

MOST = 256
"""Reads of an iteration: more take long to look at, and are hardly in so few lines."""


def prefetch_blocks(kernel: Kernel, cache: int) -> Kernel:
    """The kernel with hints at elements of inputs larger than a cache of so many bytes (0: it is
    not known how many, and there are no hints).

    Each iteration of a loop reads a block of an input, in rows with gaps between them, and the
    next iteration another block. Where a row of this block is read, the same row of the next one
    is asked for. Where iterations read parts of the same rows or lines, which are together a block
    without gaps, all of them ask for as much of it.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.ir import Binary, Ramp
    >>> from tc.kernel.printer import statement_lines
    >>> vector, lanes = FLOAT32.vector(16), Ramp(Const(0, INT64), 1, INT64.vector(16))
    >>> row = Load("x", (Var("b", INT64), Var("k", INT64), lanes), vector)
    >>> sums = [Set(f"s{i}", Binary("+", Var(f"s{i}", vector), row, vector)) for i in range(32)]
    >>> inner = For("k", Const(0, INT64), Const(40, INT64), tuple(sums))
    >>> loop = For("b", Const(0, INT64), Const(9, INT64), (inner,))
    >>> x = Buffer("x", FLOAT32, (9, 40, 100), (4000, 100, 1), "input")
    >>> hinted = prefetch_blocks(Kernel("f", (x,), ((loop,),)), x.bytes - 1)
    >>> print(*list(statement_lines(hinted.regions[0][0]))[:3], sep="\\n")
    for b in 0:9
      for k in 0:40
        prefetch x[min(b + 1, 8), k, 0:30:15]
    """
    inputs = {b.name: b for b in kernel.arguments if b.bytes > cache}
    if not cache or not inputs:
        return kernel
    return map_regions(
        kernel, lambda region: _Region(region, inputs, cache).hinted(region, Enclosing())
    )


_Form: TypeAlias = "tuple[str, frozenset[tuple[Expr, int]]]"
"""A buffer, and the terms of a sum: elements of one form are at known distances."""


class _Region:
    """The loops of a region are met from outside in; what has hints in one gets no more inside."""

    def __init__(self, region: tuple[Stmt, ...], inputs: Mapping[str, Buffer], cache: int) -> None:
        written = stored_in(region)
        self._inputs = {name: b for name, b in inputs.items() if name not in written}
        self._assigned = assigned_in(region)
        self._cache = cache
        self._hinted: set[int] = set()
        self._loads = {id(stmt): self._loads_of(stmt) for stmt in statements(region)}

    def _loads_of(self, stmt: Stmt) -> list[Load]:
        """Those of inputs that a statement itself makes."""
        if not isinstance(stmt, Let | Set | Store):
            return []
        loads = (expr for expr in expressions(stmt) if isinstance(expr, Load))
        return [load for load in loads if load.buffer in self._inputs]

    def hinted(self, block: Stmts, around: Enclosing) -> Stmts:
        """Statements with hints."""
        return map_loops(block, around, self._assigned, self._hinted_loop)

    def _hinted_loop(self, loop: For, around: Enclosing) -> For:
        hints = tuple(self._hints(loop, around))
        body = self.hinted(loop.body, around.inside(loop))
        return changed(loop, body=(*hints, *body) if hints else body)

    def _hints(self, loop: For, around: Enclosing) -> Iterator[Prefetch]:
        """Those of each iteration of a loop."""
        budget = min(LINES, work_of(loop.body) // WORK)
        if not around.loops or not budget:
            return
        if not 0 < count_accesses(loop.body, lambda stmt: self._loads[id(stmt)]) <= MOST:
            return
        within = around.inside(loop)
        found = always_touched(loop.body, self._inputs, self._loads_at, within, self._assigned)
        touched: dict[_Form, list[TouchedElements]] = defaultdict(list)
        loads: dict[_Form, set[int]] = defaultdict(set)
        for load, touch in found:
            form = load.buffer, frozenset(touch.terms.items())
            touched[form].append(touch)
            loads[form].add(id(load))
        for form, group in touched.items():
            name = form[0]
            rows = _Rows.of(group, self._inputs[name])
            places = rows.hints(within.loops, self._cache)
            if places and len(places) <= budget:
                budget -= len(places)
                self._hinted |= loads[form]
                yield from (Prefetch(name, place) for place in together(places))

    def _loads_at(self, stmt: Stmt) -> list[Load]:
        """Those that have no hints yet."""
        return [load for load in self._loads[id(stmt)] if id(load) not in self._hinted]


@dataclass(frozen=True)
class _Rows:
    """What a loop reads of a buffer in an iteration: elements by how far they are from the sum of
    `terms`, which are expressions and their factors; each is a lane of an access."""

    buffer: Buffer
    terms: Mapping[Expr, int]
    elements: Mapping[int, tuple[TouchedElements, int]]

    @classmethod
    def of(cls, touched: Sequence[TouchedElements], buffer: Buffer) -> _Rows:
        return cls(buffer, touched[0].terms, elements_of(touched))

    def hints(self, loops: Sequence[For], cache: int) -> list[Indices]:
        """Elements of the next block, for the last of these loops, from outside in; the block is
        what an iteration of one of the others reads."""
        offsets, line = sorted(self.elements), max(1, LINE // self.buffer.dtype.bytes)
        extent, gaps = offsets[-1] - offsets[0] + 1, any(b - a > line for a, b in pairwise(offsets))
        work, waste, trips = work_of(loops[-1].body), 1.0, 1
        for depth in reversed(range(len(loops))):
            loop = loops[depth]
            step, count = self._step(loop), len(range_of(loop))
            disjoint = depth < len(loops) - 1 and (step is None or abs(step) >= extent)
            found = disjoint and count > 1 and gaps and work >= DISTANCE
            near = line if waste > WASTE and count >= BLOCKS else 0
            swept = self._swept(loops[depth + 1 :], line, near) if found else None
            if swept is not None:
                fits = swept.lines * LINE <= cache / PART
                return self._evenly(swept, loop) if fits else []
            if found and waste <= WASTE:
                lines = self._lines(loops[depth + 1 :], line)
                small = len(lines) * LINE * trips <= waste * cache / PART
                return [self._later(offset, loop) for offset in lines] if small else []
            if step is None or not count:
                return []
            if abs(step) > extent + line:
                gaps = gaps or count > 1
            else:
                extent += abs(step) * (count - 1)
            waste *= min(count, max(1.0, line / abs(step))) if step else count
            trips, work = trips * count, work * count
        return []

    def _step(self, loop: For) -> int | None:
        """By how many elements an iteration moves them; None where that is not always the same."""
        variable = Var(loop.var, INT64)
        others = (term for term in self.terms if term != variable)
        return None if any(loop.var in names_in(t) for t in others) else self.terms.get(variable, 0)

    def _lines(self, loops: Sequence[For], line: int) -> list[int]:
        """The first elements of lines that were not read in the iterations before."""
        steps = [step for loop in loops if (step := self._step(loop))]
        new = [o for o in sorted(self.elements) if not any(o + s in self.elements for s in steps)]
        if not new:
            return []
        firsts = firsts_of_lines(new, line)
        follows = any(0 < new[0] + step - firsts[-1] <= line for step in steps)
        return firsts if follows or new[-1] == firsts[-1] else [*firsts, new[-1]]

    def _swept(self, loops: Sequence[For], line: int, near: int) -> _Swept | None:
        """What the iterations of loops read together, if it is the same stretch of memory for some
        of these loops, those that read elements again or move by less than `near`, and all that
        move by less."""
        steps = [(self._step(loop) or 0, loop) for loop in loops]
        ordered = sorted(((s, loop) for s, loop in steps if s), key=lambda each: each[0])
        if self.buffer.strides[-1] != 1 or not ordered or ordered[0][0] < 0:
            return None
        pieces = _joined(((o, o + 1) for o in self.elements), line)
        found: list[tuple[list[tuple[int, int]], int]] = []
        for number, (step, loop) in enumerate(ordered):
            again = step < near or any(o + step in self.elements for o in self.elements)
            count = len(range_of(loop))
            if len(pieces) * count > PIECES:
                break
            moved = ((a + step * i, b + step * i) for a, b in pieces for i in range(count))
            pieces = _joined(moved, line)
            if again:
                found.append((pieces, number + 1))
        if not found or len(found[-1][0]) > 1:
            return None
        ((begin, end),), count = found[-1]
        sweeping = [loop for _, loop in ordered[:count]]
        inner = [loop for loop in loops if any(loop is each for each in sweeping)]
        iterations = prod(len(range_of(loop)) for loop in inner)
        hints = -(-(end - begin) // (iterations * (line + line // LEFT_OUT)))
        step = -(-(end - begin) // (iterations * hints))
        others = prod(len(range_of(loop)) for s, loop in steps if s) // iterations
        repeated = prod(len(range_of(loop)) for s, loop in steps if not s)
        if max(1, line // step) * repeated > WASTE:
            return None
        return _Swept(inner, begin, hints, step, others * -(-(end - begin) // line))

    def _evenly(self, swept: _Swept, loop: For) -> list[Indices]:
        """Elements of a stretch as it is in the next iteration of a loop, for each iteration of
        those that go over it."""
        begins = {inner.var: inner.begin for inner in swept.loops}
        *rows, last = self._later(swept.begin, loop, begins)
        first = times(iteration_number(swept.loops), swept.hints * swept.step)
        first = binary("+", first, last, {})
        shifts = (Const(swept.step * hint, INT64) for hint in range(swept.hints))
        return [(*rows, binary("+", first, shift, {})) for shift in shifts]

    def _later(
        self, offset: int, loop: For, inner: Mapping[str, Expr] = MappingProxyType({})
    ) -> Indices:
        """An element as it is read in the next iteration of a loop, if there is one, at these
        values of variables of inner loops."""
        touch, lane = self.elements[offset]
        following = binary("+", Var(loop.var, INT64), Const(1, INT64), {})
        last = Const(range_of(loop)[-1], INT64)
        return touch.element(lane, {**inner, loop.var: binary("min", following, last, {})})


@dataclass(frozen=True)
class _Swept:
    """A stretch of memory that some loops, outermost first, go over: in each iteration so many
    `hints`, `step` elements apart, are as many as it has. With all loops there are so many
    `lines`."""

    loops: Sequence[For]
    begin: int
    hints: int
    step: int
    lines: int


def _joined(pieces: Iterable[tuple[int, int]], line: int) -> list[tuple[int, int]]:
    """Stretches from one element to before another, sorted, as one where less than a line is
    between them.

    >>> _joined([(40, 50), (0, 8), (9, 12)], 16)
    [(0, 12), (40, 50)]
    """
    found: list[tuple[int, int]] = []
    for begin, end in sorted(pieces):
        if found and begin - found[-1][1] < line:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found
