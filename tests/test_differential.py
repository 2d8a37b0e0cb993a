"""Generated programs, each on every backend and on the machine that checks kernels, against the
interpreter (R5). What the interpreter refuses, all refuse by the same rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings

from tests.fuzz.execute import Arrays, Expected, compare, expectation, run_of
from tests.fuzz.model import Case
from tests.fuzz.strategies import cases, disturbed_cases, exact_chains

QUIET = list(HealthCheck)
MOST_INSTANCES = 1500  # `evaluate` runs one instance after another
EXAMPLES = settings.default.max_examples  # of the profile; each is compiled, some of them twice


def check(case: Case, backends: Sequence[str], *, exactly: bool = False) -> None:
    run = run_of(case)
    given = Arrays(run)
    expected = expectation(run, given)
    if isinstance(expected, Expected) and exactly:
        zero = {name: np.zeros_like(bound) for name, bound in expected.bounds.items()}
        expected = replace(expected, bounds=zero)
    event("ran" if isinstance(expected, Expected) else f"refused: {expected.rule}")
    for backend in backends:
        how = {"options": {}, "device": {}} if backend == "interpret" else {}
        verdict = compare(replace(run, backend=backend, **how), given, expected)
        assert not verdict.failed, f"{backend}: {verdict}\n{case.text}\n{run}"


@settings(suppress_health_check=QUIET, max_examples=EXAMPLES // 3)
@given(cases(MOST_INSTANCES))
def test_backends_agree(case: Case) -> None:
    """The interpreter itself on arrays in other layouts is one of them."""
    check(case, ("interpret", "evaluate", "numba", "c"))


@settings(suppress_health_check=QUIET, max_examples=EXAMPLES // 2)
@given(disturbed_cases(MOST_INSTANCES))
def test_disturbed_programs(case: Case) -> None:
    check(case, ("evaluate", "numba"))


@pytest.mark.parametrize(("backend", "examples"), [("numba", EXAMPLES // 2), ("c", EXAMPLES // 8)])
def test_exact_chains(backend: str, examples: int) -> None:
    @settings(suppress_health_check=QUIET, max_examples=examples)
    @given(exact_chains())
    def run(case: Case) -> None:
        check(case, (backend,), exactly=True)

    run()
