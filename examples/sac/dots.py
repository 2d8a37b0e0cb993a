"""Axes by dots: transposes and outer products of arrays of any rank."""

from __future__ import annotations

from typing import Any

import numpy as np
from checked import check, compare_times, text_beside

import tc.sac

TEXT = text_beside(__file__)


def array(*shape: int) -> Any:
    return np.random.default_rng(0).random(shape, np.float32)


def swapped(a: Any) -> Any:
    return np.swapaxes(a, 0, -1).copy()


def last_to_first(a: Any) -> Any:
    return np.moveaxis(a, -1, 0).copy()


SHAPES = ((3, 4), (3, 4, 5), (2, 3, 1, 4))


def small() -> None:
    cases = [(array(*shape),) for shape in SHAPES]
    check(TEXT, "swapped", cases, swapped)
    check(TEXT, "last_to_first", [(array(5),), *cases], last_to_first)
    pairs = [(array(*shape), array(*other)) for shape in ((4,), *SHAPES) for other in ((), (3, 2))]
    check(TEXT, "outer", pairs, np.multiply.outer)


def large() -> None:
    functions = tc.sac.define(TEXT)
    a, b, c = array(200, 100, 150), array(300, 20), array(300)
    compare_times("swapped", lambda: functions.swapped(a), {"numpy": lambda: swapped(a)})
    own, numpy = (lambda: functions.outer(b, c)), (lambda: np.multiply.outer(b, c))
    compare_times("outer", own, {"numpy": numpy})


if __name__ == "__main__":
    small()
    large()
