"""Arrays at the edges of memory: one element further is a page that nobody may touch."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable, Iterator
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


# --- arrays for calls; `edge` is "ends", "begins", or None for ordinary memory --------------------


def at_edge_or_not(
    shape: tuple[int, ...], dtype: np.dtype[Any], edge: str | None, alignment: int = 1
) -> Array:
    """Zeros."""
    if edge is None:
        return np.zeros(shape, dtype)
    return at_edge(shape, dtype, before=edge == "begins", alignment=alignment)


def copy_at_edge(value: Any, edge: str | None, order: Any = "C") -> Any:
    """A copy of an array, and any other value as it is."""
    if not isinstance(value, np.ndarray) or value.ndim == 0:
        return value
    flat = at_edge_or_not((value.size,), value.dtype, edge)
    flat[...] = value.ravel(order)
    return flat.reshape(value.shape, order=order)


def allocator(edge: str | None) -> Callable[..., Array]:
    """In the place of `tc.runtime.arrays.empty` (see `tests.support.poison`). What tc keeps for
    later calls stays where the first call put it."""

    def empty(shape: tuple[int, ...], dtype: np.dtype[Any], alignment: int = 1) -> Array:
        return at_edge_or_not(shape, dtype, edge, max(alignment, dtype.itemsize))

    return empty
