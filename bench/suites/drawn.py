"""Contractions that a seed draws: batches, skinny operands, vectors, in any order of indices."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench.suites.contraction import Contraction

LETTERS = "abcdefghij"
MOST_RANK = 5
MOST_SIZE = 2500
MOST_ELEMENTS, MOST_FLOPS, LEAST_FLOPS = 2**23, 4e9, 2e6
SKINNY = 0.15
"""The share of indices of at most eight values."""


def drawn_contractions(
    count: int, seed: int, types: Sequence[str] = ("float", "double")
) -> list[Contraction]:
    """
    >>> first, *_ = drawn_contractions(3, seed=1)
    >>> first == drawn_contractions(1, seed=1)[0]
    True
    """
    rng = np.random.default_rng(seed)
    return [_drawn(rng, types) for _ in range(count)]


def _drawn(rng: np.random.Generator, types: Sequence[str]) -> Contraction:
    while True:
        batch = int(rng.random() < 0.25)
        rows, columns, summed = (int(rng.integers(low, 4)) for low in (0, 0, 1))
        ranks = (batch + rows + summed, batch + summed + columns, batch + rows + columns)
        if max(ranks) <= MOST_RANK and min(ranks) >= 1:
            break
    letters = list(rng.permutation(list(LETTERS)))
    groups = [[letters.pop() for _ in range(n)] for n in (batch, rows, columns, summed)]
    shared, of_left, of_right, of_sum = groups
    tensors = (shared + of_left + of_sum, shared + of_right + of_sum, shared + of_left + of_right)
    left, right, result = ("".join(rng.permutation(t)) for t in tensors)
    sizes = _sizes(rng, (left, right, result))
    return Contraction(left, right, result, sizes, types[int(rng.integers(len(types)))])


def _sizes(rng: np.random.Generator, tensors: Sequence[str]) -> dict[str, int]:
    """Log-uniform, until neither the tensors nor the work are too large, nor the work too small."""
    indices = sorted(set("".join(tensors)))
    skinny = {i for i in indices if rng.random() < SKINNY}
    sizes = {
        i: int(rng.integers(1, 9)) if i in skinny else int(MOST_SIZE ** rng.uniform(0.25, 1))
        for i in indices
    }
    most = MOST_FLOPS * rng.random() + LEAST_FLOPS
    while _elements(sizes, tensors) > MOST_ELEMENTS or 2 * math.prod(sizes.values()) > most:
        largest = max(indices, key=lambda i: sizes[i])
        sizes[largest] = sizes[largest] * 4 // 5
    while 2 * math.prod(sizes.values()) < LEAST_FLOPS:
        grown = {i: size + size // 4 + 1 for i, size in sizes.items() if i not in skinny}
        if not grown or _elements({**sizes, **grown}, tensors) > MOST_ELEMENTS:
            break
        sizes.update(grown)
    return sizes


def _elements(sizes: dict[str, int], tensors: Sequence[str]) -> int:
    """Of the largest tensor."""
    return max(math.prod(sizes[i] for i in tensor) for tensor in tensors)
