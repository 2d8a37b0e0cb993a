"""Where the arrays lie that a kernel is called with: their strides, and what is around them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tc.dtypes import Array
from tc.verification.memory import at_edge

PLAIN, ENDS, BEGINS = "plain", "ends", "begins"
TRANSPOSED, OFFSET, SPACED, BROADCAST = "transposed", "offset", "spaced", "broadcast"

LAYOUTS = {
    PLAIN: "row-major arrays",
    ENDS: "arrays that end at a forbidden page",
    BEGINS: "arrays that begin after a forbidden page",
    TRANSPOSED: "transposed arrays",
    OFFSET: "arrays one element beyond an aligned address",
    SPACED: "arrays of every second element in memory",
    BROADCAST: "arrays of one row, repeated with stride 0",
}
"""The layouts, and what they are called."""

GUARDED = (ENDS, BEGINS)
STRIDED = (TRANSPOSED, OFFSET, SPACED, BROADCAST)
"""The layouts that a kernel may refuse by an exception."""

_ALIGNMENT = 64  # bytes
_CANARY = 0xA5


@dataclass(frozen=True)
class PlacedArray:
    """An array with what is around it: the bytes of its region before `begin` and from `end` on
    hold canaries."""

    array: Array
    region: Array
    begin: int
    end: int
    between: Array | None = None  # elements between those of the array

    @property
    def is_intact(self) -> bool:
        """Whether nobody has written around the array."""
        around = [self.region[: self.begin], self.region[self.end :]]
        if self.between is not None:
            around.append(np.ascontiguousarray(self.between).view(np.uint8))
        return all(bool((part == _CANARY).all()) for part in around)

    def write(self, values: Array) -> None:
        """Puts other values into the array."""
        self.array[...] = values

    def read_back(self) -> PlacedArray:
        """The array as it is now."""
        return self


def is_possible(values: Array, layout: str) -> bool:
    """Whether a layout differs from others for an array of such a shape."""
    if layout == TRANSPOSED:
        return len([extent for extent in values.shape if extent > 1]) > 1
    if layout == BROADCAST:
        return values.ndim > 0 and values.shape[0] > 1 and values.size > 0
    return values.ndim > 0 and values.size > 0


def as_broadcast(values: Array) -> Array:
    """The values of an array whose first row is repeated."""
    if values.shape[0] < 2:
        return values
    return np.ascontiguousarray(np.broadcast_to(values[:1], values.shape))


def placed(values: Array, layout: str) -> PlacedArray:
    """A copy of an array in a layout; of arrays for which that is none, a plain one.

    >>> found = placed(np.arange(6.0).reshape(2, 3), TRANSPOSED)
    >>> found.array.strides, found.array.tolist(), found.is_intact
    ((8, 16), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], True)
    """
    if not is_possible(values, layout):
        layout = PLAIN
    held = values[:1] if layout == BROADCAST else values
    dtype, size = values.dtype, math.prod(held.shape) * values.dtype.itemsize
    if layout == SPACED:
        size *= 2
    if layout in GUARDED:
        exact = at_edge((size,), np.dtype(np.uint8), before=layout == BEGINS)
        region, begin = exact, 0
    else:
        begin = _ALIGNMENT + (dtype.itemsize if layout == OFFSET else 0)
        length = (-(-(begin + size) // _ALIGNMENT) + 1) * _ALIGNMENT
        raw = np.full(length + _ALIGNMENT, _CANARY, np.uint8)
        region = raw[-raw.ctypes.data % _ALIGNMENT :][:length]
    array: Array
    between = None
    if layout == TRANSPOSED:
        array = np.ndarray(held.shape, dtype, region, begin, order="F")
    elif layout == SPACED:
        double = np.ndarray((*held.shape[:-1], 2 * held.shape[-1]), dtype, region, begin)
        array, between = double[..., ::2], double[..., 1::2]
    else:
        array = np.ndarray(held.shape, dtype, region, begin)
    array[...] = held
    if layout == BROADCAST:
        strides = (0, *array.strides[1:])
        array = np.ndarray(values.shape, dtype, region, begin, strides)
    return PlacedArray(array, region, begin, begin + size, between)
