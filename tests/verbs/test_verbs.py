"""Every verb does what it should with every program, or refuses it as the table of holes says."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.programs import CASES, TEXTS, Case
from tests.verbs.table import HOLES, VERBS, Verb, drawn

PAIRS = [
    pytest.param(verb, case, id=f"{verb.name}-{case.name}", marks=[pytest.mark.slow] * (not now))
    for verb, case, now in drawn().values()
]


@pytest.mark.drawn(10)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize(("verb", "case"), PAIRS)
def test_a_verb_with_a_program(verb: Verb, case: Case) -> None:
    if verb.missing:
        pytest.skip(verb.missing)
    for library in verb.needs:
        pytest.importorskip(library, reason=f"{library} is not installed")
    hole = HOLES.get((case.name, verb.name))
    if hole is None:
        verb.run(case=case)
        return
    with pytest.raises(hole.error, match=hole.says):
        verb.run(case=case)


def test_holes_are_of_the_table() -> None:
    names = {case.name for case in CASES}, {verb.name for verb in VERBS}
    for program, verb in HOLES:
        assert program in names[0]
        assert verb in names[1]
    assert all(hole.reason and hole.says for hole in HOLES.values())


def test_every_text_has_a_case() -> None:
    assert {path.stem for path in TEXTS.glob("*.tc")} == {case.name for case in CASES}


def test_each_run_has_all_verbs_and_all_programs() -> None:
    """Each of the long ones on two programs at least, none of which is a hole alone; and each
    program in one of them."""
    long = [(v, c) for v, c, now in drawn().values() if now and v.every > 1]
    counts = Counter(v.name for v, c in long if (c.name, v.name) not in HOLES)
    assert all(counts[verb.name] >= 2 for verb in VERBS if verb.every > 1)
    assert {case.name for _, case in long} == {case.name for case in CASES}
