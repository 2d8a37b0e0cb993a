"""Pipelining: tiles are copied to shared memory while those before them are used.

A loop that copies a tile, waits for all threads, and uses the tile, leaves memory idle while it
computes, and the processor while it copies. Where the buffers of the tiles have several stages, the
copies run ahead: before the loop, the first tiles are copied to all stages but one; an iteration
waits for its own tile, then for the other threads, which have by then left the last stage that was
used, into which it begins to copy, and then uses its tile. One barrier in an iteration is enough.

What is copied by `CopyAsync` is in flight meanwhile. Of plain copies, the loads come first, to
locals, and the stores after the tile was used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tc.dtypes import INT64, DType
from tc.kernel import ir
from tc.kernel.folding import binary, bits_of, compare, integer, of_bits
from tc.kernel.rebuild import (
    LocalNames,
    Stmts,
    changed,
    map_blocks,
    map_expressions,
    map_operands,
    map_regions,
    map_statements,
    substitute,
)
from tc.kernel.walk import (
    iterations,
    loaded_in,
    loads_in,
    names_in,
    stored_in,
    visible_across_barrier,
)


def pipeline(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel in which the loops that fill buffers of several stages copy ahead.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.folding import constant
    >>> from tc.kernel.printer import to_text
    >>> k, t, zero = ir.Var("k", INT64), ir.Var("t", INT64), integer(0)
    >>> copy = ir.CopyAsync("s", (zero, t), "a", (k, t))
    >>> use = ir.Store("o", (k, t), ir.Load("s", (zero, constant(7, INT64)), FLOAT32))
    >>> body = copy, ir.Commit(), ir.Wait(), ir.Barrier(), use, ir.Barrier()
    >>> loop = ir.For("k", zero, integer(9), body)
    >>> grid = ir.Grid((), (ir.LaunchIndex("t", 8),), (loop,))
    >>> roles = ("a", "input"), ("o", "output")
    >>> a, o = (ir.Buffer(name, FLOAT32, (9, 8), (8, 1), role) for name, role in roles)
    >>> s = ir.Buffer("s", FLOAT32, (2, 8), (8, 1), "shared", stages=2)
    >>> print(to_text(pipeline(ir.Kernel("f", (a, o, s), ((grid,),)))))
    kernel f
      input a: float32[9, 8]
      output o: float32[9, 8]
      shared s: float32[2, 8]
    region
      one block of threads t in 0:8
        unroll for stage in 0:1
          copy s[stage, t] = a[stage, t]
          commit
        for k in 0:9
          wait for all
          barrier
          if k < 8
            let stage_2: int64 = (k + 1) % 2
            copy s[stage_2, t] = a[k + 1, t]
          commit
          let stage_1: int64 = k % 2
          o[k, t] = s[stage_1, 7]
        barrier
    """
    staged = {b.name: b.stages for b in kernel.buffers if b.stages > 1}
    if not staged:
        return kernel
    dtypes = {b.name: b.dtype for b in kernel.buffers}
    accesses = _accesses(sum(kernel.regions, ()))
    visible = visible_across_barrier(kernel)
    pipelining = _Pipelining(staged, dtypes, accesses, visible, LocalNames(kernel))
    made = map_regions(kernel, lambda region: pipelining.block(region, is_repeated=False))
    plain = (replace(b, stages=1) if b.stages > 1 else b for b in made.buffers)
    return replace(made, buffers=(*plain, *pipelining.registers))


@dataclass(frozen=True)
class _Step:
    """An iteration of a loop that copies tiles to `buffers`, of several `stages`, and uses them."""

    buffers: frozenset[str]
    stages: int
    copies: Stmts
    uses: Stmts
    is_async: bool


