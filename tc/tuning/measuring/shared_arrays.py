"""Arrays in memory that worker processes share: written once, read by all."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.dtypes import DTYPES, Array
from tc.runtime.arrays.encoded_arrays import ENCODED

_ALIGNMENT_BYTES = 64


@dataclass(frozen=True, slots=True)
class ArrayPlace:
    """Where an array lies: row-major, from a byte on."""

    dtype: str
    shape: tuple[int, ...]
    start: int

    @property
    def numpy(self) -> np.dtype[Any]:
        known = DTYPES.get(self.dtype)
        return np.dtype(self.dtype) if known is None else known.numpy


def new_memory() -> int:
    """The descriptor of a file that is nowhere on a disk, where the system has such; OSError."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("tc-tuning")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def write(descriptor: int, arrays: Mapping[str, Array]) -> dict[str, ArrayPlace]:
    """Appends arrays, and says where they are; OSError where there is no room.

    >>> memory = new_memory()
    >>> places = write(memory, {"a": np.arange(3), "b": np.ones((2, 2))})
    >>> places["b"].start, read(memory, places)["a"].tolist()
    (64, [0, 1, 2])
    >>> os.close(memory)
    """
    places = {}
    for name, array in arrays.items():
        start = -(-os.fstat(descriptor).st_size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
        places[name] = ArrayPlace(
            str(ENCODED.get(array.dtype, array.dtype.str)), array.shape, start
        )
        content = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        while content:
            written = os.pwrite(descriptor, content[: 1 << 30], start)
            content, start = content[written:], start + written
    return places


def read(descriptor: int, places: Mapping[str, ArrayPlace]) -> dict[str, Array]:
    """The arrays at their places, which nobody can write to."""
    size = os.fstat(descriptor).st_size
    memory = mmap.mmap(descriptor, size, access=mmap.ACCESS_READ) if size else b""
    return {
        name: np.frombuffer(memory, place.numpy, math.prod(place.shape), place.start).reshape(
            place.shape
        )
        if math.prod(place.shape)
        else np.zeros(place.shape, place.numpy)
        for name, place in places.items()
    }
