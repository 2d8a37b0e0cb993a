"""Software prefetch: hints for what the hardware prefetcher does not foresee, of large buffers.

*Blocks.* In each iteration of a loop some statements wait for memory, and compute little: they pack
a block of an input, go over a row for the first time, or store results. One nest of loops computes
most, while memory has nothing to do. There the blocks are asked for that are touched next.

*Gathered rows.* A processor foresees accesses that go on in steps, and it starts loads of the next
iterations as far as its window of instructions reaches. Rows of a table that are named by another
tensor are anywhere, and few of them fit into this window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from itertools import product
from math import prod

from tc.dtypes import INT64
from tc.extents.sizes import at_hint, is_tracked
from tc.kernel import ir
from tc.kernel.analysis.footprints import (
    BufferFootprint,
    Indices,
    Rows,
    accesses,
    firsts_of_lines,
    footprint,
    lanes_of,
    together,
)
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import binary, plus, select, times
from tc.kernel.rebuild import (
    MAX_VALUE_NODES,
    Scope,
    Stmts,
    changed,
    map_blocks,
    map_regions,
    substitute,
)
from tc.kernel.walk import (
    always_evaluated,
    assigned_in,
    declared,
    evaluated_once,
    is_small,
    is_tracked_end,
    iterations,
    names_in,
    stored_in,
)

BLOCK_DISTANCE = 1
"""Iterations from the hint at a block to the accesses."""

GATHER_DISTANCE = 8
"""Iterations from the hint at a gathered row to the access: measured, 4 or 16 help less."""

MIN_ITERATIONS = 2 * GATHER_DISTANCE
"""Iterations of a loop that has hints for its own ones only: the first ones, of whose rows nobody
was told, are half of these at most."""

MIN_BLOCK_LINES = 16
"""Lines of a block: the core itself waits for fewer at the same time."""

MAX_GATHERED_LINES = 8
"""Lines that an iteration asks for: processors wait for few at a time, and drop others."""

MAX_LINES_AT_ONCE = 32
"""Lines of a block that are asked for at once, at most: a core waits for about 32."""

BLOCKS_IN_CACHE = 4
"""A block is no larger than this part of the cache: the next one has a place beside it."""

OPERATIONS_PER_HINT = 2
"""Operations on vectors for each hint: with fewer, memory has no time to spare."""

MAX_HINTS_PER_LINE = 2.0
"""Hints for each line, on average: as many are worth it where they are spread more evenly."""


def prefetch(kernel: ir.Kernel, cache: int, *, line: int, page: int) -> ir.Kernel:
    """The kernel with hints at blocks and gathered rows of buffers larger than a cache. The sizes
    of cache, lines and pages are in bytes; a cache of 0 is not known, and there are no hints.

    Each block is asked for before the statements that touch it first, in the loops that compute
    most: if these statements are behind the loops, the block is that of this iteration; else that
    of the next one, and the last iteration asks for the first block of the next iteration of the
    loop around. No block is asked for of which the next iteration touches a part again, or that has
    no room in the cache.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import statement_lines
    >>> vector, lanes = FLOAT32.vector(16), ir.Ramp(ir.Const(0, INT64), 1, INT64.vector(16))
    >>> def over(variable, *body):
    ...     return ir.For(variable, ir.Const(0, INT64), ir.Const(40, INT64), body)
    >>> b, i, k = (ir.Var(name, INT64) for name in "bik")
    >>> copy = over("i", ir.Store("p", (i, lanes), ir.Load("x", (b, i, lanes), vector)))
    >>> terms = [ir.Binary("+", ir.Var(f"s{n}", vector), ir.Load("p", (k, lanes), vector), vector)
    ...          for n in range(8)]
    >>> sums = [ir.Set(f"s{n}", term) for n, term in enumerate(terms)]
    >>> buffers = (
    ...     ir.Buffer("x", FLOAT32, (40, 40, 16), (640, 16, 1), "input"),
    ...     ir.Buffer("p", FLOAT32, (40, 16), (16, 1), "scratch"),
    ...     ir.Buffer("t", FLOAT32, (2000, 16), (16, 1), "input"),
    ...     ir.Buffer("n", INT64, (40,), (1,), "input"),
    ...     ir.Buffer("o", FLOAT32, (40, 16), (16, 1), "output"),
    ... )
    >>> kernel = ir.Kernel("f", buffers, ((over("b", copy, over("k", *sums)),),))
    >>> hinted = prefetch(kernel, 65536, line=64, page=4096)
    >>> print(*list(statement_lines(hinted.regions[0][0]))[3:5], sep="\\n")
      for k in 0:40
        prefetch x[b + 1, 0, k * 16 + 15]

    Gathered rows are read in loops around no others, at indices that each iteration loads from
    another place: it computes those of a later iteration too, at the end of the loop those of the
    next iteration of the loop around. That is one that runs, so what is loaded to compute them is
    in bounds. Whether they are themselves, does not matter.

    >>> row = ir.Let("row", ir.Load("n", (k,), INT64))
    >>> read = ir.Load("t", (ir.Var("row", INT64), lanes), vector)
    >>> kernel = ir.Kernel("gather", buffers, ((over("k", row, ir.Store("o", (k, lanes), read)),),))
    >>> hinted = prefetch(kernel, 65536, line=64, page=4096)
    >>> print(*statement_lines(hinted.regions[0][0]), sep="\\n")
    for k in 0:40
      prefetch t[n[min(k + 8, 39)], 0:30:15]
      let row: int64 = n[k]
      o[k, 0:16] = t[row, 0:16]
    >>> prefetch(kernel, 128_000, line=64, page=4096) is kernel
    True
    """
    large = {b.name: b for b in kernel.arguments if at_hint(b.bytes) > cache}
    if not cache or not large:
        return kernel

    def hinted(region: Stmts) -> Stmts:
        scope = Scope(assigned_in(region))
        return _Hints(large, scope, cache // BLOCKS_IN_CACHE, line, page).within(
            region, frozenset()
        )

    return map_regions(kernel, hinted)


@dataclass(frozen=True)
class _Hints:
    """A region whose loops are met from outside in: a block that one asks for is not asked for
    again in the loops inside. `room` is what a block may take of the cache, in bytes."""

    large: Mapping[str, ir.Buffer]
    scope: Scope
    room: int
    line: int
    page: int

    def within(self, block: Stmts, known: frozenset[str], outer: ir.For | None = None) -> Stmts:
        """Statements, of the body of the loop `outer` if any, with hints at all but blocks of the
        `known` buffers."""

        def each(stmt: ir.Stmt) -> Iterator[ir.Stmt]:
            if not isinstance(stmt, ir.For):
                with self.scope.inside(stmt):
                    yield map_blocks(stmt, lambda inner: self.within(inner, known))
                return
            names, loop = self.at_blocks(stmt, known)
            if any(isinstance(inner, ir.For) for inner in ir.statements(loop.body)):
                with self.scope.inside(loop):
                    yield changed(loop, body=self.within(loop.body, names, loop))
            else:
                hints = tuple(self.at_gathered_rows(loop, outer))
                yield changed(loop, body=(*hints, *loop.body)) if hints else loop

        return self.scope.map(block, each)

    def at_blocks(self, loop: ir.For, known: frozenset[str]) -> tuple[frozenset[str], ir.For]:
        """The buffers that are known then, and a loop with hints in its loops that compute most."""
        counts = bool(iterations(loop)) or is_tracked_end(loop)
        busy = PrefetchLoop.of(loop.body) if counts else None
        if busy is None:
            return known, loop
        place = next(p for p, stmt in enumerate(loop.body) if stmt is busy.loops[0])
        spreads: list[SpreadHints] = []
        room = self.room
        for block, values in self.blocks(loop, place, known):
            size = block.lines(self.line) * self.line
            if MIN_BLOCK_LINES * self.line <= size <= room and (
                spread := busy.spread(block, values, self.line, spreads)
            ):
                room -= size
                spreads.append(spread)
                known |= {block.buffer.name}
        body = (*loop.body[:place], busy.with_hints(spreads), *loop.body[place + 1 :])
        return known, changed(loop, body=body) if spreads else loop

    def blocks(
        self, loop: ir.For, place: int, known: frozenset[str]
    ) -> Iterator[tuple[BufferFootprint, Mapping[str, ir.Expr]]]:
        """What an iteration of a loop touches and the next one does not, with the values of
        variables for which the busy loops, at this place of the body, ask for it. Rows that these
        loops read are not waited for where they are streams."""
        body, around = loop.body, [each for each in self.scope.loops if isinstance(each, ir.For)]
        outer = around[-1] if around and iterations(loop) else None
        following = later(loop, outer, BLOCK_DISTANCE, keeps_inside=False)
        before, busy, after = body[:place], body[place : place + 1], body[place + 1 :]
        with self.scope.inside(loop):
            for stmts, values in (before, following), (busy, following), (after, {}):
                stores = stmts is not busy
                touched = {name: None for name, _ in accesses(stmts, stores=stores)}
                for name in touched:
                    may_ask = bool(iterations(loop)) or self.has_strides(name)
                    if name in self.large and name not in known and may_ask:
                        found = footprint(self.large[name], stmts, self.scope, stores=stores)
                        streams = not stores and found and found.is_streams(self.line, self.page)
                        if found and not streams and found.is_left_by(loop):
                            yield found, values
                known |= touched.keys()
                for stmt in stmts:
                    self.scope.learn(stmt)

    def has_strides(self, name: str) -> bool:
        """Whether the strides of a large buffer are the same at all sizes of the call."""
        return name in self.large and not any(map(is_tracked, self.large[name].strides))

    def at_gathered_rows(self, loop: ir.For, outer: ir.For | None) -> Iterator[ir.Prefetch]:
        """Hints at the rows that an iteration of a loop reads some iterations later; with `outer`,
        the loop right around it, at the end of the loop in the next iteration of that one."""
        budget = MAX_GATHERED_LINES
        for buffer, places in self.gathered_rows(loop, outer):
            elements = self.line // self.large[buffer].dtype.bytes
            lines = [places[first] for first in firsts_of_lines(sorted(places), elements)]
            if len(lines) <= budget:
                budget -= len(lines)
                last = places[max(places)]
                if last != lines[-1]:  # it is in one more line where rows start inside of one
                    lines.append(last)
                yield from (ir.Prefetch(buffer, indices) for indices in together(lines))

    def gathered_rows(
        self, loop: ir.For, outer: ir.For | None
    ) -> Sequence[tuple[str, Mapping[int, Indices]]]:
        """Buffers, and the elements of them that a later iteration reads, by their distances from
        each other."""
        count = len(iterations(loop))
        found: Sequence[tuple[str, Mapping[int, Indices]]] = ()
        if outer is not None and iterations(outer) and count >= GATHER_DISTANCE:
            found = LaterIteration.of(loop, outer, self.scope).gathered(self.large)
        if not found and count >= MIN_ITERATIONS:
            found = LaterIteration.of(loop, None, self.scope).gathered(self.large)
        return found


def later(
    loop: ir.For, outer: ir.For | None, distance: int, *, keeps_inside: bool
) -> dict[str, ir.Expr]:
    """The variables of a loop, and of the one around it, so many iterations later: behind the last
    iteration follow the first ones of the next. With `keeps_inside`, this is an iteration that
    runs: at the end of the outermost loop its last one.

    >>> from tc.kernel.printer import expression_text
    >>> loop = ir.For("k", ir.Const(0, INT64), ir.Const(9, INT64), ())
    >>> found = later(loop, changed(loop, var="i"), 2, keeps_inside=False)
    >>> [f"{name}: {expression_text(value)}" for name, value in found.items()]
    ['k: k >= 7 ? k - 7 : k + 2', 'i: k >= 7 ? i + 1 : i']
    """
    variable, values, outermost = ir.Var(loop.var, INT64), iterations(loop), outer or loop
    following = plus(ir.Var(outermost.var, INT64), 1 if outer else distance)
    if keeps_inside:
        last = ir.Const(iterations(outermost)[-1], INT64)
        following = binary("min", following, last, {})
    if outer is None:
        return {loop.var: following}
    wraps = ir.Compare(">=", variable, ir.Const(values.stop - distance, INT64))
    shift = values.start + distance - values.stop
    first = loop.begin if distance == 1 else plus(variable, shift)
    return {
        loop.var: select(wraps, first, plus(variable, distance)),
        outer.var: select(wraps, following, ir.Var(outer.var, INT64)),
    }


# --- nested loops that compute, among whose statements hints are spread -------------------


@dataclass(frozen=True)
class SpreadHints:
    """Hints for each iteration of the innermost of the outer `depth` loops."""

    depth: int
    hints: Sequence[ir.Prefetch]


@dataclass(frozen=True)
class _Share:
    """The hints of each iteration of the innermost of `depth` loops: `lines` lines, `step` elements
    apart, of each of `rows` rows, which the `split` outermost loops share."""

    depth: int
    split: int
    rows: int
    lines: int
    step: int

    @property
    def hints(self) -> int:
        return self.rows * self.lines


@dataclass(frozen=True)
class PrefetchLoop:
    """Nested loops, outermost first, each the one that computes most in the body around it. All
    iterations together make `operations` operations on vectors."""

    loops: Sequence[ir.For]
    operations: int

    @classmethod
    def of(cls, body: Stmts) -> PrefetchLoop | None:
        """The nest in the body of a loop; None where no loop computes or trips are not known."""
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
        room = self.operations // OPERATIONS_PER_HINT - sum(
            len(s.hints) * self._trips(s.depth) for s in others
        )

        def asked(share: _Share) -> int:
            return share.hints * self._trips(share.depth)

        shares = self._shares(rows, max(1, line // block.buffer.dtype.bytes))
        few = [each for each in shares if each.hints <= MAX_LINES_AT_ONCE and asked(each) <= room]
        if not few:
            return None
        enough = MAX_HINTS_PER_LINE * block.lines(line)
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
        """The iterations of the outermost `depth` loops, all together."""
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
    """The number of an iteration of nested loops, counted from 0."""
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


# --- gathered rows: what is read at indices that are loaded -------------------------------


@dataclass(frozen=True)
class LaterIteration:
    """The iteration of a loop some iterations later, as expressions of this one: `values` are the
    variables of loops then. Until then what is `declared` between, and locals that are `changing`,
    may be others, and so may memory that is `stored` to; `checked` are conditions without which the
    call fails."""

    loop: ir.For
    scope: Scope
    values: Mapping[str, ir.Expr]
    declared: AbstractSet[str]
    changing: frozenset[str]
    stored: frozenset[str]
    checked: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, loop: ir.For, outer: ir.For | None, scope: Scope) -> LaterIteration:
        """In the same run of the loop, or at its end in the next iteration of the one around."""
        values = later(loop, outer, GATHER_DISTANCE, keeps_inside=True)
        body = (outer or loop).body  # what runs until then
        names = {name for stmt in ir.statements(body) for name in declared(stmt)}
        return cls(loop, scope, values, names - {loop.var}, assigned_in(body), stored_in(body))

    def gathered(self, large: Mapping[str, ir.Buffer]) -> list[tuple[str, dict[int, Indices]]]:
        """Of each row of large buffers that the iteration reads the elements, by their offsets."""
        rows: dict[tuple[str, frozenset[tuple[ir.Expr, int]]], dict[int, Indices]]
        rows = defaultdict(dict)
        with self.scope.inside(self.loop):
            for stmt in self.loop.body:
                for load in _loads(stmt):
                    if load.buffer in large:
                        for place in self.elements(load):
                            offset = lane_offsets(place, large[load.buffer].strides, 1, {}).scalars
                            row = load.buffer, frozenset(offset.terms.items())
                            rows[row].setdefault(offset.constant, place)
                self.scope.learn(stmt)
                match stmt:
                    case ir.If(condition=ir.Logical(op="!", operands=(ir.Var(name=name),))):
                        if any(isinstance(inner, ir.Fail) for inner in stmt.then):
                            self.checked.add(name)
        return [(buffer, places) for (buffer, _), places in rows.items()]

    def elements(self, load: ir.Load) -> Iterator[Indices]:
        """The indices of each lane of a load, if its rows are gathered."""
        lanes = list(map(lanes_of, load.indices))
        moved = [None if lane is None else self.index(lane) for lane, _ in lanes]
        found = [index for index in moved if index is not None]
        if len(found) < len(moved) or not any(map(self.is_gathered, load.indices)):
            return
        for lane in range(load.dtype.lanes):
            yield tuple(plus(at, step * lane) for at, (_, step) in zip(found, lanes, strict=True))

    def index(self, index: ir.Expr) -> ir.Expr | None:
        """An index, without a check whether it is in bounds; None where it is not known."""
        match index:
            case ir.Select(condition=ir.Var(name=name), then=ir.Var() as then) if (
                name in self.checked
            ):
                return self.expression(then)
            case _:
                return self.expression(index)

    def expression(self, expr: ir.Expr) -> ir.Expr | None:
        values = dict(self.values)
        for name in names_in(expr) & (self.declared | self.changing):
            value = self.scope.values.get(name)
            is_own = name not in self.changing and self.scope.loops_since(name) == []
            moved = self.expression(value) if value is not None and is_own else None
            if moved is None or moved.dtype.lanes > 1:
                return None
            values[name] = moved
        if any(isinstance(e, ir.Load) and e.buffer in self.stored for e in ir.walk(expr)):
            return None
        made = substitute(expr, values, {})
        return made if is_small(made, MAX_VALUE_NODES) else None

    def is_gathered(self, expr: ir.Expr) -> bool:
        """Whether an expression depends on what each iteration loads from another place."""
        loads = (node for node in ir.walk(expr) if isinstance(node, ir.Load))
        return any(self.loop.var in self.scope.loop_variables(e.indices) for e in loads) or any(
            self.is_gathered(self.scope.values[name])
            for name in names_in(expr) & self.scope.values.keys() & self.declared
        )


def _loads(stmt: ir.Stmt) -> Iterator[ir.Load]:
    """The loads that a statement itself makes, whatever the values of its operands."""
    waiting = list(reversed(evaluated_once(stmt)))
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, ir.Load):
            yield expr
        waiting.extend(reversed(always_evaluated(expr)))
