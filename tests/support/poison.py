"""Memory is filled with poison, so that a result that reads unwritten memory is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tc.backends import call_memory
from tc.backends.clike.backend import CKernel
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

    kept = specialisation.empty, call_memory.empty
    specialisation.empty = call_memory.empty = full
    try:
        yield
    finally:
        specialisation.empty, call_memory.empty = kept


def forget_memory(function: Compiled) -> None:
    """The next call of a function allocates all its memory anew."""
    for special in function._specialiser.made.values():
        special.temporaries.spare.idle.clear()
        match special.runner:
            case NumbaKernel(memory=memory) | CKernel(memory=memory):
                memory.idle.clear()
