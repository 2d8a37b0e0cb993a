"""A model of one multiprocessor, which executes machine code instruction by instruction.

Four partitions have a scheduler each, which issues an instruction of one of its warps in a cycle,
as ptxas's stall counts and scoreboards allow (`sass.Control`). Pipes take an instruction in several
cycles; one unit for shared memory and the first cache takes an access in its wavefronts; the rates
of the second cache and of memory are shared by the multiprocessors; barriers wait for all warps;
blocks begin where others have ended. Not modelled are the cache of instructions, conflicts of banks
of registers, and what blocks on other multiprocessors do at another time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from tc.backends.sass import Instruction, Loop
from tc.gpu import Gpu

PARTITIONS = 4
GOLDEN_RATIO = 0.6180339887498949
"""Multiples of it lie evenly between whole numbers."""
# Where an instruction goes.
CONTROL, FLOAT, PRODUCT, ALU, SPECIAL, DOUBLE, TENSOR = range(7)
SHARED, READ, WRITE, COPY, CONSTANT, BARRIER, EXIT, COMMIT, DRAIN = range(7, 16)

PIPES: Mapping[int, str] = {
    FLOAT: "FFMA FADD FMUL HFMA2 HADD2 HMUL2",
    PRODUCT: "IMAD IDP",
    SPECIAL: "MUFU I2F F2I F2F I2I FRND POPC FLO BREV I2FP F2FP",
    DOUBLE: "DFMA DADD DMUL DSETP DMNMX",
    TENSOR: "HMMA IMMA",
    SHARED: "LDS STS LDSM ATOMS SHFL",
    READ: "LDG LDL LD",
    WRITE: "STG STL ST RED ATOMG ATOM",
    COPY: "LDGSTS",
    CONSTANT: "LDC ULDC S2R S2UR CS2R",
    BARRIER: "BAR",
    EXIT: "EXIT RET",
    COMMIT: "LDGDEPBAR",
    DRAIN: "DEPBAR",
    CONTROL: "BRA BSSY BSYNC NOP WARPSYNC CALL ERRBAR MEMBAR CCTL BREAK YIELD NANOSLEEP R2UR VOTEU",
}
"""Pipes by the names of instructions; those of the uniform data path, which begin with U, take an
issue slot alone, and all others go to the ALU. (NVIDIA, Nsight Compute, "Pipelines": the FMA pipe
has a heavy half, which also multiplies integers, and a lite half.)"""
_PIPE = {name: pipe for pipe, names in PIPES.items() for name in names.split()}


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A GPU by what the model needs to know. `_cycles` are latencies, where no other thing is said;
    `taken` are those for which a pipe of a partition is taken by an instruction of a warp."""

    name: str
    gpu: Gpu
    clock_hz: float
    near_bytes: int  # of shared memory and the first cache together
    second_cache_bytes: int
    shared_cycles: float
    exchange_cycles: float
    first_cache_cycles: float
    second_cache_cycles: float
    memory_cycles: float
    special_cycles: float
    constant_cycles: float
    barrier_cycles: float
    barrier_cycles_per_warp: float
    branch_cycles: float
    taken_float: float  # of each half
    taken_alu: float
    taken_special: float
    taken_double: float
    taken_tensor: float
    queue_cycles: float  # of accesses that are issued before the unit has taken them
    access_turns: float  # that a read of global memory takes of the unit at least
    second_cache_rate: float  # bytes per second, to all multiprocessors
    processor_rate: float  # bytes per cycle, of the second cache to one multiprocessor
    memory_rate: float  # bytes per second
    launch_seconds: float


@dataclass(frozen=True)
class Cost:
    """What an access takes each time: `turns` are cycles of the unit for shared memory and the
    first cache; the `missed` share of times it goes on to the second cache, and then moves `bytes`;
    of these, the share `from_memory` goes on to memory."""

    turns: float = 0.0
    missed: float = 0.0
    bytes: float = 0.0
    from_memory: float = 0.0


