"""Floats and exponents for functions that scale and take apart."""

from __future__ import annotations

import itertools

import numpy as np

from tc.dtypes import DType
from tests.support.kernels import Array


def exponent_pairs(dtype: DType, count: int) -> tuple[Array, Array]:
    """Numbers, and exponents for `scaleb`: all pairs of special ones, then any."""
    info, rng = np.finfo(dtype.numpy), np.random.default_rng(1)
    numbers = [0.0, 1.0, 1.5, 3.0, float(info.max), float(info.tiny), float(info.tiny) * 0.75]
    numbers += [float(info.smallest_subnormal), np.inf]
    numbers = [*numbers, *(-number for number in numbers), np.nan]
    top = float(info.maxexp)
    exponents = [0.0, 1.0, 2.5, -0.5, top - 1, -top, -top - info.nmant, 2 * top, 1e30, np.inf]
    exponents = [*exponents, *(-exponent for exponent in exponents), np.nan]
    pairs = np.array(list(itertools.product(numbers, exponents)))
    any_ = np.ldexp(rng.uniform(-2, 2, count), rng.integers(info.minexp - 20, info.maxexp, count))
    pairs = np.concatenate([pairs, np.stack([any_, rng.uniform(-2 * top, 2 * top, count)], axis=1)])
    pairs = rng.permutation(pairs)[:count] if count < len(pairs) else np.resize(pairs, (count, 2))
    with np.errstate(all="ignore"):
        return pairs[:, 0].astype(dtype.numpy), pairs[:, 1].astype(dtype.numpy)
