"""How numpy keeps an array in memory: its C interface, for CPython.

An array is a record in the memory of the Python object, so that machine code can look at its
fields. Whether numpy keeps them so here is tried once.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

import numpy as np

from tc.runtime.loaded import WORD_BYTES

_START = object.__basicsize__

KIND = _START - WORD_BYTES
"""Where in an object its type stands."""

DATA, RANK, SHAPE, STRIDES, _BASE, DTYPE, FLAGS, _END = (_START + WORD_BYTES * i for i in range(8))
"""Where in an array its fields stand, each in a word: the rank and the flags are an int, the others
pointers. Records are at least so long as `_END`."""

CONTIGUOUS, ALIGNED, WRITABLE = 0x1, 0x100, 0x400
"""Bits of the flags; contiguous means row-major."""


@cache
def is_known() -> bool:
    """Whether the above is true here, in this version of numpy."""
    if sys.implementation.name != "cpython" or np.ndarray.__basicsize__ < _END:
        return False
    readonly = np.zeros((2, 3))
    readonly.flags.writeable = False
    unaligned = np.zeros(17, np.uint8)[1:].view(np.int32)
    arrays = (readonly, readonly.T, unaligned, np.zeros((0, 1, 2), np.int8), np.array(1.5, "f4"))
    return ctypes.sizeof(ctypes.c_void_p) == WORD_BYTES and all(map(is_laid_out, arrays))


def is_laid_out(array: np.ndarray[Any, Any]) -> bool:
    """Whether it is true of one array."""
    place = id(array)

    def word(offset: int) -> int:
        return ctypes.c_int64.from_address(place + offset).value

    def number(offset: int) -> int:
        return ctypes.c_int32.from_address(place + offset).value

    flags = array.flags
    bits = flags.c_contiguous * CONTIGUOUS | flags.aligned * ALIGNED | flags.writeable * WRITABLE
    known = CONTIGUOUS | ALIGNED | WRITABLE
    fields = (word(KIND), word(DATA), number(RANK), word(DTYPE))
    truth = (id(np.ndarray), array.__array_interface__["data"][0], array.ndim, id(array.dtype))
    if fields != truth or number(FLAGS) & known != bits:
        return False
    axes = (ctypes.c_int64 * array.ndim).from_address
    return not array.ndim or (
        tuple(axes(word(SHAPE))) == array.shape and tuple(axes(word(STRIDES))) == array.strides
    )