@dataclass(frozen=True)
class _Pipelining:
    staged: Mapping[str, int]
    dtypes: Mapping[str, DType]
    accesses: Counter[str]
    visible: frozenset[str]
    names: LocalNames
    registers: list[ir.Buffer] = field(default_factory=list)

    def block(self, block: Stmts, *, is_repeated: bool) -> Stmts:
        """The block; `is_repeated`: a loop of a launch runs it several times."""

        def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
            step = self.step(stmt) if isinstance(stmt, ir.For) else None
            if step is not None:
                assert isinstance(stmt, ir.For)
                yield from self.ahead(stmt, step)
                # before the first copies of the next time, or others use what was used here
                used = (stored_in(step.uses) | loaded_in(step.uses)) - step.buffers
                if is_repeated or not self.visible.isdisjoint(used):
                    yield ir.Barrier()
                return
            inside = is_repeated or isinstance(stmt, ir.For)
            yield map_blocks(stmt, lambda inner: self.block(inner, is_repeated=inside))

        return map_statements(block, each)

    def step(self, loop: ir.For) -> _Step | None:
        """What an iteration does, if it is one that copies tiles and then uses them."""
        body = loop.body
        first = next((n for n, s in enumerate(body) if isinstance(s, ir.Barrier)), len(body))
        copies, uses = body[:first], body[first + 1 :]
        if not uses:
            return None
        is_async = bool(copies) and isinstance(copies[-1], ir.Wait)
        copies = copies[:-2] if is_async else copies
        buffers = stored_in(copies)
        if not copies or not buffers or not buffers <= self.staged.keys():
            return None
        plain = all(isinstance(s, _COPYING) for s in ir.statements(copies))
        stages = {self.staged[name] for name in buffers}
        others = stored_in(uses) | loaded_in(copies)
        if not plain or len(stages) > 1 or not buffers.isdisjoint(others):
            return None
        own = _accesses((loop,))
        if any(own[name] < self.accesses[name] for name in buffers):
            return None
        if not is_async and not _is_straight(copies):
            return None
        if uses and uses[-1] == ir.Barrier():
            uses = uses[:-1]
        own_expressions = (e for s in ir.statements(uses) for e in ir.own_expressions(s))
        named = set().union(*map(names_in, own_expressions))
        places = (s for s in copies if isinstance(s, ir.Let) and s.var in named)
        uses = (*places, *uses)  # copies run ahead, with places of their own
        return _Step(buffers, stages.pop(), copies, uses, is_async)

    def ahead(self, loop: ir.For, step: _Step) -> Iterator[ir.Stmt]:
        """The first copies, and the loop."""
        ahead, k = step.stages - 1, ir.Var(loop.var, INT64)
        first = self.names.fresh("stage")
        at = ir.Var(first, INT64)
        tile = binary("+", loop.begin, at)
        start = self.copied(step, loop.var, tile, at)
        start = (*start, *([ir.Commit()] if step.is_async else []))
        trips = binary("-", loop.end, loop.begin)
        if not (isinstance(trips, ir.Const) and trips.value >= ahead):
            inside = start[:-1] if step.is_async else start
            test = compare("<", tile, loop.end, {})
            start = (ir.If(test, inside), *start[len(inside) :])
        yield ir.For(first, integer(0), integer(ahead), start, mark="unroll")
        now, later = self.names.fresh("stage"), self.names.fresh("stage")
        used = tuple(self.placed(s, step, ir.Var(now, INT64)) for s in step.uses)
        place = _stage(binary("-", k, loop.begin), step.stages)
        next_tile = binary("+", k, integer(ahead))
        is_there = compare("<", k, binary("-", loop.end, integer(ahead)), {})
        later_stage = _stage(binary("-", next_tile, loop.begin), step.stages)
        begin = ir.Let(now, place), ir.Let(later, later_stage)
        to = ir.Var(later, INT64)
        if step.is_async:
            copies = begin[1], *self.copied(step, loop.var, next_tile, to)
            body: Stmts = (
                ir.Wait(step.stages - 2), ir.Barrier(), ir.If(is_there, copies), ir.Commit(),
                begin[0], *used,
            )  # fmt: skip
        else:
            registers = _InRegisters(step, self.names, self.dtypes)
            copies = self.copied(step, loop.var, next_tile, to)
            both = [registers.split(stmt) for stmt in copies]
            self.registers.extend(registers.registers)
            loads, stores = (tuple(halves) for halves in zip(*both, strict=True))
            body = (
                ir.Barrier(), begin[1], ir.If(is_there, loads), begin[0], *used,
                ir.If(is_there, stores),
            )  # fmt: skip
        yield changed(loop, body=body)

    def copied(self, step: _Step, var: str, tile: ir.Expr, stage: ir.Expr) -> Stmts:
        """The copies of a tile to a stage, whose locals are others than those of the uses."""
        named = {s.var for s in step.uses if isinstance(s, ir.Let)}
        lets = [s for s in step.copies if isinstance(s, ir.Let) and s.var in named]
        names = {let.var: self.names.fresh(let.var) for let in lets}
        values: dict[str, ir.Expr] = {var: tile}
        values |= {let.var: ir.Var(names[let.var], let.value.dtype) for let in lets}

        def moved(expr: ir.Expr) -> ir.Expr:
            return substitute(expr, values, {})

        def each(stmt: ir.Stmt) -> ir.Stmt:
            inside = map_blocks(stmt, lambda inner: tuple(map(each, inner)))
            new = map_expressions(inside, moved)
            if isinstance(new, ir.Store | ir.CopyAsync) and new.buffer in step.buffers:
                return replace(new, indices=(stage, *new.indices[1:]))
            if isinstance(new, ir.Let):
                return replace(new, var=names.get(new.var, new.var))
            return new

        return tuple(map(each, step.copies))

    def placed(self, stmt: ir.Stmt, step: _Step, stage: ir.Expr) -> ir.Stmt:
        """A statement that reads tiles of a stage."""

        def read(expr: ir.Expr) -> ir.Expr:
            new = map_operands(expr, read)
            if isinstance(new, ir.Load) and new.buffer in step.buffers:
                return replace(new, indices=(stage, *new.indices[1:]))
            return new

        inside = map_blocks(stmt, lambda inner: tuple(self.placed(s, step, stage) for s in inner))
        return map_expressions(inside, read)


