"""Functions on the exponents of floats, which kernels call on vectors and programs cannot.

They are instructions of some processors (`Device.exponents`). With `logb`, which programs know
too, formulas take floats apart and put them together again without touching their bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tc.dtypes import Array


@dataclass(frozen=True, slots=True)
class ExponentFunction:
    """`numpy` is what it means, on arrays of float32 or float64 to the same type."""

    arity: int
    numpy: Callable[..., Array]


def scaleb(x: Array, n: Array) -> Array:
    """x times 2 to the power of floor(n), rounded once; NaN for 0 times infinity. The power of an
    infinite n is the result even where x is NaN, which is how processors have it.

    >>> scaleb(np.array([3.0, 1.0, 5.0]), np.array([2.5, -1074.0, -np.inf])).tolist()
    [12.0, 5e-324, 0.0]
    """
    steps = np.nan_to_num(np.clip(np.floor(n), -_FAR, _FAR)).astype(np.int64)
    # float32 is scaled in float64, where that is exact
    finite = np.ldexp(x.astype(np.float64), steps).astype(x.dtype)
    infinite = np.where(np.isnan(x), 1, x).astype(x.dtype) * np.exp2(n)
    return np.where(np.isfinite(n), finite, infinite)


def significand(x: Array) -> Array:
    """x divided by that power of two that brings positive numbers from 3/4 to below 3/2; 1 with the
    sign of x for zeros, 1 for infinity, and NaN for NaN and all below 0.

    The power is logb(x), or one more, so logb(x) - logb(significand(x)).

    >>> significand(np.array([12.0, 11.0, 5e-324, np.inf, -0.0, -2.0])).tolist()
    [0.75, 1.375, 1.0, 1.0, -1.0, nan]
    """
    is_common = (x > 0) & (x < np.inf)
    fraction = np.frexp(np.where(is_common, x, 1))[0]
    found = np.where(fraction < 0.75, 2 * fraction, fraction)
    found = np.where(x == 0, np.copysign(1, x), found)
    return np.where(x >= 0, found, np.nan).astype(x.dtype)


_FAR = 5000.0
"""Beyond this every number becomes 0 or infinite."""

EXPONENT_FUNCTIONS: Mapping[str, ExponentFunction] = {
    "scaleb": ExponentFunction(2, scaleb),
    "significand": ExponentFunction(1, significand),
}
