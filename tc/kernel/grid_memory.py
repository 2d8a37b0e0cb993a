"""The memory of a launch, where threads of several blocks run at once, each a lane of arrays.

Each access leaves a stamp at its element, of the thread and of how many barriers its block has met
(its phase). An access meets another where the stamp found is of another block, or of another
thread of the same block in the same phase: that is a race.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np

from tc.dtypes import Array
from tc.kernel.ir import PRIVATE, Buffer, Grid, LaunchIndex
from tc.kernel.memory import Memory, any_of, poison
from tc.kernel.walk import launched

_PHASES = 1 << 36
"""The stamps of a block: those of block n of a launch (which counts from 1) begin at n * _PHASES,
and of a phase there is one for each thread, and one for several of them."""

_UNTOUCHED, _MANY_BLOCKS = -1, 0


@dataclass(frozen=True)
class Breach:
    """The fault of one thread: the lane of the thread, and the reason."""

    lane: int
    reason: str


@dataclass(frozen=True)
class Active:
    """The threads that take part, of the `count` that run at once: all, or those of a mask, whose
    lanes are `lanes`."""

    count: int
    mask: Array | None = None
    lanes: Any = ...

    def narrowed(self, condition: Any) -> Active | None:
        """The active threads for which a condition holds; None where it holds for no thread."""
        if condition.ndim == 0:
            return self if condition else None
        mask = condition if self.mask is None else condition & self.mask
        lanes = np.flatnonzero(mask)
        if lanes.size == self.count:
            return Active(self.count)
        return Active(self.count, mask, lanes) if lanes.size else None

    @property
    def size(self) -> int:
        return self.count if self.mask is None else int(self.lanes.size)

    def lane(self, position: int) -> int:
        """The lane of one of those that take part, by its number among them."""
        return position if self.mask is None else int(self.lanes[position])

    def taken(self, values: Any) -> Any:
        """The values of those that take part; a scalar counts for all."""
        return values if values.ndim == 0 else values[self.lanes]

    def each(self, values: Any) -> Array:
        """The values of the lanes that take part, of an array or of one scalar for all lanes."""
        every: Array = np.full(self.size, values) if values.ndim == 0 else values
        return every

    def spread(self, values: Any) -> Any:
        """An array for all lanes that run, of values for the lanes that take part."""
        if self.mask is None or values.ndim == 0:
            return values
        every = np.zeros(self.count, values.dtype)
        every[self.lanes] = values
        return every

    def merged(self, new: Any, old: Any) -> Any:
        """New values for lanes that take part, old values for the others."""
        return new if self.mask is None else np.where(self.mask, new, old)


@dataclass(frozen=True)
class Geometry:
    """The blocks and threads of a grid by number, last dimension fastest; `order` is that in which
    the blocks run."""

    grid: Grid
    order: Array

    @property
    def threads(self) -> int:
        return launched(self.grid.threads)

    def thread_text(self, number: int) -> str:
        """
        >>> grid = Grid((), (LaunchIndex("ty", 2), LaunchIndex("tx", 4)), ())
        >>> Geometry(grid, np.arange(1)).thread_text(5)
        'thread (1, 1)'
        """
        return f"thread {_coordinates(number, self.grid.threads)}"

    def block_text(self, number: int) -> str:
        return f"block {_coordinates(number, self.grid.blocks)}"


def _coordinates(number: int, indices: tuple[LaunchIndex, ...]) -> str:
    found = np.unravel_index(number, [index.count for index in indices]) if indices else ()
    return f"({', '.join(str(int(each)) for each in found)})"


@dataclass
class GridMemory:
    """What the blocks of a launch have together: elements by number, row-major, of what the caller
    passes, with the stamps of those that use them. `stored` are the buffers that the launch
    writes, `updated` those in which it has Atomics."""

    geometry: Geometry
    buffers: Mapping[str, Buffer]
    memory: Memory
    stored: frozenset[str]
    updated: frozenset[str] = frozenset()
    arrays: dict[str, Array] = field(default_factory=dict)
    written: dict[str, Array] = field(default_factory=dict)
    writers: dict[str, Array] = field(default_factory=dict)
    readers: dict[str, Array] = field(default_factory=dict)
    updaters: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, array in self.memory.arrays.items():
            if self.buffers[name].role not in PRIVATE:
                self.arrays[name] = array.reshape(-1)
                self.written[name] = self.memory.written[name].reshape(-1)
                if name in self.stored and self.geometry.threads * self.geometry.order.size > 1:
                    self.writers[name] = np.full(self.arrays[name].shape, _UNTOUCHED, np.int64)
                    self.readers[name] = self.writers[name].copy()
                    if name in self.updated:
                        self.updaters[name] = self.writers[name].copy()

    def meet(self) -> None:
        """A barrier of the grid, which all blocks have come to: what was used before meets nothing
        that comes after."""
        for stamps in chain.from_iterable(
            found.values() for found in (self.writers, self.readers, self.updaters)
        ):
            stamps[...] = _UNTOUCHED

    def finish(self) -> None:
        """Gives back what was written, where the elements were a copy."""
        for name in self.stored:
            if self.buffers[name].role not in PRIVATE:
                array = self.memory.arrays[name]
                array[...] = self.arrays[name].reshape(array.shape)


@dataclass(frozen=True)
class _Copies:
    """What lanes copy, in a group each, from elements of a source to elements of a buffer."""

    name: str
    source: str
    lanes: Array
    groups: Array
    place: Array
    of: Array
    values: Array

    def where(self, kept: Array) -> _Copies:
        parts = (self.lanes, self.groups, self.place, self.of, self.values)
        return _Copies(self.name, self.source, *(part[kept] for part in parts))


class BlocksMemory:
    """The memory of some blocks that run at once, at these `places` in the order of the launch:
    that of the grid, and the private buffers of each block or thread, which are unwritten."""

    def __init__(self, grid: GridMemory, places: Array) -> None:
        self.geometry, self.buffers, self.memory = grid.geometry, grid.buffers, grid.memory
        numbers, threads = grid.geometry.order[places], grid.geometry.threads
        sorting = np.argsort(numbers)
        self.blocks = numbers[sorting]
        """Their numbers, ascending, so that lanes are in order."""
        # of each lane: the least stamp of its block and of its phase, and that of its thread
        self.block = np.repeat((places[sorting] + 1) * _PHASES, threads)
        self.phase = self.block.copy()
        self.stamp = self.block + np.tile(np.arange(threads), len(places))
        self.arrays, self.written = dict(grid.arrays), dict(grid.written)
        self.writers, self.readers = dict(grid.writers), dict(grid.readers)
        self.updaters, self.updated = dict(grid.updaters), grid.updated
        self.groups = np.zeros(len(self.block), np.int64)
        """How many groups of copies each lane has committed."""
        self.pending: list[_Copies] = []
        self.in_flight: dict[str, Array] = {}
        """Which elements of shared buffers are being copied."""
        self.first: dict[str, Any] = {}
        """The first element of a private buffer in each lane."""
        for name, buffer in self.buffers.items():
            if buffer.role in PRIVATE:
                self._make_private(name, buffer)

    def _make_private(self, name: str, buffer: Buffer) -> None:
        size, lanes = int(np.prod(buffer.shape, dtype=np.int64)), len(self.block)
        owners = np.arange(lanes)
        if buffer.role == "shared":
            owners //= self.geometry.threads
        copies = int(owners[-1]) + 1
        self.first[name] = owners * size if lanes > 1 else np.int64(0)
        self.arrays[name] = np.zeros(size * copies, buffer.dtype.numpy)
        self.written[name] = np.zeros(size * copies, np.bool_)
        if name in self.memory.undefined:
            poison(self.arrays[name])
        if buffer.role == "shared" and self.geometry.threads > 1:
            self.writers[name] = np.full(size * copies, _UNTOUCHED, np.int64)
            self.readers[name] = self.writers[name].copy()
            if name in self.updated:
                self.updaters[name] = self.writers[name].copy()

    # --- copies in flight -------------------------------------------------------------------

    def misplaced(
        self, name: str, indices: tuple[Any, ...], count: int, active: Active
    ) -> Breach | None:
        """A thread that copies `count` elements of a buffer from no multiple of `count` on."""
        steps = self.buffers[name].strides
        offset = sum((i * s for i, s in zip(indices, steps, strict=True)), np.int64(0))
        wrong = active.each(active.taken(offset)) % count != 0
        if not wrong.any():
            return None
        at = int(np.argmax(wrong))
        element = [int(i if i.ndim == 0 else i[active.lane(at)]) for i in indices]
        return Breach(active.lane(at), f"{name}{element} is at no multiple of {count} elements")

    def copy(
        self, name: str, place: Any, source: str, of: Any, values: Array, active: Active
    ) -> Breach | None:
        """Begins to copy what elements of a source hold, or, for the source "", other values, to
        elements that nobody may touch until the values have arrived."""
        place = active.each(place)
        breach = self.write(name, place, values, active)
        if breach is None:
            flying = self.in_flight.setdefault(name, np.zeros_like(self.written[name]))
            flying[place] = True
            lanes, of = np.arange(active.count)[active.lanes], active.each(of)
            self.pending.append(_Copies(name, source, lanes, self.groups[lanes], place, of, values))
        return breach

    def _is_in_flight(self, name: str, place: Any, active: Active) -> Breach | None:
        """Whether an element that is touched is being copied."""
        flying = self.in_flight.get(name)
        if flying is None or not any_of(met := flying[place]):
            return None
        element = self._element(name, place, at := int(np.argmax(met)))
        return Breach(active.lane(at), f"{element} is copied, and not waited for")

    def commit(self, active: Active) -> None:
        self.groups[active.lanes] += 1

    def wait(self, left: int, active: Active) -> Breach | None:
        """The groups of the threads that take part arrive, but for the last `left` of each."""
        waits = np.zeros(active.count, np.bool_)
        waits[active.lanes] = True
        pending = []
        for copies in self.pending:
            lanes = copies.lanes
            done = waits[lanes] & (copies.groups < self.groups[lanes] - left)
            place = copies.place[done]
            self.in_flight[copies.name][place] = False
            if copies.source:
                now = self.arrays[copies.source][copies.of]
                changed = done & (now.view(np.uint8) != copies.values.view(np.uint8)).reshape(
                    len(done), -1
                ).any(axis=1)
                if changed.any():
                    at = int(np.argmax(changed))
                    element = self._element(copies.source, copies.of, at)
                    return Breach(int(lanes[at]), f"{element} is written while it is copied")
            if copies.name in self.writers:
                self.writers[copies.name][place] = self.stamp[lanes[done]]
            if not done.all():
                pending.append(copies.where(~done))
        self.pending = pending
        return None

    def left_in_flight(self) -> Breach | None:
        """A thread that has not waited for what it copies."""
        for copies in self.pending:
            element = self._element(copies.name, copies.place, 0)
            return Breach(int(copies.lanes[0]), f"{element} is copied, and not waited for")
        return None

    # --- barriers ---------------------------------------------------------------------------

    def meet(self, active: Active) -> Breach | None:
        """A barrier of the blocks that take part, and whose thread does not."""
        breach = self.absent(active, "waits")
        if breach is None:
            self.stamp[active.lanes] += self.geometry.threads + 1
            self.phase[active.lanes] += self.geometry.threads + 1
        return breach

    def absent(self, active: Active, does: str, together: int = 0) -> Breach | None:
        """The thread that does not do what others of so many `together` do, by default all of a
        block."""
        threads = together or self.geometry.threads
        if active.mask is not None:
            met: Array = active.mask.reshape(-1, threads)
            missing: Array = met.any(axis=1, keepdims=True) & ~met
            if missing.any():
                lane = int(np.argmax(missing))
                other = lane // threads * threads + int(np.argmax(met[lane // threads]))
                there = self.geometry.thread_text(other % self.geometry.threads)
                return Breach(lane, f"{there} {does} here, this one does not")
        return None

    # --- accesses ---------------------------------------------------------------------------

    def place(self, name: str, indices: tuple[Any, ...], active: Active) -> Any:
        """The elements that the threads touch (one for all, or one for each), or a Breach."""
        shape = self.buffers[name].shape
        offset: Any = np.int64(0)
        outside: Any = np.bool_(len(indices) != len(shape))
        taken = [active.taken(index) for index in indices]
        for index, extent in zip(taken, shape, strict=False):
            outside = outside | (index < 0) | (index >= extent)
            offset = offset * extent + index
        if any_of(outside):
            at = int(np.argmax(outside))
            element = [int(index if index.ndim == 0 else index[at]) for index in taken]
            return Breach(active.lane(at), f"{name}{element} is outside of shape {list(shape)}")
        return active.taken(self.first[name]) + offset if name in self.first else offset

    def read(self, name: str, place: Any, active: Active) -> Breach | None:
        """Notes a read; returns why it may not be, if so."""
        if self.pending and (breach := self._is_in_flight(name, place, active)):
            return breach
        unwritten = ~self.written[name][place]
        if name not in self.memory.undefined and any_of(unwritten):
            element = self._element(name, place, at := int(np.argmax(unwritten)))
            return Breach(active.lane(at), f"reads {element} before any write")
        if name in self.writers:
            place = active.each(place)
            breach = self._race(name, place, self.writers[name][place], "writes", active)
            breach = breach or self._updated(name, place, active)
            if breach:
                return breach
            self._note_readers(self.readers[name], place, active)
        return None

    def update(
        self, name: str, place: Any, op: np.ufunc, values: Array, active: Active
    ) -> Breach | None:
        """Gives elements new values, one thread after the other, from what they hold; returns why
        that may not be, if so."""
        if self.pending and (breach := self._is_in_flight(name, place, active)):
            return breach
        place = active.each(place)
        if any_of(unwritten := ~self.written[name][place]):
            element = self._element(name, place, at := int(np.argmax(unwritten)))
            return Breach(active.lane(at), f"updates {element} before any write")
        if name in self.writers:
            breach = self._race(name, place, self.writers[name][place], "writes", active)
            breach = breach or self._race(name, place, self.readers[name][place], "reads", active)
            if breach:
                return breach
            self._note_readers(self.updaters[name], place, active)
        op.at(self.arrays[name], place, values)
        return None

    def _updated(self, name: str, place: Array, active: Active) -> Breach | None:
        """Whether another thread updates what this one reads or writes."""
        if name not in self.updaters:
            return None
        return self._race(name, place, self.updaters[name][place], "updates", active)

    def write(self, name: str, place: Any, value: Any, active: Active) -> Breach | None:
        """Writes; returns why that may not be, if so."""
        if self.pending and (breach := self._is_in_flight(name, place, active)):
            return breach
        if name in self.writers:
            writers, place = self.writers[name], active.each(place)
            breach = self._race(name, place, writers[place], "writes", active)
            breach = breach or self._race(name, place, self.readers[name][place], "reads", active)
            breach = breach or self._updated(name, place, active)
            if breach:
                return breach
            writers[place] = self.stamp[active.lanes]
            breach = self._race(name, place, writers[place], "writes", active)
            if breach:
                return breach
        self.arrays[name][place] = value
        self.written[name][place] = True
        return None

    def _race(
        self, name: str, place: Array, found: Array, uses: str, active: Active
    ) -> Breach | None:
        """Whether another thread left one of the stamps found at these elements."""
        others = self._meets(found, active)
        if not others.any():
            return None
        at = int(np.argmax(others))
        lane = active.lane(at)
        user = self._user(int(found[at]), uses, lane)
        return Breach(lane, f"race at {self._element(name, place, at)}: {user}")

    def _meets(self, found: Array, active: Active) -> Array:
        """Which stamps are of another block, or of another thread in the same phase."""
        block, phase = self.block[active.lanes], self.phase[active.lanes]
        apart: Array = (found < block) | (found >= phase)
        apart &= (found != self.stamp[active.lanes]) & (found != _UNTOUCHED)
        return apart

    def _note_readers(self, readers: Array, place: Array, active: Active) -> None:
        """Leaves the stamps of readers; where there are several, one that says so."""
        found = readers[place]
        stamp = self.stamp[active.lanes]
        several = self.phase[active.lanes] + self.geometry.threads
        in_block = self._is_of_block(found, active)
        both = np.where(in_block, several, _MANY_BLOCKS)
        new = np.where(self._meets(found, active), both, stamp)
        readers[place] = new
        found = readers[place]
        lost = found != new
        if lost.any():  # several threads read one element at once
            in_block = self._is_of_block(found, active)
            readers[place[lost & in_block]] = several[lost & in_block]
            readers[place[lost & ~in_block]] = _MANY_BLOCKS

    def _is_of_block(self, found: Array, active: Active) -> Array:
        block = self.block[active.lanes]
        inside: Array = (found >= block) & (found < block + _PHASES)
        return inside

    # --- what a Breach says --------------------------------------------------------------------

    def lane_text(self, lane: int) -> str:
        """Which block and thread a lane is."""
        slot, thread = divmod(lane, self.geometry.threads)
        block = self.geometry.block_text(int(self.blocks[slot]))
        return f"{block}, {self.geometry.thread_text(thread)}"

    def _element(self, name: str, place: Any, at: int) -> str:
        shape = self.buffers[name].shape
        number = int(np.atleast_1d(place)[at]) % int(np.prod(shape, dtype=np.int64))
        index = np.unravel_index(number, shape) if shape else ()
        return f"{name}{[int(axis) for axis in index]}"

    def _user(self, found: int, uses: str, lane: int) -> str:
        """Who left a stamp that another thread meets."""
        if found == _MANY_BLOCKS:
            return f"several blocks {uses.removesuffix('s')} it"
        serial = found // _PHASES
        if serial != int(self.block[lane]) // _PHASES:
            return f"{self.geometry.block_text(int(self.geometry.order[serial - 1]))} {uses} it"
        thread = found - int(self.phase[lane])
        if thread == self.geometry.threads:
            return f"several threads {uses.removesuffix('s')} it, with no barrier between"
        return f"{self.geometry.thread_text(thread)} {uses} it, with no barrier between"
