"""N bodies that attract each other: a step of time, as positions and velocities."""

from __future__ import annotations

from typing import Any

import numpy as np
from checked import check, compare_times, text_beside

import tc.sac

TEXT = text_beside(__file__)


def inputs(count: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return rng.random((count, 3)), rng.standard_normal((count, 3)), rng.random(count), 0.01


def with_numpy(p: Any, v: Any, m: Any, dt: float) -> Any:
    r = p[None, :] - p[:, None]
    weights = m / ((r * r).sum(axis=2) + 0.5) ** 1.5
    u = v + np.einsum("ijk,ij->ik", r, weights) * dt
    return p + u * dt, u


def small() -> None:
    check(TEXT, "step", [inputs(count) for count in (1, 2, 17)], with_numpy)


def large() -> None:
    function = tc.sac.compile(TEXT, entry="step")
    given = inputs(1500)
    own, numpy = (lambda: function(*given)), (lambda: with_numpy(*given))
    compare_times("1500 bodies", own, {"numpy": numpy})


if __name__ == "__main__":
    small()
    large()
