"""What the built-in functions mean, in numpy: the reference that other columns are tested against.

Each function takes arrays (or numpy scalars) of float32 or of float64, all of one shape, and
gives the same type. Those that round compute float32 in float64, so that the reference is right
to half a unit in the last place there; special cases are those of C and CUDA. None warns.

A rule of how far errors of arguments move the value of a function, soundly (R5), takes the
function, its arguments and bounds on the errors of these (float64 arrays of one shape, the bounds
at least 0), and gives a bound on |f(x + d) - f(x)| over all |d| <= errors. The bound is infinite
where none is known: across a pole, a branch cut or the edge of the domain.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from tc.dtypes import Array
from tc.process.uninterrupted import load

Formula: TypeAlias = Callable[..., Array]

_SPLITTER = 134217729.0  # 2**27 + 1: splits a float64 into two halves of 26 bits (Dekker)
SQRT_HALF = 0.7071067811865476
SQRT_HALF_REST = -4.833646656726457e-17  # sqrt(1/2) is the sum of the two
_SMALLEST_NORMAL = 2.2250738585072014e-308


def exact(formula: Formula) -> Formula:
    """A formula that is used in the arguments' own type."""

    @functools.wraps(formula)
    def silent(*args: Array) -> Array:
        with np.errstate(all="ignore"):
            return formula(*args)

    return silent


def in_double(formula: Formula) -> Formula:
    """A formula for float64 that serves float32 too, rounded at the end."""

    @functools.wraps(formula)
    def widened(*args: Array) -> Array:
        with np.errstate(all="ignore"):
            result = formula(*(np.asarray(arg, dtype=np.float64) for arg in args))
            return np.asarray(result).astype(np.asarray(args[0]).dtype)

    return widened


def scipy_special(name: str) -> Formula:
    """A function of scipy.special; the first call imports scipy."""

    @in_double
    def formula(*args: Array) -> Array:
        result: Array = getattr(special(), name)(*args)
        return result

    return formula


@functools.cache
def special() -> Any:
    """The module scipy.special; imported late because that takes a quarter of a second."""
    return load("scipy.special")


# --- exact arithmetic -------------------------------------------------------------------------


def two_product(x: Array, y: Array) -> tuple[Array, Array]:
    """x * y as a rounded product and its error, where nothing over- or underflows (Dekker)."""
    product = x * y
    (x_high, x_low), (y_high, y_low) = split(x), split(y)
    error = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return product, error


def split(x: Array) -> tuple[Array, Array]:
    scaled = _SPLITTER * x
    high = scaled - (scaled - x)
    return high, x - high


@in_double
def fma(x: Array, y: Array, z: Array) -> Array:
    # The factors are brought near 1, so that splitting them cannot overflow. Where the addend then
    # leaves the range of float64, it is so large or small that the plain expression is as good.
    (x, x_exponent), (y, y_exponent) = np.frexp(x), np.frexp(y)
    exponent = x_exponent + y_exponent
    product, error = two_product(x, y)
    addend = np.ldexp(z, -exponent)
    total = product + addend
    back = total - product
    rest = (product - (total - back)) + (addend - back)
    near = np.ldexp(total + (rest + error), exponent)
    plain = np.where(np.isfinite(product), 0.0, product) + z
    plain = np.where(np.isfinite(z), np.ldexp(product, exponent) + z, plain)
    return np.asarray(np.where(np.isfinite(near) & (product != 0), near, plain))


def exp_of_square(x: Array, sign: float) -> Array:
    """exp(sign * x * x) without the error that rounding x * x would make."""
    product, error = two_product(x, x)
    return np.exp(sign * product) * (1 + sign * error)


# --- rounding and remainders ------------------------------------------------------------------


@exact
def round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.asarray(whole + np.copysign((np.abs(x - whole) >= 0.5).astype(x.dtype), x))


@in_double
def remainder(x: Array, y: Array) -> Array:
    """x - n * y for the integer n nearest to x / y, the even one of two: IEEE, unlike numpy's."""
    left, right = np.abs(x), np.abs(y)
    left = np.where(right <= np.finfo(np.float64).max / 2, np.fmod(left, right + right), left)
    # now left < 2 * right; comparing left + left avoids the half of a tiny right
    is_tiny = right < 2 * _SMALLEST_NORMAL
    doubled = np.where(is_tiny, left + left, left)
    bound = np.where(is_tiny, right, 0.5 * right)
    once = np.where(doubled > bound, left - right, left)
    doubled_once = np.where(is_tiny, once + once, once)
    twice = np.where((doubled > bound) & (doubled_once >= bound), once - right, once)
    result = np.where(np.signbit(x), -twice, twice)
    result = np.where(result == 0, np.copysign(0.0, x), result)
    return np.where((y == 0) | np.isinf(x) | np.isnan(x) | np.isnan(y), np.nan, result)


