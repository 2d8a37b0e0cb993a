"""Roots, lengths, and other functions of a few operations."""

from __future__ import annotations

import functools
import math

from tc.kernel.math.coefficients import CBRT_SHIFT, INVERSE_CBRT, LENGTH
from tc.kernel.math.vector import Rare, Vector, fma, horner, select


def rsqrt(x: Vector) -> Vector:
    return 1.0 / x.sqrt()


def cbrt(x: Vector) -> Vector:
    size = abs(x)
    is_small = size < 2.0 ** (4 - x.format.bias)
    # the sum of three such numbers does not overflow, and none is subnormal
    normal = size * select(is_small, x.constant(2.0**60), 2.0**-3)
    root = _third_of_exponent(normal)
    # to 23 bits, then by Halley's rule to three times as many
    ratio = (root * root) * (root / normal)
    root = root * horner(ratio, INVERSE_CBRT)
    cube = root * root * root
    root = root - root * ((cube - normal) / (cube + cube + normal))
    result = root * select(is_small, x.constant(2.0**-20), 2.0)
    return select((size > 0.0) & (size < math.inf), result.copysign(x), x)


def rcbrt(x: Vector) -> Vector:
    return 1.0 / cbrt(x)


def _third_of_exponent(x: Vector) -> Vector:
    """The number with a third of the bits of x, an approximation of its cube root to 5 bits."""
    form, unit = x.format, 2.0**x.format.fraction
    drop = 8 if x.dtype.bits == 32 else 32  # what is left fits the fraction
    bits = ((x.bits >> drop) | form.bits_of(unit)).as_float
    offset = (2 * form.bias / 3 - CBRT_SHIFT) * 2.0 ** (form.fraction - drop)
    third = fma(bits - unit, 1.0 / 3.0, unit + offset)
    return (third.bits << drop).as_float


def length(*components: Vector) -> Vector:
    """hypot and its likes; infinite where a component is, NaN or not the others."""
    root, _, inverse = _scaled_length(components)
    return select(_has_infinity(components), math.inf, root * inverse)


def inverse_length(*components: Vector) -> Vector:
    root, scale, _ = _scaled_length(components)
    return select(_has_infinity(components), 0.0, scale / root)


def _scaled_length(components: tuple[Vector, ...]) -> tuple[Vector, Vector, Vector]:
    """The length of the components times a power of two, that power, and its inverse."""
    x = components[0]
    table = LENGTH[x.dtype.bits]
    largest = functools.reduce(lambda a, b: select(b > a, b, a), map(abs, components))
    is_large, is_small = largest > 1.0 / table.small, largest < table.small
    scale = select(is_large, x.constant(table.down), select(is_small, x.constant(table.up), 1.0))
    inverse = select(
        is_large, x.constant(1.0 / table.down), select(is_small, x.constant(1.0 / table.up), 1.0)
    )
    first, *others = [component * scale for component in components]
    square = first * first
    for other in others:
        square = fma(other, other, square)
    return square.sqrt(), scale, inverse


def _has_infinity(components: tuple[Vector, ...]) -> Vector:
    tests = [abs(component).equals(math.inf) for component in components]
    return functools.reduce(lambda a, b: a | b, tests)


def fdim(x: Vector, y: Vector) -> Vector:
    return select(x <= y, 0.0, x - y)


def fmod(x: Vector, y: Vector) -> Rare:
    """By the quotient, where its whole part is exact or 1 too large."""
    over, under = abs(x), abs(y)
    quotient = over / under
    rest = fma(-quotient.trunc(), under, over)
    result = select(rest < 0.0, rest + under, rest).copysign(x)
    is_short = (quotient < 2.0**x.format.fraction) & (under < math.inf)
    return Rare(result, ~is_short)


def round_half_away(x: Vector) -> Vector:
    """Adding the number just below 1/2 and not 1/2 itself leaves what is just below it."""
    half = x.constant(0.5 - 0.5 * 2.0 ** (-x.format.fraction - 1)).copysign(x)
    return (x + half).trunc()
