"""Generated programs, each on every backend and on the machine that checks kernels, against the
interpreter (R5). What the interpreter refuses, all refuse by the same rule."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings

import tc
from tests.fuzz.execute import Arrays, Expected, compare, expectation, run_of
from tests.fuzz.gpu import random_gpu, random_gpu_options
from tests.fuzz.model import Case
from tests.fuzz.strategies import SEEDS, cases, disturbed_cases, exact_chains
from tests.fuzz.workers import Worker
from tests.support.opencl import GIVES_UP, needs_pocl

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


@pytest.fixture(scope="module")
def pocl() -> Iterator[Worker]:
    """A process for PoCL, as a wrong kernel may end it."""
    worker = Worker(environment={"POCL_MAX_PTHREAD_COUNT": "2"})
    yield worker
    worker.close()


ONE_LAUNCH = "single_kernel=True, but the program needs several launches: "


@needs_pocl
def test_opencl(pocl: Worker) -> None:
    """On GPUs with few threads and little memory, with options of their own."""

    @settings(suppress_health_check=QUIET, max_examples=EXAMPLES * 2 // 3)
    @given(cases(MOST_INSTANCES), SEEDS)
    def judge(case: Case, seed: int) -> None:
        rng = random.Random(seed)
        gpu = random_gpu(rng)
        options = tc.Options(gpu=random_gpu_options(rng, tc.Gpu(**gpu), may_round=False))
        run = replace(
            run_of(case), backend="opencl", device=gpu, options=json.loads(options.to_json())
        )
        verdict = pocl.judge_run(run)
        if GIVES_UP in verdict.detail:
            event("PoCL gives up")
            return
        event(f"{verdict.kind} {verdict.detail}")
        assert not verdict.failed, f"{verdict}\n{case.text}\n{run}"
        lacking = ONE_LAUNCH in verdict.detail
        assert verdict.kind != "skipped" or lacking, f"{verdict}\n{case.text}\n{run}"

    judge()


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
