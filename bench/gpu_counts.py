"""What a block of a text for GPUs executes and accesses, counted by the machine for PTX."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from tests.support.ptx.machine import Block, Launch
from tests.support.ptx.memory import REGION_BITS, GlobalMemory, Region
from tests.support.ptx.parse import Function, Instruction

SECTOR_BYTES, LINE_BYTES, BANKS, BANK_BYTES = 32, 128, 32, 4
"""NVIDIA's programming guide: global memory is read in sectors of lines, shared memory lies in
banks."""


@dataclass
class Accesses:
    """Warps that accessed a memory, and in how many parts: sectors of 32 bytes, or wavefronts of
    shared memory; `least` are the parts that the bytes would need if they lay side by side."""

    warps: int = 0
    parts: int = 0
    least: int = 0

    @property
    def over_least(self) -> float:
        return self.parts / self.least if self.least else 1.0


@dataclass
class InstructionAccesses(Accesses):
    """Those of one instruction. Of global memory, `lines` of 128 bytes that each warp touched, the
    `missed` sectors that the first cache did not have, the number of `misses`, and the `array`;
    of shared memory, `wider` has what accesses of 8 and 16 bytes from the same addresses take."""

    lines: int = 0
    missed: int = 0
    misses: int = 0
    array: int = 0
    wider: dict[int, Accesses] = field(default_factory=dict)


@dataclass(frozen=True)
class Loop:
    """Instructions `first` to `last`, which is a branch to the first."""

    first: int
    last: int


class Enough(Exception):
    """An observer has seen what it wanted to see."""


class Memory(GlobalMemory):
    """Global memory that need not be undone, in which arrays that nobody gave hold zeros."""

    def add_zeros(self, name: str, size: int) -> int:
        region = Region(name, len(self.regions) + 1 << REGION_BITS, 0)
        region.size = size
        region.bytes = np.zeros(-(-size // 16) * 16, np.uint8)  # which takes no memory yet
        self.regions[region.number] = region
        return region.start

    def will_change(self, region: Region) -> None:
        pass

    def size(self, array: int) -> int:
        return self.regions[array].size


class FirstCache:
    """Which sectors a first cache has: as many as it has room for, of those that came last."""

    def __init__(self, memory: Memory, sectors: int) -> None:
        self._memory, self._room, self._now = memory, sectors, 0
        self._came: dict[int, Any] = {}

    def missed(self, array: int, sectors: Any) -> int:
        if array not in self._came:
            self._came[array] = np.zeros(-(-self._memory.size(array) // SECTOR_BYTES) + 1, np.int32)
        came = self._came[array]
        found = came[sectors]
        new = sectors[(found == 0) | (self._now - found >= self._room)]
        came[new] = np.arange(self._now + 1, self._now + 1 + len(new))
        self._now += len(new)
        return len(new)

    def touched(self) -> Mapping[int, int]:
        """Bytes of the sectors that were ever in it, by array."""
        return {a: int(np.count_nonzero(came)) * SECTOR_BYTES for a, came in self._came.items()}


class BlockCounts:
    """An `Observer` of one block. `times` says how often each warp executes each instruction of
    PTX, `entries` how often it enters each loop; `first_cache_bytes` is the room of a block."""

    def __init__(
        self, function: Function, warps: int, memory: Memory, first_cache_bytes: int = 1 << 30
    ) -> None:
        self.function, self.warps = function, warps
        self.times = np.zeros((len(function.code), warps), np.int64)
        self.loops = loops_of(function)
        self.entries = {loop.first: np.zeros(warps, np.int64) for loop in self.loops}
        self.by_instruction: dict[tuple[int, str], InstructionAccesses] = {}
        self.barriers = 0
        self._around = [
            [o for o in self.loops if o.first <= pc <= o.last] for pc in range(len(function.code))
        ]
        self._cache = FirstCache(memory, first_cache_bytes // SECTOR_BYTES)
        self._stored = FirstCache(memory, 1 << 30)
        self._patterns: dict[Any, Any] = {}
        self._at = -1
        self._whole: Any = slice(None)

    def executed(self, pc: int, threads: Any) -> None:
        active = self._whole
        if len(threads) < 32 * self.warps:
            active = np.unique(threads // 32)
        self.times[pc, active] += 1
        for loop in self._around[pc]:  # which may be entered in its middle
            if not loop.first <= self._at <= loop.last:
                self.entries[loop.first][active] += 1
        self._at = pc
        if self.function.code[pc].name in ("bar", "barrier"):
            all_of_them = isinstance(active, slice) or len(active) == self.warps
            self.barriers += all_of_them

    def accessed(self, i: Instruction, space: str, at: Any, size: int, by: Any) -> None:
        if space not in ("", "global", "shared"):
            return
        space = space or "global"
        row = self.by_instruction.setdefault((self._at, space), InstructionAccesses())
        lowest = int(at.min()) // LINE_BYTES * LINE_BYTES
        key = (space, size, (at - lowest).tobytes(), by.tobytes())
        if key not in self._patterns:
            measure = _shared_pattern if space == "shared" else _global_pattern
            self._patterns[key] = measure(at - lowest, size, by)
        warps, parts, least, more = self._patterns[key]
        row.warps += warps
        row.parts += parts
        row.least += least
        if space == "shared":
            for wide, (turns, fewest) in more.items():
                other = row.wider.setdefault(wide, Accesses())
                other.warps += warps
                other.parts += turns
                other.least += fewest
            return
        lines, sectors = more
        array = lowest >> REGION_BITS
        here = sectors + (lowest - (array << REGION_BITS)) // SECTOR_BYTES
        is_read = i.name in ("ld", "cp")
        missed = (self._cache if is_read else self._stored).missed(array, here)
        row.array = array
        row.lines += lines
        row.missed += missed if is_read else parts
        row.misses += min(warps, missed) if is_read else warps

    @property
    def instructions(self) -> int:
        return int(self.times.sum())

    def touched(self, reads: bool) -> Mapping[int, int]:
        return (self._cache if reads else self._stored).touched()

    @property
    def touched_bytes(self) -> int:
        read, stored = self.touched(True), self.touched(False)
        return sum(max(read.get(a, 0), stored.get(a, 0)) for a in {*read, *stored})

    def accesses(self) -> Mapping[str, Accesses]:
        """By memory, direction and width."""
        rows: dict[str, Accesses] = {}
        for (pc, space), row in sorted(self.by_instruction.items()):
            kind, bits = described(self.function.code[pc], space)
            name = f"{space} {kind}, {bits} bits"
            total = rows.setdefault(name, Accesses())
            total.warps += row.warps
            total.parts += row.parts
            total.least += row.least
        return rows

    def as_json(self) -> Mapping[str, Any]:
        return {
            "instructions per warp": self.instructions / self.warps,
            "barriers": self.barriers,
            "bytes first touched": self.touched_bytes,
            "accesses": {name: asdict(row) for name, row in sorted(self.accesses().items())},
        }


def described(i: Instruction, space: str) -> tuple[str, int]:
    """The direction and the bits of an access of PTX to a memory.

    >>> from tests.support.ptx.parse import instruction
    >>> described(instruction("ld.shared.v4.f32 {%f1, %f2, %f3, %f4}, [%r1]"), "shared")
    ('loads', 128)
    """
    if i.name == "cp":
        return "loads" if space == "global" else "stores", 8 * int(str(i.operands[2]))
    if i.name == "ldmatrix":
        return "loads", 128
    kind = {"ld": "loads", "st": "stores"}.get(i.name, i.name)
    count = next((int(m[1:]) for m in i.modifiers if m in ("v2", "v4")), 1)
    return kind, count * int("".join(c for c in i.type if c.isdigit()) or 32)


def loops_of(function: Function) -> Sequence[Loop]:
    """By where they begin; branches to one instruction are one loop."""
    ends: dict[int, int] = {}
    for pc, i in enumerate(function.code):
        if i.name == "bra" and (first := function.labels[str(i.operands[0])]) <= pc:
            ends[first] = pc
    return [Loop(first, last) for first, last in sorted(ends.items())]


_ARITHMETIC = frozenset("fma mul add sub div neg abs sqrt rsqrt rcp ex2 lg2 sin cos tanh".split())  # noqa: SIM905


def without_arithmetic(launch: Launch) -> Launch:
    """The launch, where results of floating-point arithmetic are what the registers held before:
    what is executed and accessed seldom depends on them, and they take most of the time."""
    launch.operations = [
        replace(operation, run=_nothing)
        if operation.instruction.name in _ARITHMETIC and operation.instruction.type[:1] == "f"
        else operation
        for operation in launch.operations
    ]
    return launch


def _nothing(_block: Any, _threads: Any) -> None:
    pass


def block_counts(
    launch: Launch, number: tuple[int, int, int], memory: Memory, first_cache_bytes: int = 1 << 30
) -> BlockCounts:
    """What one block does."""
    block = Block(without_arithmetic(launch))
    counts = BlockCounts(launch.function, -(-block.count // 32), memory, first_cache_bytes)
    launch.observer = counts
    block.run(number, [block.everyone])
    return counts


class FirstAddresses:
    """An `Observer` that sees the first address of each access, and no more than `steps`."""

    def __init__(self, steps: int) -> None:
        self.found: dict[int, int] = {}
        self._left, self._at = steps, -1

    def executed(self, pc: int, threads: Any) -> None:  # noqa: ARG002 (of the protocol)
        self._at = pc
        self._left -= 1
        if not self._left:
            raise Enough

    def accessed(self, i: Instruction, space: str, at: Any, size: int, by: Any) -> None:  # noqa: ARG002
        if space != "shared":
            self.found.setdefault(self._at, int(at[0]))


STEPS = 2000
"""Instructions of a neighbouring block, of which the first addresses are compared."""


def moving_axes(launch: Launch, number: tuple[int, int, int]) -> Mapping[int, frozenset[int]]:
    """The axes of the grid along which blocks touch other elements of an array, by array; those of
    one block alone are not among them."""
    found = []
    for axis in (None, 0, 1, 2):
        place = list(number)
        if axis is not None:
            if launch.grid[axis] == 1:
                found.append(found[0])
                continue
            place[axis] += 1 if place[axis] + 1 < launch.grid[axis] else -1
        observer = FirstAddresses(STEPS)
        launch.observer = observer
        block = Block(launch)
        with contextlib.suppress(Enough):
            block.run((place[0], place[1], place[2]), [block.everyone])
        found.append(observer.found)
    moving: dict[int, set[int]] = {}
    for pc, address in found[0].items():
        axes = moving.setdefault(address >> REGION_BITS, set())
        axes |= {a for a in range(3) if found[a + 1].get(pc, address) != address}
    return {array: frozenset(axes) for array, axes in moving.items()}


def _shared_pattern(at: Any, size: int, by: Any) -> tuple[int, int, int, Any]:
    parts, least = wavefronts(at, size, by)
    wider = {w: wavefronts(at, w, by) for w in (8, 16) if w > size and not (at % w).any()}
    return len(np.unique(by // 32)), parts, least, wider


def _global_pattern(at: Any, size: int, by: Any) -> tuple[int, int, int, Any]:
    parts, least = sectors(at, size, by)
    ends = np.concatenate([at, at + size - 1])
    lines = len(np.unique(np.concatenate([by, by]) // 32 << 52 | ends // LINE_BYTES))
    return len(np.unique(by // 32)), parts, least, (lines, np.unique(ends // SECTOR_BYTES))


def sectors(at: Any, size: int, threads: Any) -> tuple[int, int]:
    """The sectors that warps access, and the least that these bytes take.

    >>> lanes = np.arange(32)
    >>> sectors(4 * lanes, 4, lanes), sectors(128 * lanes, 4, lanes), sectors(0 * lanes, 4, lanes)
    ((4, 4), (32, 4), (1, 1))
    """
    warp = threads // 32 << 52
    ends = (at // SECTOR_BYTES, (at + size - 1) // SECTOR_BYTES)
    parts = len(np.unique(np.concatenate([warp | end for end in ends])))
    _, elements = np.unique(np.unique(warp | at) >> 52, return_counts=True)
    return parts, int(np.ceil(elements * size / SECTOR_BYTES).sum())


def wavefronts(at: Any, size: int, threads: Any) -> tuple[int, int]:
    """In how many turns shared memory serves warps, where a turn has a word of each bank for lanes
    whose accesses have 128 bytes together; and the least that these words take. Where all lanes
    share addresses in pairs, of neighbours or of those two apart, a turn is for twice as many
    (bench/results/gpu-constants-nvidia-h200.json, wavefronts by pattern).

    >>> lanes = np.arange(32)
    >>> wavefronts(4 * lanes, 4, lanes), wavefronts(128 * lanes, 4, lanes)
    ((1, 1), (32, 1))
    >>> [wavefronts(16 * at, 16, lanes)[0] for at in (lanes, lanes // 2, lanes // 8, lanes % 16)]
    [4, 2, 2, 4]
    """
    words = max(1, size // BANK_BYTES)
    warp, lane = threads // 32, threads % 32
    shared = np.full((int(warp[-1]) + 1, 32), -1, np.int64)
    shared[warp, lane] = at
    pairs = np.zeros(len(shared), bool)
    for distance in (1, 2):
        other = shared[:, np.arange(32) ^ distance]
        pairs |= ((shared == other) | (shared < 0) | (other < 0)).all(axis=1)
    lanes = np.where(pairs[warp], 2, 1) * 32 // words
    group = warp * words + lane // lanes
    word = (at // BANK_BYTES)[:, None] + np.arange(words)
    distinct = np.unique((group[:, None] << 40 | word).ravel())
    conflicts = Counter(zip((distinct >> 40).tolist(), (distinct % BANKS).tolist(), strict=True))
    turns: dict[int, int] = {}
    for (of_group, _), count in conflicts.items():
        turns[of_group] = max(count, turns.get(of_group, 0))
    _, of_warps = np.unique(
        np.unique((warp[:, None] << 40 | word).ravel()) >> 40, return_counts=True
    )
    return sum(turns.values()), int(np.ceil(of_warps / BANKS).sum())
