"""Kernel prediction: a convolution in which each pixel has a kernel of its own.

Denoisers of rendered images predict such kernels. With numpy one adds shifted images, each times
its plane of weights.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def apply(float(C,HH,WW) image, float(H,W,KH,KW) kernels) -> (o) {
  o(c,h,w) +=! image(c,h+kh,w+kw) * kernels(h,w,kh,kw)
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    image = rng.standard_normal((3, size + 4, size + 4), np.float32)
    return image, rng.random((size, size, 5, 5), np.float32)


def with_numpy(image: Any, kernels: Any) -> Any:
    h, w, kh, kw = kernels.shape
    return sum(
        image[:, y : y + h, x : x + w] * kernels[:, :, y, x] for y in range(kh) for x in range(kw)
    )


if __name__ == "__main__":
    compare("kernels of each pixel, 5 x 5", TEXT, inputs, with_numpy, small=16, large=256)
