"""`tc.verify` on kernels that nobody wrote for it: it accepts the right ones, and finds the wrong
ones, and a draw of random inputs finds fewer of these."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import difference
from tests.verification.corpus import Honest
from tests.verification.mutants import MUTATED, Mutated
from tests.verification.test_honest_corpus import cases

pytestmark = [pytest.mark.filterwarnings("ignore")]

SECONDS = 20.0
SHORT = 6.0  # of honest kernels in CI; whole runs accepted each of them
COMPILED = ("gelu", "rms_norm", "squared_error")
"""Kernels by torch.compile, which takes long for each of some sizes."""
ALL = [(mutated, number) for mutated in MUTATED for number in range(8)]
LEAST_FOUND = 0.98


@pytest.mark.drawn(48)
@pytest.mark.parametrize(("library", "kernel"), cases())
def test_honest_kernels_are_accepted(library: str, kernel: Honest | None) -> None:
    pytest.importorskip(library)
    assert kernel is not None
    how: dict[str, Any] = {"like": kernel.like, "sizes": kernel.sizes, "seconds": SHORT}
    if library == "torch" and kernel.name in COMPILED:
        how |= {"sizes": [{"N": 5, "D": 7}], "seconds": 90}
    verdict = tc.verify(kernel.kernel, kernel.text, **how)
    assert verdict, str(verdict)


@pytest.mark.drawn(64)
@pytest.mark.parametrize(
    ("mutated", "number"),
    [each for each in ALL if each[0].mutants[each[1]].kind != "race"],
    ids=lambda each: getattr(each, "name", each),
)
def test_mutants_are_found(mutated: Mutated, number: int) -> None:
    verdict = tc.verify(mutated.wrong(number), mutated.text, seconds=SECONDS)
    assert not verdict, f"{mutated.mutants[number]}\n{verdict}"


@pytest.mark.slow
def test_more_is_found_than_by_random_inputs() -> None:
    """Races among them: these show in some runs, and not in others."""
    found = sum(
        not tc.verify(mutated.wrong(number), mutated.text, seconds=SECONDS)
        for mutated, number in ALL
    )
    assert found >= LEAST_FOUND * len(ALL)
    drawn = sum(is_found_by_chance(mutated, number) for mutated, number in ALL)
    assert drawn <= found


def is_found_by_chance(mutated: Mutated, number: int, seconds: float = 1.0) -> bool:
    """Whether normal floats and small integers, of random sizes, show a mutant; in a process of its
    own, as some mutants crash."""
    rng = np.random.default_rng(number)

    def judged() -> Iterator[bool]:
        from tc.frontend.given_text import given_source
        from tc.verification.cases import Case
        from tc.verification.probes import real
        from tc.verification.session import Session
        from tc.verification.sizes import SizeChoice, SizedProgram, shaped_at
        from tc.verification.task import Task

        task = Task.of(mutated.wrong(number), given_source(mutated.text), None, None, False)
        session = Session(task, None, True, seconds, False)
        choice = SizeChoice(task.program, None)
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                sizes = {name: int(rng.integers(1, 33)) for name in choice.names}
                shaped = shaped_at(task.program, sizes)
                if shaped is not None:
                    sized = SizedProgram(sizes, shaped, "given")
                    yield session._tried(Case(sized, real(int(rng.integers(1 << 30))))) is not None
        finally:
            session.process.close()

    return any(judged())


def test_the_comparison_of_tests_is_that_of_verify() -> None:
    """Both accept and refuse the same: NaN, infinities, bounds that are infinite."""
    from tc.verification.expected import Expected

    values = np.array([0, 1, np.nan, np.inf, -np.inf], np.float32)
    for bound in (0.0, 0.5, np.inf):
        for one in values:
            for other in values:
                expected = Expected(("x",), (np.array([one]),), (np.array([bound]),))
                told = expected.difference((np.array([other]),)) is None
                assert told == (difference([other], [one], bound) == "")
