"""The kernels of `bench.gpu`, with the paper's mapping options where there are some, and how far
from float64 a result may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import tc
from bench.cpu_kernels import contractions as cs
from bench.cpu_kernels import layers as ls
from bench.cpu_kernels import pointwise as ps
from bench.cpu_kernels.kernel import UNIT, Array, Case, Kernel
from tests.support.paper import KERNELS as OF_PAPER

SEEDS = (
    cs.tmm(128, 32, 256),
    cs.tmm(128, 1024, 1024),
    cs.tmm(128, 4096, 16384),
    cs.tbmm(500, 26, 72, 26),
    ls.gconv(32, 32, 16, 16, 14, 14),
    ls.gconv(32, 32, 32, 32, 7, 7),
    ls.gconv(32, 32, 4, 4, 56, 56),
    ls.gconv(32, 32, 8, 8, 28, 28),
    ls.lut1(10**6, 64, 50, 128),
    ls.lut2(10**6, 64, 50, 128),
    cs.c3(128, 1024, 1000),
    ls.mlp1(128, 2000, 128),
    ls.mlp3(128, 128, 64, 32, 2),
)
"""At the sizes of the paper."""

OTHERS = (
    ls.conv2d(8, 64, 56, 56, 64),
    ps.softmax(512, 4096),
    ps.layernorm(4096, 1024),
    ps.groupnorm(16, 32, 4, 56, 56),
    ps.transpose4d(64, 64, 64, 64),
    cs.sgemm(2048, 2048, 2048),
    cs.half_product(2048, 2048, 2048),
)

GROUPS = {"seeds": SEEDS, "others": OTHERS}
KERNELS = {kernel.name: kernel for group in GROUPS.values() for kernel in group}

PAPER: Mapping[str, Mapping[str, tc.Options]] = {
    kernel.name: {name: OF_PAPER[name].options for name in names}
    for kernel, names in (
        (SEEDS[0], ("tmm", "tmm, manual")),
        (SEEDS[3], ("tbmm", "tbmm, manual")),
        (SEEDS[5], ("gconv", "gconv, manual")),
        (SEEDS[8], ("1LUT",)),
        (SEEDS[9], ("2LUT",)),
        (SEEDS[10], ("C3",)),
        (SEEDS[11], ("MLP1",)),
        (SEEDS[12], ("MLP3",)),
    )
}
"""By kernel, under the paper's names; those of the tables and of MLP1 are of other sizes there."""

SUMS = frozenset(
    ("tmm", "tbmm", "gconv", "lut1", "lut2", "mlp1", "mlp3", "conv2d", "sgemm", "half")
)
"""Families of sums of products, whose errors follow from the magnitudes of their terms."""

ROUNDINGS = 1.5
"""Of a term, at most: the rule R5 allows more in these families, and as many occur at most."""
HALF_UNIT, HALF_LEAST = 2.0**-11, 2.0**-25
"""What rounding to float16 changes at most, in parts and where these would be less."""


def select(words: Sequence[str]) -> tuple[Kernel, ...]:
    """The kernels of the groups and families named, or with a word in their name; all for no word.

    >>> [kernel.name for kernel in select(["softmax", "half"])]
    ['softmax 512x4096', 'half 2048x2048x2048']
    >>> select(["seeds"]) == SEEDS
    True
    >>> select(["sofmax"])
    Traceback (most recent call last):
        ...
    ValueError: no kernel 'sofmax'; there are tmm 128x32x256, ...
    """
    chosen: set[str] = set()
    for word in words:
        inside = {kernel.name for kernel in GROUPS.get(word, ())}
        found = inside | {
            kernel.name
            for kernel in KERNELS.values()
            if word == kernel.family or word.lower() in kernel.name.lower()
        }
        if not found:
            raise ValueError(f"no kernel {word!r}; there are {', '.join(KERNELS)}")
        chosen |= found
    return tuple(k for k in KERNELS.values() if not words or k.name in chosen)


def bounds_of(case: Case) -> tuple[Array, ...]:
    """How far each output may be from what float64 gives, per element: at most what R5 allows. For
    sums of products from the sum of their magnitudes, which numpy computes at any size; else by
    `tc.error_bound`."""
    kernel = case.kernel
    if kernel.family not in SUMS:
        initial = case.initial if kernel.updates else None
        found = tc.error_bound(kernel.text, list(case.inputs), outputs=initial)
        return found if isinstance(found, tuple) else (found,)
    sums = magnitudes(case)
    bounds = tuple(ROUNDINGS * kernel.terms * UNIT * each for each in sums)
    if kernel.dtype == np.float16:
        return tuple(
            bound + np.maximum(HALF_UNIT * np.abs(value), HALF_LEAST)
            for bound, value in zip(bounds, case.expected(), strict=True)
        )
    return bounds


def magnitudes(case: Case) -> tuple[Any, ...]:
    """What the absolute values of all terms add up to."""
    initial = tuple(None if x is None else np.abs(x) for x in case.initial)
    return Case(case.kernel, tuple(map(np.abs, case.inputs)), case.outputs, initial).expected()
