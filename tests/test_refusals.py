"""Generated legal programs with one rule broken: refused by that rule, with the same words, by the
interpreter and by every backend."""

from __future__ import annotations

import random
import re
from itertools import islice
from typing import Any

import pytest

import tc
from tests.fuzz.legal import Call, cases
from tests.fuzz.mutations import MUTATIONS, Mutation

PROGRAMS = 3
SEARCHED = 400
NAIVE = tc.Options.preset("naive")
BACKENDS: dict[str, dict[str, Any]] = {
    "numba": {"backend": "numba"},
    "c": {"backend": "c"},
    "naive": {"options": NAIVE},
}


def broken(mutation: Mutation, seed: int) -> list[Call]:
    """The first programs of a sequence in which there is what the mutation breaks."""
    rng = random.Random(seed)
    calls = (mutation.edit(case, rng) for case in islice(cases(seed), SEARCHED))
    return list(islice((call for call in calls if call is not None), PROGRAMS))


def refusal(run: Any) -> tuple[str, str, str]:
    try:
        run()
    except tc.TCError as error:
        # each call stands on a line of its own
        return type(error).__name__, error.rule or "", re.sub(r", given at \S+:\d+", "", str(error))
    return "", "", "accepted"


@pytest.mark.drawn(3)
@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda m: m.name.replace(" ", "_"))
def test_refused_by_the_rule_that_is_broken(mutation: Mutation) -> None:
    calls = broken(mutation, len(mutation.name))
    assert len(calls) == PROGRAMS
    for call in calls:
        expected = refusal(lambda c=call: tc.interpret(c.text, c.args(), outputs=c.outputs))
        assert expected[:2] == (mutation.error, mutation.rule), f"{expected}\n{call.text}"
        for name, how in BACKENDS.items():
            found = refusal(
                lambda c=call, h=how: tc.compile(c.text, **h)(**c.args(), outputs=c.outputs)
            )
            assert found == expected, f"{name}\n{call.text}"
