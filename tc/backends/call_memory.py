"""The memory that a backend keeps for calls of a kernel, beside that of the arrays."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from tc.backends.scratch import ALIGNMENT_BYTES
from tc.kernel.ir import Failure
from tc.runtime.arrays import address, empty
from tc.runtime.loaded import WORD_BYTES

_BYTE = np.dtype(np.uint8)


class CallMemory:
    """The memory of one call at a time: the addresses of its buffers, that of the scratch memory
    of all parts of a shared loop, then a failure record for each part.

    Parts are in the order of the loop that they share, so the first record that is not empty
    holds the failure that a serial run would meet first.
    """

    __slots__ = ("_rows", "_values", "arguments", "failures", "pack", "parts", "scratch", "words")

    def __init__(self, buffers: int, values: Mapping[int, int], private: int, parts: int) -> None:
        width = record_words(values)
        self.parts, self._values = parts, values
        self.scratch = empty((parts * private,), _BYTE, ALIGNMENT_BYTES)
        self.words = (ctypes.c_int64 * (buffers + 1 + parts * width))()
        self.words[buffers] = address(self.scratch)
        self._rows = range(buffers + 1, buffers + 1 + parts * width, width or 1)
        self.arguments = ctypes.addressof(self.words)
        self.failures = self.arguments + (buffers + 1) * WORD_BYTES
        self.pack = struct.Struct(f"={buffers}q").pack_into

    def take_failure(self) -> Failure | None:
        """The first failure on record; the records are empty afterwards."""
        found = next((row for row in self._rows if self.words[row]), None)
        if found is None:
            return None
        site = self.words[found] - 1
        values = self.words[found + 1 : found + 1 + self._values[site]]
        ctypes.memset(self.failures, 0, len(self._rows) * self._rows.step * WORD_BYTES)
        return Failure(site, tuple(values))


@dataclass(frozen=True, slots=True)
class MemoryPool:
    """The memory of a kernel's calls: one piece for each call at a time, kept for later ones, so
    that in the long run nothing is allocated. One that an exception left is not used again.

    `buffers` is how many buffers a call passes, `values` how many values a Fail of each site
    records, `private` the bytes of scratch memory of each part, and `parts` says how many there
    may be.
    """

    buffers: int
    values: Mapping[int, int]
    private: int
    parts: Callable[[], int]
    idle: list[CallMemory] = field(default_factory=list)

    @property
    def record(self) -> int:
        """The bytes of a failure record, 0 where nothing can fail."""
        return record_words(self.values) * WORD_BYTES

    def new(self) -> CallMemory:
        return CallMemory(self.buffers, self.values, self.private, self.parts())

    def take(self) -> CallMemory:
        try:
            return self.idle.pop()
        except IndexError:
            return self.new()

    def give_back(self, memory: CallMemory) -> None:
        self.idle.append(memory)


def record_words(values: Mapping[int, int]) -> int:
    """The words of the record of any failure: site + 1, then its values."""
    return 1 + max(values.values()) if values else 0
