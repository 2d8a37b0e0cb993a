"""The table of programs, as gradients are tested on it: in float64, without ties."""

from __future__ import annotations

from typing import Any

import numpy as np

from tc.api import _program
from tests.support.programs import Case


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