@dataclass(frozen=True)
class Work:
    """What the warps of a block do: `trips` of each loop each time that it is entered, for each
    warp; `skips` the forward branches that a warp takes; `costs` of accesses, by instruction."""

    code: Sequence[Instruction]
    loops: Sequence[Loop]
    trips: Any  # (warps, loops)
    skips: Any  # (warps, instructions)
    costs: Mapping[int, Cost]

    @property
    def warps(self) -> int:
        return len(self.trips)

    def times(self) -> Any:
        """How often each warp of a block executes each instruction."""
        times = np.ones((self.warps, len(self.code)))
        for number, loop in enumerate(self.loops):
            times[:, loop.first : loop.last + 1] *= self.trips[:, number, None]
        for at, i in enumerate(self.code):
            skips = (times[:, at] > 0) & (self.skips[:, at] | (i.guard == ""))
            if i.op.startswith("BRA") and i.target is not None and i.target > at:
                times[skips, at + 1 : i.target] = 0
            elif i.op.startswith("EXIT") and i.guard:
                times[skips, at + 1 :] = 0
        return times


@dataclass(frozen=True)
class Found:
    """Of blocks on one multiprocessor: cycles, and the shares of them in which the schedulers
    issue, in which each unit is taken, and in which no warp of a partition can issue."""

    cycles: float
    instructions: int
    issue: float
    floats: float
    shared: float
    second_cache: float
    memory: float
    waiting: float


def pipe_of(i: Instruction) -> int:
    name = i.op.split(".")[0]
    return _PIPE.get(name, CONTROL if name.startswith("U") else ALU)


def run(work: Work, machine: Machine, resident: int, blocks: int, active: int) -> Found:
    """`blocks` on a multiprocessor, `resident` at a time, where `active` multiprocessors work."""
    code = np.array(
        [
            (
                max(1, i.control.stall), i.control.yields,
                -1 if i.control.result is None else i.control.result,
                -1 if i.control.operands is None else i.control.operands,
                i.control.waits, _pipe(i), -1, -1, -1, _left(i), i.op.startswith("SHFL"),
            )
            for i in work.code
        ],
        np.int64,
    )  # fmt: skip
    for number, loop in enumerate(work.loops):
        code[loop.last, 6], code[loop.first, 7], code[loop.first, 8] = number, number, loop.last
    costs = np.zeros((len(code), 4))
    for at, cost in work.costs.items():
        costs[at] = cost.turns, cost.missed, cost.from_memory, cost.bytes
    skips = np.full((work.warps, len(code)), -1, np.int64)
    for at, i in enumerate(work.code):
        if i.op.startswith("EXIT") and i.guard:
            skips[:, at] = np.where(work.skips[:, at], len(code), -1)
        elif i.op.startswith("BRA") and i.target is not None and i.target > at:
            skips[:, at] = np.where(work.skips[:, at] | (i.guard == ""), i.target, -1)
    far = min(machine.processor_rate, machine.second_cache_rate / machine.clock_hz / active)
    memory = min(machine.processor_rate, machine.memory_rate / machine.clock_hz / active)
    m = machine
    constants = np.array(
        [
            m.shared_cycles, m.exchange_cycles, m.first_cache_cycles, m.second_cache_cycles,
            m.memory_cycles, m.special_cycles, m.constant_cycles, m.barrier_cycles,
            m.barrier_cycles_per_warp, m.branch_cycles, m.taken_float, m.taken_alu,
            m.taken_special, m.taken_double, m.taken_tensor, m.queue_cycles, far, memory,
        ]
    )  # fmt: skip
    heads = np.array([loop.first for loop in work.loops], np.int64)
    trips = np.ascontiguousarray(work.trips, dtype=np.int64)
    cycles, issued, floats, turns, second, third, idle = _cycles(
        code, costs, heads, trips, skips, resident, blocks, constants
    )
    slots = PARTITIONS * cycles
    return Found(
        cycles, int(issued), issued / slots, floats / slots * m.taken_float / 2, turns / cycles,
        second / far / cycles, third / memory / cycles, idle / slots,
    )  # fmt: skip


def _pipe(i: Instruction) -> int:
    pipe = pipe_of(i)
    return CONTROL if pipe == EXIT and i.guard else pipe


