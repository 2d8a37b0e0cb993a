"""The functions that numba kernels call: the built-in functions (Y7) and exact arithmetic.

Only the numba backend imports this module, and its texts call what stands here. Each function
keeps the type of its arguments, float32 or float64 (the arithmetic: any), and never raises or
traps. Rare functions compute float32 in float64; special cases are those of
`tc.builtins.formulas`. Functions that scipy computes are attributes of this module too, but stand
in `scipy_functions`, which is loaded at the first use of one: scipy takes 0.1 s to import.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from tc.builtins.formulas import SQRT_HALF, SQRT_HALF_REST
from tc.process.uninterrupted import load

_OPTIONS = {"error_model": "numpy", "nogil": True}
_compiled = njit(**_OPTIONS)

SCIPY_FUNCTIONS = (
    "cyl_bessel_i0", "cyl_bessel_i1", "erfcinv", "erfcx", "erfinv", "j0", "j1", "normcdfinv", "y0",
    "y1",
)  # fmt: skip
"""The functions of `scipy_functions`."""


def __getattr__(name: str) -> Any:
    if name not in SCIPY_FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(load("tc.backends.numba.scipy_functions"), name)


def _chosen_by_type(choose: Callable[..., Callable[..., Any]]) -> Any:
    """A function whose code depends on the numba types of its arguments."""

    def stub(*_args: Any) -> Any:
        raise NotImplementedError

    choose.__annotations__ = {}  # numba compares signatures whole, annotations included
    overload(stub, jit_options=_OPTIONS)(choose)
    return stub


# --- what LLVM offers and numba does not ------------------------------------------------------


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def fma(_context: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return x(x, y, z), generate


@intrinsic
def _as_bits(_context: Any, value: Any, target: Any) -> Any:
    """The bits of a number as another type of the same width."""

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(target.dtype))

    return target.dtype(value, target), generate


@intrinsic
def truncate(_context: Any, value: Any, target: Any) -> Any:
    """truncate(x, int8): a float without its fraction as an integer of that type; the nearest
    one where x is out of range, and 0 for NaN. LLVM's plain conversion is undefined there."""
    integer = target.dtype

    def generate(context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        sign = "s" if integer.signed else "u"
        name = f"llvm.fpto{sign}i.sat.i{integer.bitwidth}.f{value.bitwidth}"
        kind = ir.FunctionType(context.get_value_type(integer), [context.get_value_type(value)])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), args[:1])

    return integer(value, target), generate


# --- arithmetic -------------------------------------------------------------------------------


@_compiled
def minimum(x: Any, y: Any) -> Any:
    """The lesser, NaN where either is (Y5)."""
    return x if x < y or x != x else y


@_compiled
def maximum(x: Any, y: Any) -> Any:
    """The greater, NaN where either is (Y5)."""
    return x if x > y or x != x else y


