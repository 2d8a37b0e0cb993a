"""Guarded tiles: of a sum whose terms have a guard, as `j <= i ? a : 0`, the threads of a block run
no tiles whose guard fails for all of them, and test it in none in which it holds for all.

Threads wait for each other in loops over tiles, so the ends of these loops follow from what a block
knows, and not from what a thread knows. (`loop_splitting` does the same for loops of one thread.)
A guard that is the same for all terms of a sum is tested once, behind the sum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TypeGuard

from tc.affine.intervals import Interval
from tc.dtypes import INT64
from tc.kernel import ir
from tc.kernel.analysis.guard_ranges import guard_range
from tc.kernel.folding import FALSE, TRUE, binary, compare, constant, logical_and, select
from tc.kernel.intervals import is_in_bounds, launch_intervals, loop_interval
from tc.kernel.pass_manager import UNROLL_LIMIT
from tc.kernel.passes.deciding_tests import (
    adds_nothing,
    deciding_tests,
    inner_loops,
    is_decided_before,
    settled,
)
from tc.kernel.passes.loop_splitting import never_negative_zero
from tc.kernel.passes.unroll import unrolled_size
from tc.kernel.rebuild import LocalNames, Scope, Stmts, changed, map_operands, map_regions
from tc.kernel.walk import assigned, declared, loads_in, names_in, stored_in


def skip_guarded_tiles(kernel: ir.Kernel, *, limit: int = UNROLL_LIMIT) -> ir.Kernel:
    """The kernel in which loops of launches end, or begin, where guards of sums tell, and in which
    those iterations that need no test have none. Guards compare numbers of blocks and threads and
    variables of loops. What is read before a guard is tested stays within `limit` statements, after
    unrolling.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.folding import integer, select
    >>> from tc.kernel.printer import to_text
    >>> b, t, k, r = (ir.Var(name, INT64) for name in "btkr")
    >>> row = binary("+", binary("*", b, integer(8)), t)
    >>> step = binary("+", binary("*", k, integer(4)), r)
    >>> term = select(ir.Compare("<=", step, row), ir.Load("a", (row, step), FLOAT32),
    ...               ir.Const(0.0, FLOAT32))
    >>> add = ir.Store("s", (), binary("+", ir.Load("s", (), FLOAT32), term))
    >>> steps = ir.For("r", integer(0), integer(4), (add,), mark="unroll")
    >>> body = (ir.Store("s", (), ir.Const(0.0, FLOAT32)),
    ...         ir.For("k", integer(0), integer(16), (steps,)),
    ...         ir.Store("o", (row,), ir.Load("s", (), FLOAT32)))
    >>> grid = ir.Grid((ir.LaunchIndex("b", 8),), (ir.LaunchIndex("t", 8),), body)
    >>> buffers = (ir.Buffer("a", FLOAT32, (64, 64), (64, 1), "input"), ir.Buffer(
    ...     "o", FLOAT32, (64,), (1,), "output"), ir.Buffer("s", FLOAT32, (), (), "register"))
    >>> print(to_text(skip_guarded_tiles(ir.Kernel("sums", buffers, ((grid,),)))))
    kernel sums
      input a: float32[64, 64]
      output o: float32[64]
      register s: float32[]
    region
      blocks b in 0:8 of threads t in 0:8
        s[] = 0.0f
        let edge: int64 = (b * 8 + 7) / 4 + 1
        for k in 0:edge
          if k < (b * 8 - 3) / 4 + 1
            unroll for r in 0:4
              s[] = s[] + a[b * 8 + t, k * 4 + r]
          else
            unroll for r in 0:4
              s[] = s[] + (k * 4 + r <= b * 8 + t ? a[b * 8 + t, k * 4 + r] : 0.0f)
        o[b * 8 + t] = s[]
    """
    tiles = _GuardedTiles(
        positive=never_negative_zero(kernel),
        roles={buffer.name: buffer.role for buffer in kernel.buffers},
        shapes={buffer.name: buffer.shape for buffer in kernel.buffers},
        loads=_loads(sum(kernel.regions, ())),
        names=LocalNames(kernel),
        scope=Scope(assigned(kernel)),
        limit=limit,
    )
    return map_regions(kernel, lambda region: tiles.scope.map(region, tiles.statement))


@dataclass
class _GuardedTiles:
    """`positive` are the arrays of which no element is ever -0; `loads` counts those of the kernel,
    by buffer. A statement is run by `threads` of a block."""

    positive: frozenset[str]
    roles: Mapping[str, str]
    shapes: Mapping[str, tuple[int, ...]]
    loads: Counter[str]
    names: LocalNames
    scope: Scope
    limit: int
    grid: ir.Grid | None = None
    threads: Mapping[str, Interval] = field(default_factory=dict)

    def statement(self, stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if isinstance(stmt, ir.Grid):
            self.grid, self.threads = stmt, launch_intervals(replace(stmt, blocks=()))
        found = self._within(stmt) if _is_plain(stmt) and self.grid is not None else None
        if found is None:
            yield self.scope.map_inside(stmt, self.statement)
            return
        assert isinstance(stmt, ir.For)
        loop, edges, guards, certain = found
        yield from edges
        fixed = [guard for guard in guards if loop.var not in names_in(guard)]
        with self.scope.inside(stmt):
            behind = tuple(self._tested_once(stmt, fixed)) if fixed == guards else ()
            if behind:
                certain = TRUE
            body = tuple(s for old in loop.body for s in self._apart(old, loop, guards, certain))
        yield changed(loop, body=body)
        yield from behind

    def _within(
        self, loop: ir.For
    ) -> tuple[ir.For, list[ir.Let], list[ir.Compare], ir.Expr] | None:
        """The loop over the iterations in which guards may hold, with the locals that it takes,
        these guards, and a condition under which they hold; None where nothing is known."""
        bounds, inner = self.scope.bounds, {**self.threads, **inner_loops(loop.body)}
        own, begin, end = ir.Var(loop.var, INT64), loop.begin, loop.end
        inside = {**bounds, loop.var: loop_interval(begin, end, bounds)}
        certain: ir.Expr = TRUE
        guards: list[ir.Compare] = []
        for test in deciding_tests(loop.body):
            is_guard = names_in(test.left) and names_in(test.right)
            known = is_decided_before(test, loop, self.scope, inner.keys())
            if not is_guard or not known or not self._is_alike(test, loop, inner.keys()):
                continue
            found = guard_range(test, loop, inner, bounds)
            if found is None or not self._is_for_nothing(loop, test):
                continue
            guards.append(test)
            if found.falls:
                end = binary("min", end, found.possible[1], bounds)
                holds = compare("<", own, found.certain[1], inside)
            else:
                begin = binary("max", begin, found.possible[0], bounds)
                holds = compare(">=", own, found.certain[0], inside)
            certain = logical_and(certain, holds)
        if not guards:
            return None
        edges: list[ir.Let] = []
        ends: list[ir.Expr] = []
        for value in (begin, end):
            if not isinstance(value, ir.Var | ir.Const):
                edges.append(ir.Let(self.names.fresh("edge"), value))
                value = ir.Var(edges[-1].var, INT64)
            ends.append(value)
        return changed(loop, begin=ends[0], end=ends[1]), edges, guards, certain

    def _is_alike(self, test: ir.Compare, loop: ir.For, inner: Collection[str]) -> bool:
        """Whether all threads of a block find the same, but for their numbers and the variables of
        `inner` loops: what is read may have changed, or not be there yet."""
        around = {name for each in self.scope.loops for name in declared(each)}
        names = names_in(test) - {loop.var, *inner}
        return names <= around and not any(isinstance(e, ir.Load) for e in ir.walk(test))

    def _apart(
        self, stmt: ir.Stmt, loop: ir.For, guards: Iterable[ir.Compare], certain: ir.Expr
    ) -> Stmts:
        """A statement without guards, where it is certain that these hold, and otherwise with them,
        in fewer iterations of the loops in it."""
        block: Stmts = (stmt,)
        for guard in guards:
            block = settled(block, guard, TRUE)
        if block == (stmt,):
            return block
        if certain == TRUE:
            return block
        rest: Stmts = (stmt,)
        if any(loop.var in names_in(guard) for guard in guards):
            narrowed = self.scope.map(rest, self._narrowed)
            fits = sum(unrolled_size(each, {}) for each in narrowed) <= self.limit
            rest = narrowed if fits else rest
        return rest if certain == FALSE else (ir.If(certain, block, rest),)

    def _tested_once(self, loop: ir.For, guards: Sequence[ir.Compare]) -> Stmts:
        """The statements that set sums whose guards fail to 0, behind a loop that then needs no
        tests; none where a sum does not start at 0 before the loop, or has terms that can be
        computed only where their guards hold."""
        found: list[ir.Stmt] = []
        for store, around in self._nests(loop.body, ()):
            tests: list[ir.Expr] = [test for test in deciding_tests((store,)) if test in guards]
            if not tests:
                continue
            asked = frozenset[str]().union(*map(names_in, tests))
            own = {index.name for index in store.indices if isinstance(index, ir.Var)}
            if not own.issuperset(each.var for each in around if each.var in asked):
                return ()  # an element has terms for which guards hold, and others
            old = ir.Load(store.buffer, store.indices, store.value.dtype)
            zero = constant(0, store.value.dtype)
            value = select(reduce(logical_and, tests), old, zero)
            reset: ir.Stmt = replace(store, value=value)
            used = frozenset[str]().union(*map(names_in, (*store.indices, value)))
            without: Stmts = (store,)
            for guard in guards:
                without = settled(without, guard, TRUE)
            if not (self._starts_before(loop, store.buffer) and self._is_computed(without, old)):
                return ()
            for each in reversed(around):
                if each.var in used:
                    if each.mark != "unroll":
                        return ()
                    reset = changed(each, body=(reset,))
            found.append(reset)
        return tuple(found)

    def _nests(
        self, block: Stmts, around: tuple[ir.For, ...]
    ) -> Iterator[tuple[ir.Store, tuple[ir.For, ...]]]:
        """The stores in a block with the loops around them, while the scope is at each."""
        with self.scope.block():
            for stmt in block:
                if isinstance(stmt, ir.Store):
                    yield stmt, around
                with self.scope.inside(stmt):
                    for inner in ir.blocks(stmt):
                        loops = (*around, stmt) if isinstance(stmt, ir.For) else around
                        yield from self._nests(inner, loops)
                self.scope.learn(stmt)

    def _starts_before(self, loop: ir.For, buffer: str) -> bool:
        """Whether elements of a buffer are 0 before a loop, to which it alone adds."""
        assert self.grid is not None
        before = _before(self.grid.body, loop) or ()
        own = [s for s in ir.statements(self.grid.body) if _is_store(s, buffer)]
        inside = sum(_is_store(s, buffer) for s in ir.statements((loop,)))
        starts = [s for s in own if isinstance(s.value, ir.Const) and _is_zero(s.value)]
        return (
            self.roles[buffer] == "register"
            and any(_is_store(s, buffer) for s in ir.statements(before))
            and len(own) == inside + len(starts)
        )

    def _is_computed(self, stores: Stmts, old: ir.Load) -> bool:
        """Whether what is added can be computed wherever its guard fails."""
        for node in (node for stmt in stores for e in ir.expressions(stmt) for node in ir.walk(e)):
            match node:
                case ir.Binary(op="/" | "%", right=right) if node.dtype.is_integer:
                    if not isinstance(right, ir.Const):
                        return False
                case ir.Load() if node != old and not self._is_near(node):
                    return False
        return all(isinstance(stmt, ir.Store) for stmt in stores)

    def _narrowed(self, stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if isinstance(stmt, ir.Store):
            yield from self._conditional(stmt)
            return
        found = self._within(stmt) if _is_plain(stmt) else None
        new = self.scope.map_inside(stmt, self._narrowed)
        if found is not None:
            loop, edges, _, _ = found
            yield from edges
            assert isinstance(new, ir.For)
            new = changed(new, begin=loop.begin, end=loop.end)
        yield new

    def _conditional(self, store: ir.Store) -> Iterator[ir.Stmt]:
        """A sum that is added to where a guard holds, with what shared memory and registers have of
        its term read before: the branch is then one operation, and no jump."""
        match store.value:
            case ir.Binary(
                op="+",
                left=ir.Load(buffer=buffer, indices=indices) as old,
                right=ir.Select(condition=test, then=term, otherwise=ir.Const() as zero),
            ) if (buffer, indices) == (store.buffer, store.indices) and _is_zero(zero):
                values: dict[ir.Expr, ir.Var] = {}
                for load in dict.fromkeys(e for e in ir.walk(term) if isinstance(e, ir.Load)):
                    if not self._is_near(load):
                        yield store
                        return
                    values[load] = ir.Var(self.names.fresh(load.buffer), load.dtype)
                    yield ir.Let(values[load].name, load)

                def read(expr: ir.Expr) -> ir.Expr:
                    return values[expr] if expr in values else map_operands(expr, read)

                yield ir.If(test, (replace(store, value=binary("+", old, read(term))),))
            case _:
                yield store

    def _is_near(self, load: ir.Load) -> bool:
        """Whether a load is of a buffer of the block, and certainly of one of its elements."""
        shape = self.shapes[load.buffer]
        is_in = is_in_bounds(load.indices, shape, self.scope.bounds)
        return is_in and load.mask is None and self.roles[load.buffer] in ("shared", "register")

    def _is_for_nothing(self, loop: ir.For, test: ir.Compare) -> bool:
        """Whether iterations in which a test fails do nothing but to copy what they alone read."""
        uses = tuple(stmt for stmt in loop.body if test in deciding_tests((stmt,)))
        others = tuple(stmt for stmt in loop.body if stmt not in uses)
        own, copied = _loads(loop.body), stored_in(others)
        return (
            adds_nothing(settled(uses, test, FALSE))
            and stored_in(uses) <= self.positive
            and all(isinstance(stmt, _COPYING) for stmt in ir.statements(others))
            and all(self.roles[name] in ("shared", "register") for name in copied)
            and all(own[name] == self.loads[name] for name in copied)
        )


_COPYING = (
    ir.For | ir.If | ir.Let | ir.Store | ir.Comment
    | ir.CopyAsync | ir.Commit | ir.Wait | ir.Barrier
)  # fmt: skip


def _before(block: Stmts, loop: ir.For) -> Stmts | None:
    """The statements before a loop in the block where it stands; None where it is in no block."""
    for place, stmt in enumerate(block):
        if stmt is loop:
            return block[:place]
        for inner in ir.blocks(stmt):
            if (found := _before(inner, loop)) is not None:
                return found
    return None


def _is_store(stmt: ir.Stmt, buffer: str) -> TypeGuard[ir.Store]:
    return isinstance(stmt, ir.Store) and stmt.buffer == buffer


def _loads(stmts: Stmts) -> Counter[str]:
    return Counter(load.buffer for load in loads_in(stmts))


def _is_plain(stmt: ir.Stmt) -> TypeGuard[ir.For]:
    """Whether a statement is a loop that each thread runs by itself."""
    return isinstance(stmt, ir.For) and not stmt.mark


def _is_zero(value: ir.Const) -> bool:
    """Whether a constant is 0, and not -0."""
    return repr(float(value.value)) == "0.0"