def _left(i: Instruction) -> int:
    """Of DEPBAR, the number of groups of copies that it does not wait for."""
    word = i.operands.split(",")[-1].strip()
    return int(word, 16) if pipe_of(i) == DRAIN and word.startswith("0x") else 0


@njit(cache=True)
def _cycles(  # type: ignore[no-untyped-def]  # pragma: no cover
    code, costs, heads, trips, skips, resident, blocks, constants
):
    """Cycles until all blocks have ended, and sums over them: instructions, those of the FMA pipe,
    turns of the unit for shared memory, bytes of the second cache and of memory, and cycles of
    partitions in which no warp could issue."""
    (
        shared_latency, exchange_latency, near_latency, far_latency, memory_latency,
        special_latency, constant_latency, barrier_latency, barrier_warp, branch_latency,
        taken_float, taken_alu, taken_special, taken_double, taken_tensor, queue, far_rate,
        memory_rate,
    ) = constants  # fmt: skip
    warps, loops = trips.shape
    length = code.shape[0]
    resident = min(resident, blocks)
    count = warps * resident
    at = np.zeros(count, np.int64)
    ready = np.zeros(count)
    ended = np.zeros(count, np.bool_)
    held = np.zeros(count, np.bool_)  # at a barrier
    boards = np.zeros((count, 6))
    counters = np.zeros((count, max(1, loops)), np.int64)
    groups = np.zeros((count, 8))  # when groups of copies arrive
    group = np.zeros(count, np.int64)
    copied = np.zeros(count)
    arrived = np.zeros(resident, np.int64)
    first_arrival = np.zeros(resident)
    alive = np.full(resident, warps)
    # What is left over of shares: where one of eight accesses misses, those of a line do in turn.
    spread = np.arange(length) * GOLDEN_RATIO % 1
    missed = np.stack((spread, spread[::-1]))
    # The second cache and memory, which what misses in the first one goes on to.
    rates, latencies = np.array((far_rate, memory_rate)), np.array((far_latency, memory_latency))
    taken, moved = np.zeros(2), np.zeros(2)
    heavy, lite, alu = np.zeros(4), np.zeros(4), np.zeros(4)
    special, double, tensor = np.zeros(4), np.zeros(4), np.zeros(4)
    last = np.full(4, -1)
    unit = turns = idle = 0.0
    issued = floats = 0
    begun, left = resident, blocks
    t = 0.0
    while left > 0:
        soonest = 1e30
        progressed = 0
        for part in range(4):
            chosen = -1
            any_alive = False
            own = (count - part + 3) // 4  # warps of this partition
            for turn in range(own + 1):
                if turn == 0:
                    w = last[part]
                    if w < 0:
                        continue
                else:
                    w = part + 4 * (turn - 1)
                if ended[w]:
                    continue
                any_alive = True
                if held[w]:
                    continue
                when = ready[w]
                i = at[w]
                waits = code[i, 4]
                if waits:
                    for board in range(6):
                        if waits >> board & 1 and boards[w, board] > when:
                            when = boards[w, board]
                pipe = code[i, 5]
                if pipe == FLOAT:
                    when = max(when, min(heavy[part], lite[part]))
                elif pipe == PRODUCT:
                    when = max(when, heavy[part])
                elif pipe == ALU:
                    when = max(when, alu[part])
                elif SHARED <= pipe <= COPY:
                    when = max(when, unit - queue)
                elif pipe == DRAIN:
                    back = group[w] - 1 - code[i, 9]
                    if back >= 0:
                        when = max(when, groups[w, back % 8])
                elif pipe == TENSOR:
                    when = max(when, tensor[part])
                elif pipe == DOUBLE:
                    when = max(when, double[part])
                if when <= t:
                    chosen = w
                    break
                soonest = min(soonest, when)
            if chosen < 0:
                if any_alive:
                    idle += 1
                last[part] = -1
                continue
            w = chosen
            i = at[w]
            pipe = code[i, 5]
            progressed += 1
            issued += 1
            last[part] = -1 if code[i, 1] else w
            ready[w] = t + code[i, 0]
            done = read = t + 6
            if pipe == FLOAT:
                floats += 1
                if lite[part] <= heavy[part]:
                    lite[part] = t + taken_float
                else:
                    heavy[part] = t + taken_float
            elif pipe == PRODUCT:
                heavy[part] = t + taken_float
            elif pipe == ALU:
                alu[part] = t + taken_alu
            elif pipe == SPECIAL:
                special[part] = max(special[part], t) + taken_special
                done = special[part] + special_latency - taken_special
                read = special[part]
            elif pipe == DOUBLE:
                double[part] = t + taken_double
                done = t + 9
            elif pipe == TENSOR:
                tensor[part] = t + taken_tensor
                done = t + 33
            elif pipe == CONSTANT:
                done = t + constant_latency
            elif SHARED <= pipe <= COPY:
                unit = max(unit, t) + costs[i, 0]
                turns += costs[i, 0]
                read = unit
                if pipe == SHARED:
                    done = unit - costs[i, 0]
                    done += exchange_latency if code[i, 10] else shared_latency
                    done = max(done, unit)
                else:
                    done = unit + near_latency
                    for level in range(2):
                        missed[level, i] += costs[i, 1 + level]
                        if missed[level, i] < 0.999:
                            break
                        missed[level, i] -= 1
                        taken[level] = max(taken[level], t) + costs[i, 3] / rates[level]
                        moved[level] += costs[i, 3]
                        done = max(done, taken[level] + latencies[level])
                    if pipe == COPY:
                        copied[w] = max(copied[w], done)
            elif pipe == COMMIT:
                groups[w, group[w] % 8] = copied[w]
                group[w] += 1
            if code[i, 2] >= 0:
                boards[w, code[i, 2]] = max(boards[w, code[i, 2]], done)
            if code[i, 3] >= 0:
                boards[w, code[i, 3]] = max(boards[w, code[i, 3]], read)
            block = w // warps
            inside = w % warps
            if pipe == BARRIER:
                held[w] = True
                if arrived[block] == 0:
                    first_arrival[block] = t
                arrived[block] += 1
            # where the warp goes on
            loop = code[i, 6]
            onward = i + 1
            if loop >= 0:
                counters[w, loop] += 1
                if counters[w, loop] < trips[inside, loop]:
                    onward = heads[loop]
                    ready[w] = max(ready[w], t + branch_latency)
                else:
                    counters[w, loop] = 0
            elif skips[inside, i] >= 0:
                onward = skips[inside, i]
                ready[w] = max(ready[w], t + branch_latency)
            while onward < length and code[onward, 7] >= 0:
                head = code[onward, 7]
                if counters[w, head] == 0 and trips[inside, head] == 0:
                    onward = code[onward, 8] + 1
                else:
                    break
            if pipe == EXIT or onward >= length:
                ended[w] = True
                alive[block] -= 1
                if last[part] == w:
                    last[part] = -1
                if alive[block] == 0:
                    left -= 1
                    if begun < blocks:
                        begun += 1
                        alive[block] = warps
                        arrived[block] = 0
                        for k in range(block * warps, (block + 1) * warps):
                            at[k] = 0
                            ready[k] = t + branch_latency
                            ended[k] = held[k] = False
                            boards[k] = 0
                            counters[k] = 0
                            group[k] = 0
                            copied[k] = 0
                        soonest = min(soonest, t + branch_latency)
            else:
                at[w] = onward
                soonest = min(soonest, ready[w])
            if alive[block] > 0 and arrived[block] == alive[block]:
                arrived[block] = 0
                release = max(t, first_arrival[block] + barrier_warp * warps) + barrier_latency
                for k in range(block * warps, (block + 1) * warps):
                    if held[k]:
                        held[k] = False
                        ready[k] = max(ready[k], release)
                soonest = min(soonest, release)
        if progressed:
            t += 1
        elif left > 0:
            later = max(t + 1, np.ceil(soonest))
            idle += 4 * (later - t - 1)
            t = later
            if t > 1e15:
                break
    t = max(t, unit, taken.max())  # what is written arrives later
    return t, issued, floats, turns, moved[0], moved[1], idle
