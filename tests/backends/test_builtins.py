"""The numpy column of the table of built-in functions against references of other make (Y7)."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tc.builtins import ALIASES, BUILTINS, identity, lookup
from tc.dtypes import BOOL, DTYPES, FLOAT16
from tests.support import precise

Array = np.ndarray[Any, Any]
FLOATS = (np.float32, np.float64)
LONG: dict[str, Callable[..., Array]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "exp": np.exp,
    "exp10": lambda x: np.power(np.longdouble(10), x),
    "exp2": np.exp2,
    "expm1": np.expm1,
    "fdim": lambda x, y: np.maximum(x - y, 0),
    "fdivide": np.divide,
    "hypot": np.hypot,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "norm3d": lambda x, y, z: np.sqrt(x * x + y * y + z * z),
    "norm4d": lambda x, y, z, w: np.sqrt(x * x + y * y + z * z + w * w),
    "pow": np.power,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda x, y: 1 / np.hypot(x, y),
    "rnorm3d": lambda x, y, z: 1 / np.sqrt(x * x + y * y + z * z),
    "rnorm4d": lambda x, y, z, w: 1 / np.sqrt(x * x + y * y + z * z + w * w),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
}
"""References in numpy's long double, which has 11 more bits on x86 and is float64 elsewhere."""

PRECISE: dict[str, tuple[Callable[[Decimal], Decimal], float, float]] = {
    "cospi": (precise.cospi, -20, 20),
    "cyl_bessel_i0": (precise.i0, -80, 80),
    "cyl_bessel_i1": (precise.i1, -80, 80),
    "erf": (precise.erf, -5, 5),
    "erfc": (precise.erfc, -4, 9),
    "erfcx": (precise.erfcx, -9, 20),
    "j0": (precise.j0, -40, 40),
    "j1": (precise.j1, -40, 40),
    "lgamma": (precise.lgamma, -8, 100),
    "normcdf": (precise.normcdf, -12, 6),
    "sinpi": (precise.sinpi, -20, 20),
    "tgamma": (precise.tgamma, -20, 34),
    "y0": (precise.y0, 0, 40),
    "y1": (precise.y1, 0, 40),
}
"""References in decimal numbers, and where float32 has a normal, finite result."""

INVERSE: dict[str, tuple[Callable[[Decimal], Decimal], Callable[[float], float], float, float]] = {
    "erfinv": (precise.erf, lambda y: 2 * math.exp(-y * y) / math.sqrt(math.pi), -1, 1),
    "erfcinv": (precise.erfc, lambda y: 2 * math.exp(-y * y) / math.sqrt(math.pi), 0, 2),
    "normcdfinv": (
        precise.normcdf, lambda y: math.exp(-y * y / 2) / math.sqrt(2 * math.pi), 0, 1,
    ),
}  # fmt: skip
"""Functions that the inverse, its slope and the range of arguments check."""

COMPUTED = [d for d in DTYPES.values() if d.is_in_numpy and d != BOOL]


def _nearest_away(x: float) -> float:
    return math.copysign(float(Decimal(x).to_integral_value(ROUND_HALF_UP)), x)


def _exponent(x: float) -> float:
    return float(math.frexp(x)[1] - 1) if x else -math.inf


EXACT: dict[str, Callable[..., float]] = {
    "abs": abs,
    "ceil": lambda x: math.copysign(math.ceil(x), x),
    "copysign": math.copysign,
    "fabs": math.fabs,
    "floor": lambda x: math.copysign(math.floor(x), x),
    "fmax": max,
    "fmin": min,
    "fmod": math.fmod,
    "logb": _exponent,
    "remainder": math.remainder,
    "round": _nearest_away,
    "trunc": lambda x: math.copysign(math.trunc(x), x),
}
OWN_TEST = {"fma", "nextafter"}


