"""THE table of built-in functions (Y7), and the identities of the operators (R2); these stand in
`tc.builtins.operators`.

One entry says all there is to know of a function: its meaning in numpy, its names in the emitted
languages, how exact these are, and how errors pass through it. A new function is one entry here,
and one formula in `backends/numba/math.py` (and `backends/clike/helpers.py` where C lacks it).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tc.builtins import error_spread as spreads
from tc.builtins import formulas
from tc.builtins.error_spread import Spread, corners, even, lipschitz, pole_at_zero
from tc.builtins.formulas import Formula
from tc.dtypes import BOOL, Array, DType


@dataclass(frozen=True, slots=True)
class Builtin:
    """A built-in function.

    `rule` is "float" (computes in float32 or float64) or "keep" (any type, gives the same).
    `numpy` is the reference: arrays or numpy scalars of one type to the same type, no warnings.
    `c` names the function of C's <math.h>, in double, or one of `tc.backends.clike.helpers`; None
    where only scipy has it. `numba` names a function of `tc.backends.numba.math`.

    Every implementation, the reference included, is within `ulps` units in the last place of the
    type it computes in, plus `absolute` machine epsilons (of that type) near zeros of functions
    that lose relative accuracy there. The Bessel functions j and y are so for |x| up to 1000; the
    same code computes them in all implementations.
    """

    name: str
    arity: int
    numpy: Formula
    c: str | None
    numba: str
    ulps: float
    absolute: float
    spread_rule: Spread
    rule: str
    doc: str

    @property
    def needs_scipy(self) -> bool:
        return self.c is None

    def spread(self, args: tuple[Array, ...], errors: tuple[Array, ...]) -> Array:
        """A bound on how far the value moves when each argument moves by at most its error.

        All are float64 arrays of one shape. Infinite where no bound is known.

        >>> x, error = np.array([1.0, 0.0]), np.array([0.1, 0.1])
        >>> BUILTINS["log"].spread((x,), (error,)).round(3).tolist()
        [0.105, inf]
        """
        with np.errstate(all="ignore"):
            return np.asarray(self.spread_rule(self.numpy, args, errors))


def _table() -> Iterator[Builtin]:
    def entry(
        name: str,
        numpy: Formula,
        spread: Spread,
        doc: str,
        *,
        arity: int = 1,
        c: str | None = "",
        ulps: float = 4.0,
        absolute: float = 0.0,
        rule: str = "float",
    ) -> Builtin:
        c_name = name if c == "" else c
        return Builtin(name, arity, numpy, c_name, name, ulps, absolute, spread, rule, doc)

    f = formulas
    pair, triple = 2, 3

    # exactly rounded, or exact
    yield entry("abs", f.absolute, lipschitz(1.0), "|x|", c="fabs", ulps=0, rule="keep")
    yield entry("fabs", f.fabs, lipschitz(1.0), "|x|", ulps=0)
    yield entry("ceil", f.ceil, corners, "least whole number >= x", ulps=0)
    yield entry("floor", f.floor, corners, "greatest whole number <= x", ulps=0)
    yield entry("trunc", f.trunc, corners, "x without its fraction", ulps=0)
    yield entry("round", f.round_half_away, corners, "nearest, halves away from 0", ulps=0)
    yield entry("logb", f.logb, even, "exponent of x as a whole number", ulps=0)
    yield entry("sqrt", f.sqrt, corners, "square root", ulps=1)
    yield entry(
        "copysign", f.copysign, spreads.sign_of_second, "|x| with y's sign", arity=pair, ulps=0
    )
    yield entry("fmax", f.fmax, lipschitz(1.0), "the greater; NaN is ignored", arity=pair, ulps=0)
    yield entry("fmin", f.fmin, lipschitz(1.0), "the lesser; NaN is ignored", arity=pair, ulps=0)
    yield entry("fdim", f.fdim, lipschitz(1.0), "x - y if positive, else 0", arity=pair, ulps=1)
    yield entry("fdivide", f.divide, pole_at_zero, "x / y", arity=pair, c="tc_fdivide", ulps=1)
    yield entry("fmod", f.fmod, spreads.modulo, "x - y*trunc(x/y)", arity=pair, ulps=0)
    yield entry(
        "remainder", f.remainder, spreads.modulo, "x - y*n, n nearest to x/y", arity=pair, ulps=0
    )
    yield entry(
        "nextafter", f.nextafter, spreads.step, "neighbour of x toward y", arity=pair, ulps=0
    )
    yield entry("fma", f.fma, spreads.multiply_add, "x*y + z, rounded once", arity=triple, ulps=1)

    # exponentials and logarithms
    yield entry("exp", f.exp, corners, "e**x")
    yield entry("exp2", f.exp2, corners, "2**x")
    yield entry("exp10", f.exp10, corners, "10**x", c="tc_exp10")
    yield entry("expm1", f.expm1, corners, "e**x - 1")
    yield entry("log", f.log, corners, "natural logarithm")
    yield entry("log2", f.log2, corners, "logarithm to base 2")
    yield entry("log10", f.log10, corners, "logarithm to base 10")
    yield entry("log1p", f.log1p, corners, "log(1 + x)")
    yield entry("pow", f.power, spreads.power, "x**y", arity=pair)

    # roots and lengths
    yield entry("cbrt", f.cbrt, corners, "cube root", ulps=6)
    yield entry("rcbrt", f.rcbrt, pole_at_zero, "1 / cbrt(x)", c="tc_rcbrt", ulps=12)
    yield entry("rsqrt", f.rsqrt, corners, "1 / sqrt(x)", c="tc_rsqrt")
    for name, count in (("hypot", 2), ("norm3d", 3), ("norm4d", 4)):
        c = name if name == "hypot" else f"tc_{name}"
        yield entry(name, f.norm, lipschitz(1.0), "length of a vector", arity=count, c=c)
        r = "r" + name
        yield entry(r, f.rnorm, even, "1 / length of a vector", arity=count, c=f"tc_{r}", ulps=6)

    # trigonometric and hyperbolic
    yield entry("sin", f.sin, lipschitz(1.0), "sine")
    yield entry("cos", f.cos, lipschitz(1.0), "cosine")
    yield entry("tan", f.tan, spreads.tangent, "tangent")
    yield entry("sinpi", f.sinpi, lipschitz(np.pi), "sin(pi*x)", c="tc_sinpi")
    yield entry("cospi", f.cospi, lipschitz(np.pi), "cos(pi*x)", c="tc_cospi")
    yield entry("asin", f.asin, corners, "inverse of sin")
    yield entry("acos", f.acos, corners, "inverse of cos")
    yield entry("atan", f.atan, lipschitz(1.0), "inverse of tan")
    yield entry("atan2", f.atan2, spreads.angle, "angle of the point (y, x)", arity=pair)
    yield entry("sinh", f.sinh, corners, "hyperbolic sine")
    yield entry("cosh", f.cosh, even, "hyperbolic cosine")
    yield entry("tanh", f.tanh, lipschitz(1.0), "hyperbolic tangent")
    yield entry("asinh", f.asinh, lipschitz(1.0), "inverse of sinh")
    yield entry("acosh", f.acosh, corners, "inverse of cosh")
    yield entry("atanh", f.atanh, corners, "inverse of tanh")

    # gamma and error functions
    yield entry("erf", f.erf, lipschitz(1.13), "error function")
    yield entry("erfc", f.erfc, corners, "1 - erf(x)", ulps=12)
    yield entry("normcdf", f.normcdf, corners, "normal distribution", c="tc_normcdf", ulps=16)
    # scipy's may be 0 where the value is subnormal
    yield entry("tgamma", f.tgamma, spreads.gamma, "gamma function", ulps=20, absolute=1e-290)
    yield entry("lgamma", f.lgamma, spreads.log_gamma, "log|gamma(x)|", ulps=8, absolute=8)

    # with scipy
    yield entry("erfinv", f.erfinv, corners, "inverse of erf", c=None, ulps=8)
    yield entry("erfcinv", f.erfcinv, corners, "inverse of erfc", c=None, ulps=12)
    yield entry("erfcx", f.erfcx, corners, "exp(x*x) * erfc(x)", c=None, ulps=12)
    yield entry("normcdfinv", f.normcdfinv, corners, "inverse of normcdf", c=None, ulps=12)
    yield entry("j0", f.j0, lipschitz(0.582), "Bessel function J0", c=None, ulps=8, absolute=16)
    yield entry("j1", f.j1, lipschitz(0.5), "Bessel function J1", c=None, ulps=8, absolute=16)
    yield entry("y0", f.y0, spreads.bessel_y(0), "Bessel function Y0", c=None, ulps=8, absolute=16)
    yield entry("y1", f.y1, spreads.bessel_y(1), "Bessel function Y1", c=None, ulps=8, absolute=16)
    yield entry("cyl_bessel_i0", f.cyl_bessel_i0, even, "Bessel function I0", c=None, ulps=8)
    yield entry("cyl_bessel_i1", f.cyl_bessel_i1, corners, "Bessel function I1", c=None, ulps=32)


BUILTINS: dict[str, Builtin] = {b.name: b for b in _table()}
"""The functions by canonical name."""

ALIASES: dict[str, str] = {f"{name}f": name for name in BUILTINS if name != "abs"}
"""CUDA's single-precision spellings (Y5): "expf" is "exp"."""


def lookup(name: str) -> Builtin | None:
    """The function of a name or an alias, None where there is none.

    >>> lookup("fmaxf").name, lookup("fmaxx")
    ('fmax', None)
    """
    return BUILTINS.get(ALIASES.get(name, name))


def identity(op: str, dtype: DType) -> int | float | bool:
    """The start value of a reduction with `op`, one of + * min max (R2).

    >>> from tc.dtypes import FLOAT32, INT8
    >>> identity("+", INT8), identity("min", INT8), identity("max", FLOAT32), identity("max", BOOL)
    (0, 127, -inf, False)
    """
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
