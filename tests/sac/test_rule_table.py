"""The table of `rule_table`: each program on the reference and on compiled code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
import tc.sac
from tests.sac.rule_table import CASES, RuleCase
from tests.support.sac_cases import assert_result
from tests.support.sac_shapes import shapes_by_function

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")  # C15 tells of two bounds

BACKENDS = ("interpret", "numba", "c")


def result(case: RuleCase, backend: str) -> Any:
    entry = {} if case.entry is None else {"entry": case.entry}
    given = dict(case.inputs) if isinstance(case.inputs, dict) else [*case.inputs]
    if backend == "interpret":
        return tc.sac.interpret(case.src, given, **entry)
    return tc.sac.compile(case.src, backend=backend, **entry)(given)


VALUES = [case for case in CASES if case.want is not None]
REFUSED = [case for case in CASES if case.error]
DEMANDS = [case for case in CASES if case.demand is not None]


def test_each_case_says_what_is_due() -> None:
    assert len(VALUES) + len(REFUSED) + len(DEMANDS) == len(CASES) > 250


@pytest.mark.parametrize("case", VALUES, ids=lambda case: case.name)
def test_the_reference_gives_the_value(case: RuleCase) -> None:
    assert_result(result(case, "interpret"), case.want)


@pytest.mark.drawn(8)
@pytest.mark.parametrize("backend", BACKENDS[1:])
@pytest.mark.parametrize("case", VALUES, ids=lambda case: case.name)
def test_compiled_code_gives_the_value(case: RuleCase, backend: str) -> None:
    assert_result(result(case, backend), case.want)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_a_program_is_refused_by_its_rule(case: RuleCase, backend: str) -> None:
    with pytest.raises(tc.TCError) as raised:
        result(case, backend)
    assert raised.value.rule in case.error.split()
    assert [words for words in case.says if words not in str(raised.value)] == []


@pytest.mark.parametrize("case", DEMANDS, ids=lambda case: case.name)
def test_a_level_demands_of_the_inputs(case: RuleCase) -> None:
    assert tc.sac.demand(case.src, case.level, entry=case.entry) == case.demand


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", VALUES, ids=lambda case: case.name)
def test_the_desugared_text_gives_the_value(case: RuleCase) -> None:
    """The desugared text has no comprehension, and the same result (C20)."""
    entry = {} if case.entry is None else {"entry": case.entry}
    given = dict(case.inputs) if isinstance(case.inputs, dict) else [*case.inputs]
    text = tc.sac.desugar(case.src, given, **entry)
    assert "->" not in text
    assert_result(tc.sac.interpret(text, given, **entry), case.want)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", VALUES, ids=lambda case: case.name)
def test_the_shape_function_gives_the_shape(case: RuleCase) -> None:
    entry = {} if case.entry is None else {"entry": case.entry}
    wanted = case.want if isinstance(case.want, tuple) else (case.want,)
    found = shapes_by_function(case.src, case.inputs, **entry)
    assert found == [np.shape(want) for want in wanted]
