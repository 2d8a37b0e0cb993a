"""The memories that a block reads and writes: bytes that are read as elements of any type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

REGION_BITS = 40
"""Each array of global memory has addresses of its own above these bits, so that none is reached
from another."""
WINDOWS: Mapping[str, int] = {"global": 0, "shared": 1 << 60, "local": 1 << 61, "param": 1 << 62}
"""Where generic addresses of the memories begin."""
UNWRITTEN = 0xFF
"""What bytes hold that nobody has written: as floating-point numbers they are NaN."""


class Fault(Exception):
    """What an instruction may not do, and the first thread that does it."""

    def __init__(self, what: str, thread: int) -> None:
        super().__init__(what)
        self.thread = thread


def check_alignment(addresses: Array, size: int, threads: Array) -> None:
    if int(np.bitwise_or.reduce(addresses)) & (size - 1):
        first = int((addresses % size != 0).argmax())
        raise Fault(
            f"{addresses[first]:#x} is no multiple of {size}: misaligned", int(threads[first])
        )


class Region:
    """Bytes from the address `start` on, each thread its own where they are `private`; in `gaps`
    between arrays nothing may be stored, though wide loads read them."""

    def __init__(self, name: str, start: int, size: int, private: int = 0) -> None:
        self.name, self.start, self.size = name, start, size
        self.pitch = -(-size // 16) * 16 if private else 0
        self.pad = start % 16
        rounded = -(-(self.pad + max(self.pitch * private, size)) // 16) * 16
        self.bytes = np.full(rounded, UNWRITTEN, np.uint8)
        self.gaps = np.zeros(rounded, bool)
        self._views: dict[np.dtype[Any], Array] = {}

    @property
    def number(self) -> int:
        return self.start >> REGION_BITS

    def elements(self, dtype: np.dtype[Any]) -> Array:
        if dtype not in self._views:
            self._views[dtype] = self.bytes.view(dtype)
        return self._views[dtype]

    def content(self) -> Array:
        return self.bytes[self.pad : self.pad + self.size]

    def places(self, addresses: Array, size: int, count: int, threads: Array) -> Array:
        """The numbers of the elements of `size` bytes, `count` from each address on."""
        offsets = addresses - self.start
        if offsets.min() < 0 or offsets.max() + size * count > self.size:
            first = int(((offsets < 0) | (offsets + size * count > self.size)).argmax())
            raise Fault(
                f"bytes {offsets[first]} to {offsets[first] + size * count - 1} of {self.name}, "
                f"which has {self.size}, are out of bounds",
                int(threads[first]),
            )
        check_alignment(addresses, size * count, threads)
        if self.pitch:
            offsets = offsets + threads * self.pitch
        places: Array = ((offsets + self.pad) // size)[:, None]
        return places + np.arange(count) if count > 1 else places


class GlobalMemory:
    """Arrays in global memory. `changed` has the bytes of the arrays that were stored to since
    `watch`, as they were then."""

    def __init__(self) -> None:
        self.regions: dict[int, Region] = {}
        self.changed: dict[int, Array] = {}

    def add(self, name: str, array: Array, offset: int = 0) -> int:
        """The address of a copy of the array, `offset` bytes behind a multiple of 256 bytes."""
        region = Region(name, (len(self.regions) + 1 << REGION_BITS) + offset, array.nbytes)
        region.content()[:] = np.frombuffer(array.tobytes(), np.uint8)
        self.regions[region.number] = region
        return region.start

    def array(self, address: int, like: Array) -> Array:
        """What is at an address that `add` gave."""
        content = self.regions[address >> REGION_BITS].content()
        return content.copy().view(like.dtype).reshape(like.shape)

    def watch(self) -> None:
        self.changed = {}

    def will_change(self, region: Region) -> None:
        if region.number not in self.changed:
            self.changed[region.number] = region.bytes.copy()

    def now(self) -> dict[int, Array]:
        """The arrays that were stored to, as they are now."""
        return {number: self.regions[number].bytes.copy() for number in self.changed}

    def undo(self) -> None:
        for number, content in self.changed.items():
            self.regions[number].bytes[:] = content

    def difference(self, other: Mapping[int, Array]) -> str:
        """The array whose content differs from that of `now` at another time; "" if none does."""
        for number, before in self.changed.items():
            if (self.regions[number].bytes != other.get(number, before)).any():
                return self.regions[number].name
        return ""


class BlockMemory:
    """What the threads of one block see, by generic addresses."""

    def __init__(self, memory: GlobalMemory, threads: int, sizes: Mapping[str, int]) -> None:
        self.memory, self._threads = memory, threads
        self.shared, self.local, self.parameters = (
            Region(f"{space} memory", WINDOWS[space], sizes.get(space, 0), private)
            for space, private in (("shared", 0), ("local", threads), ("param", 0))
        )
        self._own = {r.number: r for r in (self.shared, self.local, self.parameters)}
        self.begin()

    def begin(self) -> None:
        """What a block that begins finds."""
        for region in (self.shared, self.local):
            region.bytes[:] = UNWRITTEN
        self.copies = AsyncCopies(self.shared, self._threads)

    def load(self, at: Array, dtype: np.dtype[Any], count: int, threads: Array) -> Array:
        """`count` elements from each address on, as rows."""
        result = np.empty((len(at), count), dtype)
        for region, where in self._parts(at, threads):
            places = region.places(at[where], dtype.itemsize, count, threads[where])
            result[where] = region.elements(dtype)[places]
        return result

    def store(self, at: Array, values: Array, threads: Array) -> None:
        for region, where in self._parts(at, threads):
            places = region.places(at[where], values.itemsize, values.shape[1], threads[where])
            if region.number not in self._own:
                self.memory.will_change(region)
            elif (into := region.gaps.reshape(-1, values.itemsize)[places].any((1, 2))).any():
                first = int(into.argmax())
                raise Fault(
                    f"{at[where][first]:#x} is in no array of {region.name}: out of bounds",
                    int(threads[where][first]),
                )
            region.elements(values.dtype)[places] = values[where]

    def _parts(self, at: Array, threads: Array) -> Iterator[tuple[Region, Any]]:
        """The regions that the addresses are in, and which of them are there."""
        numbers = at >> REGION_BITS
        one = (numbers == numbers[0]).all()
        for number in [int(numbers[0])] if one else np.unique(numbers).tolist():
            where = slice(None) if one else numbers == number
            region = self._own.get(number) or self.memory.regions.get(number)
            if region is None:
                raise Fault("the address is in no array: out of bounds", int(threads[where][0]))
            yield region, where


class AsyncCopies:
    """What cp.async has copied and its thread has not waited for: the bytes are in shared memory
    only then, and nobody's before."""

    def __init__(self, shared: Region, threads: int) -> None:
        self._shared = shared
        self._committed = np.zeros(threads, np.int64)
        self._pending: list[tuple[Array, Array, Array, Array]] = []

    def copy(self, to: Array, content: Array, threads: Array) -> None:
        """The rows of bytes that `threads` copy to these addresses."""
        places = self._shared.places(to, 1, content.shape[1], threads)
        if (into := self._shared.gaps[places].any(1)).any():
            first = int(into.argmax())
            raise Fault(
                f"{to[first]:#x} is in no array of {self._shared.name}: out of bounds",
                int(threads[first]),
            )
        self._shared.bytes[places] = UNWRITTEN
        self._pending.append((threads, self._committed[threads], places, content))

    def commit(self, threads: Array) -> None:
        self._committed[threads] += 1

    def wait(self, threads: Array, left: int) -> None:
        """All groups of these threads but the last `left` have arrived."""
        pending = []
        for owners, groups, places, content in self._pending:
            arrived = np.isin(owners, threads) & (groups < self._committed[owners] - left)
            self._shared.bytes[places[arrived]] = content[arrived]
            if not arrived.all():
                rest = ~arrived
                pending.append((owners[rest], groups[rest], places[rest], content[rest]))
        self._pending = pending
