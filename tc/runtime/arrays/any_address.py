"""Arrays of numpy on any address, whether something is there or not."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

BEFORE = 1
MEMORY: Any = (ctypes.c_char * (2**63 - 2)).from_address(BEFORE)
"""All of the memory but its first byte, as a buffer: the fastest way to an array at an address.
Of a buffer at address 0, numpy would not take the memory, but memory of its own."""


def array_at(
    address: int, dtype: np.dtype[Any], shape: Sequence[int], strides: Sequence[int] | None = None
) -> np.ndarray:
    """An array whose element (0, ..., 0) is at an address from 1, row-major without `strides`;
    whoever reads it must know that there is memory.

    >>> array_at(4096, np.dtype(np.int8), (2, 3)).shape
    (2, 3)
    """
    new: Any = np.ndarray
    array: np.ndarray = new(shape, dtype, MEMORY, address - BEFORE, strides)
    return array
