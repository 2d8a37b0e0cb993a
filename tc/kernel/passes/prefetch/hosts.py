"""Hosts of hints: nested loops that compute, among whose statements hints are spread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

from tc.dtypes import INT64
from tc.kernel import ir
from tc.kernel.folding import binary
from tc.kernel.passes.prefetch.footprints import BufferFootprint, Rows, plus, times
from tc.kernel.rebuild import Stmts, changed
from tc.kernel.walk import iterations

WORK = 2
"""Operations on vectors for each hint: with fewer, memory has no time to spare."""

BURST = 32
"""Lines that are asked for at once, at most: a core waits for about so many."""

WASTE = 2.0
"""Hints for each line, on average: as many are worth it where they are spread more evenly."""


@dataclass(frozen=True)
class SpreadHints:
    """Hints for each iteration of the innermost of so many loops of a host."""

    depth: int
    hints: Sequence[ir.Prefetch]


@dataclass(frozen=True)
class _Share:
    """What each iteration of the innermost of `depth` loops asks for: of so many `rows`, shared by
    the `split` outermost loops, so many lines that are `step` elements apart."""

    depth: int
    split: int
    rows: int
    lines: int
    step: int

    @property
    def hints(self) -> int:
        return self.rows * self.lines


@dataclass(frozen=True)
class Host:
    """Nested loops, outermost first, each the one that computes most in the body around it. All
    iterations make so many `operations` on vectors."""

    loops: Sequence[ir.For]
    operations: int

    @classmethod
    def of(cls, body: Stmts) -> Host | None:
        """That of the body of a loop; None where no loop computes, or iterations are not known."""
        loops: list[ir.For] = []
        while loop := _busiest(loops[-1].body if loops else body):
            loops.append(loop)
        return cls(loops, _operations((loops[0],))) if loops else None

    def spread(
        self,
        block: BufferFootprint,
        values: Mapping[str, ir.Expr],
        line: int,
        others: Sequence[SpreadHints],
    ) -> SpreadHints | None:
        """Hints at the lines of a block, at these values of outer variables, evenly among the
        iterations of as many loops as can be without asking often for the same line; None where
        these compute too little for them and the `others`."""
        rows = block.rows(line)
        if rows is None:
            return None
        room = self.operations // WORK - sum(len(s.hints) * self._trips(s.depth) for s in others)

        def asked(share: _Share) -> int:
            return share.hints * self._trips(share.depth)

        shares = self._shares(rows, max(1, line // block.buffer.dtype.bytes))
        few = [each for each in shares if each.hints <= BURST and asked(each) <= room]
        if not few:
            return None
        enough = WASTE * block.lines(line)
        share = min(few, key=lambda each: (max(asked(each), enough), -each.depth))
        return SpreadHints(share.depth, self._hints(block, values, rows, share))

    def _shares(self, rows: Rows, elements: int) -> Iterator[_Share]:
        """The ways to share rows, of which a line has so many `elements`: no iteration has less
        than one for itself."""
        for depth in range(1, len(self.loops) + 1):
            for split in range(depth + 1):
                outer, inner = self._trips(split), self._trips(depth) // self._trips(split)
                if outer <= rows.count and inner <= rows.extent:
                    step = -(-rows.extent // inner)
                    lines = -(-step // elements)
                    own = -(-rows.count // outer)
                    yield _Share(depth, split, own, lines, -(-step // lines))

    def _hints(
        self, block: BufferFootprint, values: Mapping[str, ir.Expr], rows: Rows, share: _Share
    ) -> list[ir.Prefetch]:
        """Those of an iteration. Lines are counted from the ends of rows: that in which one begins
        is often that in which another ended before."""
        outer, inner = self.loops[: share.split], self.loops[share.split : share.depth]
        count = share.lines * self._trips(share.depth) // self._trips(share.split)
        begin = max(0, rows.extent - 1 - (count - 1) * share.step)
        first = times(_number(outer), share.rows)
        start = times(_number(inner), share.lines * share.step)
        hints = []
        for row, line in product(range(share.rows), range(share.lines)):
            along = plus(start, begin + line * share.step)
            shifts = (rows.dimension, plus(first, row)), (len(block.spans) - 1, along)
            hints.append(block.hint(shifts, values))
        return hints

    def _trips(self, depth: int) -> int:
        """The iterations of so many of the loops."""
        return prod(len(iterations(loop)) for loop in self.loops[:depth])

    def with_hints(self, spreads: Sequence[SpreadHints]) -> ir.For:
        """The outermost loop, with hints evenly among the statements of the bodies."""
        *outer, made = self.loops
        for depth in range(len(self.loops), 0, -1):
            body = list(made.body)
            hints = [hint for spread in spreads if spread.depth == depth for hint in spread.hints]
            for number, hint in reversed(list(enumerate(hints))):
                body.insert(number * len(made.body) // len(hints), hint)
            made = changed(made, body=tuple(body))
            if outer:
                around, inner = outer.pop(), self.loops[depth - 1]
                inside = (made if stmt is inner else stmt for stmt in around.body)
                made = changed(around, body=tuple(inside))
        return made


def _number(loops: Sequence[ir.For]) -> ir.Expr:
    """That of an iteration of nested loops, counted from 0."""
    number: ir.Expr = ir.Const(0, INT64)
    for loop in loops:
        own = binary("-", ir.Var(loop.var, INT64), loop.begin, {})
        number = binary("+", times(number, len(iterations(loop))), own, {})
    return number


def _busiest(body: Stmts) -> ir.For | None:
    """The loop that computes most, of equals the last; None where none does."""
    found, most = None, 0
    for stmt in body:
        if isinstance(stmt, ir.For) and (work := _operations((stmt,))) and work >= most:
            found, most = stmt, work
    return found


def _operations(stmts: tuple[ir.Stmt, ...]) -> int:
    """How many on vectors run."""
    total = 0
    for stmt in stmts:
        match stmt:
            case ir.For(body=body):
                total += len(iterations(stmt)) * _operations(body)
            case ir.If(then=then, otherwise=otherwise):
                total += max(_operations(then), _operations(otherwise))
            case _:
                nodes = (node for expr in ir.own_expressions(stmt) for node in ir.walk(expr))
                total += sum(
                    isinstance(e, ir.Binary | ir.Call) and e.dtype.lanes > 1 for e in nodes
                )
    return total
