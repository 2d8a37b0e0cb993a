"""erf, its complement and the normal distribution."""

from __future__ import annotations

from tc.builtins.formulas import SQRT_HALF, SQRT_HALF_REST
from tc.kernel.math.coefficients import ERF, ERFC
from tc.kernel.math.exponentials import exp_of_sum, rough_expm1
from tc.kernel.math.vector import Vector, fma, horner, polynomial, select

_REST = {32: 1.2101617485882548e-08, 64: SQRT_HALF_REST}


def erf(x: Vector) -> Vector:
    """An odd polynomial near 0, and beyond 1 - exp(p) for p = log(erfc)."""
    table = ERF[x.dtype.bits]
    size, square = abs(x), x * x
    small = fma(horner(square, table.small), x, x)
    bounded = size.at_most(table.is_one)
    exponent = fma(-bounded, bounded, polynomial(bounded - table.center, table.exponent))
    beyond = rough_expm1(exponent)
    return select(size < table.limit, small, beyond.copysign(x))


def erfc(x: Vector) -> Vector:
    return _tail(x, None, 1.0)


def normcdf(x: Vector) -> Vector:
    """erfc(-x / sqrt(2)) / 2, its argument as a sum of two numbers."""
    limit = 1.5 * ERFC[x.dtype.bits].is_zero
    bounded = x.at_least(-limit).at_most(limit)
    scaled = bounded * -SQRT_HALF
    error = fma(bounded, -SQRT_HALF, -scaled)
    return _tail(scaled, fma(bounded, -_REST[x.dtype.bits], error), 0.5)


def _tail(x: Vector, rest: Vector | None, factor: float) -> Vector:
    """erfc(x + rest) * factor: exp(-x * x) times a polynomial in 1 / (1 + k * |x|)."""
    table = ERFC[x.dtype.bits]
    size = abs(x).at_most(table.is_zero)
    inverse = 1.0 / fma(size, table.k, 1.0)
    shifted = inverse - table.center
    scaled = polynomial(shifted, table.coefficients) * inverse
    square = size * size
    error = fma(size, size, -square)
    if rest is not None:
        error = fma(x + x, rest, error)
    value = exp_of_sum(-square, -error, scaled * factor)
    return select(x < 0.0, 2.0 * factor - value, value)
