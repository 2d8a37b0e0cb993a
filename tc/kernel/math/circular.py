"""sin, cos, tan, also of multiples of pi: an argument is a whole number of quarter turns and a
rest of at most an eighth, whose sine and cosine are polynomials. Then asin, acos, atan and the
angle of a point."""

from __future__ import annotations

from dataclasses import dataclass

from tc.kernel.math.coefficients import ASIN, ATAN, QUARTER_TURN, SINE, SINE_OF_PI
from tc.kernel.math.vector import Rare, Vector, fma, horner, polynomial, select


@dataclass(frozen=True, slots=True)
class _Angle:
    """The sine and cosine of the rest, and the quarter turns in the low bits."""

    sine: Vector
    cosine: Vector
    quarters: Vector

    def value(self, quarters: int) -> Vector:
        """The sine of the angle plus `quarters` quarter turns."""
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


def atan(x: Vector) -> Vector:
    size = abs(x)
    is_far = size > 1.0
    near = _atan_up_to_1(select(is_far, 1.0 / size, size))
    return select(is_far, _less(_turns(x, 0.5), near), near).copysign(x)


def atan2(y: Vector, x: Vector) -> Vector:
    width, height = abs(x), abs(y)
    is_steep = height > width
    less, more = select(is_steep, width, height), select(is_steep, height, width)
    slope = select(less.equals(more), 1.0, less / more)  # both may be infinite
    angle = _atan_up_to_1(select(more.equals(0.0), less, slope))
    angle = select(is_steep, _less(_turns(x, 0.5), angle), angle)
    is_left = x.constant(1.0).copysign(x) < 0.0
    return select(is_left, _less(_turns(x, 1.0), angle), angle).copysign(y)


def asin(x: Vector) -> Vector:
    is_far, angle = _asin_parts(x)
    far = _less(_turns(x, 0.5), angle + angle)
    return select(is_far, far, angle).copysign(x)


def acos(x: Vector) -> Vector:
    is_far, angle = _asin_parts(x)
    doubled = angle + angle
    far = select(x < 0.0, _less(_turns(x, 1.0), doubled), doubled)
    return select(is_far, far, _less(_turns(x, 0.5), angle.copysign(x)))


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


def _asin_parts(x: Vector) -> tuple[Vector, Vector]:
    """Whether |x| is beyond 1/2; asin of |x|, or of sqrt((1 - |x|) / 2) there."""
    size = abs(x)
    is_far = size > 0.5
    square = select(is_far, fma(size, -0.5, 0.5), x * x)
    side = select(is_far, square.sqrt(), size)
    return is_far, fma(side * square, polynomial(square, ASIN[x.dtype.bits]), side)


def _atan_up_to_1(x: Vector) -> Vector:
    square = x * x
    return fma(x * square, polynomial(square, ATAN[x.dtype.bits]), x)


def _turns(x: Vector, halves: float) -> tuple[float, float]:
    """The angle of `halves` half turns, a power of two, so that both parts stay exact."""
    pi = SINE_OF_PI[x.dtype.bits]
    return halves * pi.slope, halves * pi.slope_rest


def _less(whole: tuple[float, float], part: Vector) -> Vector:
    return whole[0] - (part - whole[1])
