"""Software prefetch of gathers: rows of large tables whose numbers are read from memory.

A processor foresees accesses that go on in steps, and it starts loads of the next iterations as
far as its window of instructions reaches. Rows of a table that are named by another tensor are
anywhere, and few of them fit into this window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tc.dtypes import INT64
from tc.kernel import ir
from tc.kernel.analysis.cache_lines import Indices, firsts_of_lines, lanes_of, together
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import binary, select
from tc.kernel.rebuild import Stmts, changed, map_blocks, map_regions, map_statements, substitute
from tc.kernel.walk import assigned_in, iterations, names_in, stored_in

PREFETCH_DISTANCE = 8
"""Iterations from the hint to the access: measured, 4 or 16 help less."""

MIN_ITERATIONS = 2 * PREFETCH_DISTANCE
"""Iterations of a loop that has hints for its own ones only: the first ones, of whose rows nobody
was told, are half of these at most."""

MAX_LINES = 8
"""Lines that an iteration asks for: processors wait for few at a time, and drop others."""

MAX_INDEX_NODES = 80
"""Nodes of an index that is computed a second time."""


def prefetch_gathers(kernel: ir.Kernel, cache: int, *, line: int) -> ir.Kernel:
    """The kernel with hints at elements of buffers larger than a cache of so many bytes (0: it is
    not known how many, and there are no hints). Lines have so many bytes.

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
    return map_regions(kernel, lambda region: _block(region, large, None, line))


def _block(block: Stmts, large: Mapping[str, ir.Buffer], outer: ir.For | None, line: int) -> Stmts:
    """The statements of the body of a loop, if any, with hints."""

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        match stmt:
            case ir.For(body=body) if not any(
                isinstance(inner, ir.For) for inner in ir.statements(body)
            ):
                hints = tuple(_hints(stmt, outer, large, line))
                return (changed(stmt, body=(*hints, *body)) if hints else stmt,)
        around = stmt if isinstance(stmt, ir.For) else None
        return (map_blocks(stmt, lambda inner: _block(inner, large, around, line)),)

    return map_statements(block, each)


def _hints(
    loop: ir.For, outer: ir.For | None, large: Mapping[str, ir.Buffer], line: int
) -> Iterator[ir.Prefetch]:
    budget = MAX_LINES
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
    if outer is not None and iterations(outer) and count >= PREFETCH_DISTANCE:
        found = _gathered(loop, _Later.in_next(loop, outer), large)
        if found or count < MIN_ITERATIONS:
            yield from found
            return
    if count >= MIN_ITERATIONS:
        yield from _gathered(loop, _Later.in_loop(loop), large)


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
    def in_loop(cls, loop: ir.For) -> _Later:
        """In the same run of the loop, at last in its last iteration."""
        later = binary(
            "min", _plus(loop, PREFETCH_DISTANCE), ir.Const(iterations(loop)[-1], INT64), {}
        )
        return cls._of(loop, {loop.var: later}, loop.body)

    @classmethod
    def in_next(cls, loop: ir.For, outer: ir.For) -> _Later:
        """At the end of the loop, in the next iteration of the one around, if there is any."""
        begin, end = iterations(loop).start, iterations(loop).stop
        variable, other = ir.Var(loop.var, INT64), ir.Var(outer.var, INT64)
        wraps = ir.Compare(">=", variable, ir.Const(end - PREFETCH_DISTANCE, INT64))
        following = binary("min", _plus(outer, 1), ir.Const(iterations(outer)[-1], INT64), {})
        later = select(
            wraps, _plus(loop, begin + PREFETCH_DISTANCE - end), _plus(loop, PREFETCH_DISTANCE)
        )
        values = {loop.var: later, outer.var: select(wraps, following, other)}
        return cls._of(loop, values, outer.body)

    @classmethod
    def _of(cls, loop: ir.For, values: dict[str, ir.Expr], body: tuple[ir.Stmt, ...]) -> _Later:
        """`body` is what runs until then."""
        inside = tuple(ir.statements(body))
        changing = assigned_in(body)
        stored = stored_in(body)
        unknown = {s.var for s in inside if isinstance(s, ir.Let)} | changing
        return cls(values, changing, stored, unknown, {loop.var})

    def learn(self, stmt: ir.Stmt) -> None:
        """What a statement says about those behind it."""
        match stmt:
            case ir.Let(var=var, value=value) if (
                var not in self.changing and value.dtype.lanes == 1
            ):
                later = self.of_expression(value)
                if later is not None:
                    self.values[var] = later
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
        later = substitute(expr, self.values, {})
        return (
            later
            if len(list(islice(ir.walk(later), MAX_INDEX_NODES + 1))) <= MAX_INDEX_NODES
            else None
        )

    def is_gathered(self, expr: ir.Expr) -> bool:
        """Whether it depends on what each iteration loads from another place."""
        loads = (node for node in ir.walk(expr) if isinstance(node, ir.Load))
        places = (name for load in loads for index in load.indices for name in names_in(index))
        return not self.gathered.isdisjoint(names_in(expr)) or not self.moving.isdisjoint(places)


def _plus(loop: ir.For, distance: int) -> ir.Expr:
    return binary("+", ir.Var(loop.var, INT64), ir.Const(distance, INT64), {})


def _gathered(
    loop: ir.For, later: _Later, large: Mapping[str, ir.Buffer]
) -> list[tuple[str, dict[int, Indices]]]:
    found: dict[tuple[str, frozenset[tuple[ir.Expr, int]]], dict[int, Indices]] = defaultdict(dict)
    for stmt in loop.body:
        for load in _loads(stmt):
            if load.buffer in large:
                strides = large[load.buffer].strides
                for place in _elements(load, later):
                    offset = lane_offsets(place, strides, 1, {})
                    terms = frozenset(offset.scalars.items())
                    found[load.buffer, terms].setdefault(offset.constant, place)
        later.learn(stmt)
    return [(buffer, places) for (buffer, _), places in found.items()]


def _loads(stmt: ir.Stmt) -> Iterator[ir.Load]:
    """The loads that a statement itself makes, whatever the values of its operands."""
    if isinstance(stmt, ir.If | ir.Let | ir.Set | ir.Store):
        for expr in ir.own_expressions(stmt):
            yield from _evaluated(expr)


def _evaluated(expr: ir.Expr) -> Iterator[ir.Load]:
    if isinstance(expr, ir.Load):
        yield expr
    match expr:
        case ir.Select(condition=condition, dtype=dtype) if dtype.lanes == 1:
            operands: Sequence[ir.Expr] = (condition,)
        case ir.Logical(operands=(first, _), dtype=dtype) if dtype.lanes == 1:
            operands = (first,)
        case _:
            operands = ir.children(expr)
    for operand in operands:
        yield from _evaluated(operand)


def _elements(load: ir.Load, later: _Later) -> Iterator[Indices]:
    """Those of a later iteration, if their rows are gathered."""
    lanes = list(map(lanes_of, load.indices))
    moved = [None if lane is None else later.of_index(lane) for lane, _ in lanes]
    found = [index for index in moved if index is not None]
    if len(found) < len(moved) or not any(map(later.is_gathered, load.indices)):
        return
    for lane in range(load.dtype.lanes):
        shifts = (ir.Const(step * lane, INT64) for _, step in lanes)
        yield tuple(
            binary("+", index, shift, {}) for index, shift in zip(found, shifts, strict=True)
        )
