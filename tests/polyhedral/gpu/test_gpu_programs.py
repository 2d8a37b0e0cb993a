"""Generated programs on generated GPUs with options of their own: the launches are right under the
error bound (R5) on the machine that runs blocks and threads, and finds races."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, event, example, given, settings

import tc
from tc.kernel.ir import GRID, Barrier, Const, For, If, Stmt, statements
from tc.kernel.walk import every_statement
from tests.fuzz.execute import Refusal
from tests.fuzz.gpu import random_gpu, random_gpu_options
from tests.fuzz.model import Case
from tests.fuzz.plans.prepared import Prepared, Unfit, prepared
from tests.fuzz.strategies import SEEDS, cases

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
EXAMPLES = settings.default.max_examples * 5 // 2
FOUND = Path(__file__).parent / "found"
MOST_ELEMENTS = 1 << 18
"""Of a buffer of a kernel that is run: small programs may have large tiles."""


def found(name: str) -> Case:
    """A program that once failed."""
    return Case.from_json((FOUND / f"{name}.json").read_text())


@settings(suppress_health_check=QUIET, max_examples=EXAMPLES)
@given(cases(700), SEEDS)
@example(found("same_block_reads_again"), 1)
@example(found("elements_of_other_blocks_between"), 0)
@example(found("sum_of_one_step"), 85)
@example(found("sum_of_one_step_alone"), 206)
def test_generated_programs(case: Case, seed: int) -> None:
    check(case, seed)


@pytest.mark.slow
@settings(suppress_health_check=QUIET, max_examples=3000)
@given(cases(), SEEDS)
def test_many_generated_programs(case: Case, seed: int) -> None:
    check(case, seed)


def is_one_launch(made: Prepared, options: tc.Options, **how: bool) -> bool:
    """Whether a program that is to be one launch is not refused, with the reason."""
    try:
        made.lower(options, **how)
    except tc.BackendError as error:
        reason = "single_kernel=True, but the program needs several launches: "
        return not error.cause.startswith(reason)
    return True


def may_miss_barrier(stmt: Stmt) -> bool:
    """Whether some threads of a grid may not meet a barrier in a statement, or not each turn; or
    PoCL 3 takes them for such."""
    counted = isinstance(stmt, For) and isinstance(stmt.end, Const)
    holds = any(isinstance(s, Barrier) for s in statements((stmt,)))
    return isinstance(stmt, If | For) and not counted and holds


def check(case: Case, seed: int) -> None:
    """Whether every program has a kernel on every GPU, for whatever options; with tests of reads
    and without, both as it is lowered and after all passes."""
    rng = random.Random(seed)
    device = random_gpu(rng)
    chosen = random_gpu_options(rng, tc.Gpu(**device))
    if "preset" in case.options:
        chosen = replace(chosen, tf32=False)
    else:
        case = replace(case, options={**case.options, "gpu": {"tf32": chosen.tf32}})
    case = replace(case, device=device)
    try:
        made = prepared(case.to_json())
    except Unfit:
        event("refused")
        return
    options = replace(made.options, gpu=chosen)
    if options.gpu.single_kernel:
        options = replace(options, schedule=replace(options.schedule, fusion="min"))
    fails = isinstance(made.expected, Refusal)
    how = {"check": fails or rng.random() < 0.5}
    if options.gpu.single_kernel and not is_one_launch(made, options, **how):
        event("several launches")
        assert not made.target.device.cooperative
        options = replace(options, gpu=replace(options.gpu, single_kernel=False))
    lowering = made.lower(options, **how)
    if any(math.prod(buffer.shape) > MOST_ELEMENTS for buffer in lowering.kernel.buffers):
        event("large")
        return
    event("a failure" if fails else "results")
    assert not any(may_miss_barrier(stmt) for stmt in every_statement(lowering.kernel))
    barriers = [s for s in every_statement(lowering.kernel) if isinstance(s, Barrier)]
    if any(barrier.scope == GRID for barrier in barriers):
        event("all blocks wait")
    assert made.evaluated(lowering.marked) == ""
    assert made.evaluated(lowering.kernel) == ""
