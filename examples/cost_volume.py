"""Cost volume: each pixel of one image compared with a window of pixels of another one.

Optical flow and stereo networks compute it; libraries have it as a hand-written kernel, if at all.
Outside of the second image, features are 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def cost_volume(float(C,H,W) a, float(C,H,W) b) -> (o) {
  o(y,x,h,w) +=! a(c,h,w) * pad(b(c, h + y - 3, w + x - 3), 0) / C
    where y in 0:7, x in 0:7, h in 0:H, w in 0:W
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((32, size, size), np.float32) for _ in range(2))


def with_numpy(a: Any, b: Any) -> Any:
    _, h, w = a.shape
    wide = np.pad(b, ((0, 0), (3, 3), (3, 3)))
    shifts = [[wide[:, y : y + h, x : x + w] for x in range(7)] for y in range(7)]
    return np.stack([np.stack([(a * s).mean(0) for s in row]) for row in shifts])


if __name__ == "__main__":
    compare("cost volume, 7 x 7 window", TEXT, inputs, with_numpy, small=12, large=64)
