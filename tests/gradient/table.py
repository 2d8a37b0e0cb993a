"""The table of programs, as gradients are tested on it: in float64, without ties."""

from __future__ import annotations

from typing import Any

import numpy as np

from tc.api import _program
from tests.support.programs import CASES, Case

LARGEST = 20_000
"""So many elements of inputs at most: each takes evaluations of the program."""


def is_small(case: Case) -> bool:
    inputs = case.inputs(np.random.default_rng(2))
    return sum(np.size(value) for value in inputs.values()) <= LARGEST


SOME = [case for case in CASES if case.outputs is None and is_small(case)]


def in_double(value: Any) -> Any:
    value = np.asarray(value)
    return value.astype("float64") if value.dtype.kind == "f" else value


def distinct_inputs(case: Case) -> dict[str, Any]:
    """The inputs by the names in the text, with no ties, where differences mean nothing."""
    numbers = np.random.default_rng(2)
    values = [in_double(value) for value in case.inputs(numbers).values()]
    for place, value in enumerate(values):
        if value.dtype.kind == "f":
            values[place] = value + numbers.uniform(0, 0.1, value.shape)
    return dict(zip(_program(case.text, case.entry).inputs, values, strict=True))
