"""asin, acos, atan and the angle of a point."""

from __future__ import annotations

from tc.kernel.math.angle_coefficients import ASIN, ATAN, SINE_OF_PI
from tc.kernel.math.vector import Vector, fma, polynomial, select


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
    """So many half turns: a power of two of them, so that both parts stay exact."""
    pi = SINE_OF_PI[x.dtype.bits]
    return halves * pi.slope, halves * pi.slope_rest


def _less(whole: tuple[float, float], part: Vector) -> Vector:
    return whole[0] - (part - whole[1])
