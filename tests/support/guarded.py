"""Arrays at the edges of memory: one element further is a page that nobody may touch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tc.verification.memory import at_edge

Array = np.ndarray[Any, Any]


@contextmanager
def guarded(array: Array, *, before: bool = False) -> Iterator[Array]:
    """A copy of a one-dimensional array that ends at a forbidden page, or begins after one."""
    copy = at_edge(array.shape, array.dtype, before=before)
    copy[...] = array
    yield copy


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
