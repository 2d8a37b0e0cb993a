"""Every program of the table by the backend cuda, on a driver that stands in for CUDA's (R5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import assert_within
from tests.support.programs import CASES, Case
from tests.support.stand_in import DeviceVector, StandInDriver, stand_in
from tests.test_programs import as_tuple, copies, expected_and_bounds, fresh

__all__ = ["stand_in"]


def on_device(values: dict[str, Any] | None) -> dict[str, Any] | None:
    """The arrays; numbers stay what they are."""
    if values is None:
        return None
    return {n: DeviceVector(v) if isinstance(v, np.ndarray) else v for n, v in values.items()}


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("where", ["device", "processor"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_program(case: Case, where: str, stand_in: StandInDriver) -> None:
    expected, bounds = expected_and_bounds(case)
    inputs, outputs = fresh(case)
    compiled = tc.compile(case.text, entry=case.def_name, backend="cuda")
    if where == "processor":
        results = as_tuple(compiled(**inputs, outputs=copies(outputs)))
    else:
        given = on_device(copies(outputs))
        arrays = on_device(inputs) or {}
        for name in compiled.program.static_scalars & {*arrays}:
            arrays[name] = inputs[name]
        found = as_tuple(compiled(**arrays, outputs=given))
        results = tuple(each.values for each in found)
    for result, value, bound in zip(results, expected, bounds, strict=True):
        assert_within(result, np.asarray(value).astype(result.dtype), bound)
    assert "wait" not in stand_in.names()
