"""Product with quantised weights: 4-bit numbers, two in a byte, a scale for each group of 32.

The weights stay small in memory: they are unpacked and scaled while the sum runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def linear(float(B,G,2,K) x, byte(N,G,K) packed, float(N,G) scale) -> (y) {
  part(b,n,g) +=! x(b,g,0,k) * (float(packed(n,g,k) % 16) - 8)
                + x(b,g,1,k) * (float(packed(n,g,k) / 16) - 8)
  y(b,n) +=! part(b,n,g) * scale(n,g)
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    groups = size // 32
    x = rng.standard_normal((4, groups, 2, 16), np.float32)
    packed = rng.integers(0, 256, (size, groups, 16), np.uint8)
    return x, packed, rng.random((size, groups), np.float32)


def with_numpy(x: Any, packed: Any, scale: Any) -> Any:
    low, high = packed & 15, packed >> 4
    weights = np.stack([low, high], axis=2).astype(x.dtype) - 8
    n, groups = scale.shape
    flat = (weights * scale[:, :, None, None]).reshape(n, groups * 32)
    return x.reshape(len(x), groups * 32) @ flat.T


if __name__ == "__main__":
    compare("product with 4-bit weights", TEXT, inputs, with_numpy, small=64, large=1024)
