"""Generated programs as operators of PyTorch, against their translations to torch's operations."""

from __future__ import annotations

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from tests.gradient.campaign import case_of

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

SEED, PROGRAMS = 3, 10


def test_derivatives_are_those_of_torch() -> None:
    """Values, first and second derivatives, forward mode; more than half of the programs are
    compared, the others told of by `python -m tests.gradient.torch_campaign`."""
    from tests.gradient.torch_campaign import judge

    compared = Counter[str]()
    for number in range(PROGRAMS):
        case = case_of(SEED, number)
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            compared.update(judge(case, number, number % 3 == 0, backend="interpret"))
    counts = {what: compared[f"{what} apart"] for what in ("first", "forward mode", "second")}
    assert counts["first"] * 2 >= PROGRAMS
    assert counts["forward mode"] * 2 >= PROGRAMS
    assert counts["second"] > 0
