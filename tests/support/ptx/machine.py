"""Runs blocks of functions: of a group of threads, those at the smallest program counter execute
the instruction there, until all have ended or wait at a barrier.

Each block is run three times, on the same memory: all threads as one group, then one warp after
the other, the last first and the first first, as a warp may read what a higher or a lower writes.
Where there is one warp, and its lanes exchange nothing, every other thread is taken for a warp.
What differs is a race of the threads of the block.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Protocol

import numpy as np

from tests.support.ptx.decode import Operation, operations
from tests.support.ptx.memory import WINDOWS, Array, BlockMemory, Fault, GlobalMemory
from tests.support.ptx.operands import Registers
from tests.support.ptx.parse import Function, Instruction

MOST_STEPS = 1_000_000
"""Instructions of a block, after which it is taken to have no end."""

Extents = tuple[int, int, int]


class PtxError(Exception):
    """What a text does that it may not, with the instruction, the block and the thread."""


class Observer(Protocol):
    """Is told what is executed and accessed, for counts."""

    def executed(self, pc: int, threads: Array) -> None: ...

    def accessed(self, i: Instruction, space: str, at: Array, size: int, by: Array) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class Threads:
    """Some threads of a block by their ascending numbers; `place` is where their elements are."""

    numbers: Array
    place: Any

    @staticmethod
    def of(numbers: Array) -> Threads:
        first, last = int(numbers[0]), int(numbers[-1])
        dense = last - first + 1 == len(numbers)
        return Threads(numbers, slice(first, last + 1) if dense else numbers)

    def only(self, place: int) -> Threads:
        return Threads.of(self.numbers[place : place + 1])

    def split(self, mask: Array) -> tuple[Threads | None, Threads | None]:
        """Those for which the mask is true, and the others."""
        if mask.all():
            return self, None
        if not mask.any():
            return None, self
        return Threads.of(self.numbers[mask]), Threads.of(self.numbers[~mask])


Waiting = dict[int, Threads]
"""Threads by the instruction that they are at."""


def _join(waiting: Waiting, pc: int, threads: Threads | None) -> None:
    if threads is None:
        return
    if pc in waiting:
        threads = Threads.of(np.union1d(waiting[pc].numbers, threads.numbers))
    waiting[pc] = threads


class Launch:
    """A function that is launched. `arguments` are numbers, such as addresses in the memory."""

    def __init__(
        self, function: Function, grid: Extents, shape: Extents, arguments: Sequence[int],
        memory: GlobalMemory, dynamic: int = 0, observer: Observer | None = None,
    ) -> None:  # fmt: skip
        self.function, self.grid, self.shape = function, grid, shape
        self.arguments, self.memory = arguments, memory
        self.dynamic, self.observer = dynamic, observer
        self.operations = operations(function)

    def run(self) -> None:
        x, y, z = (range(extent) for extent in self.grid)
        block = Block(self)
        for number_z, number_y, number_x in product(z, y, x):
            block.run_in_orders((number_x, number_y, number_z))


class Block:
    """The block that runs; one after the other, all blocks of a launch."""

    def __init__(self, launch: Launch) -> None:
        self.launch, self.count = launch, math.prod(launch.shape)
        sizes = dict(launch.function.sizes)
        static = -(-sizes.get("shared", 0) // 16) * 16  # NVRTC reads to the end of 16 bytes
        sizes["shared"] = static + launch.dynamic
        self.memory = BlockMemory(launch.memory, self.count, sizes)
        for begin, end in (*launch.function.gaps, (launch.function.sizes.get("shared", 0), static)):
            self.memory.shared.gaps[begin:end] = True
        self.registers = Registers(self.count)
        self.everyone = np.arange(self.count)
        self.special = {"%laneid": self.everyone % 32, "%warpid": self.everyone // 32}
        together = any(operation.kind == "warp" for operation in launch.operations)
        self.groups = np.split(self.everyone, range(32, self.count, 32))
        if 1 < self.count <= 32 and not together:
            self.groups = [self.everyone[::2], self.everyone[1::2]]
        self._place("%tid", self._coordinates(self.everyone))
        self._place("%ntid", launch.shape)
        self._place("%nctaid", launch.grid)
        parameters = self.memory.parameters.content()
        for name, value in zip(launch.function.parameters, launch.arguments, strict=True):
            room = parameters[launch.function.variables[name] :][:8]  # the next overwrites the rest
            room[:] = list(int(value).to_bytes(8, "little", signed=True))[: len(room)]

    def run_in_orders(self, number: Extents) -> None:
        memory = self.launch.memory
        memory.watch()
        self.run(number, [self.everyone])
        if len(self.groups) == 1:
            return
        first = memory.now()
        observer, self.launch.observer = self.launch.observer, None
        found = ""
        for groups in (self.groups[::-1], self.groups):
            memory.undo()
            self.run(number, groups)
            found = found or memory.difference(first)
        self.launch.observer = observer
        if found:
            raise PtxError(
                f"{self.launch.function.name}: {found} depends on which warp comes first: a race; "
                f"block {number}"
            )

    def run(self, number: Extents, groups: Sequence[Array]) -> None:
        self.number = number
        self._place("%ctaid", number)
        self.memory.begin()
        at: list[Waiting] = [{0: Threads.of(group)} for group in groups]
        while at:
            waiting: Waiting = {}
            with np.errstate(all="ignore"):
                for ready in at:
                    for pc, threads in self._advance(ready).items():
                        _join(waiting, pc, threads)
            for pc, threads in waiting.items():
                operation = self.launch.operations[pc]
                if operation.kind == "warp":
                    first = int(threads.numbers[0])
                    raise self._error(operation, "only a part of a warp meets it", first)
                if len(threads.numbers) < self.count:
                    first = int(np.setdiff1d(self.everyone, threads.numbers)[0])
                    raise self._error(
                        operation, "a part of the block does not meet this barrier", first
                    )
            at = [{pc + 1: Threads.of(group)} for pc in waiting for group in groups]

    def _advance(self, ready: Waiting) -> Waiting:
        """Runs threads from where they are; those that wait for others."""
        waiting: Waiting = {}
        for _ in range(MOST_STEPS):
            if not ready:
                return waiting
            pc = min(ready)
            threads = ready.pop(pc)
            operation = self.launch.operations[pc]
            taken, others = threads, None
            if operation.guard is not None:
                taken, others = threads.split(operation.guard(self, threads))
            if self.launch.observer is not None:
                self.launch.observer.executed(pc, threads.numbers)
            _join(ready, pc + 1, others)
            if taken is None or operation.kind == "end":
                continue
            if operation.kind != "plain":
                _join(waiting, pc, taken)
                if operation.kind == "barrier":
                    continue
                arrived = waiting.pop(pc)
                taken, part = arrived.split(self._of_whole_warps(operation, arrived))
                _join(waiting, pc, part)
                if taken is None:
                    continue
            try:
                operation.run(self, taken)
            except Fault as fault:
                raise self._error(operation, str(fault), fault.thread) from None
            _join(ready, operation.next, taken)
        raise self._error(operation, "it goes on without an end", 0)

    def _of_whole_warps(self, operation: Operation, threads: Threads) -> Array:
        """For each thread, whether all lanes that take part in the instruction are there. An mma
        and ldmatrix need 32 of them."""
        assert operation.members is not None
        numbers = threads.numbers
        members = np.broadcast_to(operation.members(self, threads), numbers.shape)
        bits = np.uint64(1) << (numbers % 32).astype(np.uint64)
        there = np.zeros(-(-self.count // 32), np.uint64)
        np.bitwise_or.at(there, numbers // 32, bits)
        named = members.astype(np.uint64) & np.uint64(0xFFFFFFFF)
        if operation.instruction.name == "shfl" or operation.instruction.name == "bar":
            lanes = np.minimum(self.count - numbers // 32 * 32, 32).astype(np.uint64)
            named = named & ((np.uint64(1) << lanes) - np.uint64(1))
        whole: Array = there[numbers // 32] == named
        return whole

    def load(
        self, i: Instruction, space: str, at: Array, dtype: np.dtype[Any], count: int, by: Threads
    ) -> Array:
        self.accessed(i, space, at, dtype.itemsize * count, by)
        return self.memory.load(at + WINDOWS.get(space, 0), dtype, count, by.numbers)

    def store(self, i: Instruction, space: str, at: Array, values: Array, by: Threads) -> None:
        self.accessed(i, space, at, values.itemsize * values.shape[1], by)
        self.memory.store(at + WINDOWS.get(space, 0), values, by.numbers)

    def accessed(self, i: Instruction, space: str, at: Array, size: int, by: Threads) -> None:
        if self.launch.observer is not None:
            self.launch.observer.accessed(i, space, at, size, by.numbers)

    def _coordinates(self, threads: Any) -> tuple[Any, Any, Any]:
        x, y, _ = self.launch.shape
        return threads % x, threads // x % y, threads // (x * y)

    def _place(self, name: str, values: Sequence[Any]) -> None:
        for axis, value in zip("xyz", values, strict=True):
            self.special[f"{name}.{axis}"] = np.broadcast_to(value, self.count)

    def _error(self, operation: Operation, what: str, thread: int) -> PtxError:
        where = f"block {self.number}, thread {self._coordinates(thread)}"
        return PtxError(f"{operation.instruction.text}: {what}; {where}")
