"""The functions that vectors have a formula for, and how exact each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tc.kernel.functions.circular import cos, cospi, sin, sinpi, tan
from tc.kernel.functions.error_functions import erf, erfc, normcdf
from tc.kernel.functions.exponentials import (
    cosh,
    exp,
    exp2,
    exp2_by_scaling,
    exp10,
    exp10_by_scaling,
    exp_by_scaling,
    expm1,
    sinh,
    tanh,
)
from tc.kernel.functions.inverse_circular import acos, asin, atan, atan2
from tc.kernel.functions.inverse_hyperbolic import acosh, asinh, atanh
from tc.kernel.functions.logarithms import (
    log,
    log1p,
    log2,
    log2_by_parts,
    log10,
    log10_by_parts,
    log_by_parts,
    logb,
    logb_itself,
)
from tc.kernel.functions.powers import power
from tc.kernel.functions.roots import (
    cbrt,
    fdim,
    fdivide,
    fmod,
    inverse_length,
    length,
    rcbrt,
    round_half_away,
    rsqrt,
)
from tc.kernel.functions.vector import Rare, Vector


@dataclass(frozen=True, slots=True)
class Form:
    """A formula, and bounds on the errors found in it, in units in the last place: of float32 at
    all its numbers (exp, log, tanh) or at least every fifth, of float64 at a million. They hold
    for `short` too, a formula of fewer operations for vectors with `tc.kernel.exponents`."""

    formula: Callable[..., Vector | Rare]
    ulps32: float
    ulps64: float
    short: Callable[..., Vector] | None = None

    def chosen(self, exponents: bool) -> Callable[..., Vector | Rare]:
        """The formula for vectors with those functions or without."""
        return self.short if exponents and self.short is not None else self.formula

    def ulps(self, bits: int) -> float:
        return self.ulps32 if bits == 32 else self.ulps64


FORMS: Mapping[str, Form] = {
    "acos": Form(acos, 1.5, 1.5),
    "acosh": Form(acosh, 2.5, 2.5),
    "asin": Form(asin, 2.5, 2.5),
    "asinh": Form(asinh, 2.5, 2.5),
    "atan": Form(atan, 1.6, 3.0),
    "atan2": Form(atan2, 2.0, 3.0),
    "atanh": Form(atanh, 2.5, 2.5),
    "cbrt": Form(cbrt, 1.0, 1.0),
    "cos": Form(cos, 1.6, 1.6),
    "cosh": Form(cosh, 1.5, 1.5),
    "cospi": Form(cospi, 1.0, 1.0),
    "erf": Form(erf, 1.5, 2.0),
    "erfc": Form(erfc, 7.0, 7.5),
    "exp": Form(exp, 0.95, 0.95, exp_by_scaling),
    "exp10": Form(exp10, 1.0, 1.0, exp10_by_scaling),
    "exp2": Form(exp2, 0.95, 0.95, exp2_by_scaling),
    "expm1": Form(expm1, 1.7, 1.9),
    "fdim": Form(fdim, 0.5, 0.5),
    "fdivide": Form(fdivide, 0.5, 0.5),
    "fmod": Form(fmod, 0.0, 0.0),
    "hypot": Form(length, 1.2, 1.2),
    "log": Form(log, 0.95, 1.1, log_by_parts),
    "log10": Form(log10, 1.0, 1.0, log10_by_parts),
    "log1p": Form(log1p, 1.6, 1.5),
    "log2": Form(log2, 1.1, 1.15, log2_by_parts),
    "logb": Form(logb, 0.0, 0.0, logb_itself),
    "norm3d": Form(length, 1.5, 1.5),
    "norm4d": Form(length, 1.8, 1.8),
    "normcdf": Form(normcdf, 7.5, 7.5),
    "pow": Form(power, 0.7, 1.1),
    "rcbrt": Form(rcbrt, 2.0, 2.0),
    "rhypot": Form(inverse_length, 2.0, 2.0),
    "rnorm3d": Form(inverse_length, 2.0, 2.0),
    "rnorm4d": Form(inverse_length, 2.5, 2.5),
    "round": Form(round_half_away, 0.0, 0.0),
    "rsqrt": Form(rsqrt, 1.6, 1.6),
    "sin": Form(sin, 1.6, 1.6),
    "sinh": Form(sinh, 1.8, 1.8),
    "sinpi": Form(sinpi, 1.0, 1.0),
    "tan": Form(tan, 3.3, 3.3),
    "tanh": Form(tanh, 2.6, 2.7),
}
