"""Blocks and threads: how `evaluate` runs a Grid.

All threads of a block, and of some blocks, run at once, statement by statement: a value is one
scalar for all of them, or an array of one element for each; where conditions and bounds of loops
differ, the statements in them run for the threads under a mask. As nothing that one thread writes
may be used by another before a Barrier, nor by another block before one of the grid, this gives
what any other order gives. Blocks run in shuffled order, all of them up to a barrier of the grid
before one goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.builtins.operators import UFUNCS
from tc.dtypes import Array
from tc.errors import InternalError
from tc.kernel import ir
from tc.kernel.grid_memory import Active, BlocksMemory, Breach, Geometry, GridMemory
from tc.kernel.memory import Memory
from tc.kernel.operations import (
    Environment,
    Evaluated,
    broken_promise,
    operands_fault,
    operation,
    store_fault,
)
from tc.kernel.printer import PrintedNode, node_text
from tc.kernel.walk import launched, stored_in, updated_in

_LANES = 1024
_ELEMENTS = 1 << 24
"""About how many threads run at once, and elements of private buffers are held for them; at least
one block is."""


def run_grid(grid: ir.Grid, kernel: ir.Kernel, memory: Memory) -> ir.Failure | None:
    """Runs one launch; returns the failed check of the first block and thread that has one, in
    their order, which may not be the first in time.

    Raises InternalError, naming node, element, block and thread, where one of them uses an element
    that is out of bounds or not yet written, or that another uses meanwhile and one of the two
    writes, and where not all threads of a block meet at a Barrier. Vectors are not run here.
    """
    for stmt in ir.statements(grid.body):
        if any(expr.dtype.lanes > 1 for expr in ir.expressions(stmt)):
            raise broken_promise(kernel, stmt, "vectors are not run in blocks and threads")
    order = np.random.default_rng(0).permutation(launched(grid.blocks))
    buffers = {buffer.name: buffer for buffer in kernel.buffers}
    geometry, stored, updated = Geometry(grid, order), stored_in(grid.body), updated_in(grid.body)
    together = GridMemory(geometry, buffers, memory, stored, updated)
    failures: dict[tuple[int, int], ir.Failure] = {}
    step = _blocks_at_once(together.geometry, kernel)
    running = [
        _run_blocks(grid, kernel, together, places, failures)
        for places in np.split(np.arange(order.size), range(step, order.size, step))
    ]
    while running:
        running = [blocks for blocks in running if next(blocks, False)]
        together.meet()
    together.finish()
    return failures[min(failures)] if failures else None


def _blocks_at_once(geometry: Geometry, kernel: ir.Kernel) -> int:
    private = [b for b in kernel.buffers if b.role in ir.PRIVATE]
    elements = sum(
        int(np.prod(b.shape)) * (1 if b.role == "shared" else geometry.threads) for b in private
    )
    return max(1, min(_LANES // geometry.threads, _ELEMENTS // max(elements, 1)))


def _run_blocks(
    grid: ir.Grid,
    kernel: ir.Kernel,
    together: GridMemory,
    places: Array,
    failures: dict[tuple[int, int], ir.Failure],
) -> Iterator[bool]:
    """Runs the blocks at these places of the order; gives True where they wait for all others."""
    machine = _Machine(kernel, BlocksMemory(together, places), failures)
    blocks, threads = machine.memory.blocks, np.arange(together.geometry.threads)
    everyone = Active(len(blocks) * len(threads))
    scope = {
        **dict(_ids(grid.blocks, np.repeat(blocks, len(threads)), len(blocks))),
        **dict(_ids(grid.threads, np.tile(threads, len(blocks)), everyone.count)),
    }
    for stmt in grid.body:
        if isinstance(stmt, ir.Barrier) and stmt.scope == ir.GRID:
            machine.memory.meet(everyone)
            yield True
        else:
            machine.run_statement(stmt, scope, everyone)
    machine.check(grid, machine.memory.left_in_flight())


@dataclass
class _Machine:
    """The state of some blocks of a launch; `failures` has the first of each thread."""

    kernel: ir.Kernel
    memory: BlocksMemory
    failures: dict[tuple[int, int], ir.Failure]

    def broken(self, node: PrintedNode, reason: str) -> InternalError:
        return broken_promise(self.kernel, node, reason)

    def check(self, node: PrintedNode, breach: Breach | None) -> None:
        if breach is not None:
            raise self.broken(node, f"in {self.memory.lane_text(breach.lane)}: {breach.reason}")

    # --- statements -------------------------------------------------------------------------

    def run(self, stmts: tuple[ir.Stmt, ...], outer: Environment, active: Active) -> None:
        """Runs a block of statements for the threads that take part."""
        scope = dict(outer)
        for stmt in stmts:
            self.run_statement(stmt, scope, active)

    def run_statement(
        self, stmt: ir.Stmt, scope: dict[str, list[Evaluated]], active: Active
    ) -> None:
        match stmt:
            case ir.For():
                self.run_for(stmt, scope, active)
            case ir.If(condition=condition, then=then, otherwise=otherwise):
                test = self.value(condition, scope, active)
                for block, part in ((then, test), (otherwise, ~test)):
                    taking = active.narrowed(part)
                    if taking is not None:
                        self.run(block, scope, taking)
            case ir.Let(var=var, value=value):
                scope[var] = [self.value(value, scope, active)]
            case ir.Set(var=var, value=value):
                new = self.value(value, scope, active)
                scope[var][0] = active.merged(new, scope[var][0])
            case ir.Store():
                self.store(stmt, scope, active)
            case ir.Atomic():
                self.update(stmt, scope, active)
            case ir.Prefetch(indices=indices):
                for index in indices:
                    self.value(index, scope, active)
            case ir.Fail():
                self.fail(stmt, scope, active)
            case ir.Comment():
                pass
            case ir.CopyAsync():
                self.copy(stmt, scope, active)
            case ir.Commit():
                self.memory.commit(active)
            case ir.Wait(left=left):
                self.check(stmt, self.memory.wait(left, active))
            case ir.WarpMultiply():
                self.multiply(stmt, scope, active)
            case ir.Barrier(scope=ir.BLOCK):
                self.check(stmt, self.memory.meet(active))
            case ir.Barrier():
                raise self.broken(stmt, "it stands in a loop or condition")
            case ir.Grid():
                raise self.broken(stmt, "a grid inside another")
            case _:
                raise ir.unknown_node(stmt)

    def run_for(self, loop: ir.For, scope: Environment, active: Active) -> None:
        if loop.parallel or loop.mark == "vector":
            raise self.broken(loop, "a loop that is no thread's own, in a grid")
        i = self.value(loop.begin, scope, active)
        end = self.value(loop.end, scope, active)
        while (going := active.narrowed(i < end)) is not None:
            self.run(loop.body, {**scope, loop.var: [i]}, going)
            i = i + np.int64(1)

    def fail(self, stmt: ir.Fail, scope: Environment, active: Active) -> None:
        values = [self.value(value, scope, active) for value in stmt.values]
        lane = active.lane(0)
        slot, thread = divmod(lane, self.memory.geometry.threads)
        who = int(self.memory.blocks[slot]), thread
        found = tuple(int(value if value.ndim == 0 else value[lane]) for value in values)
        self.failures.setdefault(who, ir.Failure(stmt.site, found))

    def store(self, stmt: ir.Store, scope: Environment, active: Active) -> None:
        place = self.place(stmt, scope, active)
        value = self.value(stmt.value, scope, active)
        fault = store_fault(value, self.memory.buffers[stmt.buffer])
        if fault is not None:
            raise self.broken(stmt, fault)
        self.check(stmt, self.memory.write(stmt.buffer, place, active.taken(value), active))

    def update(self, stmt: ir.Atomic, scope: Environment, active: Active) -> None:
        place = self.place(stmt, scope, active)
        value = self.value(stmt.value, scope, active)
        fault = store_fault(value, self.memory.buffers[stmt.buffer])
        if fault is not None:
            raise self.broken(stmt, fault)
        values = active.each(active.taken(value))
        self.check(stmt, self.memory.update(stmt.buffer, place, UFUNCS[stmt.op], values, active))

    def copy(self, stmt: ir.CopyAsync, scope: Environment, active: Active) -> None:
        """Begins to copy: of threads for which the condition is false, zeros."""
        test = np.bool_(True)
        if stmt.condition is not None:
            test = self.value(stmt.condition, scope, active)
        indices = tuple(self.value(index, scope, active) for index in stmt.indices)
        source = tuple(self.value(index, scope, active) for index in stmt.source_indices)
        for taking, is_read in ((active.narrowed(test), True), (active.narrowed(~test), False)):
            if taking is not None:
                self.copy_all(stmt, indices, source if is_read else None, taking)

    def copy_all(
        self,
        stmt: ir.CopyAsync,
        indices: tuple[Any, ...],
        source: tuple[Any, ...] | None,
        active: Active,
    ) -> None:
        """Begins to copy from a place of the source, or, without one, zeros."""
        zeros = np.zeros(active.size, self.memory.buffers[stmt.buffer].dtype.numpy)
        ends = [(stmt.buffer, indices)]
        if source is not None:
            ends.append((stmt.source, source))
        for name, place in ends if stmt.count > 1 else ():
            self.check(stmt, self.memory.misplaced(name, place, stmt.count, active))
        for k in range(stmt.count):
            to, of, values = self.moved(stmt, stmt.buffer, indices, k, active), np.int64(0), zeros
            if source is not None:
                of = self.moved(stmt, stmt.source, source, k, active)
                self.check(stmt, self.memory.read(stmt.source, of, active))
                values = active.each(self.memory.arrays[stmt.source][of])
            name = "" if source is None else stmt.source
            self.check(stmt, self.memory.copy(stmt.buffer, to, name, of, values, active))

    def moved(
        self, stmt: ir.CopyAsync, name: str, indices: tuple[Any, ...], by: int, active: Active
    ) -> Any:
        """The elements `by` further along the last dimension."""
        moved = (*indices[:-1], indices[-1] + np.int64(by)) if by else indices
        return self.place_of(stmt, name, moved, active)

    def multiply(self, stmt: ir.WarpMultiply, scope: Environment, active: Active) -> None:
        """Each thread reads its rows of all tiles, and adds up its results; sums of doubles are
        rounded once."""
        self.check(stmt, self.memory.absent(active, "multiplies", ir.WARP))
        lanes = np.arange(active.count) % ir.WARP
        rows = [lanes // 4 + shift for shift in (0, 8)]
        columns = [lanes % 4 * 2 + shift for shift in (0, 1)]
        left = [self.rows(t, stmt.left_axes, rows, stmt, scope, active) for t in stmt.left]
        right = [self.rows(t, stmt.right_axes, columns, stmt, scope, active) for t in stmt.right]
        pairs = ((a, b) for ours in left for theirs in right for a in ours for b in theirs)
        for name, (a, b) in zip(stmt.sums, pairs, strict=True):
            total = scope[name][0] + (a * b).sum(axis=0)
            scope[name][0] = active.merged(total.astype(np.float32), scope[name][0])

    def rows(
        self,
        tile: ir.Expr,
        axes: tuple[int, ...],
        rows: list[Array],
        stmt: ir.WarpMultiply,
        scope: Environment,
        active: Active,
    ) -> list[Array]:
        """Of a tile, the factors in the rows of these numbers in each thread, as doubles: (steps,
        threads)."""
        assert isinstance(tile, ir.Load)
        first = [self.value(index, scope, active) for index in tile.indices]
        every = [np.broadcast_to(index, active.count).reshape(-1, ir.WARP) for index in first]
        if any((each != each[:, :1]).any() for each in every):
            raise self.broken(stmt, f"threads of a warp differ in the tile {node_text(tile)}")
        if (every[-1] % stmt.product.line).any():
            raise self.broken(stmt, f"a line of the tile {node_text(tile)} is not aligned")
        found = []
        for row in rows:
            steps = []
            for step in range(stmt.product.steps):
                indices = [*first]
                indices[axes[0]] = indices[axes[0]] + row
                indices[axes[1]] = indices[axes[1]] + np.int64(step)
                place = self.memory.place(tile.buffer, tuple(indices), active)
                if isinstance(place, Breach):
                    self.check(tile, place)
                self.check(tile, self.memory.read(tile.buffer, place, active))
                steps.append(active.spread(self.memory.arrays[tile.buffer][place]))
            found.append(stmt.product.factors(np.asarray(steps)))
        return found

    # --- expressions ------------------------------------------------------------------------

    def value(self, expr: ir.Expr, scope: Environment, active: Active) -> Evaluated:
        """What an expression is in the threads that take part; in others, anything."""
        match expr:
            case ir.Var(name=name):
                if name not in scope:
                    raise self.broken(name, "it is not declared here")
                return scope[name][0]
            case ir.Load():
                place = self.place(expr, scope, active)
                self.check(expr, self.memory.read(expr.buffer, place, active))
                return active.spread(self.memory.arrays[expr.buffer][place])
            case ir.Logical(op="&&" | "||") | ir.Select():
                return self.choice(expr, scope, active)
            case ir.WarpReduce(operand=operand):
                value = self.value(operand, scope, active)
                self.check(expr, self.memory.absent(active, "exchanges values"))
                return _exchanged(expr, value, active.count)
        values = [self.value(operand, scope, active) for operand in ir.children(expr)]
        if isinstance(expr, ir.Binary):
            left, right = values
            fault = operands_fault(expr, left, active.taken(right))
            if fault is not None:
                raise self.broken(expr, fault)
        return operation(expr, values)

    def choice(self, expr: ir.Logical | ir.Select, scope: Environment, active: Active) -> Evaluated:
        """The value of a lazy node: each operand is evaluated for the threads that need it."""
        match expr:
            case ir.Select(condition=first, then=then, otherwise=otherwise):
                test = self.value(first, scope, active)
                wanted = [(then, test), (otherwise, ~test)]
                unwanted = expr.dtype.numpy.type(0)
            case ir.Logical(op=op, operands=(first, second)):
                test = unwanted = self.value(first, scope, active)
                wanted = [(second, test if op == "&&" else ~test)]
            case ir.Logical():
                raise self.broken(expr, "wrong number of operands")
            case _:
                raise ir.unknown_node(expr)
        values = [test]
        for operand, condition in wanted:
            taking = active.narrowed(condition)
            values.append(unwanted if taking is None else self.value(operand, scope, taking))
        return operation(expr, values)

    def place(
        self, access: ir.Load | ir.Store | ir.Atomic, scope: Environment, active: Active
    ) -> Any:
        """The elements that the threads touch."""
        indices = tuple(self.value(index, scope, active) for index in access.indices)
        return self.place_of(access, access.buffer, indices, active)

    def place_of(
        self, node: PrintedNode, name: str, indices: tuple[Any, ...], active: Active
    ) -> Any:
        found = self.memory.place(name, indices, active)
        if isinstance(found, Breach):
            self.check(node, found)
        return found


def _exchanged(expr: ir.WarpReduce, value: Evaluated, count: int) -> Evaluated:
    """What threads get, `count` in all, of what each of them has (or all of them have)."""
    every = np.full(count, value) if value.ndim == 0 else value
    groups = every.reshape(-1, expr.lanes)
    node = ir.Binary(expr.op, expr.operand, expr.operand, expr.dtype)
    while (half := groups.shape[1] // 2) > 0:
        groups = operation(node, [groups[:, :half], groups[:, half:]])
    return np.repeat(groups[:, 0], expr.lanes)


def _ids(
    indices: tuple[ir.LaunchIndex, ...], numbers: Array, different: int
) -> Iterator[tuple[str, list[Evaluated]]]:
    """The ids of blocks or threads by their numbers; where there is one alone, a scalar."""
    coordinates = np.unravel_index(numbers, [i.count for i in indices]) if indices else ()
    for index, values in zip(indices, coordinates, strict=True):
        every = values.astype(np.int64)
        yield index.var, [every[0] if different == 1 or index.count == 1 else every]
