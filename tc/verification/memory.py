"""Arrays at the edges of memory: one element further is a page that nobody may touch."""

from __future__ import annotations

import ctypes
import math
import mmap
from typing import Any

import numpy as np

from tc.dtypes import Array


def at_edge(
    shape: tuple[int, ...], dtype: np.dtype[Any], *, before: bool = False, alignment: int = 1
) -> Array:
    """A row-major array that ends at a forbidden page, as nearly as its alignment allows, or
    begins after one; the pages go with it. Raises OSError where the system protects no pages.

    >>> at_edge((2, 3), np.dtype(np.float32)).sum()
    np.float32(0.0)
    """
    page, length = mmap.PAGESIZE, math.prod(shape) * dtype.itemsize
    size = -(-length // page) * page
    memory = mmap.mmap(-1, size + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect(start, page, 0)
    protect(start + page + size, page, 0)
    offset = page if before else (page + size - length) // alignment * alignment
    return np.frombuffer(memory, dtype, math.prod(shape), offset).reshape(shape)


def protect(start: int, size: int, rights: int) -> None:
    """Says what may be done with pages of memory: `rights` are those of `mprotect`, 0 for none."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), rights) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
