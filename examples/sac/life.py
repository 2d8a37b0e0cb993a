"""Conway's Game of Life on a torus of any rank.

On a plane, cells are born by 3 neighbours and stay alive by 2 or 3; of the rules for three
dimensions, "4555" is the one of which Carter Bays wrote that it is worthy of the name.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from checked import check, compare_times, text_beside

import tc.sac

TEXT = text_beside(__file__)
RULES = {1: (1, 1), 2: (3, 2), 3: (5, 4)}
"""For each rank the neighbours by which a cell is born, and the fewest by which it stays alive."""


def inputs(*shape: int) -> tuple[Any, ...]:
    cells = np.random.default_rng(0).integers(0, 2, shape, np.int32)
    return (cells, *RULES[len(shape)])


def with_numpy(a: Any, born: int, least: int) -> Any:
    axes = tuple(range(a.ndim))
    shifts = itertools.product((-1, 0, 1), repeat=a.ndim)
    n = sum(np.roll(a, shift, axes) for shift in shifts) - a
    alive = (n == born) | ((a == 1) & (least <= n) & (n <= born))
    return alive.astype(np.int32)


def small() -> None:
    check(TEXT, "life", [inputs(9), inputs(6, 7), inputs(5, 4, 6), inputs(1, 2)], with_numpy)
    glider = np.zeros((8, 8), np.int32)
    glider[[0, 1, 2, 2, 2], [1, 2, 0, 1, 2]] = 1
    step = tc.sac.compile(TEXT, entry="life")
    cells = glider
    for _ in range(4):
        cells = step(cells, 3, 2)
    if not (cells == np.roll(glider, (1, 1), (0, 1))).all():
        raise SystemExit("life: after four steps, a glider is not one cell further")


def large() -> None:
    step = tc.sac.compile(TEXT, entry="life")
    for shape in ((1000, 1000), (100, 100, 100)):
        given = inputs(*shape)
        title = f"life {'x'.join(map(str, shape))}"
        compare_times(title, lambda g=given: step(*g), {"numpy": lambda g=given: with_numpy(*g)})


if __name__ == "__main__":
    small()
    large()
