"""Kernels of every program of the table, on the machine that checks bounds and races, against its
independent numpy formula (R5). What users do with the programs is tested in `tests/verbs`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.device import Device
from tc.options import PRESETS
from tests.support.bounds import as_tuple, assert_within
from tests.support.pipeline import evaluate_kernel
from tests.support.programs import CASES, Case, exact

ISL = tc.Options(schedule=tc.ScheduleOptions(fusion="isl", seconds=2.0))


def fresh(case: Case) -> tuple[dict[str, Any], dict[str, Any] | None]:
    rng = np.random.default_rng(len(case.name))
    inputs = case.inputs(rng)
    return inputs, case.outputs(rng) if case.outputs else None


def copies(outputs: dict[str, Any] | None) -> dict[str, Any] | None:
    return outputs and {name: array.copy() for name, array in outputs.items()}


def expected_and_bounds(case: Case) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    inputs, outputs = fresh(case)
    expected = case.formula(exact({**inputs, **(outputs or {})}))
    bounds = tc.error_bound(case.text, inputs, entry=case.def_name, outputs=copies(outputs))
    return expected, as_tuple(bounds)


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_kernel_evaluated(case: Case) -> None:
    """The lowered kernel itself, on the machine that checks bounds and races."""
    expected, bounds = expected_and_bounds(case)
    inputs, outputs = fresh(case)
    results = evaluate_kernel(case.text, inputs, entry=case.def_name, outputs=copies(outputs))
    for result, value, bound in zip(results.values(), expected, bounds, strict=True):
        assert_within(result, np.asarray(value).astype(result.dtype), bound)


@pytest.mark.drawn(6)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("preset", [*PRESETS, "isl"])
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_presets(case: Case, preset: str) -> None:
    """Every preset, and isl's own scheduler; the evaluated kernel, for narrow vectors."""
    options = PRESETS.get(preset, ISL)
    expected, bounds = expected_and_bounds(case)
    inputs, outputs = fresh(case)
    results = evaluate_kernel(
        case.text,
        inputs,
        entry=case.def_name,
        outputs=copies(outputs),
        options=options,
        device=Device(vector_bits=128),
    )
    for result, value, bound in zip(results.values(), expected, bounds, strict=True):
        assert_within(result, np.asarray(value).astype(result.dtype), bound)
