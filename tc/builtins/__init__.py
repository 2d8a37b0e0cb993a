"""THE table of built-in functions (Y7), and the identities of the operators (R2); these stand in
`tc.builtins.operators`.

One entry says all there is to know of a function: its meaning in numpy, its names in the emitted
languages, how exact these are, and how errors pass through it. A new function is one entry here,
and one formula in `backends/numba/math.py` (and `backends/clike/helpers.py` where C lacks it).
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from tc.builtins import formulas as f
from tc.builtins import formulas as spreads
from tc.builtins.formulas import (
    Formula,
    Spread,
    corners,
    even,
    exact,
    in_double,
    lipschitz,
    pole_at_zero,
    scipy_special,
    sign_of_second,
)
from tc.builtins.operators import BITWISE
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, Array, DType, wrap


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in function.

    `rule` is "float" (computes in float32 or float64), "keep" (any type, gives the same) or
    "bits" (of integers; what it gives fits each of their types).
    `numpy` is the reference: arrays or numpy scalars of one type to the same type, no warnings.
    `c` names the function of C's <math.h>, in double, or one of `tc.backends.clike.helpers`.
    `tc.backends.numba.math` has them by their own names, but for instructions of LLVM, which are in
    `traced_functions.NATIVE` beside it.

    Every implementation, the reference included, is within `ulps` units in the last place of the
    type it computes in, plus `absolute` machine epsilons (of that type) near zeros of functions
    that lose relative accuracy there. OpenCL promises less of some functions of its own.
    """

    name: str
    numpy: Formula
    spread_rule: Spread
    doc: str
    _: KW_ONLY
    arity: int = 1
    c: str = ""
    ulps: float = 4.0
    absolute: float = 0.0
    rule: str = "float"

    def __post_init__(self) -> None:
        if self.c == "":
            object.__setattr__(self, "c", self.name)

    def spread(self, args: tuple[Array, ...], errors: tuple[Array, ...]) -> Array:
        """A bound on how far the value moves when each argument moves by at most its error.

        All are float64 arrays of one shape. Infinite where no bound is known.

        >>> x, error = np.array([1.0, 0.0]), np.array([0.1, 0.1])
        >>> BUILTINS["log"].spread((x,), (error,)).round(3).tolist()
        [0.105, inf]
        """
        with np.errstate(all="ignore"):
            return np.asarray(self.spread_rule(self.numpy, args, errors))


