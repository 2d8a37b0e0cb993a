"""x**y as 2**(y * log2(|x|)): the logarithm of float64 is the sum of two numbers, to 65 bits, and
float32 computes in float64."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from tc.dtypes import FLOAT32, FLOAT64
from tc.kernel.ir import Const
from tc.kernel.math.coefficients import LOG2_OF_RATIO, POW_LOG2
from tc.kernel.math.exponentials import exp2_of_sum, rough_exp2
from tc.kernel.math.logarithms import short_log2, split
from tc.kernel.math.vector import Vector, fma, horner, select


def _cube(x: Vector) -> Vector:
    if x.dtype.scalar == FLOAT32:
        wide = x.cast(FLOAT64)
        return (wide * wide * wide).cast(FLOAT32)
    square = x * x
    return _product_of_sum(square, fma(x, x, -square), x)


def _times_root(x: Vector) -> Vector:
    """x * sqrt(x)."""
    positive = select(x.equals(-math.inf), math.inf, x)
    if x.dtype.scalar == FLOAT32:
        wide = positive.cast(FLOAT64)
        return (wide * wide.sqrt()).cast(FLOAT32)
    root = positive.sqrt()
    # x - root**2 is what the root leaves; half of that over the root is the rest of the root, and x
    # times it half of that times the root
    product = positive * root
    rest = fma(positive, root, -product) + root * 0.5 * fma(-root, root, positive)
    return select(abs(product).equals(math.inf), product, product + rest)


def _product_of_sum(high: Vector, low: Vector, x: Vector) -> Vector:
    """(high + low) * x, rounded once but for the last bits of the low part."""
    product = high * x
    rest = fma(low, x, fma(high, x, -product))
    size = abs(product)
    # what is beyond the largest number has no rest, and -0 would become 0
    return select((size > 0.0) & (size < math.inf), product + rest, product)


_SIMPLE: Mapping[float, Callable[[Vector], Vector]] = {
    -1.0: lambda x: 1.0 / x,
    0.5: lambda x: select(x.equals(-math.inf), math.inf, x.sqrt() + 0.0),  # -0 becomes 0
    1.0: lambda x: x,
    1.5: _times_root,
    2.0: lambda x: x * x,
    3.0: _cube,
}
"""Exponents of a few operations, as exact as `FORMS` says."""

_LARGEST_EXPONENT = 2.0**70
"""A larger exponent is as good as this one, but that its product with 0 is no NaN."""


def power(x: Vector, y: Vector) -> Vector:
    match y.expr:
        case Const(value=value) if value in _SIMPLE:
            return _SIMPLE[value](x)
    size, bounded = abs(x), y.at_most(_LARGEST_EXPONENT).at_least(-_LARGEST_EXPONENT)
    raise_ = _in_double if x.dtype.scalar == FLOAT32 else _in_two_parts
    return _special(x, y, raise_(size, bounded))


def _special(x: Vector, y: Vector, value: Vector) -> Vector:
    """x**y of |x|**y, where that is right for finite numbers above 0."""
    size = abs(x)
    is_zero, is_infinite = size.equals(0.0), size.equals(math.inf)
    other = select(is_zero, x.constant(math.inf), 0.0)
    value = select(is_zero | is_infinite, select(y < 0.0, other, size), value)
    half = y * 0.5
    is_whole = y.trunc().equals(y)
    is_odd = is_whole & half.trunc().differs(half)
    value = select(is_odd, value.copysign(x), value)
    has_none = (x < 0.0) & ~is_infinite & ~is_whole
    value = select(has_none | x.is_nan | y.is_nan, math.nan, value)
    return select(y.equals(0.0) | x.equals(1.0), 1.0, value)


def _in_double(x: Vector, y: Vector) -> Vector:
    exponent = y.cast(FLOAT64) * short_log2(x.cast(FLOAT64), POW_LOG2)
    return rough_exp2(exponent.at_least(-200.0).at_most(200.0)).cast(FLOAT32)


def _in_two_parts(x: Vector, y: Vector) -> Vector:
    high, low = _precise_log2(x)
    exponent = y * high
    rest = fma(y, low, fma(y, high, -exponent))
    # where the exponent is bounded, its rest does not count, but must not be infinite
    limit = 1100.0
    bounded = exponent.at_least(-limit).at_most(limit)
    return exp2_of_sum(bounded, rest.at_least(-1.0).at_most(1.0))


def _precise_log2(x: Vector) -> tuple[Vector, Vector]:
    """log2 as the sum of two numbers: k + s * (c0 + c1 * s**2 + ...) with s = r / (2 + r), the
    first two coefficients and all that they meet being such sums."""
    table = LOG2_OF_RATIO
    k, fraction = split(x, math.sqrt(0.5))
    over, under = fraction - 1.0, fraction + 1.0
    inverse = 1.0 / under
    s = over * inverse
    error = fma(fraction - (under - 1.0), -s, fma(-s, under, over))
    s_low = error * inverse
    z = s * s
    z_low = fma(s + s, s_low, fma(s, s, -z))
    term = z * table.second
    term_low = fma(z, table.second_rest, fma(z_low, table.second, fma(z, table.second, -term)))
    tail = fma(z * z, horner(z, table.tail), term_low + table.first_rest)
    total = term + table.first
    total_low = term - (total - table.first) + tail
    product = s * total
    product_low = fma(s, total_low, fma(s_low, total, fma(s, total, -product)))
    near = k + product
    rest = product - (near - k) + product_low  # small, but not below the last bit
    result = near + rest
    return result, rest - (result - near)
