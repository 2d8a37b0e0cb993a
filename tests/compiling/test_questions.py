"""What is asked of tracked sizes, of each program of the table, whole: a question more is a guard
more, and serves fewer sizes. The texts stand in tests/expected/sizes; `--accept` writes them anew.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import tc
from tc.device import Device
from tests.support.programs import CASES, Case
from tests.test_programs import fresh

EXPECTED = Path(__file__).parent.parent / "expected" / "sizes"
DEVICE = Device(vector_bits=256, vector_registers=16, threads=2)
PLACES = re.compile(r", asked by .*")


@pytest.mark.drawn(2)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_questions(case: Case, golden: Callable[[Path, str], None]) -> None:
    inputs, _ = fresh(case)
    explanation = tc.explain(
        case.text, inputs, entry=case.def_name, dynamic=True, device=DEVICE, stage="sizes"
    )
    guards = str(explanation).split("given to the kernel:")[0]
    golden(EXPECTED / f"{case.name}.txt", PLACES.sub("", guards).rstrip() + "\n")
