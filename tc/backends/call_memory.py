"""The memory that a backend keeps for calls of a kernel, beside that of the arrays."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tc.backends.printing import values_of_fails
from tc.kernel.ir import Failure, Kernel
from tc.kernel.scratch import ALIGNMENT_BYTES
from tc.runtime.arrays import address, empty
from tc.runtime.loaded import WORD_BYTES

_BYTE = np.dtype(np.uint8)


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """How the first failure of a call stands in memory: the number of the site + 1, 0 where nothing
    has failed, then the values of that site. `values` is how many values a Fail of each site
    records.

    >>> record = FailureRecord({0: 2, 3: 1})
    >>> record.words, record.failure([0, 0, 0]), record.failure([4, 7, 0])
    (3, None, Failure(site=3, values=(7,)))
    """

    values: Mapping[int, int]

    @classmethod
    def of(cls, kernel: Kernel) -> FailureRecord:
        return cls(values_of_fails(*kernel.regions))

    @property
    def words(self) -> int:
        """The words of a record, 0 where nothing can fail."""
        return 1 + max(self.values.values()) if self.values else 0

    @property
    def nbytes(self) -> int:
        return self.words * WORD_BYTES

    def failure(self, words: Sequence[int]) -> Failure | None:
        """The failure that stands in the words of a record, None where none does."""
        if not words[0]:
            return None
        site = words[0] - 1
        return Failure(site, tuple(words[1 : 1 + self.values[site]]))


class CallMemory:
    """The memory of one call at a time: the addresses of its buffers, that of the scratch memory
    of all parts of a shared loop (`private` bytes each, or more), then a failure record for each
    part.

    Parts are in the order of the loop that they share, so the first record that is not empty
    holds the failure that a serial run would meet first.
    """

    __slots__ = (
        *("_place", "_rows", "arguments", "failures"),
        *("pack", "parts", "record", "scratch", "words"),
    )

    def __init__(self, buffers: int, record: FailureRecord, private: int, parts: int) -> None:
        width = record.words
        self.parts, self.record, self._place = parts, record, buffers
        self.words = (ctypes.c_int64 * (buffers + 1 + parts * width))()
        self.scratch = empty((0,), _BYTE)
        self.reserve(private)
        self._rows = range(buffers + 1, buffers + 1 + parts * width, width or 1)
        self.arguments = ctypes.addressof(self.words)
        self.failures = self.arguments + (buffers + 1) * WORD_BYTES
        self.pack = struct.Struct(f"={buffers}q").pack_into

    def reserve(self, private: int) -> None:
        """Has scratch memory of at least so many bytes for each part: what is kept is that of the
        largest call. The memory is zeros at first: rows behind the last of a tile compute with what
        is there, for nothing, and with subnormal numbers that takes 150 cycles an operation."""
        if self.scratch.nbytes < self.parts * private or not self.words[self._place]:
            self.scratch = empty((self.parts * private,), _BYTE, ALIGNMENT_BYTES)
            self.scratch.fill(0)
            self.words[self._place] = address(self.scratch)

    def take_failure(self) -> Failure | None:
        """The first failure on record; the records are empty afterwards."""
        found = next((row for row in self._rows if self.words[row]), None)
        if found is None:
            return None
        failure = self.record.failure(self.words[found : found + self.record.words])
        ctypes.memset(self.failures, 0, len(self._rows) * self.record.nbytes)
        return failure