def spread_out(dtype: Any, count: int, low: float, high: float, seed: int = 0) -> Array:
    """Numbers in (low, high), half of them uniform and half of them by magnitude."""
    rng = np.random.default_rng(seed)
    even = rng.uniform(low, high, count // 2)
    tiny = 1e-6
    top = np.log(max(abs(low), abs(high)))
    sizes = np.exp(rng.uniform(np.log(tiny), top, 4 * count)) * rng.choice((-1, 1), 4 * count)
    scaled = sizes[(sizes > low) & (sizes < high)][: count - count // 2]
    values = np.concatenate((even, scaled)).astype(dtype)
    return values[(values > low) & (values < high)]


def arguments(name: str, dtype: Any, count: int = 400) -> tuple[Array, ...]:
    """Arguments over a wide range for a function of any arity."""
    size = 20.0 if name == "pow" else 1e9 if BUILTINS[name].arity > 1 else 80.0
    return tuple(spread_out(dtype, count, -size, size, seed)[:count - 20] for seed in
                 range(BUILTINS[name].arity))  # fmt: skip


def assert_near(name: str, found: Array, exact: Array, dtype: Any) -> None:
    """Within the ulps of the table, where the exact result is a normal number of the type."""
    info = np.finfo(dtype)
    assert found.dtype == dtype
    np.testing.assert_array_equal(np.isnan(found), np.isnan(exact))
    normal = (np.abs(exact) < info.max) & (np.abs(exact) >= info.tiny)
    assert normal.sum() > 50
    unit = np.spacing(np.abs(exact[normal]).astype(dtype)).astype(np.longdouble)
    errors = np.abs(found[normal].astype(np.longdouble) - exact[normal]) / unit
    assert errors.max() <= max(BUILTINS[name].ulps, 0.5), errors.max()
    too_large = np.abs(exact) > np.longdouble(info.max) * 1.001
    assert np.isinf(found[too_large]).all()


def test_every_function_has_a_reference_y7() -> None:
    tables = [*LONG, *PRECISE, *INVERSE, *EXACT, *OWN_TEST]
    assert sorted(tables) == sorted(BUILTINS)


def test_y7_names() -> None:
    """Y7's list, word for word."""
    listed = """acos acosh asin asinh atan atan2 atanh cbrt ceil
    copysign cos cosh cospi erf erfc exp exp10 exp2 expm1 fabs fdim fdivide floor fma fmax fmin fmod hypot lgamma log
    log10 log1p log2 logb nextafter norm3d norm4d normcdf pow rcbrt remainder rhypot rnorm3d rnorm4d round rsqrt sin
    sinh sinpi sqrt tan tanh tgamma trunc abs erfinv erfcinv erfcx normcdfinv j0 j1 y0 y1 cyl_bessel_i0
    cyl_bessel_i1"""  # noqa: E501
    assert sorted(BUILTINS) == sorted(listed.split())


def test_y5_single_precision_spellings() -> None:
    assert lookup("fmaxf") is BUILTINS["fmax"]
    assert lookup("expf") is BUILTINS["exp"]
    assert lookup("rnorm4df") is BUILTINS["rnorm4d"]
    assert lookup("cyl_bessel_i0f") is BUILTINS["cyl_bessel_i0"]
    assert lookup("absf") is None
    assert lookup("expff") is None
    assert not set(ALIASES) & set(BUILTINS)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", LONG)
def test_against_long_double_y7(name: str, dtype: Any) -> None:
    args = arguments(name, dtype)
    if name in ("acos", "asin", "atanh"):
        args = (spread_out(dtype, 400, -1, 1),)
    with np.errstate(all="ignore"):
        exact = np.asarray(LONG[name](*(a.astype(np.longdouble) for a in args)))
    assert_near(name, BUILTINS[name].numpy(*args), exact, dtype)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", PRECISE)
def test_against_decimals_y7(name: str, dtype: Any) -> None:
    function, low, high = PRECISE[name]
    builtin, points = BUILTINS[name], spread_out(dtype, 80, low, high)
    slack = builtin.absolute * float(np.finfo(dtype).eps)
    for x, found in zip(points, builtin.numpy(points), strict=True):
        exact = function(Decimal(float(x)))
        error = precise.in_ulps(found, exact, dtype)
        assert error <= max(builtin.ulps, 0.5) or abs(float(found) - float(exact)) <= slack, x


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", INVERSE)
def test_inverses_y7(name: str, dtype: Any) -> None:
    inverse, slope, low, high = INVERSE[name]
    points = spread_out(dtype, 60, low, high)
    for x, y in zip(points, BUILTINS[name].numpy(points), strict=True):
        missed = abs(float(inverse(Decimal(float(y))) - Decimal(float(x)))) / slope(float(y))
        assert missed <= BUILTINS[name].ulps * float(np.spacing(np.abs(y))), x


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", EXACT)
def test_exact_functions_y7(name: str, dtype: Any) -> None:
    args = arguments(name, dtype)
    halves = np.arange(-200, 200, dtype=dtype) / 2  # ties
    others = (halves[::-1] + dtype(0.25),) * (len(args) - 1)
    pairs = [np.concatenate(pair) for pair in zip(args, (halves, *others), strict=True)]
    expected = [EXACT[name](*(float(a) for a in point)) for point in zip(*pairs, strict=True)]
    found = BUILTINS[name].numpy(*pairs)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.array(expected, dtype))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(np.array(expected)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_fma_rounds_once_y7(dtype: Any) -> None:
    rng = np.random.default_rng(1)
    x, y = rng.uniform(-9, 9, (2, 300)).astype(dtype)
    z = (-x * y * rng.choice((1, 1 + 1e-7, 1e-12, 1e12), 300)).astype(dtype)  # cancels, or not
    scale = dtype(2.0) ** rng.integers(-30, 30, 300).astype(dtype)
    x, z = x * scale, z * scale
    for a, b, c, found in zip(x, y, z, BUILTINS["fma"].numpy(x, y, z), strict=True):
        exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
        unit = Fraction(float(np.spacing(np.abs(dtype(float(exact))))))
        assert abs(Fraction(float(found)) - exact) <= unit * Fraction(501, 1000)


def test_fma_near_the_limits_y7() -> None:
    fma = BUILTINS["fma"].numpy
    huge, tiny = np.float64(1e300), np.float64(5e-324)
    args = [(huge, huge, -np.inf), (huge, 1e8, -huge), (huge, huge, 1.0), (tiny, 0.5, tiny),
            (tiny, tiny, 1.0), (0.0, 1e300, 1e-300), (1e-200, 1e-200, 5e-324)]  # fmt: skip
    found = [float(fma(*map(np.float64, point))) for point in args]
    assert found[1] == pytest.approx(1e300 * 99999999.0, rel=1e-15)
    assert found[0] == -np.inf
    assert found[2:] == [np.inf, 2 * tiny, 1.0, 1e-300, tiny]


@pytest.mark.parametrize("dtype", FLOATS)
def test_nextafter_y7(dtype: Any) -> None:
    info = np.finfo(dtype)
    x = np.array([0, 0, 1, 1, -1, info.max, 2], dtype)
    y = np.array([1, -1, 2, 0, 0, np.inf, 2], dtype)
    small, eps = info.smallest_subnormal, info.eps
    expected = np.array([small, -small, 1 + eps, 1 - eps / 2, -1 + eps / 2, np.inf, 2], dtype)
    np.testing.assert_array_equal(BUILTINS["nextafter"].numpy(x, y), expected)


def test_remainder_at_the_limits_y7() -> None:
    big, small = float(np.finfo(np.float64).max), 5e-324
    points = [(big, big / 3), (big, -big), (3 * small, 2 * small), (small, 2 * small), (7, 2e-308),
              (big, small), (-5.0, 2.0), (-3.0, 2.0), (2.5, 1.0), (-6.0, 3.0)]  # fmt: skip
    x, y = (np.array(column) for column in zip(*points, strict=True))
    expected = np.array([math.remainder(a, b) for a, b in points])
    found = BUILTINS["remainder"].numpy(x, y)
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.is_integer], ids=str)
def test_abs_keeps_integer_types(dtype: Any) -> None:
    info = np.iinfo(dtype.numpy)
    values = np.array([info.min, 0, 1, info.max], dtype.numpy)
    found = BUILTINS["abs"].numpy(values)
    assert found.dtype == dtype.numpy
    bits = 1 << dtype.bits
    wrapped = [abs(int(v)) % bits for v in values]
    assert [int(v) % bits for v in found] == wrapped


