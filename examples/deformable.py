"""Deformable convolution: each point of the kernel reads where two other tensors say.

The places are whole numbers here, and what lies outside of the image is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def deform(float(C,H,W) image, int(K,H,W) dy, int(K,H,W) dx, float(M,C,K) weights) -> (o) {
  moved(c,k,h,w) = pad(image(c, h + dy(k,h,w), w + dx(k,h,w)), 0) where h in 0:H, w in 0:W
  o(m,h,w) +=! moved(c,k,h,w) * weights(m,c,k)
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    image = rng.standard_normal((16, size, size), np.float32)
    dy, dx = (rng.integers(-3, 4, (9, size, size), np.int32) for _ in range(2))
    return image, dy, dx, rng.standard_normal((16, 16, 9), np.float32)


def with_numpy(image: Any, dy: Any, dx: Any, weights: Any) -> Any:
    _, h, w = image.shape
    y, x = np.arange(h)[:, None] + dy, np.arange(w) + dx
    inside = (y >= 0) & (y < h) & (x >= 0) & (x < w)
    moved = image[:, np.clip(y, 0, h - 1), np.clip(x, 0, w - 1)] * inside
    return np.tensordot(weights, moved.astype(image.dtype), ((1, 2), (0, 1)))


if __name__ == "__main__":
    compare("deformable convolution, 9 points", TEXT, inputs, with_numpy, small=12, large=64)
