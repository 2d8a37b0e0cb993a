"""asinh, acosh, atanh, by log(1 + x)."""

from __future__ import annotations

import math

from tc.kernel.math.logarithms import log1p
from tc.kernel.math.vector import Vector, fma, select

_LARGE = 2.0**28
"""Beyond, sqrt(x * x + 1) is x, and log1p(x - 1) is log(x) as exactly as can be."""


def asinh(x: Vector) -> Vector:
    size = abs(x)
    square = size * size
    near = size + square / (1.0 + (square + 1.0).sqrt())
    return _log_of_sum(size, near).copysign(x)


def acosh(x: Vector) -> Vector:
    above = x - 1.0
    near = above + fma(above, above, above + above).sqrt()
    return select(x < 1.0, math.nan, _log_of_sum(x, near))


def atanh(x: Vector) -> Vector:
    size = abs(x)
    doubled = size + size
    half = 0.5 * log1p(fma(doubled, size / (1.0 - size), doubled))
    return select(size > 1.0, math.nan, half.copysign(x))


def _log_of_sum(x: Vector, near: Vector) -> Vector:
    """log1p(near), or log(2 * x) where x is large."""
    is_large = x > _LARGE
    return log1p(select(is_large, x - 1.0, near)) + select(is_large, x.constant(math.log(2.0)), 0.0)
