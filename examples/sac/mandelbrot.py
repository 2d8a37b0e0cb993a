"""The Mandelbrot set: how many steps of z = z*z + c stay within 2, for a grid of numbers c.

Steps are calls from Python; the arrays of a step before serve as results of the next.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from checked import check, compare_times, text_beside

import tc.sac

TEXT = text_beside(__file__)


def plane(height: int, width: int) -> tuple[Any, Any]:
    """The real and the imaginary parts of a grid of numbers."""
    re, im = np.meshgrid(np.linspace(-2, 0.5, width), np.linspace(-1.2, 1.2, height))
    return re.copy(), im.copy()


def inputs(height: int, width: int) -> tuple[Any, ...]:
    cre, cim = plane(height, width)
    rng = np.random.default_rng(0)
    re, im = 2 * rng.standard_normal((2, height, width))
    return re, im, rng.integers(0, 9, cre.shape, np.int32), cre, cim


def step_with_numpy(re: Any, im: Any, n: Any, cre: Any, cim: Any) -> Any:
    inside = re * re + im * im <= 4
    x, y = re * re - im * im + cre, 2 * re * im + cim
    return np.where(inside, x, re), np.where(inside, y, im), n + inside


def counts(cre: Any, cim: Any, steps: int) -> Any:
    """How many of the steps stay within 2."""
    step = tc.sac.compile(TEXT, entry="step")
    now = tuple(np.zeros(cre.shape, kind) for kind in (float, float, np.int32))
    then = tuple(map(np.empty_like, now))
    for _ in range(steps):
        step(*now, cre, cim, outputs=then)
        now, then = then, now
    return now[2]


def counts_with_numpy(cre: Any, cim: Any, steps: int) -> Any:
    re, im, n = np.zeros(cre.shape), np.zeros(cre.shape), np.zeros(cre.shape, np.int32)
    for _ in range(steps):
        re, im, n = step_with_numpy(re, im, n, cre, cim)
    return n


def small() -> None:
    check(TEXT, "step", [inputs(5, 7), inputs(1, 1)], step_with_numpy)
    grid = plane(24, 32)
    with np.errstate(all="ignore"):
        differing = counts(*grid, 30) != counts_with_numpy(*grid, 30)
    if differing.mean() > 0.01:  # a rounding more or less decides at the border of the set
        raise SystemExit(f"mandelbrot: {differing.sum()} of {differing.size} counts differ")


def large() -> None:
    grid = plane(600, 800)
    compare_times(
        "mandelbrot 600x800, 50 steps",
        lambda: counts(*grid, 50),
        {"numpy": lambda: counts_with_numpy(*grid, 50)},
    )


if __name__ == "__main__":
    small()
    large()
