"""The functions that vectors have a formula for, and how exact each is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tc.kernel.math.circular import cos, cospi, sin, sinpi, tan
from tc.kernel.math.error_functions import erf, erfc, normcdf
from tc.kernel.math.exponentials import (
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
from tc.kernel.math.inverse_circular import acos, asin, atan, atan2
from tc.kernel.math.inverse_hyperbolic import acosh, asinh, atanh
from tc.kernel.math.logarithms import (
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
from tc.kernel.math.powers import power
from tc.kernel.math.roots import (
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
from tc.kernel.math.vector import Rare, Vector


@dataclass(frozen=True, slots=True)
class VectorForm:
    """A formula, and bounds on the errors found in it, in units in the last place: of float32 at
    all its numbers (exp, log, tanh) or at least every fifth, of float64 at a million. They hold
    for `short` too, a formula of fewer operations for vectors with `tc.kernel.math.exponents`."""

    formula: Callable[..., Vector | Rare]
    ulps32: float
    ulps64: float
    short: Callable[..., Vector] | None = None

    def chosen(self, exponents: bool) -> Callable[..., Vector | Rare]:
        """The formula for vectors with those functions or without."""
        return self.short if exponents and self.short is not None else self.formula

    def ulps(self, bits: int) -> float:
        return self.ulps32 if bits == 32 else self.ulps64


FORMS: Mapping[str, VectorForm] = {
    "acos": VectorForm(acos, 1.5, 1.5),
    "acosh": VectorForm(acosh, 2.5, 2.5),
    "asin": VectorForm(asin, 2.5, 2.5),
    "asinh": VectorForm(asinh, 2.5, 2.5),
    "atan": VectorForm(atan, 1.6, 3.0),
    "atan2": VectorForm(atan2, 2.0, 3.0),
    "atanh": VectorForm(atanh, 2.5, 2.5),
    "cbrt": VectorForm(cbrt, 1.0, 1.0),
    "cos": VectorForm(cos, 1.6, 1.6),
    "cosh": VectorForm(cosh, 1.5, 1.5),
    "cospi": VectorForm(cospi, 1.0, 1.0),
    "erf": VectorForm(erf, 1.5, 2.0),
    "erfc": VectorForm(erfc, 7.0, 7.5),
    "exp": VectorForm(exp, 0.95, 0.95, exp_by_scaling),
    "exp10": VectorForm(exp10, 1.0, 1.0, exp10_by_scaling),
    "exp2": VectorForm(exp2, 0.95, 0.95, exp2_by_scaling),
    "expm1": VectorForm(expm1, 1.7, 1.9),
    "fdim": VectorForm(fdim, 0.5, 0.5),
    "fdivide": VectorForm(fdivide, 0.5, 0.5),
    "fmod": VectorForm(fmod, 0.0, 0.0),
    "hypot": VectorForm(length, 1.2, 1.2),
    "log": VectorForm(log, 0.95, 1.1, log_by_parts),
    "log10": VectorForm(log10, 1.0, 1.0, log10_by_parts),
    "log1p": VectorForm(log1p, 1.6, 1.5),
    "log2": VectorForm(log2, 1.1, 1.15, log2_by_parts),
    "logb": VectorForm(logb, 0.0, 0.0, logb_itself),
    "norm3d": VectorForm(length, 1.5, 1.5),
    "norm4d": VectorForm(length, 1.8, 1.8),
    "normcdf": VectorForm(normcdf, 7.5, 7.5),
    "pow": VectorForm(power, 0.7, 1.1),
    "rcbrt": VectorForm(rcbrt, 2.0, 2.0),
    "rhypot": VectorForm(inverse_length, 2.0, 2.0),
    "rnorm3d": VectorForm(inverse_length, 2.0, 2.0),
    "rnorm4d": VectorForm(inverse_length, 2.5, 2.5),
    "round": VectorForm(round_half_away, 0.0, 0.0),
    "rsqrt": VectorForm(rsqrt, 1.6, 1.6),
    "sin": VectorForm(sin, 1.6, 1.6),
    "sinh": VectorForm(sinh, 1.8, 1.8),
    "sinpi": VectorForm(sinpi, 1.0, 1.0),
    "tan": VectorForm(tan, 3.3, 3.3),
    "tanh": VectorForm(tanh, 2.6, 2.7),
}
