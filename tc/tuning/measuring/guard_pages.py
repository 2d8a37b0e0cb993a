"""Arrays at the edges of memory: one byte further is a page that nobody may touch."""

from __future__ import annotations

import ctypes
import mmap

import numpy as np

from tc.dtypes import Array

_FORBIDDEN, _READ_ONLY = 0, mmap.PROT_READ
_ZONE = 1 << 20
"""The bytes on either side of an array that nobody may touch: many, so that accesses whole rows
beyond the array are noticed, too."""


def bytes_at_edge(size: int, *, before: bool, alignment: int = 1) -> Array:
    """Zeros that end at forbidden pages, as nearly as their alignment allows, or begin after them;
    the pages go with the array.

    >>> bytes_at_edge(5, before=False).tolist()
    [0, 0, 0, 0, 0]
    """
    page = mmap.PAGESIZE
    inner = -(-size // page) * page
    memory = mmap.mmap(-1, inner + 2 * _ZONE)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _protect(start, _ZONE, _FORBIDDEN)
    _protect(start + _ZONE + inner, _ZONE, _FORBIDDEN)
    offset = _ZONE if before else _ZONE + (inner - size) // alignment * alignment
    return np.frombuffer(memory, np.uint8, size, offset)


def forbid_writing(array: Array) -> None:
    """Nobody may write to the pages of an array of `bytes_at_edge` from now on."""
    page, start = mmap.PAGESIZE, array.ctypes.data
    first = start // page * page
    _protect(first, -(-(start + array.size) // page) * page - first, _READ_ONLY)


def _protect(start: int, size: int, rights: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if size and libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), rights) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")
