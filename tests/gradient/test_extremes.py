"""Maxima and minima of generated terms in every type, against torch's autograd: the first of
`python -m tests.gradient.extremes_campaign`."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

SEED = 11


@pytest.mark.parametrize(
    ("backend", "parts", "start", "programs"),
    [
        ("interpret", "sf", 0, 5),
        ("interpret", "t2", 5, 2),
        ("numba", "", 8, 1),
        ("c", "", 9, 1),
    ],
)
def test_terms_share_as_in_torch(backend: str, parts: str, start: int, programs: int) -> None:
    from tests.gradient.extremes_campaign import case_of, judge

    told = Counter[str]()
    for number in range(start, start + programs):
        case = case_of(SEED, number)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            told.update(what.split(" (")[0] for what in judge(case, number, backend, parts))
    assert (
        sum(told[w] for w in ("saving outputs", "saving outputs, some at a jump")) >= programs / 2
    )
