"""Relaxation: each inner element becomes the mean of its neighbours along the axes.

One text for vectors, matrices and volumes; with numpy one adds shifted parts of the array.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from checked import check, compare_times, text_beside

import tc.sac

TEXT = text_beside(__file__)


def inputs(*shape: int) -> tuple[Any, ...]:
    return (np.random.default_rng(0).random(shape, np.float32),)


def with_numpy(a: Any) -> Any:
    result = a.copy()
    inner = (slice(1, -1),) * a.ndim
    total = np.zeros_like(a[inner])
    for axis in range(a.ndim):
        for part in (slice(0, -2), slice(2, None)):
            total += a[(*inner[:axis], part, *inner[axis + 1 :])]
    result[inner] = total / (2 * a.ndim)
    return result


def small() -> None:
    cases = [inputs(*shape) for shape in ((9,), (7, 8), (5, 6, 7), (3, 4, 5, 4), (2, 5), (0, 3))]
    check(TEXT, "relaxation", cases, with_numpy)


def large() -> None:
    function = tc.sac.compile(TEXT, entry="relaxation")
    for shape in ((1 << 20,), (1024, 1024), (100, 100, 100)):
        given = inputs(*shape)
        title = f"relaxation {'x'.join(map(str, shape))}"
        compare_times(
            title, lambda g=given: function(*g), {"numpy": lambda g=given: with_numpy(*g)}
        )


if __name__ == "__main__":
    small()
    large()
