"""Arrays at the edges of memory: one element further is a page that nobody may touch."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@contextmanager
def guarded(array: Array, *, before: bool = False) -> Iterator[Array]:
    """A copy of a one-dimensional array that ends at a forbidden page, or begins after one."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, size + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    protect(start, page, 0)
    protect(start + page + size, page, 0)
    offset = page if before else page + size - array.nbytes
    copy = np.frombuffer(memory, array.dtype, array.size, offset)
    copy[...] = array
    try:
        yield copy
    finally:
        protect(start, page, mmap.PROT_READ | mmap.PROT_WRITE)
        protect(start + page + size, page, mmap.PROT_READ | mmap.PROT_WRITE)


def protect(start: int, size: int, rights: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), rights) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
