"""Recurrences of sums in vectors: each adds up its lanes by shuffles, then what went before.

    for i: { s = s + x[i]; o[i] = s }

takes the latency of an addition for each element, while

    for b: { t = x[16*b:16*b+16]
             for h in 1, 2, 4, 8: of 2 * h lanes, the last h += the last one of the others
             o[16*b:16*b+16] = s + t; s += the last lane of t }

takes that of one for 16 (Sklansky, "Conditional-sum addition logic", 1960). Reductions may be in
any order (R5).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tc.builtins import identity
from tc.dtypes import INT64, DType
from tc.extents.sizes import as_integer, at_hint
from tc.kernel import ir
from tc.kernel.folding import binary, broadcast, integer, is_number, ramp, select
from tc.kernel.intervals import loop_interval
from tc.kernel.passes.deciding_tests import is_plain
from tc.kernel.rebuild import (
    LocalNames,
    Scope,
    Stmts,
    changed,
    map_expressions,
    map_operands,
    map_regions,
    substitute,
)
from tc.kernel.walk import assigned, loads_in, read_names

OPERATIONS = ("+", "*", "min", "max")

LEAST_LANES = 4
"""Shorter vectors take as many operations as additions one after the other."""


def add_prefixes_by_vectors(kernel: ir.Kernel, lanes_bits: int) -> ir.Kernel:
    """The kernel with recurrences over elements that lie next to each other in vectors.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import to_text
    >>> i, held = ir.Var("i", INT64), ir.Load("s", (integer(0),), FLOAT32)
    >>> step = ir.Store("s", (integer(0),), binary("+", held, ir.Load("x", (i,), FLOAT32)))
    >>> rows = ir.For("i", integer(0), integer(10), (step, ir.Store("o", (i,), held)))
    >>> buffers = (ir.Buffer("x", FLOAT32, (10,), (1,), "input"),
    ...            ir.Buffer("o", FLOAT32, (10,), (1,), "output"),
    ...            ir.Buffer("s", FLOAT32, (1,), (1,), "register"))
    >>> print(to_text(add_prefixes_by_vectors(ir.Kernel("f", buffers, ((rows,),)), 128)))
    kernel f
      input x: float32[10]
      output o: float32[10]
      register s: float32[1]
      register s_sums: float32[4]
      register s_carry: float32[4]
    region
      s_carry[0:4] = float32x4(s[0])
      for i_block in 0:2
        vector for i_lane in 0:4
          let i: int64 = i_block * 4 + i_lane
          s_sums[i_lane] = x[i]
        s_sums[0:4] = s_sums[0:4] + shuffle(s_sums[0:4], float32x4(0.0), [4, 0, 4, 2])
        s_sums[0:4] = s_sums[0:4] + shuffle(s_sums[0:4], float32x4(0.0), [4, 4, 1, 1])
        let s_carry_1: float32x4 = s_carry[0:4] + shuffle(s_sums[0:4], s_sums[0:4], [3, 3, 3, 3])
        s_sums[0:4] = s_carry[0:4] + s_sums[0:4]
        s_carry[0:4] = s_carry_1
        vector for i_lane in 0:4
          let i: int64 = i_block * 4 + i_lane
          o[i] = s_sums[i_lane]
      s[0] = reduce(max, s_carry[0:4])
      for i in 8:10
        s[0] = s[0] + x[i]
        o[i] = s[0]
    """
    registers = frozenset(b.name for b in kernel.buffers if b.role == "register")
    if not (registers and lanes_bits):
        return kernel
    prefixes = _Prefixes(kernel, lanes_bits, registers)
    new = map_regions(kernel, lambda region: prefixes.scope.map(region, prefixes.statement))
    return changed(new, buffers=(*new.buffers, *prefixes.buffers)) if prefixes.buffers else new


@dataclass(frozen=True)
class _Sum:
    """A register to which each iteration adds a term."""

    register: str
    indices: tuple[ir.Expr, ...]
    op: str
    dtype: DType
    term: ir.Expr


@dataclass
class _Prefixes:
    kernel: ir.Kernel
    lanes_bits: int
    registers: frozenset[str]
    buffers: list[ir.Buffer] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names, self.scope = LocalNames(self.kernel), Scope(assigned(self.kernel))
        self.loads = Counter(load.buffer for body in self.kernel.regions for load in loads_in(body))
        self.strides = {b.name: b.strides for b in self.kernel.buffers}

    def statement(self, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        new = self.scope.map_inside(stmt, self.statement)
        if is_plain(new):
            flat = replace(new, body=tuple(map(_without_branch, new.body)))
            yield from self._in_vectors(flat) or (new,)
        else:
            yield new

    def _in_vectors(self, loop: ir.For) -> Stmts:
        """The loop over vectors, and one over the iterations that fill none; nothing where the loop
        is not of sums, or too short."""
        steps = self._steps(loop)
        if steps is None or (direction := self._direction(loop)) == 0:
            return ()
        sums = [each for each in steps if isinstance(each, _Sum)]
        lanes = self.lanes_bits // max(8 * each.dtype.bytes for each in sums)
        first, last = loop_interval(loop.begin, loop.end, self.scope.bounds)
        if lanes < LEAST_LANES or at_hint(last - first + 1) < lanes:
            return ()
        held = {
            each.register: _Running(
                each,
                self.buffer(f"{each.register}_sums", each.dtype, lanes),
                self.buffer(f"{each.register}_carry", each.dtype, lanes),
            )
            for each in sums
        }
        block, lane = (
            ir.Var(self.names.fresh(f"{loop.var}_{n}"), INT64) for n in ("block", "lane")
        )
        count = binary("/", binary("-", loop.end, loop.begin), integer(lanes))
        begin = binary("+", loop.begin, binary("*", block, integer(lanes)))
        at = binary("+", begin, lane)
        if direction < 0:  # lanes lie as the elements do
            at = binary("-", binary("+", begin, integer(lanes - 1)), lane)
        body: list[ir.Stmt] = []
        lets: list[ir.Stmt] = [ir.Let(loop.var, at)]
        stores: list[ir.Stmt] = []
        done: dict[str, _Running] = {}

        def value(expr: ir.Expr) -> ir.Expr:
            """With the running sums of a lane in place of the registers."""
            if isinstance(expr, ir.Load) and expr.buffer in done:
                return ir.Load(done[expr.buffer].sums.name, (lane,), expr.dtype)
            return map_operands(expr, value)

        def close() -> None:
            if stores:
                code = (*lets, *stores)
                body.append(ir.For(lane.name, integer(0), integer(lanes), code, mark="vector"))
                stores.clear()

        for step in steps:
            if isinstance(step, _Sum):
                running = held[step.register]
                stores.append(ir.Store(running.sums.name, (lane,), value(step.term)))
                close()
                body += running.added(direction, self.names.fresh(running.carry.name))
                done[step.register] = running
            else:
                (lets if isinstance(step, ir.Let) else stores).append(map_expressions(step, value))
        close()
        rest = replace(loop, begin=binary("+", loop.begin, binary("*", count, integer(lanes))))
        is_whole = is_number(binary("-", rest.end, rest.begin), 0)
        own = Counter(load.buffer for load in loads_in((loop,)))
        left = [r for n, r in held.items() if not is_whole or own[n] < self.loads[n]]
        return (
            *(running.begun() for running in held.values()),
            ir.For(block.name, integer(0), count, tuple(body)),
            *(running.ended() for running in left),
            *(() if is_whole else (rest,)),
        )

    def buffer(self, name: str, dtype: DType, lanes: int) -> ir.Buffer:
        made = ir.Buffer(self.names.fresh(name), dtype, (lanes,), (1,), "register")
        self.buffers.append(made)
        return made

    def _steps(self, loop: ir.For) -> list[_Sum | ir.Let | ir.Store] | None:
        """The body, if it adds to registers, and stores what these hold then at places that differ
        in each iteration; None where it does anything else."""
        steps: list[_Sum | ir.Let | ir.Store] = []
        sums: dict[str, _Sum] = {}
        stored: set[str] = set()
        for stmt in loop.body:
            match stmt:
                case ir.Comment():
                    continue
                case ir.Store(buffer=register, mask=None) if register in self.registers:
                    found = self._sum(stmt)
                    if found is None or register in sums:
                        return None
                    sums[register] = found
                    steps.append(found)
                case ir.Store(buffer=buffer, mask=None):
                    stored.add(buffer)
                    steps.append(stmt)
                case ir.Let():
                    steps.append(stmt)
                case _:
                    return None
        return steps if self._may_wait(steps, sums, stored) else None

    def _may_wait(
        self, steps: Sequence[_Sum | ir.Let | ir.Store], sums: Mapping[str, _Sum], stored: set[str]
    ) -> bool:
        """Whether iterations have nothing in common but the sums, which they read, whole, when
        they have added their own terms."""
        done: set[str] = set()
        for step in steps:
            expressions = (step.term,) if isinstance(step, _Sum) else ir.own_expressions(step)
            for load in (
                e for each in expressions for e in ir.walk(each) if isinstance(e, ir.Load)
            ):
                if load.buffer in sums:
                    if load.buffer not in done or load.indices != sums[load.buffer].indices:
                        return False
                elif load.buffer in stored or load.buffer in self.registers:
                    return False
            if isinstance(step, _Sum):
                done.add(step.register)
        return bool(sums) and bool(stored)

    def _sum(self, stmt: ir.Store) -> _Sum | None:
        match stmt.value:
            case ir.Binary(op=op, left=ir.Load(buffer=old, indices=places), right=term) if (
                op in OPERATIONS and (old, places) == (stmt.buffer, stmt.indices)
            ):
                is_own = all(isinstance(index, ir.Const) for index in places)
                dtype = stmt.value.dtype
                return _Sum(stmt.buffer, places, op, dtype, term) if is_own else None
        return None

    def _direction(self, loop: ir.For) -> int:
        """1 where elements next to each other are of iterations next to each other, -1 where these
        go from the last element to the first; 0 where elements lie apart."""
        steps: dict[str, int | None] = {loop.var: 1}
        found: set[int] = set()
        for stmt in loop.body:
            for expr in ir.own_expressions(stmt):
                for load in (e for e in ir.walk(expr) if isinstance(e, ir.Load)):
                    moved = self._moved(load, steps)
                    if moved:  # of other loads vectors are gathered
                        found.add(moved)
            if isinstance(stmt, ir.Let):
                steps[stmt.var] = _step(stmt.value, steps)
            elif isinstance(stmt, ir.Store) and stmt.buffer not in self.registers:
                found.add(self._moved(stmt, steps) or 0)
        return found.pop() if found in ({1}, {-1}) else 0

    def _moved(self, access: ir.Load | ir.Store, steps: Mapping[str, int | None]) -> int | None:
        """By how many elements an access is further on in the next iteration; None where that is
        not known."""
        total = 0
        for index, stride in zip(access.indices, self.strides[access.buffer], strict=True):
            step = _step(index, steps)
            if step is None:
                return None
            total += step * stride if step else 0
        return total


@dataclass(frozen=True)
class _Running:
    """A sum of vectors: `sums` has those of all lanes, each with the terms of the lanes before,
    and `carry`, in all lanes, that of the vectors before."""

    of: _Sum
    sums: ir.Buffer
    carry: ir.Buffer

    @property
    def lanes(self) -> int:
        return self.sums.shape[0]

    def begun(self) -> ir.Stmt:
        first = ir.Load(self.of.register, self.of.indices, self.of.dtype)
        return self._stored(self.carry, broadcast(first, self.lanes))

    def ended(self) -> ir.Stmt:
        """All lanes are equal, so that any of them is the greatest."""
        last = ir.Reduce("max", self._loaded(self.carry), self.of.dtype)
        return ir.Store(self.of.register, self.of.indices, last)

    def added(self, direction: int, name: str) -> Iterator[ir.Stmt]:
        """The terms of the lanes before are added to those of each, then what went before: last, so
        that no vector waits for another but in that."""
        dtype, lanes, op = self.of.dtype.vector(self.lanes), self.lanes, self.of.op
        neutral = ir.Const(identity(op, self.of.dtype), dtype)
        own = self._loaded(self.sums)
        half = 1
        while half < lanes:
            # Halves next to each other: the second one adds all of the first, its last lane.
            places = [n // half * half - 1 if n & half else lanes for n in range(lanes)]
            if direction < 0:
                places = [lanes - 1 - p if p < lanes else p for p in reversed(places)]
            other = ir.Shuffle(own, neutral, tuple(places), dtype)
            yield self._stored(self.sums, ir.Binary(op, own, other, dtype))
            half *= 2
        last = ir.Shuffle(own, own, (lanes - 1 if direction > 0 else 0,) * lanes, dtype)
        before = self._loaded(self.carry)
        yield ir.Let(name, ir.Binary(op, before, last, dtype))
        yield self._stored(self.sums, ir.Binary(op, before, own, dtype))
        yield self._stored(self.carry, ir.Var(name, dtype))

    def _loaded(self, buffer: ir.Buffer) -> ir.Load:
        return ir.Load(buffer.name, (self._all,), self.of.dtype.vector(self.lanes))

    def _stored(self, buffer: ir.Buffer, value: ir.Expr) -> ir.Store:
        return ir.Store(buffer.name, (self._all,), value)

    @property
    def _all(self) -> ir.Expr:
        return ramp(integer(0), 1, self.lanes)


def _without_branch(stmt: ir.Stmt) -> ir.Stmt:
    """A step of a sum that only some iterations take as one of all, with a neutral term."""
    match stmt:
        case ir.If(condition=condition, then=(*lets, ir.Store(value=value) as store), otherwise=()):
            values: dict[str, ir.Expr] = {}
            for let in lets:
                if not isinstance(let, ir.Let):
                    return stmt
                values[let.var] = substitute(let.value, values, {})
            value = substitute(value, values, {})
            if isinstance(value, ir.Binary) and value.op in OPERATIONS:
                neutral = ir.Const(identity(value.op, value.dtype), value.dtype)
                term = select(condition, value.right, neutral)
                return replace(store, value=replace(value, right=term))
    return stmt


def _step(expr: ir.Expr, steps: Mapping[str, int | None]) -> int | None:
    """By how much an index grows from one iteration to the next; None where that is not known."""
    match expr:
        case ir.Const():
            return 0
        case ir.Var(name=name):
            return steps.get(name, 0)
        case ir.Binary(op="+" | "-" as op, left=left, right=right):
            one, other = _step(left, steps), _step(right, steps)
            if one is None or other is None:
                return None
            return one + other if op == "+" else one - other
        case ir.Binary(op="*", left=left, right=ir.Const(value=factor)):
            one = _step(left, steps)
            return None if one is None else one * as_integer(factor)
    moving = {name for name, step in steps.items() if step != 0}
    return 0 if moving.isdisjoint(read_names(expr)) else None
