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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import prod

from tc.dtypes import INT64
from tc.kernel import ir
from tc.kernel.analysis.footprints import (
    BufferFootprint,
    Indices,
    Rows,
    accesses,
    firsts_of_lines,
    footprint,
    lanes_of,
    plus,
    times,
    together,
)
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import binary, select
from tc.kernel.rebuild import (
    Scope,
    Stmts,
    changed,
    map_blocks,
    map_regions,
    map_statements,
    substitute,
)
from tc.kernel.walk import (
    always_evaluated,
    assigned_in,
    evaluated_once,
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

MAX_INDEX_NODES = 80
"""Nodes of an index that is computed a second time."""


def prefetch(kernel: ir.Kernel, cache: int, *, line: int, page: int) -> ir.Kernel:
    """The kernel with hints at blocks and gathered rows of buffers larger than a cache. The sizes
    of cache, lines and pages are in bytes; a cache of 0 is not known, and there are no hints.
    """
    hinted = prefetch_blocks(kernel, cache, line=line, page=page)
    return prefetch_gathers(hinted, cache, line=line)


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


# --- blocks -----------------------------------------------------------------------------------


def prefetch_blocks(kernel: ir.Kernel, cache: int, *, line: int, page: int) -> ir.Kernel:
    """The kernel with hints at blocks of buffers larger than a cache. Sizes of the cache, of lines
    and of pages are in bytes; a cache of 0 is not known, and there are no hints.

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
        places = _BlockHints(
            large, Scope(assigned_in(region)), cache // BLOCKS_IN_CACHE, line, page
        )
        return places.hinted(region, frozenset())

    return map_regions(kernel, hinted)


@dataclass(frozen=True)
class _BlockHints:
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
        """The buffers that are known then, and a loop with hints in its loops that compute most."""
        busy = PrefetchLoop.of(loop.body) if iterations(loop) else None
        if busy is None:
            return known, loop
        place = next(p for p, stmt in enumerate(loop.body) if stmt is busy.loops[0])
        spreads: list[SpreadHints] = []
        room = self.room
        for block, values in self._blocks(loop, place, known):
            size = block.lines(self.line) * self.line
            if MIN_BLOCK_LINES * self.line <= size <= room and (
                spread := busy.spread(block, values, self.line, spreads)
            ):
                room -= size
                spreads.append(spread)
                known |= {block.buffer.name}
        body = (*loop.body[:place], busy.with_hints(spreads), *loop.body[place + 1 :])
        return known, changed(loop, body=body) if spreads else loop

    def _blocks(
        self, loop: ir.For, place: int, known: frozenset[str]
    ) -> Iterator[tuple[BufferFootprint, Mapping[str, ir.Expr]]]:
        """What an iteration of a loop touches and the next one does not, with the values of
        variables for which the busy loops, at this place of the body, ask for it. Rows that these
        loops read are not waited for where they are streams."""
        body, around = loop.body, [each for each in self.scope.loops if isinstance(each, ir.For)]
        outer = around[-1] if around else None
        following = later(loop, outer, BLOCK_DISTANCE, keeps_inside=False)
        before, busy, after = body[:place], body[place : place + 1], body[place + 1 :]
        with self.scope.inside(loop):
            for stmts, values in (before, following), (busy, following), (after, {}):
                stores = stmts is not busy
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


def prefetch_gathers(kernel: ir.Kernel, cache: int, *, line: int) -> ir.Kernel:
    """The kernel with hints at elements of buffers larger than a cache. Sizes of the cache and of
    lines are in bytes; a cache of 0 is not known, and there are no hints.

    These are read in loops around no others, at indices that each iteration loads from another
    place: it computes those of a later iteration too, at the end of the loop those of the next
    iteration of the loop around. That is one that runs, so what is loaded to compute them is in
    bounds. Whether they are themselves, does not matter.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import statement_lines
    >>> k, row = ir.Var("k", INT64), ir.Var("row", INT64)
    >>> lanes = ir.Ramp(ir.Const(0, INT64), 1, INT64.vector(16))
    >>> body = (
    ...     ir.Let("row", ir.Load("i", (k,), INT64)),
    ...     ir.Store("o", (k, lanes), ir.Load("t", (row, lanes), FLOAT32.vector(16))),
    ... )
    >>> buffers = (
    ...     ir.Buffer("t", FLOAT32, (1000, 16), (16, 1), "input"),
    ...     ir.Buffer("i", INT64, (50,), (1,), "input"),
    ...     ir.Buffer("o", FLOAT32, (50, 16), (16, 1), "output"),
    ... )
    >>> loop = ir.For("k", ir.Const(0, INT64), ir.Const(50, INT64), body)
    >>> kernel = ir.Kernel("gather", buffers, ((loop,),))
    >>> print(*statement_lines(prefetch_gathers(kernel, 63999, line=64).regions[0][0]), sep="\\n")
    for k in 0:50
      prefetch t[i[min(k + 8, 49)], 0:30:15]
      let row: int64 = i[k]
      o[k, 0:16] = t[row, 0:16]
    >>> prefetch_gathers(kernel, 64000, line=64) == kernel
    True
    """
    large = {b.name: b for b in kernel.arguments if b.bytes > cache}
    if not cache or not large:
        return kernel
    return map_regions(kernel, lambda region: _with_gather_hints(region, large, None, line))


def _with_gather_hints(
    block: Stmts, large: Mapping[str, ir.Buffer], outer: ir.For | None, line: int
) -> Stmts:
    """The statements of the body of a loop, if any, with hints."""

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        match stmt:
            case ir.For(body=body) if not any(
                isinstance(inner, ir.For) for inner in ir.statements(body)
            ):
                hints = tuple(_gather_hints(stmt, outer, large, line))
                return (changed(stmt, body=(*hints, *body)) if hints else stmt,)
        around = stmt if isinstance(stmt, ir.For) else None
        return (map_blocks(stmt, lambda inner: _with_gather_hints(inner, large, around, line)),)

    return map_statements(block, each)


def _gather_hints(
    loop: ir.For, outer: ir.For | None, large: Mapping[str, ir.Buffer], line: int
) -> Iterator[ir.Prefetch]:
    budget = MAX_GATHERED_LINES
    for buffer, places in _rows(loop, outer, large):
        elements = line // large[buffer].dtype.bytes
        lines = [places[first] for first in firsts_of_lines(sorted(places), elements)]
        if len(lines) <= budget:
            budget -= len(lines)
            last = places[max(places)]
            if last != lines[-1]:  # it is in one more line where rows start inside of one
                lines.append(last)
            yield from (ir.Prefetch(buffer, indices) for indices in together(lines))


# --- what is read at indices that are loaded --------------------------------------------------


def _rows(
    loop: ir.For, outer: ir.For | None, large: Mapping[str, ir.Buffer]
) -> Iterator[tuple[str, Mapping[int, Indices]]]:
    """Buffers, and the elements of them that a later iteration reads, by their distances from each
    other."""
    count = len(iterations(loop))
    if outer is not None and iterations(outer) and count >= GATHER_DISTANCE:
        found = _gathered(loop, _Later.of(loop, outer), large)
        if found or count < MIN_ITERATIONS:
            yield from found
            return
    if count >= MIN_ITERATIONS:
        yield from _gathered(loop, _Later.of(loop, None), large)


@dataclass
class _Later:
    """Expressions of a body, as they will be some iterations later: of variables outside of the
    body, but for those that are `unknown`, as they are `changing` before. Memory that is `stored`
    to changes too. `checked` are conditions without which the call fails; `moving` locals differ
    between iterations, and `gathered` ones are loaded for each."""

    values: dict[str, ir.Expr]
    changing: frozenset[str]
    stored: frozenset[str]
    unknown: set[str]
    moving: set[str]
    gathered: set[str] = field(default_factory=set)
    checked: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, loop: ir.For, outer: ir.For | None) -> _Later:
        """In the same run of the loop, or at its end in the next iteration of the one around."""
        values = later(loop, outer, GATHER_DISTANCE, keeps_inside=True)
        body = (outer or loop).body  # what runs until then
        changing = assigned_in(body)
        unknown = {s.var for s in ir.statements(body) if isinstance(s, ir.Let)} | changing
        return cls(values, changing, stored_in(body), unknown, {loop.var})

    def learn(self, stmt: ir.Stmt) -> None:
        """What a statement says about those behind it."""
        match stmt:
            case ir.Let(var=var, value=value) if (
                var not in self.changing and value.dtype.lanes == 1
            ):
                moved = self.of_expression(value)
                if moved is not None:
                    self.values[var] = moved
                    self.unknown.discard(var)
                    self.gathered |= {var} if self.is_gathered(value) else set()
                    self.moving |= {var} if names_in(value) & self.moving else set()
            case ir.If(condition=ir.Logical(op="!", operands=(ir.Var(name=name),)), then=then):
                if any(isinstance(inner, ir.Fail) for inner in then):
                    self.checked.add(name)

    def of_index(self, index: ir.Expr) -> ir.Expr | None:
        """An index, without a check whether it is in bounds."""
        match index:
            case ir.Select(condition=ir.Var(name=name), then=ir.Var() as then) if (
                name in self.checked
            ):
                return self.of_expression(then)
            case _:
                return self.of_expression(index)

    def of_expression(self, expr: ir.Expr) -> ir.Expr | None:
        for node in ir.walk(expr):
            if isinstance(node, ir.Var) and node.name in self.unknown:
                return None
            if isinstance(node, ir.Load) and node.buffer in self.stored:
                return None
        moved = substitute(expr, self.values, {})
        nodes = sum(1 for _ in islice(ir.walk(moved), MAX_INDEX_NODES + 1))
        return moved if nodes <= MAX_INDEX_NODES else None

    def is_gathered(self, expr: ir.Expr) -> bool:
        """Whether it depends on what each iteration loads from another place."""
        loads = (node for node in ir.walk(expr) if isinstance(node, ir.Load))
        places = (name for load in loads for index in load.indices for name in names_in(index))
        return not self.gathered.isdisjoint(names_in(expr)) or not self.moving.isdisjoint(places)


def _gathered(
    loop: ir.For, then: _Later, large: Mapping[str, ir.Buffer]
) -> list[tuple[str, dict[int, Indices]]]:
    found: dict[tuple[str, frozenset[tuple[ir.Expr, int]]], dict[int, Indices]] = defaultdict(dict)
    for stmt in loop.body:
        for load in _loads(stmt):
            if load.buffer in large:
                strides = large[load.buffer].strides
                for place in _elements(load, then):
                    offset = lane_offsets(place, strides, 1, {})
                    terms = frozenset(offset.scalars.terms.items())
                    found[load.buffer, terms].setdefault(offset.scalars.constant, place)
        then.learn(stmt)
    return [(buffer, places) for (buffer, _), places in found.items()]


def _loads(stmt: ir.Stmt) -> Iterator[ir.Load]:
    """The loads that a statement itself makes, whatever the values of its operands."""
    waiting = list(reversed(evaluated_once(stmt)))
    while waiting:
        expr = waiting.pop()
        if isinstance(expr, ir.Load):
            yield expr
        waiting.extend(reversed(always_evaluated(expr)))


def _elements(load: ir.Load, then: _Later) -> Iterator[Indices]:
    """The indices that a load has in a later iteration, if its rows are gathered."""
    lanes = list(map(lanes_of, load.indices))
    moved = [None if lane is None else then.of_index(lane) for lane, _ in lanes]
    found = [index for index in moved if index is not None]
    if len(found) < len(moved) or not any(map(then.is_gathered, load.indices)):
        return
    for lane in range(load.dtype.lanes):
        shifts = (ir.Const(step * lane, INT64) for _, step in lanes)
        yield tuple(
            binary("+", index, shift, {}) for index, shift in zip(found, shifts, strict=True)
        )