class _InRegisters:
    """Copies of a tile in loops that are unrolled: what they load is held in `registers`, a buffer
    for each store, with an element for each iteration of the loops around it."""

    def __init__(self, step: _Step, names: LocalNames, dtypes: Mapping[str, DType]) -> None:
        self.step, self.names, self.dtypes = step, names, dtypes
        self.registers: list[ir.Buffer] = []

    def split(self, stmt: ir.Stmt, loops: tuple[ir.For, ...] = ()) -> tuple[ir.Stmt, ir.Stmt]:
        """The loads to registers, and the stores of these."""
        if isinstance(stmt, ir.Store) and stmt.buffer in self.step.buffers:
            value, stored = bits_of(stmt.value), self.dtypes[stmt.buffer]
            dtype = value.dtype
            shape = tuple(len(iterations(loop)) for loop in loops)
            name = self.names.fresh(f"{stmt.buffer}_ahead")
            self.registers.append(ir.Buffer(name, dtype, shape, ir.row_major(shape), "register"))
            at = tuple(ir.Var(loop.var, INT64) for loop in loops)
            held = of_bits(ir.Load(name, at, dtype), stored)
            return ir.Store(name, at, value), replace(stmt, value=held)
        if isinstance(stmt, ir.For):
            loops = (*loops, stmt)
        known: dict[int, tuple[ir.Stmt, ir.Stmt]] = {}

        def part(which: int) -> ir.Stmt:
            def each(inner: ir.Stmt) -> ir.Stmt:
                if id(inner) not in known:
                    known[id(inner)] = self.split(inner, loops)
                return known[id(inner)][which]

            return map_blocks(stmt, lambda block: tuple(map(each, block)))

        return part(0), part(1)


_COPYING = ir.For | ir.If | ir.Let | ir.Store | ir.CopyAsync | ir.Comment


def _accesses(stmts: Stmts) -> Counter[str]:
    """How often buffers stand in statements."""
    inside = tuple(ir.statements(stmts))
    found = Counter(load.buffer for load in loads_in(stmts))
    found.update(s.buffer for s in inside if isinstance(s, ir.Store | ir.CopyAsync))
    found.update(s.source for s in inside if isinstance(s, ir.CopyAsync))
    return found


def _stage(number: ir.Expr, stages: int) -> ir.Expr:
    return binary("%", number, integer(stages))


def _is_straight(copies: Stmts) -> bool:
    """Whether all loops are to be unrolled."""
    loops = (s for s in ir.statements(copies) if isinstance(s, ir.For))
    return all(loop.mark == "unroll" for loop in loops)