@exact
def fdim(x: Array, y: Array) -> Array:
    zero = np.asarray(x).dtype.type(0)
    return np.where(x > y, x - y, np.where(np.isnan(x) | np.isnan(y), x + y, zero))


@in_double
def logb(x: Array) -> Array:
    exponent = np.frexp(x)[1] - 1.0
    return np.where(x == 0, -np.inf, np.where(np.isfinite(x), exponent, np.abs(x)))


# --- formulas that numpy lacks ----------------------------------------------------------------


def _sine(x: Array, quarters: int) -> Array:
    """sin(pi * (|x| + quarters / 2)), of float64."""
    turn = np.fmod(np.abs(x), 2.0)
    quarter = np.floor(2.0 * turn + 0.5)
    angle = np.pi * (turn - 0.5 * quarter)  # |angle| <= pi / 4, of an exact rest
    turned = np.where(np.isnan(quarter), 0, quarter).astype(np.int64) + quarters
    sine, cosine = np.sin(angle), np.cos(angle)
    # + 0.0 makes the zeros at whole numbers positive
    return np.choose(turned % 4, (sine, cosine, -sine, -cosine)) + 0.0


sinpi = in_double(lambda x: np.copysign(1.0, x) * _sine(x, 0))
cospi = in_double(lambda x: _sine(x, 1))


@in_double
def norm(*args: Array) -> Array:
    """The length of a vector; infinite where a component is, whatever the others are."""
    return functools.reduce(np.hypot, args)


@in_double
def rnorm(*args: Array) -> Array:
    return 1.0 / functools.reduce(np.hypot, args)


@in_double
def erfc(x: Array) -> Array:
    # scipy's erfc loses 400 units in its tail; erfcx is right there
    tail = special().erfcx(np.maximum(x, 1.0)) * exp_of_square(np.clip(x, 1.0, 27.3), -1.0)
    return np.asarray(np.where(x > 1.0, tail, special().erfc(x)))


@in_double
def erfcx(x: Array) -> Array:
    # scipy's loses the same below -1
    left = 2.0 * exp_of_square(np.clip(x, -26.8, -1.0), 1.0) - special().erfcx(-x)
    return np.asarray(np.where(x < -1.0, left, special().erfcx(x)))


@in_double
def normcdf(x: Array) -> Array:
    bounded = np.clip(x, -39.0, 39.0)  # 0 and 1 are reached before
    scaled, error = two_product(bounded, np.float64(-SQRT_HALF))
    rest = error - bounded * SQRT_HALF_REST
    tail = erfc(scaled)
    # erfc(z + rest) is erfc(z) (1 - 2 z rest) but for terms that do not count
    return 0.5 * np.where(bounded < -1.0, tail - 2.0 * scaled * rest * tail, tail)


@in_double
def tgamma(x: Array) -> Array:
    # a pole between -1 and -infinity has no sign, unlike that at zero
    is_pole = ((x < 0) & (np.floor(x) == x)) | (x == -np.inf)
    near_zero = np.abs(x) < 1e-300
    value = special().gamma(np.where(is_pole | near_zero, 1.0, x))
    return np.where(is_pole, np.nan, np.where(near_zero, 1.0 / x, value))


@in_double
def lgamma(x: Array) -> Array:
    is_pole = ((x <= 0) & (np.floor(x) == x)) | np.isinf(x)
    near_zero = np.abs(x) < 1e-300
    value = special().gammaln(np.where(is_pole | near_zero, 1.0, x))
    return np.where(is_pole, np.inf, np.where(near_zero, -np.log(np.abs(x)), value))


@in_double
def erfinv(x: Array) -> Array:
    return np.where(x == 0, x, special().erfinv(x))  # scipy's loses the sign of -0


@in_double
def erfcinv(x: Array) -> Array:
    value = special().erfcinv(x) + 0.0  # no -0 at 1
    return np.where(x == LEAST, OF_LEAST, value)


LEAST, OF_LEAST = 5e-324, 27.213293210812949
"""The smallest double and its erfcinv; scipy's is infinite there."""

HANKEL_FROM = 1000.0
"""From here on the first terms of Hankel's expansions are exact, and scipy's phase is not."""

EXPANSIONS = (
    ((1.0, -9 / 128, 3675 / 32768), (-1 / 8, 75 / 1024, -59535 / 262144)),
    ((1.0, 15 / 128, -4725 / 32768), (3 / 8, -105 / 1024, 72765 / 262144)),
)
"""Hankel's P and x*Q for the orders 0 and 1, in 1 / (x*x)."""


