"""Arrays between forbidden pages, filled and laid out as a case says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tc.dtypes import DTYPES, encoded
from tests.support.guarded import at_edge

Array = np.ndarray[Any, Any]
POISON = 0xFF  # NaN of all float types, -1, and true


def fill(kind: str, shape: Sequence[int], dtype: str, rng: np.random.Generator) -> Array:
    """Values of a kind: a word, and for some a number behind it."""
    known = DTYPES[dtype]
    if not known.is_in_numpy:
        most = known.format.largest
        values = fill(kind, shape, "float32", rng)
        return encoded(np.where(np.isfinite(values), np.clip(values, -most, most), values), known)
    word, _, number = kind.partition(" ")
    kind_of = np.dtype(dtype).kind
    if kind_of == "b":
        return rng.random(shape) < {"ones": 1.1, "zeros": 0.0}.get(word, 0.5)
    if word == "index":
        return rng.integers(0, max(1, int(number)), shape).astype(dtype)
    if word == "beyond":  # a fifth of the indices leave the tensor
        inside = rng.integers(0, max(1, int(number)), shape)
        low = 0 if kind_of == "u" else -2
        outside = rng.choice([low, int(number), int(number) + 1], shape)
        return np.where(rng.random(shape) < 0.2, outside, inside).astype(dtype)
    if word == "is":
        return np.full(shape, int(number), dtype)
    if word in ("fives", "ones", "zeros"):
        return np.full(shape, {"fives": 5, "ones": 1, "zeros": 0}[word], dtype)
    if word == "nan":
        values = rng.standard_normal(shape)
        odd = rng.choice([np.nan, np.inf, -np.inf], shape) if kind_of == "f" else 0.0
        return np.where(rng.random(shape) < 0.2, odd, values).astype(dtype)
    if kind_of == "f" and word == "infinite":
        odd = rng.choice([np.inf, -np.inf], shape)
        return np.where(rng.random(shape) < 0.1, odd, rng.standard_normal(shape)).astype(dtype)
    if kind_of == "f":
        values = _floats(word, number, shape, rng)
        limit = 6e4 if dtype == "float16" else 3e38
        return np.clip(values, -limit, limit).astype(dtype)
    info = np.iinfo(dtype)
    if word == "wide":
        return rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    if word in ("positive", "nonzero"):
        return rng.integers(1, 7, shape).astype(dtype)
    return rng.integers(max(info.min, -4), 7, shape).astype(dtype)


def _floats(word: str, number: str, shape: Sequence[int], rng: np.random.Generator) -> Array:
    if word == "magnitude":
        return (1 + rng.random(shape)) * 10.0 ** int(number)
    if word == "thousands":  # as large as halves hold exactly
        return rng.integers(-2047, 2048, shape).astype(np.float64)
    if word in ("integers", "wide"):
        return rng.integers(-4, 7, shape).astype(np.float64)
    if word in ("positive", "nonzero"):
        return rng.random(shape) + 0.5
    return rng.standard_normal(shape) * float(number or 1)


def laid_out(
    values: Array, axes: Sequence[int], steps: Sequence[int], edge: str
) -> tuple[Array, Array]:
    """A copy of the values in a layout, and all of the memory that it lies in.

    `axes` are from the slowest to the fastest; a step is how many places apart neighbours along
    an axis are, backwards if negative; 0 puts all of an axis (whose values must agree) at one.
    """
    rank = values.ndim
    axes, steps = tuple(axes) or tuple(range(rank)), tuple(steps) or (1,) * rank
    lengths = [
        (values.shape[axis] - 1) * abs(steps[axis]) + 1 if values.shape[axis] else 0
        for axis in axes
    ]
    if 0 in steps and 0 not in values.shape:
        lengths = [1 if steps[a] == 0 else n for a, n in zip(axes, lengths, strict=True)]
    memory = guarded(tuple(lengths), values.dtype, edge)
    view = memory
    index = tuple(slice(None) if steps[a] == 0 else slice(None, None, steps[a]) for a in axes)
    view = memory[index].transpose(np.argsort(axes)) if rank else memory
    shape = tuple(1 if steps[a] == 0 else n for a, n in enumerate(values.shape))
    assert view.shape == shape or 0 in values.shape
    if view.shape == shape:
        view[...] = values[tuple(slice(0, 1) if s == 0 else slice(None) for s in steps)]
        view = np.lib.stride_tricks.as_strided(
            view,
            values.shape,
            [0 if s == 0 else t for s, t in zip(steps, view.strides, strict=True)],
        )
    return view, memory


def guarded(shape: Sequence[int], dtype: Any, edge: str, alignment: int = 1) -> Array:
    """Poisoned memory that ends at a forbidden page, or begins after one."""
    dtype = np.dtype(dtype)
    memory = at_edge(tuple(shape), dtype, before=edge == "begins", alignment=alignment)
    if math.prod(shape):
        memory.view(np.uint8 if memory.ndim else dtype)[...] = (
            POISON if memory.ndim else _one(dtype)
        )
    return memory


def _one(dtype: np.dtype[Any]) -> Any:
    return np.frombuffer(bytes([POISON]) * dtype.itemsize, dtype)[0]
