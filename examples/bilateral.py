"""Bilateral filter: a mean over neighbours, weighted by distance and by likeness, so edges stay."""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def bilateral(float(HH,WW) image, float(K,K) near) -> (o) {
  weight(h,w) +=! near(y,x) * exp(-8 * d * d)
    where d = image(h+y,w+x) - image(h+3,w+3), h in 0:HH-K+1, w in 0:WW-K+1
  sum(h,w) +=! near(y,x) * exp(-8 * d * d) * image(h+y,w+x)
    where d = image(h+y,w+x) - image(h+3,w+3), h in 0:HH-K+1, w in 0:WW-K+1
  o(h,w) = sum(h,w) / weight(h,w)
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    place = np.arange(-3, 4, dtype=np.float32)
    near = np.exp(-0.1 * (place[:, None] ** 2 + place**2))
    return rng.random((size + 6, size + 6), np.float32), near


def with_numpy(image: Any, near: Any) -> Any:
    k = len(near)
    h, w = (n - k + 1 for n in image.shape)
    windows = np.lib.stride_tricks.sliding_window_view(image, (k, k))
    centre = image[3 : 3 + h, 3 : 3 + w, None, None]
    weights = near * np.exp(-8 * (windows - centre) ** 2)
    return (weights * windows).sum((2, 3)) / weights.sum((2, 3))


if __name__ == "__main__":
    compare("bilateral filter, 7 x 7", TEXT, inputs, with_numpy, small=12, large=256)
