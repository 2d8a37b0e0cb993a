"""Generated programs: the reference beside numpy, desugared texts, shape functions, demands."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings

import tc
import tc.sac
from tc.sac.text.parser import parse
from tests.support.sac_programs import Program, programs

EXAMPLES = 60


def assert_due(program: Program, found: Any) -> None:
    assert (found.shape, found.dtype) == (program.due.shape, program.due.dtype)
    np.testing.assert_array_equal(found, program.due)


@settings(max_examples=EXAMPLES, deadline=None)
@given(programs())
def test_the_reference_gives_numpys_values(program: Program) -> None:
    assert_due(program, tc.sac.interpret(program.text, program.inputs, entry="main"))


@settings(max_examples=EXAMPLES, deadline=None)
@given(programs())
def test_a_desugared_text_has_the_same_result(program: Program) -> None:
    text = tc.sac.desugar(program.text)
    assert "->" not in text
    assert_due(program, tc.sac.interpret(text, program.inputs, entry="main"))


@settings(max_examples=EXAMPLES, deadline=None)
@given(programs())
def test_a_shape_function_gives_the_shape(program: Program) -> None:
    text = tc.sac.shape_function(program.text, entry="main")
    function = parse(tc.Source(text)).definitions[-1].name.text
    given: dict[str, Any] = {}
    for name, level in tc.sac.demand(program.text, "S", entry="main").items():
        array = program.inputs[name]
        shape = np.array(array.shape, np.int32)
        if level != "N":
            given[name] = {"F": array, "S": shape, "D": np.int32(array.ndim)}[level]
    assert tuple(tc.sac.interpret(text, given, entry=function).tolist()) == program.due.shape


@settings(max_examples=EXAMPLES, deadline=None)
@given(programs())
def test_demand_is_sound(program: Program) -> None:
    """Inputs of which level F needs nothing may be others, those of which it needs the shape may
    have other elements."""
    changed = {}
    for name, level in tc.sac.demand(program.text, "F", entry="main").items():
        array = program.inputs[name]
        changed[name] = {
            "F": array,
            "S": np.zeros_like(array),
            "D": np.zeros((2,) * array.ndim, array.dtype),
            "N": np.zeros((1, 1), array.dtype),
        }[level]
    assert_due(program, tc.sac.interpret(program.text, changed, entry="main"))
