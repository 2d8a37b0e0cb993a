"""The built-in functions (Y7) that numba kernels call on scalars.

Only the numba backend imports this module, and its texts call what stands here. Each function
keeps the type of its arguments, float32 or float64, and never raises or traps. Rare functions
compute float32 in float64; special cases are those of `tc.builtins.formulas`. Functions that scipy
computes are attributes of this module too, but stand in `scipy_functions`, which is loaded at the
first use of one: scipy takes 0.1 s to import. Functions that are an instruction of LLVM are not
here but in `traced_functions.NATIVE`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from numba.extending import intrinsic

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


# --- what LLVM offers and numba does not ------------------------------------------------------


@intrinsic  # type: ignore[untyped-decorator,unused-ignore]
def fma(_context: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once."""

    def generate(_context: Any, builder: Any, _signature: Any, args: Any) -> Any:
        return builder.fma(*args)

    return x(x, y, z), generate


# --- built-in functions that numba has --------------------------------------------------------

acos, acosh, asin, asinh = math.acos, math.acosh, math.asin, math.asinh
atan, atan2, atanh = math.atan, math.atan2, math.atanh
cbrt = np.cbrt
cos, cosh = math.cos, math.cosh
erf, erfc = math.erf, math.erfc
exp, exp2, expm1 = math.exp, np.exp2, math.expm1
fmod, hypot = np.fmod, math.hypot
lgamma, log, log10, log1p, log2 = math.lgamma, math.log, math.log10, math.log1p, np.log2
nextafter, pow = np.nextafter, math.pow
sin, sinh, tan, tanh = math.sin, math.sinh, math.tan, math.tanh
tgamma = math.gamma


# --- built-in functions that it lacks ---------------------------------------------------------


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
