"""A Gaussian filter of the last two axes, mirrored at the edges; any axes stand before them."""

from __future__ import annotations

from typing import Any

import numpy as np
from checked import check, compare_times, text_beside

import tc.sac

TEXT = text_beside(__file__)


def inputs(*shape: int, radius: int = 2, sigma: float = 1.2) -> tuple[Any, ...]:
    weights = np.exp(-0.5 * (np.arange(-radius, radius + 1) / sigma) ** 2)
    image = np.random.default_rng(0).random(shape, np.float32)
    return image, (weights / weights.sum()).astype(np.float32)


def with_numpy(image: Any, w: Any) -> Any:
    radius = len(w) // 2
    for axis in (image.ndim - 2, image.ndim - 1):
        widths = [(radius, radius) if k == axis else (0, 0) for k in range(image.ndim)]
        wide, size = np.pad(image, widths, mode="reflect"), image.shape[axis]
        parts = [np.take(wide, range(k, k + size), axis) for k in range(len(w))]
        image = sum(weight * part for weight, part in zip(w, parts, strict=True))
    return image


def small() -> None:
    cases = [inputs(6, 7), inputs(3, 8, 5), inputs(2, 1, 9, 7, radius=3)]
    check(TEXT, "blur", cases, with_numpy)


def large() -> None:
    function = tc.sac.compile(TEXT, entry="blur")
    given = inputs(3, 512, 512, radius=4, sigma=2)
    own, numpy = (lambda: function(*given)), (lambda: with_numpy(*given))
    compare_times("blur 3x512x512, 9 weights", own, {"numpy": numpy})


if __name__ == "__main__":
    small()
    large()
