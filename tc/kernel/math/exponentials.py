"""exp and what is made of it: bases 2 and 10, minus 1, the hyperbolic functions.

For a base b, x is n * log_b(2) + r with the whole number n nearest to x / log_b(2). b**r - 1 is a
polynomial, b**x is (b**r - 1) * 2**n + 2**n, and 2**n is made of bits: the product of two powers,
so that one rounding makes the result even where it is subnormal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from tc.kernel.math.coefficients import EXP, EXP2, EXP10, SINH, TANH_IS_ONE, Exponential
from tc.kernel.math.vector import Vector, fma, horner, select


@dataclass(frozen=True, slots=True)
class _Parts:
    """b**x: `rest` is b**r - 1; `two_n` has n + 2 * bias in its low bits."""

    rest: Vector
    two_n: Vector

    @property
    def powers(self) -> tuple[Vector, Vector]:
        """Two powers of two, of much the same size, whose product is 2**n."""
        fraction = self.rest.format.fraction
        half = self.two_n >> 1
        return (half << fraction).as_float, ((self.two_n - half) << fraction).as_float

    @property
    def value(self) -> Vector:
        first, second = self.powers
        return fma(self.rest, first, first) * second


def _exponential(tables: Mapping[int, Exponential], x: Vector) -> Vector:
    return _parts(x, tables[x.dtype.bits]).value


def _by_scaling(tables: Mapping[int, Exponential], x: Vector) -> Vector:
    """Where multiplying by 2**n is an instruction, which needs no bits of n."""
    table, whole = tables[x.dtype.bits], x.format.whole
    bounded = _bounded(x, table)
    n = fma(bounded, table.per_unit, whole) - whole
    rest = fma(n, -table.unit, bounded)
    if table.unit_rest:
        rest = fma(n, -table.unit_rest, rest)
    return fma(rest, fma(rest, horner(rest, table.coefficients), table.slope), 1.0).scaleb(n)


exp, exp2, exp10 = (partial(_exponential, tables) for tables in (EXP, EXP2, EXP10))
exp_by_scaling, exp2_by_scaling = (partial(_by_scaling, tables) for tables in (EXP, EXP2))


def exp10_by_scaling(x: Vector) -> Vector:
    table, whole = EXP10[x.dtype.bits], x.format.whole
    # its slope makes more of errors in r, so that r stays the sum of two numbers
    rest, n = _reduced(_bounded(x, table), table, 0)
    return (rest + 1.0).scaleb(n.as_float - whole)


def expm1(x: Vector) -> Vector:
    parts = _parts(x, EXP[x.dtype.bits])
    first, second = parts.powers
    # rest * first + (first - 1 / second) is exact where n is 0, whatever the size of rest
    inverse = (parts.two_n.constant(2 * x.format.bias << x.format.fraction) - second.bits).as_float
    return (fma(parts.rest, first, first - inverse) * second).copysign(x)


def tanh(x: Vector) -> Vector:
    """t / (t + 2) for t = exp(2 |x|) - 1; 1 where the table ends."""
    size = abs(x)
    doubled = (size + size).at_most(2.0 * TANH_IS_ONE[x.dtype.bits])
    t = rough_expm1(doubled)
    return (t / (t + 2.0)).copysign(x)


def sinh(x: Vector) -> Vector:
    size = abs(x)
    half = _parts(size, EXP[x.dtype.bits], shift=-1).value
    square = x * x
    small = fma(x * square, horner(square, SINH[x.dtype.bits]), x)
    return select(size < 1.0, small, (half - 0.25 / half).copysign(x))


def cosh(x: Vector) -> Vector:
    half = _parts(abs(x), EXP[x.dtype.bits], shift=-1).value
    return half + 0.25 / half


def _parts(x: Vector, table: Exponential, shift: int = 0) -> _Parts:
    """b**x * 2**shift."""
    bounded = _bounded(x, table)
    rest, two_n = _reduced(bounded, table, 2 * bounded.format.bias + shift)
    return _Parts(rest, two_n)


def _bounded(x: Vector, table: Exponential) -> Vector:
    """x, but where b**x is 0 or infinite no further than where that begins."""
    return x.at_least(table.least).at_most(table.most)


def rough_expm1(x: Vector) -> Vector:
    """expm1 to some two units in the last place, where 2**n is a normal number."""
    table, form = EXP[x.dtype.bits], x.format
    whole = form.whole + form.bias
    shifted = fma(x, table.per_unit, whole)
    rest = fma(shifted - whole, -table.unit, x)
    grown = fma(rest * rest, horner(rest, table.coefficients), rest)
    power = (shifted.bits << form.fraction).as_float
    return fma(grown, power, power - 1.0)


def exp_of_sum(x: Vector, low: Vector, factor: Vector) -> Vector:
    """exp(x + low) * factor, with one rounding at the end; low is much the smaller."""
    table = EXP[x.dtype.bits]
    parts = _Parts(*_reduced(x, table, 2 * x.format.bias, low))
    first, second = parts.powers
    return fma(parts.rest, factor, factor) * first * second


def exp2_of_sum(x: Vector, low: Vector) -> Vector:
    """2**(x + low), low being much the smaller."""
    return _Parts(*_reduced(x, EXP2[x.dtype.bits], 2 * x.format.bias, low)).value


def rough_exp2(x: Vector) -> Vector:
    """2**x of float64 with the polynomial for float32, where it is a normal number."""
    form, table = x.format, EXP2[32]
    whole = form.whole + form.bias
    shifted = x + whole
    rest = x - (shifted - whole)
    grown = rest * fma(rest, horner(rest, table.coefficients), math.log(2.0))
    power = (shifted.bits << form.fraction).as_float
    return fma(grown, power, power)


def _reduced(
    x: Vector, table: Exponential, offset: int, low: Vector | None = None
) -> tuple[Vector, Vector]:
    """b**r - 1 for b**(x + low), and bits whose low half is n + offset."""
    whole = x.format.whole + offset
    if table.per_unit == 1.0:
        shifted = x + whole
        high = x - (shifted - whole)
    else:
        shifted = fma(x, table.per_unit, whole)
        n = shifted - whole
        # r is the sum of two numbers: one would have half the error of the whole result
        high = fma(n, -table.unit, x)
        low = n * -table.unit_rest if low is None else fma(n, -table.unit_rest, low)
    rest = high if low is None else high + low
    series = horner(rest, table.coefficients)
    if table.slope == 1.0:
        assert low is not None
        return high + fma(rest * rest, series, low), shifted.bits
    small = rest * fma(rest, series, table.slope_rest)
    if low is not None:
        small = fma(low, table.slope, small)
    return fma(high, table.slope, small), shifted.bits
