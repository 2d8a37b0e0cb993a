"""The cases on the backends: each value comes from compiled code, none from the reference in its
place; PoCL runs them; CUDA's texts are printed; one wrong token gives a result or a TCError."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import tc
import tc.sac
from tests.sac.campaign import fallbacks
from tests.sac.rule_table import CASES, RuleCase
from tests.sac.test_rule_table import result
from tests.support import sac_cases
from tests.support.opencl import on_pocl
from tests.support.sac_cases import assert_result

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")  # C15 tells of two bounds

VALUES = [case for case in CASES if case.want is not None]
REFUSED = [case for case in CASES if case.error]
NUMBERED = [case for case in sac_cases.CASES if "want" in case]
TOKENS = (
    "->",
    "|",
    "<",
    "<=",
    ";",
    "[",
    "]",
    "{",
    "}",
    ".",
    "...",
    "+",
    "-1",
    "0",
    "i",
    "iv",
    "shape",
)


def given(case: RuleCase) -> Any:
    return dict(case.inputs) if isinstance(case.inputs, dict) else [*case.inputs]


def entry(case: RuleCase) -> dict[str, str]:
    return {} if case.entry is None else {"entry": case.entry}


@pytest.mark.drawn(3)
@pytest.mark.parametrize("case", VALUES, ids=lambda case: case.name)
def test_no_value_comes_from_the_reference(case: RuleCase) -> None:
    with fallbacks() as served:
        result(case, "numba" if len(case.src) % 8 == 0 else "interpret")  # lowered alike
        tc.sac.compile(case.src, backend="interpret", **entry(case))(given(case))
    assert served == []


@pytest.mark.parametrize("case", NUMBERED, ids=lambda case: str(case["name"]))
def test_no_value_of_the_cases_comes_from_the_reference(case: Any) -> None:
    function = tc.sac.compile(case["src"], backend="interpret", **sac_cases.entry_of(case))
    with fallbacks() as served:
        sac_cases.assert_due(case, function(sac_cases.inputs_of(case)))
    assert served == []


@pytest.mark.drawn(32)
@pytest.mark.parametrize("number", range(len(NUMBERED)))
@on_pocl
def test_pocl_gives_the_value(number: int) -> None:
    case = NUMBERED[number]
    function = tc.sac.compile(case["src"], backend="opencl", **sac_cases.entry_of(case))
    sac_cases.assert_due(case, function(sac_cases.inputs_of(case)))


@pytest.mark.drawn(32)
@pytest.mark.parametrize("number", range(len(VALUES)))
@on_pocl
def test_pocl_gives_the_value_of_a_rule(number: int) -> None:
    assert_result(result(VALUES[number], "opencl"), VALUES[number].want)


@pytest.mark.drawn(32)
@pytest.mark.parametrize("number", range(len(REFUSED)))
@on_pocl
def test_pocl_refuses_by_a_rule(number: int) -> None:
    """What data make wrong is found with `check=True`, which is no default on OpenCL (G7)."""
    case = REFUSED[number]
    with pytest.raises(tc.TCError) as raised:
        tc.sac.compile(case.src, backend="opencl", check=True, **entry(case))(given(case))
    assert raised.value.rule in case.error.split()
    assert [words for words in case.says if words not in str(raised.value)] == []


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", VALUES[::6], ids=lambda case: case.name)
def test_a_text_for_cuda_is_printed(case: RuleCase) -> None:
    text = str(tc.sac.emit(case.src, given(case), backend="cuda", **entry(case)))
    wanted = case.want if isinstance(case.want, tuple) else (case.want,)
    assert ("__global__" in text) == any(np.size(each) for each in wanted)


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", VALUES[::3], ids=lambda case: case.name)
def test_a_wrong_token_gives_a_result_or_a_refusal(case: RuleCase) -> None:
    random = Random(case.name)
    for _ in range(6):
        words = case.src.split(" ")
        place = random.randrange(len(words))
        words[place : place + random.choice((0, 1))] = random.choices(
            TOKENS, k=random.choice((0, 1))
        )
        text = " ".join(words)
        with np.errstate(all="ignore"):
            try:
                found = tc.sac.interpret(text, given(case), **entry(case))
            except tc.InternalError:
                raise
            except tc.TCError:
                continue
            try:
                compiled = tc.sac.compile(text, backend="interpret", **entry(case))(given(case))
            except tc.TCError:
                continue  # elements that no result needs may raise (C10)
        for one, other in zip(
            *(x if isinstance(x, tuple) else (x,) for x in (found, compiled)), strict=True
        ):
            assert_result(one, other)
