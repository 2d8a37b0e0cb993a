"""sin, cos, tan, also of multiples of pi: an argument is a whole number of quarter turns and a
rest of at most an eighth, whose sine and cosine are polynomials."""

from __future__ import annotations

from dataclasses import dataclass

from tc.kernel.math.angle_coefficients import QUARTER_TURN, SINE, SINE_OF_PI
from tc.kernel.math.vector import Rare, Vector, fma, horner, select


@dataclass(frozen=True, slots=True)
class _Angle:
    """The sine and cosine of the rest, and the quarter turns in the low bits."""

    sine: Vector
    cosine: Vector
    quarters: Vector

    def value(self, quarters: int) -> Vector:
        """The sine of the angle and so many quarter turns."""
        turned = self.quarters + quarters
        size = select((turned & 1).equals(0), self.sine, self.cosine)
        sign_bit = size.dtype.bits - 1
        return (size.bits ^ ((turned & 2) << (sign_bit - 1))).as_float


def sin(x: Vector) -> Rare:
    return Rare(_angle(x).value(0), _is_large(x))


def cos(x: Vector) -> Rare:
    return Rare(_angle(x).value(1), _is_large(x))


def tan(x: Vector) -> Rare:
    angle = _angle(x)
    is_even = (angle.quarters & 1).equals(0)
    above = select(is_even, angle.sine, -angle.cosine)
    return Rare(above / select(is_even, angle.cosine, angle.sine), _is_large(x))


def sinpi(x: Vector) -> Vector:
    # + 0.0 makes the zeros at whole numbers positive, before x gives them its sign
    size = _half_turns(x).value(0) + 0.0
    return (size.bits ^ (x.bits & x.format.sign)).as_float


def cospi(x: Vector) -> Vector:
    return _half_turns(x).value(1) + 0.0


def _is_large(x: Vector) -> Vector:
    return abs(x) > QUARTER_TURN[x.dtype.bits].limit


def _angle(x: Vector) -> _Angle:
    """Right where |x| is not large: there each product with a part of pi / 2 loses nothing."""
    turn = QUARTER_TURN[x.dtype.bits]
    shifted = fma(x, turn.per_quarter, x.format.whole)
    rest, quarters = x, shifted - x.format.whole
    for part in turn.parts:
        rest = fma(quarters, -part, rest)
    table, square = SINE[x.dtype.bits], rest * rest
    sine = fma(rest * square, horner(square, table.sine), rest).copysign(rest)  # -0
    cosine = fma(square, horner(square, table.cosine), 1.0)
    return _Angle(sine, cosine, shifted.bits)


def _half_turns(x: Vector) -> _Angle:
    """The angle pi * |x|."""
    size = abs(x)
    within = fma((size * 0.5).floor(), -2.0, size)
    shifted = fma(within, 2.0, x.format.whole)
    rest = fma(shifted - x.format.whole, -0.5, within)
    table, square = SINE_OF_PI[x.dtype.bits], rest * rest
    small = rest * fma(square, horner(square, table.sine), table.slope_rest)
    sine = fma(rest, table.slope, small)
    return _Angle(sine, fma(square, horner(square, table.cosine), 1.0), shifted.bits)
