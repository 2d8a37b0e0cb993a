"""The functions that vectors have a formula for, and how exact each is."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tc.kernel.math import circular, error_functions, exponentials, logarithms, powers, roots
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
    "acos": VectorForm(circular.acos, 1.5, 1.5),
    "acosh": VectorForm(logarithms.acosh, 2.5, 2.5),
    "asin": VectorForm(circular.asin, 2.5, 2.5),
    "asinh": VectorForm(logarithms.asinh, 2.5, 2.5),
    "atan": VectorForm(circular.atan, 1.6, 3.0),
    "atan2": VectorForm(circular.atan2, 2.0, 3.0),
    "atanh": VectorForm(logarithms.atanh, 2.5, 2.5),
    "cbrt": VectorForm(roots.cbrt, 1.0, 1.0),
    "cos": VectorForm(circular.cos, 1.6, 1.6),
    "cosh": VectorForm(exponentials.cosh, 1.5, 1.5),
    "cospi": VectorForm(circular.cospi, 1.0, 1.0),
    "erf": VectorForm(error_functions.erf, 1.5, 2.0),
    "erfc": VectorForm(error_functions.erfc, 7.0, 7.5),
    "exp": VectorForm(exponentials.exp, 0.95, 0.95, exponentials.exp_by_scaling),
    "exp10": VectorForm(exponentials.exp10, 1.0, 1.0, exponentials.exp10_by_scaling),
    "exp2": VectorForm(exponentials.exp2, 0.95, 0.95, exponentials.exp2_by_scaling),
    "expm1": VectorForm(exponentials.expm1, 1.7, 1.9),
    "fdim": VectorForm(roots.fdim, 0.5, 0.5),
    "fdivide": VectorForm(operator.truediv, 0.5, 0.5),
    "fmod": VectorForm(roots.fmod, 0.0, 0.0),
    "hypot": VectorForm(roots.length, 1.2, 1.2),
    "log": VectorForm(logarithms.log, 0.95, 1.1, logarithms.log_by_parts),
    "log10": VectorForm(logarithms.log10, 1.0, 1.0, logarithms.log10_by_parts),
    "log1p": VectorForm(logarithms.log1p, 1.6, 1.5),
    "log2": VectorForm(logarithms.log2, 1.1, 1.15, logarithms.log2_by_parts),
    "logb": VectorForm(logarithms.logb, 0.0, 0.0, Vector.logb),
    "norm3d": VectorForm(roots.length, 1.5, 1.5),
    "norm4d": VectorForm(roots.length, 1.8, 1.8),
    "normcdf": VectorForm(error_functions.normcdf, 7.5, 7.5),
    "pow": VectorForm(powers.power, 0.7, 1.1),
    "rcbrt": VectorForm(roots.rcbrt, 2.0, 2.0),
    "rhypot": VectorForm(roots.inverse_length, 2.0, 2.0),
    "rnorm3d": VectorForm(roots.inverse_length, 2.0, 2.0),
    "rnorm4d": VectorForm(roots.inverse_length, 2.5, 2.5),
    "round": VectorForm(roots.round_half_away, 0.0, 0.0),
    "rsqrt": VectorForm(roots.rsqrt, 1.6, 1.6),
    "sin": VectorForm(circular.sin, 1.6, 1.6),
    "sinh": VectorForm(exponentials.sinh, 1.8, 1.8),
    "sinpi": VectorForm(circular.sinpi, 1.0, 1.0),
    "tan": VectorForm(circular.tan, 3.3, 3.3),
    "tanh": VectorForm(exponentials.tanh, 2.6, 2.7),
}
