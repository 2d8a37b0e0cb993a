"""log and what is made of it: bases 2 and 10, log of 1 + x, the inverse hyperbolic functions.

x is 2**k * (1 + r), k and r from its bits; log(1 + r) is a polynomial. 1 + r lies around 1, from
sqrt(1/2) or 3/4 to twice that, so that the sum is never much smaller than its terms.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from tc.kernel.math.coefficients import LOG, LOG2, LOG10, Logarithm
from tc.kernel.math.vector import Format, Vector, fma, polynomial, select

_LARGE = 2.0**28
"""Beyond, sqrt(x * x + 1) is x, and log1p(x - 1) is log(x) as exactly as can be."""


def _logarithm(tables: Mapping[int, Logarithm], x: Vector) -> Vector:
    table = tables[x.dtype.bits]
    k, fraction = split(x, table.least)
    return _outside(x, _polynomial(k, fraction - 1.0, table), 0.0)


def _by_parts(tables: Mapping[int, Logarithm], x: Vector) -> Vector:
    """Where exponent and fraction are instructions, whose results at zeros, infinity and NaN make
    the right ones here, and NaN below zero."""
    table, fraction = tables[x.dtype.bits], x.significand()  # from 3/4 to 3/2
    if table.least < 0.75:
        fraction = select(fraction < 2 * table.least, fraction, fraction * 0.5)
    k = x.logb() - fraction.logb()
    return _polynomial(k, fraction - 1.0, _rounded_down(table, x.format))


log, log2, log10 = (partial(_logarithm, tables) for tables in (LOG, LOG2, LOG10))
log_by_parts, log2_by_parts, log10_by_parts = (
    partial(_by_parts, tables) for tables in (LOG, LOG2, LOG10)
)


def log1p(x: Vector) -> Vector:
    """By 1 + x = 2**k * (1 + r), where r is made of x and not of the sum, which is rounded."""
    form, table = x.format, LOG[x.dtype.bits]
    biased, fraction = _split((x + 1.0).bits, form, table.least)
    power = (form.bias * 2 - biased << form.fraction).as_float  # 2**-k
    near = fma(x, power, power - 1.0)
    rest = select(x < 2.0 ** (form.fraction + 3), near, fraction - 1.0)  # beyond, the 1 is lost
    result = _polynomial(_as_number(biased, form) - _zero(form), rest, table)
    return _outside(x, result.copysign(x), -1.0)


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


def logb(x: Vector) -> Vector:
    size = abs(x)
    normal, zero = _normal(size)
    result = _as_number(normal.bits >> x.format.fraction, x.format) - zero
    return select(size.equals(0.0), -math.inf, select(size < math.inf, result, size))


def split(x: Vector, least: float) -> tuple[Vector, Vector]:
    """k and 1 + r of positive finite numbers, 1 + r from `least` to below twice that."""
    normal, zero = _normal(x)
    biased, fraction = _split(normal.bits, x.format, least)
    return _as_number(biased, x.format) - zero, fraction


def short_log2(x: Vector, coefficients: Sequence[float]) -> Vector:
    """log2 of positive normal numbers, by a shorter polynomial for 1 + r from sqrt(1/2) to
    sqrt(2)."""
    biased, fraction = _split(x.bits, x.format, math.sqrt(0.5))
    rest, k = fraction - 1.0, _as_number(biased, x.format) - _zero(x.format)
    return k + fma(rest, math.log2(math.e), rest * rest * polynomial(rest, coefficients))


def _log_of_sum(x: Vector, near: Vector) -> Vector:
    """log1p(near), or log(2 * x) where x is large."""
    is_large = x > _LARGE
    return log1p(select(is_large, x - 1.0, near)) + select(is_large, x.constant(math.log(2.0)), 0.0)


def _rounded_down(table: Logarithm, form: Format) -> Logarithm:
    """The table with no negative rest of its unit, which would be the other infinity for an
    infinite k."""
    if table.unit_rest >= 0.0:
        return table
    unit = float(np.nextafter(form.dtype.numpy.type(table.unit), -np.inf))
    return replace(table, unit=unit, unit_rest=table.unit - unit + table.unit_rest)


def _outside(x: Vector, result: Vector, pole: float) -> Vector:
    """The result, but at the pole, below it, at infinity and for NaN."""
    result = select(x < math.inf, result, x)
    return select(x > pole, result, select(x.equals(pole), x.constant(-math.inf), math.nan))


def _normal(x: Vector) -> tuple[Vector, Vector]:
    """A positive number, times a power of two where it is subnormal, and `_zero` for that."""
    form, up = x.format, x.format.fraction + 1
    is_subnormal = x < 2.0 ** (1 - form.bias)
    zero = select(is_subnormal, x.constant(_zero(form) + up), _zero(form))
    return select(is_subnormal, x * 2.0**up, x), zero


def _split(bits: Vector, form: Format, least: float) -> tuple[Vector, Vector]:
    """k + bias, as integers, and 1 + r."""
    first = form.bits_of(least)
    moved = bits + (form.bits_of(1.0) - first)
    fraction = (moved & ((1 << form.fraction) - 1)) + first
    return moved >> form.fraction, fraction.as_float


def _as_number(biased: Vector, form: Format) -> Vector:
    """A small integer + `_zero` as a float: the number whose fraction it is."""
    return (biased | form.bits_of(2.0**form.fraction)).as_float


def _zero(form: Format) -> float:
    return 2.0**form.fraction + form.bias


def _polynomial(k: Vector, rest: Vector, table: Logarithm) -> Vector:
    square, series = rest * rest, polynomial(rest, table.coefficients)
    if table.slope == 1.0:
        if not table.unit_rest:
            return fma(k, table.unit, fma(square, series, rest))
        return fma(k, table.unit, rest + fma(k, table.unit_rest, square * series))
    small = rest * fma(rest, series, table.slope_rest)
    if table.unit_rest:
        small = fma(k, table.unit_rest, small)
    return fma(k, table.unit, fma(rest, table.slope, small))
