"""Memory of large results, kept for later results of the same size when nobody holds it any more.

An allocator returns memory of `MAPPED_BYTES` or more to the system when it is freed (mallopt(3),
M_MMAP_THRESHOLD: its largest value), and each result in new memory waits for pages: of 50 MB for
8 ms, and for up to 120 ms where the system of a virtual machine has none at hand; a product that
fills them takes 33 (2 processors of a Zen 4, Linux 6.18).
"""

from __future__ import annotations

from typing import Any

import numpy as np

MAPPED_BYTES = 32 << 20
UNIT_BYTES = 2 << 20
"""Sizes are multiples of a large page, so that arrays of nearly the same size share memory."""

MOST_KEPT_BYTES = 256 << 20
"""What is kept together: two results of 100 MB, of which a loop writes one and reads the other."""


class KeptMemory:
    """Blocks of memory that no array uses. Calls in any thread, and the ends of arrays in the
    collector of garbage, take and give back without a lock, as each is one step of a dictionary.

    >>> kept = KeptMemory(MAPPED_BYTES)
    >>> array = kept.block(MAPPED_BYTES - 1)
    >>> place = array.ctypes.data
    >>> part, array = array[5:], None
    >>> len(kept.blocks)
    0
    >>> part = None
    >>> len(kept.blocks), kept.block(MAPPED_BYTES).ctypes.data == place
    (1, True)
    """

    __slots__ = ("blocks", "most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self.blocks: dict[int, np.ndarray] = {}
        self.most_bytes = most_bytes

    def block(self, size: int) -> np.ndarray:
        """An array of `size` bytes or more, in memory that comes back here when the array and all
        that is a view of it are gone. MemoryError where there is no such memory."""
        size = -(-size // UNIT_BYTES) * UNIT_BYTES
        # a list of values is one step, in which nothing is collected; the last ones are in caches
        for memory in reversed([*self.blocks.values()]):
            if memory.nbytes == size and self.blocks.pop(id(memory), None) is not None:
                return np.asarray(_Loan(memory, self))
        try:
            memory = np.empty(size, np.uint8)
        except MemoryError:
            self.blocks.clear()
            memory = np.empty(size, np.uint8)
        return np.asarray(_Loan(memory, self))

    def take_back(self, memory: np.ndarray) -> None:
        """Keeps memory, and lets go of what was kept first."""
        self.blocks[id(memory)] = memory
        while sum(each.nbytes for each in [*self.blocks.values()]) > self.most_bytes:
            self.blocks.pop(next(iter([*self.blocks]), 0), None)


class _Loan:
    """What owns memory for an array: the array holds it, and so do all views."""

    __slots__ = ("__array_interface__", "kept", "memory")

    def __init__(self, memory: np.ndarray, kept: KeptMemory) -> None:
        self.memory, self.kept = memory, kept
        self.__array_interface__: dict[str, Any] = memory.__array_interface__

    def __del__(self) -> None:
        self.kept.take_back(self.memory)


KEPT = KeptMemory(MOST_KEPT_BYTES)
