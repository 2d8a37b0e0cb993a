"""Functions that are little more than a native operation."""

from __future__ import annotations

from tc.kernel.functions.vector import Vector


def rsqrt(x: Vector) -> Vector:
    return 1.0 / x.sqrt()
