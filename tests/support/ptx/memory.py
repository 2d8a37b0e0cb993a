"""The memories that a block reads and writes: bytes that are read as elements of any type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"

REGION_BITS = 40
"""Each array of global memory has addresses of its own above these bits, so that none is reached
from another."""
CONSTANT_WINDOW, SHARED_WINDOW, LOCAL_WINDOW = 1 << 59, 1 << 60, 1 << 61
"""Where addresses of constants begin, and generic addresses of shared and of local memory."""
UNWRITTEN = 0xFF
"""What bytes hold that nobody has written: as floating-point numbers they are NaN."""


class Fault(Exception):
    """What an instruction may not do, and the first thread that does it."""

    def __init__(self, what: str, thread: int | None = None) -> None:
        super().__init__(what)
        self.thread = thread


def check_alignment(addresses: Array, size: int, threads: Array) -> None:
    if int(np.bitwise_or.reduce(addresses)) & (size - 1):
        first = int((addresses % size != 0).argmax())
        raise Fault(
            f"{addresses[first]:#x} is no multiple of {size}: misaligned", int(threads[first])
        )


class Region:
    """Bytes from the address `start` on, each thread its own where they are `private`."""

    def __init__(self, name: str, start: int, size: int, private: int = 0) -> None:
        self.name, self.start, self.size = name, start, size
        self.pitch = -(-size // 16) * 16 if private else 0
        self.pad = start % 16
        rounded = -(-(self.pad + max(self.pitch * private, size)) // 16) * 16
        self.bytes = np.full(rounded, UNWRITTEN, np.uint8)
        self._views: dict[np.dtype[Any], Array] = {}

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
        self._regions: list[Region] = []
        self.constants = Region("constants", CONSTANT_WINDOW, 0)
        self.changed: dict[int, Array] = {}

    def add(self, name: str, array: Array, offset: int = 0) -> int:
        """The address of a copy of the array, `offset` bytes behind a multiple of 256 bytes."""
        content = np.frombuffer(array.tobytes(), np.uint8)
        region = Region(name, (len(self._regions) + 1 << REGION_BITS) + offset, content.size)
        region.content()[:] = content
        self._regions.append(region)
        return region.start

    def array(self, address: int, like: Array) -> Array:
        """What is at an address that `add` gave."""
        content = self._regions[(address >> REGION_BITS) - 1].content()
        return content.copy().view(like.dtype).reshape(like.shape)

    def region(self, number: int, thread: int) -> Region:
        if number == CONSTANT_WINDOW >> REGION_BITS:
            return self.constants
        if not 0 < number <= len(self._regions):
            raise Fault("the address is in no array: out of bounds", thread)
        return self._regions[number - 1]

    def watch(self) -> None:
        self.changed = {}

    def will_change(self, region: Region) -> None:
        number = region.start >> REGION_BITS
        if number not in self.changed:
            self.changed[number] = region.bytes.copy()

    def now(self) -> dict[int, Array]:
        """The arrays that were stored to, as they are now."""
        return {number: self._regions[number - 1].bytes.copy() for number in self.changed}

    def undo(self) -> None:
        for number, content in self.changed.items():
            self._regions[number - 1].bytes[:] = content

    def difference(self, other: Mapping[int, Array]) -> str:
        """The array whose content differs from that of `now` at another time; "" if none does."""
        for number, before in self.changed.items():
            region = self._regions[number - 1]
            if (region.bytes != other.get(number, before)).any():
                return region.name
        return ""


class BlockMemory:
    """What the threads of one block see."""

    def __init__(self, memory: GlobalMemory, threads: int, sizes: Mapping[str, int]) -> None:
        self.memory = memory
        self.shared = Region("shared memory", 0, sizes.get("shared", 0))
        self.private = {
            space: Region(f"{space} memory", 0, sizes.get(space, 0), threads)
            for space in ("local", "param")
        }
        self.copies = AsyncCopies(threads)

    def begin(self) -> None:
        """What a block that begins finds."""
        for region in (self.shared, self.private["local"]):
            region.bytes[:] = UNWRITTEN
        self.copies = AsyncCopies(len(self.copies.committed))

    def load(
        self, space: str, addresses: Array, dtype: np.dtype[Any], count: int, threads: Array
    ) -> Array:
        """`count` elements from each address on, as rows."""
        result = np.empty((len(addresses), count), dtype)
        for region, where, at in self._parts(space, addresses, threads):
            places = region.places(at, dtype.itemsize, count, threads[where])
            result[where] = region.elements(dtype)[places]
        return result

    def store(self, space: str, addresses: Array, values: Array, threads: Array) -> None:
        count = values.shape[1]
        for region, where, at in self._parts(space, addresses, threads):
            places = region.places(at, values.itemsize, count, threads[where])
            if 0 < region.start >> REGION_BITS < CONSTANT_WINDOW >> REGION_BITS:
                self.memory.will_change(region)
            region.elements(values.dtype)[places] = values[where]

    def _parts(
        self, space: str, addresses: Array, threads: Array
    ) -> Iterator[tuple[Region, Any, Array]]:
        """The regions that the addresses are in, for which of them, and these addresses."""
        if space == "shared":
            yield self.shared, slice(None), addresses
        elif space in self.private:
            yield self.private[space], slice(None), addresses
        else:
            numbers = addresses >> REGION_BITS
            for number in (
                [int(numbers[0])] if (numbers == numbers[0]).all() else np.unique(numbers).tolist()
            ):
                where = numbers == number
                at = addresses[where]
                if number == SHARED_WINDOW >> REGION_BITS:
                    yield self.shared, where, at - SHARED_WINDOW
                elif number == LOCAL_WINDOW >> REGION_BITS:
                    yield self.private["local"], where, at - LOCAL_WINDOW
                else:
                    yield self.memory.region(number, int(threads[where][0])), where, at


class AsyncCopies:
    """What cp.async has copied and its thread has not waited for: the bytes are in shared memory
    only then, and nobody's before."""

    def __init__(self, threads: int) -> None:
        self.committed = np.zeros(threads, np.int64)
        self._pending: list[tuple[Array, Array, Array, Array]] = []

    def copy(self, shared: Region, to: Array, content: Array, threads: Array) -> None:
        """The rows of bytes that `threads` copy to these addresses."""
        places = shared.places(to, 1, content.shape[1], threads)
        shared.bytes[places] = UNWRITTEN
        self._pending.append((threads, self.committed[threads], places, content))

    def commit(self, threads: Array) -> None:
        self.committed[threads] += 1

    def wait(self, shared: Region, threads: Array, left: int) -> None:
        """All groups of these threads but the last `left` have arrived."""
        pending = []
        for owners, groups, places, content in self._pending:
            arrived = np.isin(owners, threads) & (groups < self.committed[owners] - left)
            shared.bytes[places[arrived]] = content[arrived]
            if not arrived.all():
                rest = ~arrived
                pending.append((owners[rest], groups[rest], places[rest], content[rest]))
        self._pending = pending
