"""Bfloat16 and floats of 8 bits, read literally from their definitions, one number at a time.

Nothing here comes from `tc.dtypes`: the bits of IEEE's formats with fewer digits, and of OCP's
E4M3, which has no infinities and one NaN of either sign.
"""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from fractions import Fraction
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

BITS = {"bfloat16": (8, 7), "float8_e4m3fn": (4, 3), "float8_e5m2": (5, 2)}
"""Bits of the exponent and of the fraction."""

NAMES = tuple(BITS)


def width(name: str) -> int:
    return 1 + sum(BITS[name])


def unsigned(name: str) -> np.dtype[Any]:
    return np.dtype(f"u{width(name) // 8}")


def value(name: str, bits: int) -> float:
    """The number of some bits."""
    exponents, fractions = BITS[name]
    sign = -1.0 if bits >> (width(name) - 1) else 1.0
    exponent = bits >> fractions & ((1 << exponents) - 1)
    fraction = bits & ((1 << fractions) - 1)
    bias = (1 << (exponents - 1)) - 1
    if exponent == (1 << exponents) - 1:
        if name != "float8_e4m3fn":
            return sign * math.inf if fraction == 0 else math.nan
        if fraction == (1 << fractions) - 1:
            return math.nan
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - bias - fractions)
    return sign * math.ldexp((1 << fractions) + fraction, exponent - bias - fractions)


@cache
def values(name: str) -> Array:
    """All numbers by their bits, as float32."""
    return np.array([value(name, bits) for bits in range(1 << width(name))], np.float32)


@cache
def _positive(name: str) -> list[Fraction]:
    found = (value(name, bits) for bits in range(1 << (width(name) - 1)))
    return [Fraction(number) for number in found if math.isfinite(number)]


def nearest(name: str, number: float) -> float:
    """The number rounded to nearest, ties to even; beyond the largest number infinite, or that."""
    if math.isnan(number):
        return number
    known = _positive(name)
    sign = math.copysign(1.0, number)
    saturates = name == "float8_e4m3fn"
    if math.isinf(number):
        return sign * float(known[-1]) if saturates else number
    exact = abs(Fraction(number))
    at = bisect_left(known, exact)
    step = known[-1] - known[-2]
    if at == len(known):
        is_beyond = exact >= known[-1] + step / 2 and not saturates
        return sign * (math.inf if is_beyond else float(known[-1]))
    if known[at] == exact:
        return sign * float(exact)
    below, above = known[at - 1], known[at]
    if exact - below != above - exact:
        return sign * float(below if exact - below < above - exact else above)
    return sign * float(below if (at - 1) % 2 == 0 else above)  # bits count up, so parity is theirs


def drawn(name: str, count: int, seed: int = 0) -> Array:
    """Float32 of all bits, near numbers of the type, in the middle between neighbours, and odd
    ones."""
    rng = np.random.default_rng(seed)
    anything = rng.integers(0, 1 << 32, count, np.uint64).astype(np.uint32).view(np.float32)
    near = values(name)[rng.integers(0, 1 << width(name), count)]
    shifted = near.view(np.uint32) + rng.integers(-3, 4, count).astype(np.uint32)
    finite = np.unique(values(name)[np.isfinite(values(name))]).astype(np.float64)
    middles = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
    around = np.repeat(middles, 3).reshape(-1, 3)
    around[:, 0] = np.nextafter(around[:, 0], np.float32(-np.inf))
    around[:, 2] = np.nextafter(around[:, 2], np.float32(np.inf))
    odd = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754942e-38, 3.4028235e38, 464, 448]
    odd += [449, 463.99997, 465, 480, 61439, 61440, 61441, 65504, 2.0**-9, 2.0**-10, 2.0**-16]
    signalling = np.uint32([0x7F800001, 0xFF800001, 0x7F80FFFF, 0x7FFFFFFF]).view(np.float32)
    parts = (anything, shifted.view(np.float32), around.ravel(), np.float32(odd), signalling)
    return np.concatenate(parts)


def rounded_by_torch(torch: ModuleType, name: str, numbers: Array) -> Array:
    found: Array = torch.from_numpy(numbers).to(getattr(torch, name)).float().numpy()
    return found


def loaded_ml_dtypes() -> ModuleType | None:
    return sys.modules.get("ml_dtypes")
