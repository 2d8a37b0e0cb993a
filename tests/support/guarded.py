"""Arrays at the edges of memory: one element further is a page that nobody may touch."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@contextmanager
def guarded(array: Array, *, before: bool = False) -> Iterator[Array]:
    """A copy of a one-dimensional array that ends at a forbidden page, or begins after one."""
    copy = at_edge(array.shape, array.dtype, before=before)
    copy[...] = array
    yield copy


def at_edge(
    shape: tuple[int, ...], dtype: np.dtype[Any], *, before: bool = False, alignment: int = 1
) -> Array:
    """A row-major array that ends at a forbidden page, as nearly as its alignment allows, or
    begins after one; the pages go with it."""
    page, length = mmap.PAGESIZE, math.prod(shape) * dtype.itemsize
    size = -(-length // page) * page
    memory = mmap.mmap(-1, size + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect(start, page, 0)
    protect(start + page + size, page, 0)
    offset = page if before else (page + size - length) // alignment * alignment
    return np.frombuffer(memory, dtype, math.prod(shape), offset).reshape(shape)


def protect(start: int, size: int, rights: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), rights) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
