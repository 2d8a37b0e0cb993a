"""Gradients of the table of programs: equal to differences."""

from __future__ import annotations

import numpy as np
import pytest

import tc
from tc.api import _program
from tests.gradient.differences import along_directions, cotangents, forward
from tests.gradient.pairs import as_double
from tests.gradient.table import SOME, distinct_inputs
from tests.gradient.tangents_of import assert_transposed
from tests.support.programs import Case


@pytest.mark.parametrize("case", SOME, ids=lambda case: case.name)
def test_a_gradient_equals_differences(case: Case) -> None:
    text = as_double(case.text)
    program = _program(text, case.entry)
    inputs = distinct_inputs(case)
    wanted = [n for n in program.inputs if program.tensors[n].dtype.is_float]
    if not wanted:
        with pytest.raises(tc.GradError, match="no floating input"):
            tc.grad(text, entry=case.entry)
        return
    derived = tc.grad(text, entry=case.entry)
    inputs = dict(zip(program.inputs, inputs.values(), strict=True))
    outputs = forward(text, inputs, case.entry)
    given = cotangents(outputs, np.random.default_rng(2))
    gradients = forward(derived, {**inputs, **outputs, **given})
    gradients = dict(zip([f"d_{n}" for n in wanted], gradients.values(), strict=True))
    assert_transposed(text, inputs, given, gradients, case.entry)
    for difference, slope in along_directions(text, inputs, given, gradients, case.entry):
        if np.isfinite(difference):
            assert slope == pytest.approx(difference, rel=2e-6, abs=2e-6)
