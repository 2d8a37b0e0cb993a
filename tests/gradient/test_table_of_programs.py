"""Gradients of the table of programs: derived and equal to differences, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tc.api import _program
from tests.gradient.differences import along_directions, cotangents, forward
from tests.gradient.pairs import as_double
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


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)
def test_a_gradient_equals_differences_or_is_refused(case: Case) -> None:
    text = as_double(case.text)
    program = _program(text, case.entry)
    numbers = np.random.default_rng(2)
    inputs = {name: in_double(value) for name, value in case.inputs(numbers).items()}
    for name, value in inputs.items():  # no ties, where differences mean nothing
        if value.dtype.kind == "f":
            inputs[name] = value + numbers.uniform(0, 0.1, value.shape)
    try:
        derived = tc.grad(text, entry=case.entry)
    except tc.GradError as error:
        assert error.rule  # noqa: PT017
        return
    inputs = dict(zip(program.inputs, inputs.values(), strict=True))
    outputs = forward(text, inputs, case.entry)
    given = cotangents(outputs, numbers)
    gradients = forward(derived, {**inputs, **outputs, **given})
    wanted = [n for n in program.inputs if program.tensors[n].dtype.is_float]
    gradients = dict(zip([f"d_{n}" for n in wanted], gradients.values(), strict=True))
    for difference, slope in along_directions(text, inputs, given, gradients, case.entry):
        if np.isfinite(difference):
            assert slope == pytest.approx(difference, rel=2e-6, abs=2e-6)
