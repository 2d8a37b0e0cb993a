"""Means of windows by an integral image: four reads for each pixel, however large the window is.

`S(i,j)` is the sum of the rectangle from the corner to (i, j), as the ranges of `a` and `b` grow
with `i` and `j`: a running sum in both directions.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def means(float(H,W) x, int K) -> (o) {
  S(i,j) +=! x(a,b) where a in 0:i, b in 0:j
  o(i,j) = (S(i+K,j+K) - S(i,j+K) - S(i+K,j) + S(i,j)) / float(K * K)
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.random((size, size), np.float32), np.int32(size // 4)


def with_numpy(x: Any, window: Any) -> Any:
    sums = np.pad(x.cumsum(0).cumsum(1), ((1, 0), (1, 0)))
    upper, lower = sums[:-window], sums[window:]
    wide = lower[:, window:] - upper[:, window:] - lower[:, :-window] + upper[:, :-window]
    return wide / x.dtype.type(window * window)


if __name__ == "__main__":
    compare("means of windows", TEXT, inputs, with_numpy, small=16, large=128)