_TABLE = (
    # exactly rounded, or exact
    Builtin("abs", exact(np.abs), lipschitz(1.0), "|x|", c="fabs", ulps=0, rule="keep"),
    Builtin("fabs", exact(np.fabs), lipschitz(1.0), "|x|", ulps=0),
    Builtin("ceil", exact(np.ceil), corners, "least whole number >= x", ulps=0),
    Builtin("floor", exact(np.floor), corners, "greatest whole number <= x", ulps=0),
    Builtin("trunc", exact(np.trunc), corners, "x without its fraction", ulps=0),
    Builtin("round", f.round_half_away, corners, "nearest, halves away from 0", ulps=0),
    Builtin("logb", f.logb, even, "exponent of x as a whole number", ulps=0),
    Builtin("sqrt", exact(np.sqrt), corners, "square root", ulps=1),
    Builtin("copysign", exact(np.copysign), sign_of_second, "|x| with y's sign", arity=2, ulps=0),
    Builtin("fmax", exact(np.fmax), lipschitz(1.0), "the greater; NaN is ignored", arity=2, ulps=0),
    Builtin("fmin", exact(np.fmin), lipschitz(1.0), "the lesser; NaN is ignored", arity=2, ulps=0),
    Builtin("fdim", f.fdim, lipschitz(1.0), "x - y if positive, else 0", arity=2, ulps=1),
    Builtin("fdivide", exact(np.divide), pole_at_zero, "x / y", arity=2, c="tc_fdivide", ulps=1),
    Builtin("fmod", exact(np.fmod), spreads.modulo, "x - y*trunc(x/y)", arity=2, ulps=0),
    Builtin("remainder", f.remainder, spreads.modulo, "x - y*n, n nearest to x/y", arity=2, ulps=0),
    Builtin(
        "nextafter", exact(np.nextafter), spreads.step, "neighbour of x toward y", arity=2, ulps=0
    ),
    Builtin("fma", f.fma, spreads.multiply_add, "x*y + z, rounded once", arity=3, ulps=1),
    # exponentials and logarithms
    Builtin("exp", in_double(np.exp), corners, "e**x"),
    Builtin("exp2", in_double(np.exp2), corners, "2**x"),
    Builtin("exp10", in_double(lambda x: np.power(10.0, x)), corners, "10**x", c="tc_exp10"),
    Builtin("expm1", in_double(np.expm1), corners, "e**x - 1"),
    Builtin("log", in_double(np.log), corners, "natural logarithm"),
    Builtin("log2", in_double(np.log2), corners, "logarithm to base 2"),
    Builtin("log10", in_double(np.log10), corners, "logarithm to base 10"),
    Builtin("log1p", in_double(np.log1p), corners, "log(1 + x)"),
    Builtin("pow", in_double(np.power), spreads.power, "x**y", arity=2),
    # roots and lengths
    Builtin("cbrt", in_double(np.cbrt), corners, "cube root", ulps=6),
    Builtin(
        "rcbrt",
        in_double(lambda x: 1 / np.cbrt(x)),
        pole_at_zero,
        "1 / cbrt(x)",
        c="tc_rcbrt",
        ulps=12,
    ),
    Builtin("rsqrt", in_double(lambda x: 1 / np.sqrt(x)), corners, "1 / sqrt(x)", c="tc_rsqrt"),
    Builtin("hypot", f.norm, lipschitz(1.0), "length of a vector", arity=2),
    Builtin("rhypot", f.rnorm, even, "1 / length of a vector", arity=2, c="tc_rhypot", ulps=6),
    Builtin("norm3d", f.norm, lipschitz(1.0), "length of a vector", arity=3, c="tc_norm3d"),
    Builtin("rnorm3d", f.rnorm, even, "1 / length of a vector", arity=3, c="tc_rnorm3d", ulps=6),
    Builtin("norm4d", f.norm, lipschitz(1.0), "length of a vector", arity=4, c="tc_norm4d"),
    Builtin("rnorm4d", f.rnorm, even, "1 / length of a vector", arity=4, c="tc_rnorm4d", ulps=6),
    # trigonometric and hyperbolic
    Builtin("sin", in_double(np.sin), lipschitz(1.0), "sine"),
    Builtin("cos", in_double(np.cos), lipschitz(1.0), "cosine"),
    Builtin("tan", in_double(np.tan), spreads.tangent, "tangent"),
    Builtin("sinpi", f.sinpi, lipschitz(np.pi), "sin(pi*x)", c="tc_sinpi"),
    Builtin("cospi", f.cospi, lipschitz(np.pi), "cos(pi*x)", c="tc_cospi"),
    Builtin("asin", in_double(np.arcsin), corners, "inverse of sin"),
    Builtin("acos", in_double(np.arccos), corners, "inverse of cos"),
    Builtin("atan", in_double(np.arctan), lipschitz(1.0), "inverse of tan"),
    Builtin("atan2", in_double(np.arctan2), spreads.angle, "angle of the point (y, x)", arity=2),
    Builtin("sinh", in_double(np.sinh), corners, "hyperbolic sine"),
    Builtin("cosh", in_double(np.cosh), even, "hyperbolic cosine"),
    Builtin("tanh", in_double(np.tanh), lipschitz(1.0), "hyperbolic tangent"),
    Builtin("asinh", in_double(np.arcsinh), lipschitz(1.0), "inverse of sinh"),
    Builtin("acosh", in_double(np.arccosh), corners, "inverse of cosh"),
    Builtin("atanh", in_double(np.arctanh), corners, "inverse of tanh"),
    # gamma and error functions
    Builtin("erf", scipy_special("erf"), lipschitz(1.13), "error function"),
    Builtin("erfc", f.erfc, corners, "1 - erf(x)", ulps=12),
    Builtin("normcdf", f.normcdf, corners, "normal distribution", c="tc_normcdf", ulps=16),
    # scipy's may be 0 where the value is subnormal
    Builtin("tgamma", f.tgamma, spreads.gamma, "gamma function", ulps=20, absolute=1e-290),
    Builtin("lgamma", f.lgamma, spreads.log_gamma, "log|gamma(x)|", ulps=8, absolute=8),
    # with scipy, and in C with `tc.backends.clike.special_functions`
    Builtin("erfinv", f.erfinv, corners, "inverse of erf", c="tc_erfinv", ulps=8),
    Builtin("erfcinv", f.erfcinv, corners, "inverse of erfc", c="tc_erfcinv", ulps=12),
    Builtin("erfcx", f.erfcx, corners, "exp(x*x) * erfc(x)", c="tc_erfcx", ulps=12),
    Builtin(
        "normcdfinv",
        scipy_special("ndtri"),
        corners,
        "inverse of normcdf",
        c="tc_normcdfinv",
        ulps=12,
    ),
    Builtin("j0", f.j0, lipschitz(0.582), "Bessel function J0", c="tc_j0", ulps=8, absolute=16),
    Builtin("j1", f.j1, lipschitz(0.5), "Bessel function J1", c="tc_j1", ulps=8, absolute=16),
    Builtin("y0", f.y0, spreads.bessel_y(0), "Bessel function Y0", c="tc_y0", ulps=8, absolute=16),
    Builtin("y1", f.y1, spreads.bessel_y(1), "Bessel function Y1", c="tc_y1", ulps=8, absolute=16),
    Builtin(
        "cyl_bessel_i0", f.cyl_bessel_i0, even, "Bessel function I0", c="tc_cyl_bessel_i0", ulps=8
    ),
    Builtin(
        "cyl_bessel_i1",
        f.cyl_bessel_i1,
        corners,
        "Bessel function I1",
        c="tc_cyl_bessel_i1",
        ulps=32,
    ),
)

