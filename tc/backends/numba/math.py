"""The functions that numba kernels call: the built-in functions (Y7) and exact arithmetic.

Only the numba backend imports this module, and its texts call what stands here. Each function
keeps the type of its arguments, float32 or float64 (the arithmetic: any), and never raises or
traps. Rare functions compute float32 in float64; special cases are those of
`tc.builtins.formulas`.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from scipy.special import cython_special

_OPTIONS = {"error_model": "numpy", "nogil": True}
_compiled = njit(**_OPTIONS)

_SQRT_HALF = 0.7071067811865476
_SQRT_HALF_REST = -4.833646656726457e-17  # sqrt(1/2) is the sum of the two
_SPLITTER = 134217729.0  # 2**27 + 1


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


@_compiled
def _half_of_float32(x: Any) -> Any:
    bits = _as_bits(x, np.uint32)
    sign = np.uint32((bits >> np.uint32(16)) & np.uint32(0x8000))
    size = np.uint32(bits & np.uint32(0x7FFFFFFF))
    if size > np.uint32(0x7F800000):
        half = np.uint32(0x7E00)
    elif size >= np.uint32(0x477FF000):  # 65520 and more
        half = np.uint32(0x7C00)
    elif size < np.uint32(0x38800000):  # subnormal: adding 0.5 rounds to multiples of 2**-24
        sum_ = np.float32(_as_bits(size, np.float32) + np.float32(0.5))
        half = np.uint32(_as_bits(sum_, np.uint32) - np.uint32(0x3F000000))
    else:  # rounds to 10 bits, then moves the exponent down by 112
        odd = np.uint32((size >> np.uint32(13)) & np.uint32(1))
        half = np.uint32((size + odd + np.uint32(0xFFF) - np.uint32(0x38000000)) >> np.uint32(13))
    return np.uint16(half | sign)


@_compiled
def _half_of_float64(x: Any) -> Any:
    bits = _as_bits(x, np.uint64)
    sign = np.uint64((bits >> np.uint64(48)) & np.uint64(0x8000))
    size = np.uint64(bits & np.uint64(0x7FFFFFFFFFFFFFFF))
    if size > np.uint64(0x7FF0000000000000):
        half = np.uint64(0x7E00)
    elif size >= np.uint64(0x40EFFE0000000000):  # 65520 and more
        half = np.uint64(0x7C00)
    elif size < np.uint64(0x3F10000000000000):  # adding 2**28 rounds to multiples of 2**-24
        sum_ = _as_bits(size, np.float64) + 268435456.0
        half = np.uint64(_as_bits(sum_, np.uint64) - np.uint64(0x41B0000000000000))
    else:  # rounds to 10 bits, then moves the exponent down by 1008
        odd = np.uint64((size >> np.uint64(42)) & np.uint64(1))
        lowered = size + odd + np.uint64(0x1FFFFFFFFFF) - np.uint64(0x3F00000000000000)
        half = np.uint64(lowered >> np.uint64(42))
    return np.uint16(half | sign)


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
def exp10(x: Any) -> Any:
    return type(x)(math.pow(10.0, np.float64(x)))


@_compiled
def rcbrt(x: Any) -> Any:
    return type(x)(1.0 / np.cbrt(np.float64(x)))


@_compiled
def rsqrt(x: Any) -> Any:
    return type(x)(1) / math.sqrt(x)


@_compiled
def rhypot(x: Any, y: Any) -> Any:
    return type(x)(1.0 / math.hypot(np.float64(x), np.float64(y)))


@_compiled
def norm3d(x: Any, y: Any, z: Any) -> Any:
    return type(x)(math.hypot(math.hypot(np.float64(x), np.float64(y)), np.float64(z)))


@_compiled
def norm4d(x: Any, y: Any, z: Any, w: Any) -> Any:
    first = math.hypot(math.hypot(np.float64(x), np.float64(y)), np.float64(z))
    return type(x)(math.hypot(first, np.float64(w)))


@_compiled
def rnorm3d(x: Any, y: Any, z: Any) -> Any:
    return type(x)(1.0 / math.hypot(math.hypot(np.float64(x), np.float64(y)), np.float64(z)))


@_compiled
def rnorm4d(x: Any, y: Any, z: Any, w: Any) -> Any:
    first = math.hypot(math.hypot(np.float64(x), np.float64(y)), np.float64(z))
    return type(x)(1.0 / math.hypot(first, np.float64(w)))


@_compiled
def sinpi(x: Any) -> Any:
    turn = np.fmod(math.fabs(np.float64(x)), 2.0)
    quarter = np.floor(2.0 * turn + 0.5)
    angle = np.pi * (turn - 0.5 * quarter)
    if quarter == 1.0:
        value = math.cos(angle)
    elif quarter == 2.0:
        value = -math.sin(angle)
    elif quarter == 3.0:
        value = -math.cos(angle)
    else:
        value = math.sin(angle)
    # + 0.0 makes the zeros at whole numbers positive before x gives them its sign
    return type(x)(math.copysign(1.0, np.float64(x)) * (value + 0.0))


@_compiled
def cospi(x: Any) -> Any:
    turn = np.fmod(math.fabs(np.float64(x)), 2.0)
    quarter = np.floor(2.0 * turn + 0.5)
    angle = np.pi * (turn - 0.5 * quarter)
    if quarter == 1.0:
        value = -math.sin(angle)
    elif quarter == 2.0:
        value = -math.cos(angle)
    elif quarter == 3.0:
        value = math.sin(angle)
    else:
        value = math.cos(angle)
    return type(x)(value + 0.0)


@_compiled
def normcdf(x: Any) -> Any:
    bounded = min(max(np.float64(x), -39.0), 39.0)  # 0 and 1 are reached before
    if x != x:
        return x
    scaled = bounded * -_SQRT_HALF
    rest = fma(bounded, -_SQRT_HALF, -scaled) - bounded * _SQRT_HALF_REST
    tail = math.erfc(scaled)
    if bounded < -1.0:  # erfc(z + rest) is erfc(z) (1 - 2 z rest) but for terms that do not count
        tail -= 2.0 * scaled * rest * tail
    return type(x)(0.5 * tail)


# --- built-in functions of scipy --------------------------------------------------------------


def _of_scipy(name: str) -> Any:
    """A function of scipy.special on float64, found by a symbol, which unlike an address may
    stand in code that is kept on disk. Fused functions have a mangled name for each type."""
    table = cython_special.__pyx_capi__
    for mangled in (name, *(f"__pyx_fuse_{k}{name}" for k in range(4))):
        signature = _capsule_name(table[mangled]) if mangled in table else b""
        if signature in (b"double (double, int __pyx_skip_dispatch)", b"double (double)"):
            break
    else:
        raise ImportError(f"scipy.special.cython_special has no {name} for double")
    symbol = f"tc_scipy_{name}"
    binding.add_symbol(symbol, _capsule_pointer(table[mangled], signature))
    # where the C function takes no second argument, it finds an unused one in a register
    function = types.ExternalFunction(symbol, types.float64(types.float64, types.int32))
    return _compiled(lambda x: type(x)(function(np.float64(x), np.int32(0))))


_capsule_name = ctypes.PYFUNCTYPE(ctypes.c_char_p, ctypes.py_object)(
    ("PyCapsule_GetName", ctypes.pythonapi)
)
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

erfinv, normcdfinv = _of_scipy("erfinv"), _of_scipy("ndtri")
_erfcinv = _of_scipy("erfcinv")
_j0, _j1, _y0, _y1 = _of_scipy("j0"), _of_scipy("j1"), _of_scipy("y0"), _of_scipy("y1")
_i0, _i1 = _of_scipy("i0"), _of_scipy("i1")
_right_of_erfcx = _of_scipy("erfcx")


@_compiled
def erfcinv(x: Any) -> Any:
    return _erfcinv(x) + type(x)(0)  # no -0 at 1


@_compiled
def j0(x: Any) -> Any:
    return type(x)(0) if math.isinf(x) else _j0(x)


@_compiled
def j1(x: Any) -> Any:
    return math.copysign(type(x)(0), x) if math.isinf(x) else _j1(x)


@_compiled
def y0(x: Any) -> Any:
    return type(x)(0) if x == np.inf else _y0(x)


@_compiled
def y1(x: Any) -> Any:
    return type(x)(0) if x == np.inf else _y1(x)


@_compiled
def cyl_bessel_i0(x: Any) -> Any:
    return math.fabs(x) if math.isinf(x) else _i0(x)


@_compiled
def cyl_bessel_i1(x: Any) -> Any:
    return x if math.isinf(x) else _i1(x)


@_compiled
def erfcx(x: Any) -> Any:
    z = np.float64(x)
    if not z < -1.0:
        return type(x)(_right_of_erfcx(z))
    if z < -26.8:
        return type(x)(np.inf)
    # scipy's loses 400 units here, as the error of z * z grows in exp
    square = z * z
    return type(x)(2.0 * math.exp(square) * (1.0 + fma(z, z, -square)) - _right_of_erfcx(-z))
