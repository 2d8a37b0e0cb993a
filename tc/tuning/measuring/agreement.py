"""Whether results agree with a reference, each element within its bound (R5)."""

from __future__ import annotations

import numpy as np

from tc.dtypes import Array

_BLOCK = 1 << 20
"""Elements that are compared at a time."""


def is_within(actual: Array, expected: Array, bounds: Array) -> Array:
    """Per element, for arrays of one shape and type: NaN equals NaN, an infinity only the same
    infinity, and an infinite bound allows any value."""
    same = np.asarray(actual == expected)
    if actual.dtype.kind == "f":
        same |= np.isnan(actual) & np.isnan(expected)
    if actual.dtype.kind in "iu":
        # float64 cannot tell neighbouring int64 apart; differences modulo 2**64 are exact
        larger = np.where(actual > expected, actual, expected).astype(np.uint64)
        smaller = np.where(actual > expected, expected, actual).astype(np.uint64)
        apart = (larger - smaller).astype(np.float64)
    else:
        with np.errstate(invalid="ignore"):
            apart = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    return np.asarray(same | (apart <= bounds) | (bounds == np.inf))


def difference(name: str, actual: Array, expected: Array, bounds: Array) -> str | None:
    """Where a result is out of its bounds, which broadcast; None where it is not.

    >>> one = np.ones(3, np.float32)
    >>> difference("y", one * [1, 2, 1], one, np.float64(0.5))
    'y(1) is 2.0, and has to be within 0.5 of 1.0 (1 of 3 elements are wrong)'
    """
    bounds = np.broadcast_to(bounds, expected.shape)
    flat = actual.reshape(-1), expected.reshape(-1), bounds.reshape(-1)
    wrong, first = 0, -1
    for start in range(0, expected.size, _BLOCK):
        bad = ~is_within(*(array[start : start + _BLOCK] for array in flat))
        if bad.any():
            first = start + int(bad.argmax()) if first < 0 else first
            wrong += int(bad.sum())
    if not wrong:
        return None
    at = ", ".join(str(int(i)) for i in np.unravel_index(first, expected.shape))
    return (
        f"{name}({at}) is {flat[0][first]}, and has to be within {flat[2][first]:.3g} of "
        f"{flat[1][first]} ({wrong} of {expected.size} elements are wrong)"
    )
