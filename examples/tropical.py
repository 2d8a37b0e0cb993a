"""Max-plus product: the best of all sums, as in shortest paths, alignments and Viterbi decoding."""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def best(float(M,K) A, float(K,N) B) -> (C) { C(i,j) max=! A(i,k) + B(k,j) }
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((size, size), np.float32) for _ in range(2))


def with_numpy(A: Any, B: Any) -> Any:
    return np.stack([(row[:, None] + B).max(0) for row in A])


if __name__ == "__main__":
    compare("product of maxima of sums", TEXT, inputs, with_numpy, small=40, large=256)
