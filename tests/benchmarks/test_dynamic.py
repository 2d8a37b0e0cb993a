"""The bench of dynamic sizes: each of its programs runs and is right, and its table."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import dynamic
from bench.dynamic import GROUPS, PROGRAMS, SMALL, Outcome, Program


@pytest.mark.drawn(3)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.name)
def test_programs_run(program: Program) -> None:
    """At two small sizes, beside others that are small, too."""
    fixed = {name: min(size, 8) for name, size in program.fixed.items()}
    small = replace(program, largest=dict.fromkeys(program.largest, 12), fixed=fixed)
    sizes = dynamic.drawn_sizes(small, 2, seed=5)
    assert all(program.least <= size <= 12 for chosen in sizes for size in chosen.values())
    outcome = dynamic.measured(small, sizes, budget=0.001)
    assert outcome.wrong == 0
    assert len(outcome.ratios) == len({tuple(chosen.values()) for chosen in sizes})
    assert outcome.made >= 1


def test_sizes_are_those_of_the_seed() -> None:
    program = PROGRAMS[0]
    drawn = dynamic.drawn_sizes(program, 300, seed=1)
    assert drawn == dynamic.drawn_sizes(program, 300, seed=1)
    assert drawn != dynamic.drawn_sizes(program, 300, seed=2)
    small = sum(min(chosen.values()) < 64 for chosen in drawn)
    assert 90 < small < 180  # log-uniformly: 5 of 11 octaves


def test_a_ratio_over_its_bar_is_bold() -> None:
    program = next(p for p in PROGRAMS if p.group == "vectorised")
    mean, large, small = GROUPS["vectorised"]
    ratios = {(SMALL,): large + 0.1, (SMALL - 1,): small - 0.1, (99,): 0.5}
    row = Outcome(program, ratios, made=2, wrong=0).row()
    assert row[3:5] == [f"**{large + 0.1:.2f}**", f"{small - 0.1:.2f}"]
    assert row[5:] == [2, 0]
    text = dynamic.table([Outcome(program, {(99,): mean}, made=1, wrong=0)])
    assert f"| {program.name} " in text
    assert "| nan " in text  # no size is small