def _bessel(kind: str, order: int) -> Formula:
    """A Bessel function j or y; of an infinite argument it is 0 with the sign of j1's."""

    @in_double
    def formula(x: Array) -> Array:
        size = np.maximum(np.abs(x), HANKEL_FROM)
        p, q = (np.polyval(terms[::-1], 1 / (size * size)) for terms in EXPANSIONS[order])
        q = q / size
        total, difference = np.sin(size) + np.cos(size), np.sin(size) - np.cos(size)
        # cosine and sine of x less an eighth of a turn, or three, times the root of 2
        cosine, sine = (total, difference) if order == 0 else (difference, -total)
        wave = p * cosine - q * sine if kind == "j" else p * sine + q * cosine
        far = wave / (np.sqrt(size) * np.sqrt(np.pi))
        far = np.where(np.isinf(x), 0.0, far)
        if kind == "y":
            far = np.where(x < 0, np.nan, far)
        elif order == 1:
            far = np.copysign(1.0, x) * far
        return np.where(np.abs(x) < HANKEL_FROM, getattr(special(), f"{kind}{order}")(x), far)

    return formula


j0, j1, y0, y1 = (_bessel(kind, order) for kind in "jy" for order in (0, 1))


def _modified_bessel(order: int) -> Formula:
    """A Bessel function I; scipy's is infinite before its value is, and loses the sign of -0."""

    @in_double
    def formula(x: Array) -> Array:
        root = np.exp(0.5 * np.clip(np.abs(x), EXPONENTIAL_FROM, 2 * EXPONENTIAL_FROM))
        large = root * getattr(special(), f"i{order}e")(x) * root
        value = np.where(np.abs(x) < EXPONENTIAL_FROM, getattr(special(), f"i{order}")(x), large)
        there = np.isinf(x) | ((x == 0) & (order == 1))
        return np.where(there, x if order == 1 else np.abs(x), value)

    return formula


EXPONENTIAL_FROM = 700.0
"""From here on exp(x) is computed as the square of exp(x/2), as exp overflows beyond 709."""

cyl_bessel_i0, cyl_bessel_i1 = _modified_bessel(0), _modified_bessel(1)


Args: TypeAlias = tuple[Array, ...]


def _bit_pattern(x: Array) -> Array:
    """The bits of integers as uint64."""
    x = np.asarray(x)
    return x.astype(f"u{x.dtype.itemsize}").astype(np.uint64)


def set_bits(x: Array) -> Array:
    """How many bits of integers are 1, by sums of neighbours (Warren, "Hacker's Delight", 5-1)."""
    bits = _bit_pattern(x)
    for distance, mask in _NEIGHBOURS:
        bits = (bits & mask) + (bits >> distance & mask)
    return bits.astype(np.asarray(x).dtype)


