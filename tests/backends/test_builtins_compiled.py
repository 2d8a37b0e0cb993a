"""The C and numba columns of the table of built-in functions against its numpy column (Y7), and
all three at special values, which follow C's Annex F and CUDA's manual."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from tc.backends import registry
from tc.backends.base import Backend
from tc.backends.clike.c import C99, LIBRARY
from tc.backends.clike.helpers import helper_text
from tc.builtins import BUILTINS
from tc.dtypes import DTYPES, FLOAT32, FLOAT64, DType
from tc.kernel.ir import Call, Load
from tc.runtime.loaded import CompiledKernel
from tests.support.build import I
from tests.support.kernels import elementwise, load, run

Array = np.ndarray[Any, Any]
COUNT = 2048
COMPILED = [
    pytest.param("c", marks=pytest.mark.skipif(
        registry.reason_unusable("c") is not None, reason="no C compiler")),
    "numba",
]  # fmt: skip
INF, NAN = math.inf, math.nan


@functools.cache
def compiled(backend: str, dtype: DType) -> CompiledKernel:
    """One kernel that computes every function of (x, y, z, w)."""
    inputs = {name: np.zeros(COUNT, dtype.numpy) for name in "xyzw"}
    calls = [
        Call(name, tuple(Load(v, (I,), dtype) for v in "xyzw"[: BUILTINS[name].arity]), dtype)
        for name in BUILTINS
    ]
    chosen = registry.get(backend)
    assert isinstance(chosen, Backend)
    return load(chosen, elementwise(calls, inputs, COUNT))


def compute(backend: str, name: str, args: tuple[Array, ...]) -> Array:
    """A function of at most COUNT arguments on a backend, or in numpy."""
    if backend == "numpy":
        return BUILTINS[name].numpy(*args)
    padded = {
        v: np.concatenate((a, np.ones(COUNT - len(a), a.dtype)))
        for v, a in zip("xyzw", (*args, *args, *args, *args), strict=False)
    }
    kernel = compiled(backend, DTYPES[args[0].dtype.name])
    return run(kernel, padded)[1][f"o{list(BUILTINS).index(name)}"][: len(args[0])]


def test_c_spellings_exist() -> None:
    for builtin in BUILTINS.values():
        assert builtin.c in LIBRARY or helper_text(builtin.c, C99) is not None


def points(dtype: Any, seed: int, top: float) -> Array:
    rng = np.random.default_rng(seed)
    info = np.finfo(dtype)
    sizes = np.exp(rng.uniform(np.log(info.tiny), np.log(info.max) * 0.999, 300))
    parts = (
        rng.uniform(-1, 1, 300),
        rng.uniform(-top, top, 500),
        rng.integers(-12, 12, 200) / 2,
        sizes * rng.choice((-1, 1), 300),
        (info.smallest_subnormal, -info.smallest_subnormal, info.max, -info.max, info.tiny),
        (0.0, -0.0, INF, -INF, NAN),
    )
    return rng.permutation(np.concatenate(parts)).astype(dtype)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("backend", COMPILED)
def test_columns_agree_y7(backend: str, dtype: DType) -> None:
    """Within the ulps of the table; NaN, infinities and the signs of zeros where numpy has them."""
    failures = []
    for name in BUILTINS:
        builtin, top = BUILTINS[name], 30.0
        args = tuple(points(dtype.numpy.type, seed, top) for seed in range(builtin.arity))
        expected, found = builtin.numpy(*args), compute(backend, name, args)
        info = np.finfo(dtype.numpy.type)
        with np.errstate(all="ignore"):
            unit = np.spacing(np.maximum(np.abs(expected), info.tiny)).astype(np.float64)
            # the reference is right to half a unit in float32, and as good as the table in float64
            ulps = builtin.ulps + (0.5 if dtype == FLOAT32 else builtin.ulps)
            bound = ulps * unit + 2 * builtin.absolute * float(info.eps)
            near = np.abs(expected.astype(np.float64) - found) <= bound
        zero = (expected == 0) & (found == 0)
        unsigned = name in ("fmax", "fmin")  # of 0 and -0 either may be the greater
        same = (expected == found) & (
            ~zero | unsigned | (np.signbit(expected) == np.signbit(found))
        )
        bad = ~(same | (near & ~zero) | (np.isnan(expected) & np.isnan(found)))
        if bad.any():
            at = int(np.flatnonzero(bad)[0])
            failures.append((name, [float(a[at]) for a in args], found[at], expected[at]))
    assert not failures


SPECIAL: dict[str, list[tuple[Any, ...]]] = {
    "acos": [(1.0, 0.0), (1.5, NAN), (-1.0, math.pi)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (INF, INF)],
    "asin": [(-0.0, -0.0), (2.0, NAN)],
    "asinh": [(-0.0, -0.0), (-INF, -INF)],
    "atan": [(-0.0, -0.0), (INF, math.pi / 2)],
    "atan2": [(0.0, -0.0, math.pi), (-0.0, 0.0, -0.0), (-0.0, -1.0, -math.pi), (1.0, INF, 0.0),
              (INF, -INF, 3 * math.pi / 4), (NAN, 1.0, NAN)],
    "atanh": [(1.0, INF), (-1.0, -INF), (1.5, NAN), (-0.0, -0.0)],
    "cbrt": [(-8.0, -2.0), (-0.0, -0.0), (-INF, -INF)],
    "ceil": [(-0.5, -0.0), (INF, INF), (2.5, 3.0), (NAN, NAN)],
    "copysign": [(3.0, -0.0, -3.0), (-0.0, 1.0, 0.0), (INF, -1.0, -INF)],
    "cos": [(INF, NAN), (-0.0, 1.0)],
    "cosh": [(-INF, INF), (0.0, 1.0)],
    "cospi": [(0.5, 0.0), (1.5, 0.0), (-0.5, 0.0), (1.0, -1.0), (1e30, 1.0), (INF, NAN)],
    "erf": [(INF, 1.0), (-0.0, -0.0)],
    "erfc": [(INF, 0.0), (-INF, 2.0), (0.0, 1.0)],
    "exp": [(-INF, 0.0), (INF, INF), (-0.0, 1.0), (1e5, INF), (-1e5, 0.0)],
    "exp10": [(2.0, 100.0), (-INF, 0.0), (INF, INF)],
    "exp2": [(3.0, 8.0), (-INF, 0.0), (-1.0, 0.5)],
    "expm1": [(-0.0, -0.0), (-INF, -1.0)],
    "fabs": [(-0.0, 0.0), (-INF, INF), (NAN, NAN)],
    "abs": [(-0.0, 0.0), (-INF, INF), (NAN, NAN)],
    "fdim": [(3.0, 5.0, 0.0), (5.0, 3.0, 2.0), (NAN, 1.0, NAN), (1.0, NAN, NAN), (INF, INF, 0.0)],
    "fdivide": [(1.0, 0.0, INF), (1.0, -0.0, -INF), (0.0, 0.0, NAN), (1.0, -INF, -0.0)],
    "floor": [(-0.5, -1.0), (-0.0, -0.0), (2.5, 2.0)],
    "fma": [(2.0, 3.0, 4.0, 10.0), (0.0, INF, 1.0, NAN), (INF, 1.0, -INF, NAN),
            (-0.0, 1.0, -0.0, -0.0), (1.0, 1.0, INF, INF)],
    "fmax": [(NAN, 1.0, 1.0), (1.0, NAN, 1.0), (NAN, NAN, NAN), (-INF, 2.0, 2.0)],
    "fmin": [(NAN, 1.0, 1.0), (1.0, NAN, 1.0), (INF, 2.0, 2.0)],
    "fmod": [(-5.0, 3.0, -2.0), (5.0, -3.0, 2.0), (-0.0, 1.0, -0.0), (1.0, 0.0, NAN),
             (1.0, INF, 1.0), (INF, 1.0, NAN)],
    "hypot": [(INF, NAN, INF), (NAN, -INF, INF), (3.0, -4.0, 5.0), (0.0, -0.0, 0.0)],
    "lgamma": [(1.0, 0.0), (2.0, 0.0), (0.0, INF), (-0.0, INF), (-1.0, INF), (-INF, INF),
               (INF, INF)],
    "log": [(0.0, -INF), (-0.0, -INF), (-1.0, NAN), (1.0, 0.0), (INF, INF)],
    "log10": [(1000.0, 3.0), (0.0, -INF)],
    "log1p": [(-1.0, -INF), (-0.0, -0.0), (-2.0, NAN)],
    "log2": [(8.0, 3.0), (0.0, -INF), (0.125, -3.0)],
    "logb": [(0.0, -INF), (-INF, INF), (-10.0, 3.0), (0.75, -1.0), (NAN, NAN), (1e-40, -133.0)],
    "nextafter": [(1.0, 1.0, 1.0), (INF, INF, INF), (0.0, -0.0, -0.0), (NAN, 1.0, NAN)],
    "norm3d": [(1.0, -2.0, 2.0, 3.0), (NAN, INF, 1.0, INF), (NAN, 1.0, 1.0, NAN)],
    "norm4d": [(1.0, 3.0, -5.0, 1.0, 6.0), (NAN, 1.0, 1.0, -INF, INF)],
    "normcdf": [(INF, 1.0), (-INF, 0.0), (0.0, 0.5), (NAN, NAN), (-0.0, 0.5)],
    "pow": [(-8.0, 1 / 3, NAN), (NAN, 0.0, 1.0), (1.0, NAN, 1.0), (-2.0, 3.0, -8.0),
            (0.0, -1.0, INF), (-0.0, -1.0, -INF), (-0.0, 3.0, -0.0), (0.5, INF, 0.0),
            (-1.0, INF, 1.0)],
    "rcbrt": [(8.0, 0.5), (-0.0, -INF), (INF, 0.0), (-INF, -0.0)],
    "remainder": [(5.0, 2.0, 1.0), (7.0, 2.0, -1.0), (-0.0, 1.0, -0.0), (-6.0, 3.0, -0.0),
                  (1.0, 0.0, NAN), (1.0, INF, 1.0), (INF, 1.0, NAN), (2.5, 1.0, 0.5)],
    "rhypot": [(3.0, 4.0, 0.2), (0.0, -0.0, INF), (NAN, INF, 0.0)],
    "rnorm3d": [(1.0, 2.0, 2.0, 1 / 3), (0.0, 0.0, 0.0, INF), (NAN, INF, 1.0, 0.0)],
    "rnorm4d": [(1.0, 1.0, 1.0, 1.0, 0.5), (NAN, 1.0, 1.0, INF, 0.0)],
    "round": [(0.5, 1.0), (-0.5, -1.0), (2.5, 3.0), (-2.5, -3.0), (-0.25, -0.0), (INF, INF),
              (0.49999997, 0.0), (8388609.0, 8388609.0), (NAN, NAN)],
    "rsqrt": [(0.0, INF), (-0.0, -INF), (INF, 0.0), (-1.0, NAN), (4.0, 0.5)],
    "sin": [(-0.0, -0.0), (INF, NAN)],
    "sinh": [(-0.0, -0.0), (-INF, -INF)],
    "sinpi": [(1.0, 0.0), (-1.0, -0.0), (2.0, 0.0), (-0.0, -0.0), (0.5, 1.0), (1.5, -1.0),
              (INF, NAN), (1e30, 0.0)],
    "sqrt": [(-0.0, -0.0), (-1.0, NAN), (INF, INF)],
    "tan": [(-0.0, -0.0), (INF, NAN)],
    "tanh": [(INF, 1.0), (-0.0, -0.0)],
    "tgamma": [(0.0, INF), (-0.0, -INF), (-1.0, NAN), (-INF, NAN), (5.0, 24.0), (INF, INF)],
    "trunc": [(-0.5, -0.0), (2.75, 2.0), (-INF, -INF)],
    "erfinv": [(1.0, INF), (-1.0, -INF), (2.0, NAN), (0.0, 0.0)],
    "erfcinv": [(0.0, INF), (2.0, -INF), (-1.0, NAN), (1.0, 0.0)],
    "erfcx": [(0.0, 1.0), (-30.0, INF), (-INF, INF), (INF, 0.0), (NAN, NAN)],
    "normcdfinv": [(0.0, -INF), (1.0, INF), (0.5, 0.0), (2.0, NAN)],
    "j0": [(0.0, 1.0), (NAN, NAN), (-INF, 0.0)],
    "j1": [(0.0, 0.0), (INF, 0.0), (-INF, -0.0)],
    "y0": [(0.0, -INF), (-1.0, NAN), (INF, 0.0)],
    "y1": [(0.0, -INF), (-1.0, NAN), (INF, 0.0)],
    "cyl_bessel_i0": [(0.0, 1.0), (INF, INF), (-INF, INF)],
    "cyl_bessel_i1": [(0.0, 0.0), (-INF, -INF)],
}  # fmt: skip


def test_every_function_has_special_values() -> None:
    assert set(SPECIAL) == set(BUILTINS)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("backend", ["numpy", *COMPILED])
def test_special_values_y7(backend: str, dtype: DType) -> None:
    failures = []
    for name in BUILTINS:
        rows = np.array(SPECIAL[name])
        args = tuple(rows[:, k].astype(dtype.numpy) for k in range(BUILTINS[name].arity))
        expected = rows[:, -1].astype(dtype.numpy)
        found = compute(backend, name, args)
        for row, value, right in zip(rows.tolist(), found, expected, strict=True):
            close = np.isclose(value, right, rtol=4 * np.finfo(dtype.numpy).eps, atol=0)
            if not (
                (np.isnan(value) and np.isnan(right))
                or (right == 0 and value == 0 and np.signbit(value) == np.signbit(right))
                or (right != 0 and close)
            ):
                failures.append((name, row, float(value)))
    assert not failures


FAR_OUT = [
    ("j0", 10000.0, -0.0070961603533888015),
    ("j0", -1000000000.0, 2.4687471886269195e-05),
    ("j1", 12345.0, -0.005612209079694793),
    ("j1", -1000000.0, 0.000725968356813763),
    ("y0", 20000000.0, -0.00017780265395669721),
    ("y1", 1000000000000.0, -1.016712505008025e-07),
    ("cyl_bessel_i0", -712.5, 4.068293090664341e307),
    ("cyl_bessel_i1", 713.5, 1.1043265136795952e308),
    ("erfcinv", 5e-324, 27.21329321081295),
    ("normcdfinv", 1e-320, -38.26912534303265),
    ("erfinv", 0.9999999999999999, 5.8635847487551676),
    ("erfcx", 1e200, 5.641895835477563e-201),
]
"""Values from mpmath, with 60 digits, near the ends of the doubles."""


@pytest.mark.parametrize("backend", ["numpy", *COMPILED])
def test_far_out_y7(backend: str) -> None:
    """Where scipy's are off: large arguments, large values and the smallest number."""
    for name, x, right in FAR_OUT:
        found = float(compute(backend, name, (np.array([x]),))[0])
        allowed = BUILTINS[name].ulps * np.spacing(abs(right))
        allowed += BUILTINS[name].absolute * np.finfo(np.float64).eps * min(1, abs(x) ** -0.5)
        assert abs(found - right) <= allowed, (name, x, found, right)


@pytest.mark.parametrize("backend", ["numpy", *COMPILED])
def test_odd_functions_keep_the_sign_of_zero_y7(backend: str) -> None:
    for name in ("erfinv", "j1", "cyl_bessel_i1"):
        assert math.copysign(1.0, compute(backend, name, (np.array([-0.0]),))[0]) == -1.0, name