@_compiled
def floor_divide(x: Any, y: Any) -> Any:
    """Integer x / y toward minus infinity: 0 for y = 0, and wrapping around for y = -1 (Y4)."""
    if y == type(y)(0):
        return type(x)(0)
    if y < type(y)(0) and y == type(y)(-1):
        return type(x)(-x)
    return type(x)(x // y)


@_compiled
def _integer_modulo(x: Any, y: Any) -> Any:
    if y == type(y)(0) or (y < type(y)(0) and y == type(y)(-1)):
        return type(x)(0)
    return type(x)(x % y)


@_compiled
def _float_modulo(x: Any, y: Any) -> Any:
    rest = np.fmod(x, y)
    if rest == 0:
        return math.copysign(rest, y)
    return rest + y if (y < 0) != (rest < 0) else rest


@_chosen_by_type
def floor_modulo(x: Any, _y: Any) -> Any:
    """x - y * floor(x / y), with the sign of y; for integers 0 where y = 0 (Y4)."""
    return _pair(_float_modulo if isinstance(x, types.Float) else _integer_modulo)


def _pair(function: Any) -> Any:
    return lambda x, _y: function(x, _y)


# --- half, by its bits ------------------------------------------------------------------------


@_compiled
def from_half(half: Any) -> Any:
    """The float32 of a half, given and kept as uint16."""
    bits = np.uint32(half)
    # the exponent of a half, put into a float32, is 112 too small; 2**112 mends it
    scaled = _as_bits(np.uint32((bits & np.uint32(0x7FFF)) << np.uint32(13)), np.float32)
    value = np.float32(scaled * np.float32(5.192296858534828e33))
    value_bits = _as_bits(value, np.uint32)
    if (bits & np.uint32(0x7C00)) == np.uint32(0x7C00):  # infinite or NaN
        value_bits = value_bits | np.uint32(0x7F800000)
    return _as_bits(
        np.uint32(value_bits | ((bits & np.uint32(0x8000)) << np.uint32(16))), np.float32
    )


def _rounded_to_half(real: Any, whole: Any, fraction: int) -> Any:
    """A function that rounds floats of type `real` to halves. `whole` is the integer type of the
    same width, `fraction` the number of its bits that hold the fraction."""

    def of(number: float) -> int:
        return int(real(number).view(whole))

    infinity, overflow, least = (whole(of(number)) for number in (np.inf, 65520.0, 2.0**-14))
    magic = real(2.0 ** (fraction - 24))  # adding it rounds to multiples of 2**-24, the least half
    magic_bits, one, drop = whole(of(magic)), whole(1), whole(fraction - 10)
    half_of_last = whole((1 << (fraction - 11)) - 1)
    exponents = whole(of(2.0**-14) - (1 << fraction))  # their difference: 112 or 1008
    sign_bits, size_bits = whole(real().nbytes * 8 - 16), whole(of(-0.0) - 1)

    @_compiled
    def rounded(x: Any) -> Any:
        bits = _as_bits(x, whole)
        sign = whole((bits >> sign_bits) & whole(0x8000))
        size = whole(bits & size_bits)
        if size > infinity:
            half = whole(0x7E00)
        elif size >= overflow:
            half = whole(0x7C00)
        elif size < least:
            half = whole(_as_bits(real(_as_bits(size, real) + magic), whole) - magic_bits)
        else:
            half = whole((size + ((size >> drop) & one) + half_of_last - exponents) >> drop)
        return np.uint16(half | sign)

    return rounded


_half_of_float32 = _rounded_to_half(np.float32, np.uint32, 23)
_half_of_float64 = _rounded_to_half(np.float64, np.uint64, 52)


@_chosen_by_type
def to_half(x: Any) -> Any:
    """The half nearest to a float32 or float64, the even one of two, as uint16."""
    function = _half_of_float32 if x == types.float32 else _half_of_float64
    return lambda x: function(x)


# --- built-in functions that numba has --------------------------------------------------------

abs = np.abs
acos, acosh, asin, asinh = math.acos, math.acosh, math.asin, math.asinh
atan, atan2, atanh = math.atan, math.atan2, math.atanh
cbrt, ceil, copysign = np.cbrt, np.ceil, math.copysign
cos, cosh = math.cos, math.cosh
erf, erfc = math.erf, math.erfc
exp, exp2, expm1 = math.exp, np.exp2, math.expm1
fabs, floor, fmax, fmin, fmod = math.fabs, np.floor, np.fmax, np.fmin, np.fmod
hypot = math.hypot
lgamma, log, log10, log1p, log2 = math.lgamma, math.log, math.log10, math.log1p, np.log2
nextafter, pow = np.nextafter, math.pow
sin, sinh, sqrt = math.sin, math.sinh, math.sqrt
tan, tanh, trunc = math.tan, math.tanh, np.trunc
tgamma = math.gamma


# --- built-in functions that it lacks ---------------------------------------------------------


@_compiled
def round(x: Any) -> Any:
    whole = np.trunc(x)
    return whole + math.copysign(type(x)(math.fabs(x - whole) >= 0.5), x)


@_compiled
def logb(x: Any) -> Any:
    if x == 0:
        return type(x)(-np.inf)
    if math.isinf(x) or math.isnan(x):
        return math.fabs(x)
    return type(x)(math.frexp(np.float64(x))[1] - 1)


@_compiled
def scaleb(x: Any, n: Any) -> Any:
    if n != n:
        return n
    if math.isinf(n):
        power = n if n > 0 else type(x)(0)
        return x * power if x == x else power
    steps = np.floor(min(max(np.float64(n), -5000.0), 5000.0))
    return type(x)(math.ldexp(np.float64(x), int(steps)))


@_compiled
def significand(x: Any) -> Any:
    if x == 0:
        return math.copysign(type(x)(1), x)
    if not (x > 0):
        return type(x)(np.nan)
    if math.isinf(x):
        return type(x)(1)
    fraction = math.frexp(np.float64(x))[0]
    return type(x)(2 * fraction if fraction < 0.75 else fraction)


@_compiled
def fdim(x: Any, y: Any) -> Any:
    return x - y if x > y else (x + y if x != x or y != y else type(x)(0))


@_compiled
def fdivide(x: Any, y: Any) -> Any:
    return x / y


@_compiled
def remainder(x: Any, y: Any) -> Any:
    if y == 0 or math.isinf(x) or x != x or y != y:
        return type(x)(np.nan)
    left, right = np.float64(math.fabs(x)), np.float64(math.fabs(y))
    if right <= 8.988465674311579e307:
        left = np.fmod(left, right + right)
    # now left < 2 * right; left + left avoids the half of a tiny right
    if right < 4.450147717014403e-308:
        if left + left > right:
            left -= right
            if left + left >= right:
                left -= right
    elif left > 0.5 * right:
        left -= right
        if left >= 0.5 * right:
            left -= right
    if left == 0:
        return math.copysign(type(x)(0), x)
    return type(x)(-left if x < 0 else left)


@_compiled
def rsqrt(x: Any) -> Any:
    return type(x)(1) / math.sqrt(x)


def in_double(function: Callable[..., Any]) -> Any:
    """A function of float64 that serves float32 too, rounded at the end."""
    f = _compiled(function)
    of_arity = (
        lambda x: type(x)(f(np.float64(x))),
        lambda x, y: type(x)(f(np.float64(x), np.float64(y))),
        lambda x, y, z: type(x)(f(np.float64(x), np.float64(y), np.float64(z))),
        lambda x, y, z, w: type(x)(f(np.float64(x), np.float64(y), np.float64(z), np.float64(w))),
    )
    return _compiled(of_arity[function.__code__.co_argcount - 1])


exp10 = in_double(lambda x: math.pow(10.0, x))
rcbrt = in_double(lambda x: 1.0 / np.cbrt(x))
rhypot = in_double(lambda x, y: 1.0 / math.hypot(x, y))
norm3d = in_double(lambda x, y, z: math.hypot(math.hypot(x, y), z))
norm4d = in_double(lambda x, y, z, w: math.hypot(math.hypot(math.hypot(x, y), z), w))
rnorm3d = in_double(lambda x, y, z: 1.0 / math.hypot(math.hypot(x, y), z))
rnorm4d = in_double(lambda x, y, z, w: 1.0 / math.hypot(math.hypot(math.hypot(x, y), z), w))


@_compiled
def _sine(x: Any, quarters: Any) -> Any:
    """sin(pi * (|x| + quarters / 2)), of float64."""
    turn = np.fmod(math.fabs(x), 2.0)
    quarter = np.floor(2.0 * turn + 0.5)
    angle = np.pi * (turn - 0.5 * quarter)
    turned = np.fmod(quarter + quarters, 4.0)
    value = math.cos(angle) if turned == 1.0 or turned == 3.0 else math.sin(angle)
    # + 0.0 makes the zeros at whole numbers positive
    return (-value if turned >= 2.0 else value) + 0.0


sinpi = in_double(lambda x: math.copysign(1.0, x) * _sine(x, 0.0))
cospi = in_double(lambda x: _sine(x, 1.0))


@in_double
def normcdf(x: Any) -> Any:
    bounded = min(max(x, -39.0), 39.0)  # 0 and 1 are reached before
    if x != x:
        return x
    scaled = bounded * -SQRT_HALF
    rest = fma(bounded, -SQRT_HALF, -scaled) - bounded * SQRT_HALF_REST
    tail = math.erfc(scaled)
    if bounded < -1.0:  # erfc(z + rest) is erfc(z) (1 - 2 z rest) but for terms that do not count
        tail -= 2.0 * scaled * rest * tail
    return 0.5 * tail
