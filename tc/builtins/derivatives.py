"""The derivatives of the built-in functions (D10), as expressions of the language.

One expression per argument, of the arguments x, y, z, w and the value f. At a kink they give the
subgradient of least norm. Numerators are floating: 1/y of a whole y would be an integer division.
"""

from __future__ import annotations

from collections.abc import Mapping

DERIVATIVES: Mapping[str, tuple[str, ...] | None] = {
    "fmin": ("x < y || y != y ? 1 : x == y ? 0.5 : 0", "y < x || x != x ? 1 : x == y ? 0.5 : 0"),
    "fmax": ("x > y || y != y ? 1 : x == y ? 0.5 : 0", "y > x || x != x ? 1 : x == y ? 0.5 : 0"),
    "abs": ("x > 0 ? 1 : x < 0 ? -1 : 0",),
    "fabs": ("x > 0 ? 1 : x < 0 ? -1 : 0",),
    "acos": ("-1.0 / sqrt(1 - x*x)",),
    "acosh": ("1.0 / (sqrt(x - 1) * sqrt(x + 1))",),
    "asin": ("1.0 / sqrt(1 - x*x)",),
    "asinh": ("1.0 / sqrt(x*x + 1)",),
    "atan": ("1.0 / (1 + x*x)",),
    "atan2": ("y / (x*x + y*y)", "-x / (x*x + y*y)"),
    "atanh": ("1.0 / (1 - x*x)",),
    "cbrt": ("1.0 / (3*f*f)",),
    "ceil": ("0",),
    "floor": ("0",),
    "round": ("0",),
    "trunc": ("0",),
    "logb": ("0",),
    "copysign": ("copysign(1.0, x) * copysign(1.0, y)", "0"),
    "nextafter": ("1", "0"),
    "cos": ("-sin(x)",),
    "cosh": ("sinh(x)",),
    "cospi": ("-3.141592653589793 * sinpi(x)",),
    "sin": ("cos(x)",),
    "sinh": ("cosh(x)",),
    "sinpi": ("3.141592653589793 * cospi(x)",),
    "tan": ("1 + f*f",),
    "tanh": ("1 - f*f",),
    "erf": ("1.1283791670955126 * exp(-x*x)",),
    "erfc": ("-1.1283791670955126 * exp(-x*x)",),
    "erfcx": ("2*x*f - 1.1283791670955126",),
    "erfinv": ("0.886226925452758 * exp(f*f)",),
    "erfcinv": ("-0.886226925452758 * exp(f*f)",),
    "normcdf": ("0.3989422804014327 * exp(-0.5*x*x)",),
    "normcdfinv": ("2.5066282746310002 * exp(0.5*f*f)",),
    "exp": ("f",),
    "exp2": ("0.6931471805599453 * f",),
    "exp10": ("2.302585092994046 * f",),
    "expm1": ("exp(x)",),
    "log": ("1.0 / x",),
    "log10": ("0.4342944819032518 / x",),
    "log1p": ("1.0 / (1 + x)",),
    "log2": ("1.4426950408889634 / x",),
    "sqrt": ("0.5 / f",),
    "rsqrt": ("-0.5 * f / x",),
    "rcbrt": ("-f / (3*x)",),
    "pow": ("y == 0 ? 0 : y * pow(x, y - 1)", "x == 0 ? 0 : f * log(x)"),
    "fdim": ("x > y ? 1 : 0", "x > y ? -1 : 0"),
    "fdivide": ("1.0 / y", "-f / y"),
    "fma": ("y", "x", "1"),
    "fmod": ("1", "-trunc(x / y)"),
    "remainder": ("1", "-(x - f) / y"),
    "hypot": ("f == 0 ? 0 : x / f", "f == 0 ? 0 : y / f"),
    "norm3d": ("f == 0 ? 0 : x / f", "f == 0 ? 0 : y / f", "f == 0 ? 0 : z / f"),
    "norm4d": (
        "f == 0 ? 0 : x / f",
        "f == 0 ? 0 : y / f",
        "f == 0 ? 0 : z / f",
        "f == 0 ? 0 : w / f",
    ),
    "rhypot": ("-x*f*f*f", "-y*f*f*f"),
    "rnorm3d": ("-x*f*f*f", "-y*f*f*f", "-z*f*f*f"),
    "rnorm4d": ("-x*f*f*f", "-y*f*f*f", "-z*f*f*f", "-w*f*f*f"),
    "j0": ("-j1(x)",),
    "j1": ("x == 0 ? 0.5 : j0(x) - f / x",),
    "y0": ("-y1(x)",),
    "y1": ("y0(x) - f / x",),
    "cyl_bessel_i0": ("cyl_bessel_i1(x)",),
    "cyl_bessel_i1": ("x == 0 ? 0.5 : cyl_bessel_i0(x) - f / x",),
    "lgamma": None,  # needs digamma, which is no built-in function
    "tgamma": None,  # needs digamma, which is no built-in function
}
"""By canonical name; None where the language has none."""
