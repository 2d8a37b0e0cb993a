"""Memory that nobody wrote holds what no result survives."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tc.backends.clike import backend as c
from tc.backends.clike.backend import CKernel
from tc.backends.numba import backend as numba
from tc.backends.numba.backend import NumbaKernel
from tc.function import Compiled
from tc.runtime import specialisation
from tc.runtime.arrays import empty

NAN, HUGE, LOW = 0xFF, 0x7F, 0x80
"""Bytes of which NaN is made in all float types, and the largest and least of other numbers."""


@contextmanager
def poisoned(byte: int, allocate: Callable[..., Any] = empty) -> Iterator[None]:
    """All memory that calls allocate is full of a byte: outputs, temporaries, scratch buffers."""

    def full(shape: tuple[int, ...], dtype: np.dtype[Any], alignment: int = 1) -> Any:
        array = allocate(shape, dtype, alignment)
        array.reshape(-1).view(np.uint8)[...] = byte
        return array

    class Piece(c._Piece):
        def __init__(self, size: int) -> None:
            super().__init__(size)
            ctypes.memset(self.memory, byte, ctypes.sizeof(self.memory))

    kept = specialisation.empty, numba.empty, c._Piece
    specialisation.empty = numba.empty = full
    c._Piece = Piece  # type: ignore[misc]
    try:
        yield
    finally:
        specialisation.empty, numba.empty, c._Piece = kept  # type: ignore[misc]


def forget_memory(function: Compiled) -> None:
    """The next call of a function allocates all its memory anew."""
    for special in function._specialiser.made.values():
        special.temporaries.spare.clear()
        match special.runner:
            case NumbaKernel(blocks=blocks):
                blocks.clear()
            case CKernel(workspaces=workspaces):
                workspaces._idle.clear()