_NEIGHBOURS = tuple(
    (np.uint64(d), np.uint64((2**64 - 1) // (2**d + 1))) for d in (1, 2, 4, 8, 16, 32)
)


def leading_zeros(x: Array) -> Array:
    """How many bits above the highest 1 of integers are 0: all, of a 0."""
    bits = _bit_pattern(x)
    for distance, _ in _NEIGHBOURS:
        bits = bits | bits >> distance
    dtype = np.asarray(x).dtype
    return np.asarray(np.uint64(8 * dtype.itemsize) - set_bits(bits), dtype)


Spread: TypeAlias = Callable[[Callable[..., Array], Args, Args], Array]

_ROUNDING = 16 * 2.0**-53  # of evaluating f itself at the corners
_MINIMUM = 1.4616321449  # of gamma and its logarithm


def lipschitz(*constants: float) -> Spread:
    """For |df/dx_k| <= constants[k] everywhere; one constant serves all arguments."""

    def rule(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
        factors = constants if len(constants) == len(args) else constants * len(args)
        return sum((c * e for c, e in zip(factors, errors, strict=True)), np.zeros(()))

    return rule


def corners(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """For functions that are monotone in each argument between `args - errors` and
    `args + errors`: the extremes are at the corners of that box."""
    return _within(f, args, [(a - e, a + e) for a, e in zip(args, errors, strict=True)], errors)


def even(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """For functions that are monotone in the magnitude of each argument."""
    ranges = [
        (np.maximum(np.abs(a) - e, 0.0), np.abs(a) + e) for a, e in zip(args, errors, strict=True)
    ]
    return _within(f, args, ranges, errors)


def pole_at_zero(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """Monotone on either side of a pole where the last argument is 0."""
    return np.where(np.abs(args[-1]) > errors[-1], corners(f, args, errors), _unknown(errors))


def tangent(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    low, high = ((args[0] + s * errors[0]) / np.pi + 0.5 for s in (-1, 1))
    # the quotients are off by few units, which a margin covers while they are small
    margin = 1e-6
    is_one_branch = (np.floor(low - margin) == np.floor(high + margin)) & (np.abs(args[0]) < 1e8)
    return np.where(is_one_branch, corners(f, args, errors), _unknown(errors))


def angle(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """atan2: the angle that the box of errors, as a disk, covers from the origin."""
    (y, x), (y_error, x_error) = args, errors
    reach, distance = np.hypot(y_error, x_error), np.hypot(y, x)
    covered = np.arcsin(np.minimum(reach / distance, 1.0)) * (1 + 1e-15)
    is_cut = (np.abs(y) <= y_error) & (x - x_error <= 0)
    return np.where((reach >= distance) | is_cut, np.where(reach == 0, 0.0, 2 * np.pi), covered)


def power(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    (x, y), (x_error, y_error) = args, errors
    at_corners = corners(f, args, errors)
    is_whole = (np.floor(y) == y) & (y_error == 0)
    through_zero = np.maximum(at_corners, np.abs(f(x, y) - f(np.zeros_like(x), y)))
    return np.select(
        (x > x_error, is_whole & (np.abs(x) > x_error), is_whole & (y >= 0)),
        (at_corners, at_corners, through_zero),
        _unknown(errors),
    )


def multiply_add(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
    (x, y, _), (x_error, y_error, z_error) = args, errors
    return np.asarray(np.abs(x) * y_error + np.abs(y) * x_error + x_error * y_error + z_error)


def modulo(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """fmod and remainder: they jump by |y| where the quotient changes."""
    (_, y), (x_error, y_error) = args, errors
    moved = x_error + y_error > 0
    farthest = np.where(np.abs(y) > y_error, 2 * (np.abs(y) + y_error), np.inf)
    return np.where(moved, np.maximum(x_error, farthest), 0.0)


def sign_of_second(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
    (x, y), (x_error, y_error) = args, errors
    flips = (np.abs(y) <= y_error) & (y_error > 0)
    return np.where(flips, 2 * np.abs(x) + x_error, x_error)


def bessel_y(order: int) -> Spread:
    """y0 and y1: |y0'| = |y1| and |y1'| <= |y0| + |y1| / x, each below its falling envelope."""

    def rule(_f: Callable[..., Array], args: Args, errors: Args) -> Array:
        low = args[0] - errors[0]
        start = np.where(low > 0, low, 1.0)
        module: Any = special()
        first = np.hypot(module.j1(start), module.y1(start))
        slope = (
            first if order == 0 else np.hypot(module.j0(start), module.y0(start)) + first / start
        )
        return np.where(low > 0, slope * errors[0] * (1 + 1e-12), _unknown(errors))

    return rule


def step(f: Callable[..., Array], args: Args, errors: Args) -> Array:
    """nextafter: one step to either side."""
    (x, _), (x_error, _) = args, errors
    moved = sum(errors, np.zeros(())) > 0
    return np.where(moved, x_error + 2 * np.abs(f(x, np.full_like(x, np.inf)) - x), 0.0)


def _within(
    f: Callable[..., Array], args: Args, ranges: list[tuple[Array, Array]], errors: Args
) -> Array:
    value = f(*args)
    widest = np.zeros(np.shape(value))
    points = list(itertools.product(*ranges))
    if len(ranges) == 1:  # a box may hold a whole domain; each bounded one of the table holds 0.5
        points.append((np.clip(0.5, *ranges[0]),))
    for point in points:
        at_corner = f(*point)
        same = (at_corner == value) | (np.isnan(at_corner) & np.isnan(value))
        moved = np.abs(at_corner - value) + _ROUNDING * np.maximum(np.abs(at_corner), np.abs(value))
        moved = np.where(same, 0.0, np.where(np.isnan(moved), np.inf, moved))
        widest = np.maximum(widest, moved)
    return np.where(_unknown(errors) == 0, 0.0, widest)


def _convex(least: float) -> Spread:
    """On the positive axis, where gamma and its logarithm are convex with one minimum."""

    def rule(f: Callable[..., Array], args: Args, errors: Args) -> Array:
        x, error = args[0], errors[0]
        ends = corners(f, args, errors)
        dips = (x - error < _MINIMUM) & (x + error > _MINIMUM)
        found = np.where(dips, np.maximum(ends, np.abs(f(x) - least) + 1e-9), ends)
        return np.where(x > error, found, _unknown(errors))

    return rule


gamma, log_gamma = _convex(0.8856031944), _convex(-0.1214862906)


def unbounded(_f: Callable[..., Array], _args: Args, errors: Args) -> Array:
    """For functions that may jump anywhere."""
    return _unknown(errors)


def _unknown(errors: Args) -> Array:
    """No bound, but where the arguments are exact."""
    return np.where(sum(errors, np.zeros(())) > 0, np.inf, 0.0)
