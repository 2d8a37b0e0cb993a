"""Blocks and threads, one after the other, in any order: what `evaluate` must agree with."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tc.kernel.ir import (
    PRIVATE,
    Atomic,
    Barrier,
    Binary,
    Comment,
    Expr,
    Fail,
    Failure,
    For,
    Grid,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Select,
    Set,
    Stmt,
    Store,
    Var,
    children,
)
from tc.kernel.operations import operation
from tests.kernel.marked import Array

Scope: TypeAlias = "dict[str, list[Any]]"
Element: TypeAlias = "tuple[Any, ...]"  # its buffer, whose copy it is, and the indices


class Refused(Exception):
    """The kernel breaks a promise."""


@dataclass(frozen=True)
class Access:
    block: int
    thread: int
    phase: int
    writes: bool
    updates: bool = False

    def meets(self, other: Access) -> bool:
        if not (self.writes or other.writes) or (self.updates and other.updates):
            return False
        if self.block != other.block:
            return True
        return self.phase == other.phase and self.thread != other.thread


@dataclass
class Machine:
    kernel: Kernel
    arrays: dict[str, Array]
    order: random.Random
    written: set[Element] = field(default_factory=set)
    values: dict[Element, Any] = field(default_factory=dict)
    seen: dict[Element, set[Access]] = field(default_factory=dict)
    failures: dict[tuple[int, int, int], Failure] = field(default_factory=dict)
    region: int = 0
    now: Access = Access(0, 0, 0, writes=False)

    def shuffled(self, count: int) -> list[int]:
        return self.order.sample(range(count), count)

    # --- statements -------------------------------------------------------------------------

    def launch(self, grid: Grid) -> None:
        self.seen.clear()
        blocks = list(itertools.product(*(range(index.count) for index in grid.blocks)))
        threads = list(itertools.product(*(range(index.count) for index in grid.threads)))
        for element in [e for e in self.written if e[1] is not None]:
            self.written.discard(element)
        running = []
        for number in self.shuffled(len(blocks)):
            own = []
            for thread in threads:
                ids = zip((*grid.blocks, *grid.threads), (*blocks[number], *thread), strict=True)
                scope: Scope = {index.var: [np.int64(value)] for index, value in ids}
                own.append(self.run(grid.body, scope, ()))
            running.append(self.run_block(own, number))
        while running:
            running = [block for block in self.order.sample(running, len(running)) if next(block)]
            self.seen.clear()

    def run_block(self, running: list[Iterator[Any]], block: int) -> Iterator[bool]:
        """Gives whether it waits for the other blocks, or has come to its end."""
        for phase in itertools.count():
            met: list[Any] = [None] * len(running)
            for thread in self.shuffled(len(running)):
                self.now = Access(block, thread, phase, writes=False)
                met[thread] = next(running[thread], None)
            if any(where != met[0] for where in met):
                raise Refused
            if met[0] is None:
                yield False
            elif met[0][-1] == "grid":
                yield True

    def run(self, stmts: tuple[Stmt, ...], outer: Scope, turns: tuple[int, ...]) -> Iterator[Any]:
        """Gives each barrier that the thread meets, with the turns of the loops around it."""
        scope = dict(outer)
        for stmt in stmts:
            match stmt:
                case For(var=var, begin=begin, end=end, body=body):
                    values = range(int(self.value(begin, scope)), int(self.value(end, scope)))
                    for turn, i in enumerate(values):
                        yield from self.run(body, {**scope, var: [np.int64(i)]}, (*turns, turn))
                case If(condition=condition, then=then, otherwise=otherwise):
                    taken = then if self.value(condition, scope) else otherwise
                    yield from self.run(taken, scope, turns)
                case Let(var=var, value=value):
                    scope[var] = [self.value(value, scope)]
                case Set(var=var, value=value):
                    scope[var][0] = self.value(value, scope)
                case Store(buffer=name, indices=indices, value=value):
                    element = self.element(name, indices, scope)
                    new = self.value(value, scope)
                    self.touch(element, writes=True)
                    self.written.add(element)
                    self.values[element] = new
                case Atomic(buffer=name, indices=indices, op=op, value=value):
                    element = self.element(name, indices, scope)
                    new = self.value(value, scope)
                    self.touch(element, writes=True, updates=True)
                    if element not in self.written:
                        raise Refused
                    both = [self.values[element], new]
                    self.values[element] = operation(Binary(op, value, value, value.dtype), both)
                case Fail(site=site, values=fail_values):
                    found = tuple(int(self.value(each, scope)) for each in fail_values)
                    who = self.region, self.now.block, self.now.thread
                    self.failures.setdefault(who, Failure(site, found))
                case Barrier(scope=scope_of_it):
                    yield id(stmt), turns, scope_of_it
                case Comment():
                    pass
                case _:
                    raise TypeError(stmt)

    # --- memory -----------------------------------------------------------------------------

    def element(self, name: str, indices: tuple[Expr, ...], scope: Scope) -> Element:
        buffer = self.kernel.buffer(name)
        place = tuple(int(self.value(index, scope)) for index in indices)
        if not all(0 <= at < extent for at, extent in zip(place, buffer.shape, strict=True)):
            raise Refused
        if buffer.role not in PRIVATE:
            return name, None, place
        return name, (self.now.block, -1 if buffer.role == "shared" else self.now.thread), place

    def touch(self, element: Element, *, writes: bool, updates: bool = False) -> None:
        if self.kernel.buffer(element[0]).role in ("scratch", "register"):
            return
        own = Access(self.now.block, self.now.thread, self.now.phase, writes, updates)
        earlier = self.seen.setdefault(element, set())
        if any(own.meets(other) for other in earlier):
            raise Refused
        earlier.add(own)

    def read(self, element: Element) -> Any:
        self.touch(element, writes=False)
        if element not in self.written:
            raise Refused
        return self.values[element]

    # --- expressions ------------------------------------------------------------------------

    def value(self, expr: Expr, scope: Scope) -> Any:
        match expr:
            case Var(name=name):
                return scope[name][0]
            case Load(buffer=name, indices=indices):
                return self.read(self.element(name, indices, scope))
            case Logical(op="&&" | "||" as op, operands=(left, right)):
                first = self.value(left, scope)
                return self.value(right, scope) if bool(first) == (op == "&&") else first
            case Select(condition=condition, then=then, otherwise=otherwise):
                return self.value(then if self.value(condition, scope) else otherwise, scope)
            case _:
                return operation(expr, [self.value(operand, scope) for operand in children(expr)])


def one_by_one(kernel: Kernel, arrays: dict[str, Array], seed: int) -> Failure | None:
    """What `evaluate` promises of a kernel of grids, written in place; Refused where it raises."""
    machine = Machine(kernel, arrays, random.Random(seed))
    for buffer in kernel.arguments:
        if buffer.role == "input" or buffer.name in kernel.initial:
            for place in np.ndindex(buffer.shape):
                machine.written.add((buffer.name, None, place))
                machine.values[buffer.name, None, place] = arrays[buffer.name][place]
    with np.errstate(all="ignore"):
        for number, region in enumerate(kernel.regions):
            machine.region = number
            for stmt in region:
                if isinstance(stmt, Grid):
                    machine.launch(stmt)
    for (name, owner, place), value in machine.values.items():
        if owner is None:
            arrays[name][place] = value
    first = min(machine.failures, default=None)
    return None if first is None else machine.failures[first]
