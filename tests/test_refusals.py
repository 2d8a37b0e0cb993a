"""Generated legal programs with one rule broken, and the programs of errors/access, whose data
break one: refused by that rule, with the same words, by the interpreter and by every backend."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tests.fuzz.legal import Call, cases
from tests.fuzz.mutations import MUTATIONS, Mutation
from tests.support.opencl import on_pocl
from tests.test_errors import ERRORS

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


# --- errors of the data, whole (G7, S2, S5, W3) -----------------------------------------------


def inputs_of(text: str) -> dict[str, np.ndarray]:
    """The inputs of the first line, `# inputs: x=[3,1] k=[0,2]`, in the types that are declared."""
    header = text.split("\n", 1)[0].removeprefix("# inputs: ")
    values = dict(item.split("=") for item in header.split())
    floats = {name for name in values if re.search(rf"float\([^)]*\) {name}\b", text)}
    return {
        name: np.array(json.loads(value), np.float32 if name in floats else np.int32)
        for name, value in values.items()
    }


ACCESS = sorted((ERRORS / "access").glob("*.tc"))


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("path", ACCESS, ids=lambda path: path.stem)
def test_data_that_break_a_rule(path: Path, golden: Callable[[Path, str], None]) -> None:
    text = path.read_text(encoding="utf-8")
    inputs, entry = inputs_of(text), re.findall(r"def (\w+)", text)[-1]
    expected = refusal(lambda: tc.interpret(text, inputs, entry=entry))
    assert expected[0] == "AccessError"
    golden(path.with_suffix(".txt"), expected[2])
    for name, how in BACKENDS.items():
        found = refusal(lambda h=how: tc.compile(text, entry=entry, **h)(**inputs))
        assert found == expected, name


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.parametrize("name", [path.stem for path in ACCESS])
@on_pocl
def test_data_that_break_a_rule_on_gpus(name: str) -> None:
    """With all checks the words are the same; without, places of writes are checked (S5), unless
    the caller says no."""
    text = (ERRORS / "access" / f"{name}.tc").read_text(encoding="utf-8")
    inputs, entry = inputs_of(text), re.findall(r"def (\w+)", text)[-1]
    expected = refusal(lambda: tc.interpret(text, inputs, entry=entry))
    found = {
        check: refusal(
            lambda how=check: tc.compile(text, entry=entry, backend="opencl", check=how)(**inputs)
        )
        for check in (True, None, False)
        if check or expected[1] in ("S2", "S5")  # without a check, others read anywhere
    }
    assert found.pop(True) == expected
    accepted = "", "", "accepted"
    if found:
        assert found == {None: expected if expected[1] == "S5" else accepted, False: accepted}
