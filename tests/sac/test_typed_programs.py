"""Generated programs of all element types: the reference, lowered and compiled defs, desugared
texts, shape functions and demands, each beside numpy. `python -m tests.sac.campaign` runs more."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.sac.campaign import judge, program_of
from tests.support.sac_typed_programs import Program, Unsettled

EXAMPLES = {
    "reference": 100,
    "interpret": 60,
    "numba": 30,
    "c": 12,
    "desugared": 60,
    "desugared by numba": 12,
    "shapes": 60,
    "demand": 40,
}


def drawn(seed: int) -> Program:
    try:
        return program_of(seed)
    except Unsettled:
        assume(False)
        raise


@pytest.mark.parametrize("run", EXAMPLES)
def test_generated_programs_give_numpys_values(run: str) -> None:
    @settings(max_examples=EXAMPLES[run], deadline=None)
    @given(st.integers(0, 2**40))
    def check(seed: int) -> None:
        for _, kind in judge(drawn(seed), [run]):
            assert kind in ("right", "refused", "not refused", "by the reference")

    check()
