"""Formulas of vectors on whole arrays, and the exact values that they are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tc.builtins import BUILTINS
from tc.dtypes import DTYPES, INT64
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Buffer, Call, Const, Kernel, Load, Ramp, Store
from tc.kernel.passes.vector_functions import expand_vector_functions
from tc.kernel.verify import verify
from tests.support.kernels import Array

LONG = np.longdouble


def apply(function: str, *args: Array, exponents: bool = False) -> Array:
    """The function by its vector formula, as one vector of as many lanes as elements."""
    dtype, lanes = DTYPES[args[0].dtype.name], len(args[0])
    every = Ramp(Const(0, INT64), 1, INT64.vector(lanes))
    names = [f"x{n}" for n in range(len(args))]
    vector = dtype.vector(lanes)
    call = Call(function, tuple(Load(name, (every,), vector) for name in names), vector)
    buffers = [Buffer(name, dtype, (lanes,), (1,), "input") for name in names]
    buffers.append(Buffer("o", dtype, (lanes,), (1,), "output"))
    kernel = Kernel(function, tuple(buffers), ((Store("o", (every,), call),),))
    kernel = expand_vector_functions(kernel, exponents=exponents)
    verify(kernel)
    out = np.zeros_like(args[0])
    assert evaluate(kernel, {**dict(zip(names, args, strict=True)), "o": out}) is None
    return out


def exact(function: str, *args: Array) -> tuple[Array, float]:
    """Values in a wider type, and how many units of the arguments' type they may be wrong by."""
    wide, is_single = LONG, args[0].dtype == np.float32
    with np.errstate(all="ignore"):
        if is_single:
            return BUILTINS[function].numpy(*(arg.astype(np.float64) for arg in args)), 0.0
        if function not in PRECISE:
            return BUILTINS[function].numpy(*args), BUILTINS[function].ulps
        slack = 0.01 if np.finfo(wide).eps < np.finfo(np.float64).eps else BUILTINS[function].ulps
        return PRECISE[function](*(arg.astype(wide) for arg in args)), slack


def errors(found: Array, value: Array) -> Array:
    """The distance in units in the last place, infinite where one of them is NaN or both are
    zeros of different signs; beyond the largest number there is one more, which is infinity."""
    info = np.finfo(found.dtype)
    beyond = value.dtype.type(info.max) * (1 + value.dtype.type(info.eps) / 2)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.clip(np.abs(value), info.tiny, info.max))[1]
        unit = np.ldexp(value.dtype.type(1), exponent - 1 - info.nmant)
        distance = np.abs(np.clip(found.astype(value.dtype), -beyond, beyond)
                          - np.clip(value, -beyond, beyond)) / unit  # fmt: skip
        zeros = (value == 0) & (found == 0) & (np.signbit(value) != np.signbit(found))
        distance = np.where(np.isnan(found) | np.isnan(value) | zeros, np.inf, distance)
        return np.where(np.isnan(found) & np.isnan(value), 0.0, distance).astype(np.float64)


def points(dtype: Any, count: int, top: float, seed: int) -> Array:
    """Arguments: all exponents, evenly up to `top`, and all that is special."""
    rng, info = np.random.default_rng(seed), np.finfo(dtype)
    least, most = np.log(float(info.smallest_subnormal)), np.log(float(info.max)) * 0.999999
    special = [0.0, info.smallest_subnormal, info.tiny, info.eps, 0.5, 1.0, 2.0, 3.0, 10.0, top]
    special += [np.sqrt(0.5), np.sqrt(2.0), 2.0**info.nmant, info.max, np.inf, np.nan]
    middle = np.array(special, dtype)
    with np.errstate(all="ignore"):
        near = [middle, np.nextafter(middle, dtype(0)), np.nextafter(middle, dtype(np.inf))]
    signs = rng.choice([-1.0, 1.0], count)
    parts = (
        np.concatenate([*near, *(-part for part in near)]),
        np.exp(rng.uniform(least, most, count)) * signs,
        np.exp(rng.uniform(np.log(float(info.eps)), 1.0, count)) * signs,
        1.0 + np.exp(rng.uniform(np.log(float(info.eps)), 0.0, count)) * signs,
        rng.uniform(-top, top, 2 * count),
        rng.uniform(-1.0, 1.0, count),
        rng.integers(-40, 40, count) / 2.0,
    )
    return rng.permutation(np.concatenate(parts).astype(dtype))


def _norm(*args: Array) -> Array:
    total: Array = args[0]
    for arg in args[1:]:
        total = np.hypot(total, arg)
    return total


def _of_half_turns(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def formula(x: Array) -> Array:
        quarters = np.rint(2 * np.fmod(x, LONG(2)))
        rest = np.fmod(x, LONG(2)) - quarters / 2
        angle = rest * (LONG(np.pi) + LONG(1.2246467991473532e-16))
        turned = quarters.astype(np.float64) + (function is np.cos)
        turned = np.where(np.isnan(turned), 0, turned).astype(np.int64) % 4
        sine, cosine = np.sin(angle), np.cos(angle)
        value = np.choose(turned, (sine, cosine, -sine, -cosine)) + LONG(0)
        zero = np.copysign(LONG(0), x) if function is np.sin else LONG(0)
        return np.asarray(np.where(value == 0, zero, value))

    return formula


PRECISE: Mapping[str, Callable[..., Array]] = {
    **{
        name: getattr(np, numpy_name)
        for name, numpy_name in (
            ("acos", "arccos"), ("acosh", "arccosh"), ("asin", "arcsin"), ("asinh", "arcsinh"),
            ("atan", "arctan"), ("atan2", "arctan2"), ("atanh", "arctanh"), ("cbrt", "cbrt"),
            ("cos", "cos"), ("cosh", "cosh"), ("exp", "exp"), ("exp2", "exp2"),
            ("expm1", "expm1"), ("fdivide", "true_divide"), ("fmod", "fmod"), ("log", "log"),
            ("log10", "log10"), ("log1p", "log1p"), ("log2", "log2"), ("pow", "power"),
            ("sin", "sin"), ("sinh", "sinh"), ("tan", "tan"), ("tanh", "tanh"),
        )
    },
    "cospi": _of_half_turns(np.cos),
    "exp10": lambda x: np.power(LONG(10), x),
    "hypot": _norm,
    "norm3d": _norm,
    "norm4d": _norm,
    "rcbrt": lambda x: 1 / np.cbrt(x),
    "rhypot": lambda *args: 1 / _norm(*args),
    "rnorm3d": lambda *args: 1 / _norm(*args),
    "rnorm4d": lambda *args: 1 / _norm(*args),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sinpi": _of_half_turns(np.sin),
}  # fmt: skip
"""The functions for numpy's widest floating type."""