def test_scalars_serve_as_arrays() -> None:
    for builtin in BUILTINS.values():
        args = [np.float32(0.5)] * builtin.arity
        assert np.asarray(builtin.numpy(*args)).dtype == np.float32
        assert np.shape(builtin.numpy(*args)) == ()


@pytest.mark.parametrize("dtype", COMPUTED, ids=str)
@pytest.mark.parametrize(
    ("op", "combine"), [("+", np.add), ("*", np.multiply), ("min", np.minimum), ("max", np.maximum)]
)
def test_r2_identities(op: str, combine: Any, dtype: Any) -> None:
    """Rule R2: combined with any value, the identity gives that value."""
    start = np.array(identity(op, dtype), dtype.numpy)
    if dtype.is_float:
        info = np.finfo(dtype.numpy)
        values = [-np.inf, float(info.min), -1.0, 0.0, float(info.max), np.inf]
        assert type(identity(op, dtype)) is float
    else:
        limits = np.iinfo(dtype.numpy)
        values = [int(limits.min), 0, 1, int(limits.max)]
        assert type(identity(op, dtype)) is int
    array = np.array(values, dtype.numpy)
    np.testing.assert_array_equal(combine(start, array), array)


def test_r2_identities_of_bool_and_half() -> None:
    assert identity("min", BOOL) is True
    assert identity("max", BOOL) is False
    assert identity("max", FLOAT16) == -math.inf
    with pytest.raises(ValueError, match="not a reduction"):
        identity("-", FLOAT16)
