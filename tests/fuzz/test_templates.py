"""A few generated programs with dynamic sizes; `python -m tests.fuzz.templates` runs thousands. And
that faults of tracked sizes are found by them."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from tests.fuzz import generate, templates
from tests.support.campaigns import Passed

SEED = 36


def judged(number: int) -> list[str]:
    case = replace(generate.case(SEED, number, ("numba",)), backend="numba")
    try:
        return list(templates.judge(case, random.Random(f"{SEED}/{number}/templates")))
    except Passed:
        return []


@pytest.mark.drawn(12)
@pytest.mark.parametrize("number", range(60))
def test_generated_programs(number: int) -> None:
    judged(number)


def test_most_programs_have_templates() -> None:
    counts = Counter(what for number in range(200, 206) for what in judged(number))
    assert counts["templates"] >= 4
    assert counts["runs"] >= 8


def test_a_missing_guard_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Templates of which no answer is a guard are wrong at other sizes, and with guards are not."""

    def is_found(number: int) -> bool:
        try:
            judged(number)
        except Exception:  # whatever it is that goes wrong
            return True
        return False

    with monkeypatch.context() as without_guards:
        without_guards.setattr("tc.extents.sizes.Questions.note", lambda *_: None)
        found = next(filter(is_found, range(40)))
    assert judged(found)