BUILTINS: dict[str, Builtin] = {b.name: b for b in _TABLE}
"""The functions of numbers by canonical name."""

BIT_FUNCTIONS: dict[str, Builtin] = {
    b.name: b
    for b in (
        Builtin(
            "popc", f.set_bits, spreads.unbounded, "the bits of x that are 1", ulps=0, rule="bits"
        ),
        Builtin(
            "clz",
            f.leading_zeros,
            spreads.unbounded,
            "the 0s above x's highest 1",
            ulps=0,
            rule="bits",
        ),
    )
}
"""The functions of integers, whose results are int32 (Y12); in kernels they keep the type."""

FUNCTIONS: dict[str, Builtin] = {**BUILTINS, **BIT_FUNCTIONS}

REINTERPRETED: dict[str, DType | None] = {
    "bits": None,
    "half_of": FLOAT16,
    "float32_of": FLOAT32,
    "float64_of": FLOAT64,
}
"""The functions that read the bits of a value as one of another type, by their names (Y12): the
floating type that they give, None for the unsigned integer as wide as the operand."""

ALIASES: dict[str, str] = {f"{name}f": name for name in BUILTINS if name != "abs"}
"""CUDA's single-precision spellings (Y5): "expf" is "exp"."""


def name_of_bits(dtype: DType) -> str:
    """The function that reads bits as a value of a type."""
    names = {given: name for name, given in REINTERPRETED.items() if given is not None}
    return names.get(dtype, "bits")


def lookup(name: str) -> Builtin | None:
    """The function of a name or an alias, None where there is none.

    >>> lookup("fmaxf").name, lookup("fmaxx")
    ('fmax', None)
    """
    return FUNCTIONS.get(ALIASES.get(name, name))


def identity(op: str, dtype: DType) -> int | float | bool:
    """The start value of a reduction with `op`, one of + * min max & | ^ (R2).

    >>> from tc.dtypes import FLOAT32, INT8
    >>> identity("+", INT8), identity("min", INT8), identity("max", FLOAT32), identity("max", BOOL)
    (0, 127, -inf, False)
    >>> identity("&", INT8), identity("^", BOOL)
    (-1, False)
    """
    if op in BITWISE and not dtype.is_float:
        number = wrap(-1 if op == "&" else 0, dtype)
        return bool(number) if dtype == BOOL else number
    if op in ("+", "*"):
        one = int(op == "*")
        return float(one) if dtype.is_float else bool(one) if dtype == BOOL else one
    if op not in ("min", "max"):
        raise ValueError(f"{op!r} is not a reduction")
    if dtype == BOOL:
        return op == "min"
    if dtype.is_float:
        return np.inf if op == "min" else -np.inf
    info = np.iinfo(dtype.name)
    return int(info.max if op == "min" else info.min)
