"""Random plans for generated programs: each is refused with a repair that works, or right under
R5's bound, with the same bits for any number of threads. What `make fuzz-plans` runs for longer."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from tc.plan import SCATTERS
from tc.polyhedral.target import Decisions
from tests.fuzz.gpu import random_gpu
from tests.fuzz.model import Case, Outputs, Param, Statement, binary, read, var
from tests.fuzz.plans import prepared as preparing
from tests.fuzz.plans.campaign import PlanCampaign
from tests.fuzz.plans.judge import MOST_EVALUATED, draw, judge_plan
from tests.fuzz.plans.prepared import Unfit, prepared
from tests.fuzz.plans.programs import planned_case, scattered_case, small_processor
from tests.fuzz.workers import TESTED_CASE_SECONDS

SEED = 2026


def check(
    plans: int,
    compiled_every: dict[str, int],
    found: Path,
    seconds: float,
    *,
    gpus: bool = False,
    start: int = 0,
) -> None:
    """What fails is written as files: `python -m tests.fuzz.plans --again FILES` judges them."""
    campaign = PlanCampaign(
        seed=SEED,
        found=found,
        shrinks=False,
        compiled_every=compiled_every,
        seconds=seconds,
        gpus=gpus,
    )
    try:
        campaign.run(plans, start)
    finally:
        campaign.close()
    assert not campaign.findings, f"{campaign.summary()}\n{found}"
    assert campaign.judged == plans


@pytest.mark.drawn(2)
@pytest.mark.parametrize("start", [0, 20])
def test_plans(start: int, tmp_path: Path) -> None:
    check(60, {"numba": 4, "c": 10}, tmp_path, TESTED_CASE_SECONDS, start=start)


def test_plans_for_gpus(tmp_path: Path) -> None:
    check(60, {}, tmp_path, TESTED_CASE_SECONDS, gpus=True)


@pytest.mark.slow
def test_many_plans(tmp_path: Path) -> None:
    check(2000, {"numba": 1, "c": 3}, tmp_path, TESTED_CASE_SECONDS)


@pytest.mark.slow
def test_many_plans_for_gpus(tmp_path: Path) -> None:
    check(2000, {}, tmp_path, TESTED_CASE_SECONDS, gpus=True)


# --- what is drawn --------------------------------------------------------------------------------

PROGRAMS = {
    "no loop of the first operand alone": r"o\(([qt]\d,?)*\) .*=!? a\(",
    "four loops in one operand": r"p3",
    "four summed loops": r"s3",
    "a batch": r"o\([^)]*t0",
    "a diagonal": r"[a-h]\([^)]*\b([pqst]\d), \1\b",
    "a shift": r"\([^)]*\b[pqst]\d \+ \d\b",
    "steps of two": r"\([^)]*\b2 \* [pqst]\d",
    "backwards": r"\b\d+ - [pqst]\d",
    "a convolution": r"p\d\)? \+ [st]\d",
    "padding": r"pad\(a\([^?]*[st]\d\) - \d",
    "a mask": r"\([pqst]\d (<|<=|!=) .*\? ",
    "an activation in place": r"  o\(.*\) = max\(\(?o\(",
    "a sum that goes on": r"  o\(.*\) \+= [a-h]\(",
    "a maximum": r"max=!",
    "sums of rows and columns": r"o\d?\(i\).*o\d?\(j\)",
    "a product with itself": r"a\([^)]*\) \* a\(",
    "remainders": r"% \d\) == 0",
}  # fmt: skip
"""What a text shows, by an expression that finds it."""


def test_programs_of_every_kind_are_drawn() -> None:
    cases = [planned_case(f"{SEED}/{number}") for number in range(400)]
    texts = [case.text for case in cases]
    lacking = [
        kind
        for kind, form in PROGRAMS.items()
        if not any(map(re.compile(form, re.S).search, texts))
    ]
    assert not lacking
    lengths = {n for case in cases for p in case.params for n in case.shape(p)}
    assert len(lengths & {*range(1, 71)}) > 66
    assert {p.type for case in cases for p in case.params} >= {"float", "double", "half", "int"}
    layouts = {(bool(p.axes), *p.steps[:1]) for case in cases for p in case.params}
    assert layouts >= {(axes, step) for axes in (True, False) for step in (-2, -1, 1, 2, 3)}
    assert {1, 2, 3} <= {case.device["threads"] for case in cases}


PLANS = {
    *("columns", "a copied with its padding", "target staged", "packed for each thread"),
    *("in a pack", "packed for rows", "reduction steps", "rows at once", "in a strip"),
    *("in a buffer", "shared points", "order of the sum", "window of"),
}
"""Decisions that are asked."""

REWRITTEN = {".zeros", ".piece", ".start", ".part", ".rounded"}
"""Parts of names of statements: zero factors, residue classes, starts, blocks of rows, halves."""


@pytest.mark.slow
def test_plans_of_every_kind_are_drawn() -> None:
    lacking = PLANS | REWRITTEN | {"inlined"}
    for number in range(600):
        lacking -= set(_kinds(planned_case(f"{SEED}/{number}"), lacking))
        if not lacking:
            return
    raise AssertionError(lacking)


def _kinds(case: Case, wanted: set[str]) -> Iterator[str]:
    """What the planner asks, and what was rewritten before."""
    try:
        made = prepared(case.to_json())
    except Unfit:
        return
    decisions = Decisions({})
    made.lower(made.options, decider=decisions)
    scop = made.first.scop
    said = [*decisions.asked, *(s.name for s in scop.statements)]
    yield from (kind for kind in wanted if any(kind in text for text in said))
    if len(scop.shaped.program.temporaries) < len(made.whole.program.temporaries):
        yield "inlined"


def test_forms_of_scatters_are_drawn() -> None:
    """On a GPU and on a processor."""
    rng, forms = Random(SEED), set[str]()
    for number in range(40):
        device = random_gpu(rng) if number % 2 else small_processor(rng)
        case = replace(scattered_case(f"{SEED}/{number}", MOST_EVALUATED), device=device)
        forms |= set(re.findall(r'"form": "(\w+)"', draw(case.to_json(), str(number)).detail))
    assert forms == set(SCATTERS)


# --- the judge ------------------------------------------------------------------------------------

SUM = Case(
    params=(Param("a", "float", ("N", "M")), Param("b", "float", ("M",))),
    returns=("o",),
    statements=(
        Statement(
            "o", ("i",), "+=!", binary("*", read("a", var("i"), var("k")), read("b", var("k")))
        ),
    ),
    sizes={"N": 24, "M": 40},
    outputs=Outputs(),
    device={"vector_bits": 256, "threads": 3},
)


def test_bits_that_depend_on_the_number_of_threads_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three threads give the last bit of the first element another value."""
    plan = prepared(SUM.to_json()).first.mapped.plan.to_json()
    assert judge_plan(SUM.to_json(), plan, ["numba"], check_repair=False).kind == "ran"
    right, asked = preparing.in_parts, []

    def wrong(compiled: Any, addresses: Sequence[int], *, parts: int) -> Any:
        asked.append(parts)
        failure = right(compiled, addresses, parts=parts)
        if parts == 3:
            place = [b.name for b in compiled.kernel.arguments].index("o")
            ctypes.c_int32.from_address(addresses[place]).value ^= 1
        return failure

    monkeypatch.setattr(preparing, "in_parts", wrong)
    verdict = judge_plan(SUM.to_json(), plan, ["numba"], check_repair=False)
    assert verdict.detail == "numba: o has other bits with 3 threads"
    assert asked == [1, 2, 3]


def test_loops_that_threads_share_run_in_parts() -> None:
    kernel, parts = prepared(SUM.to_json()).first.kernel, []

    def region(arguments: int, record: int, number: int, several: int) -> None:  # noqa: ARG001
        parts.append((number, several))

    compiled = SimpleNamespace(kernel=kernel, regions=SimpleNamespace(steps=[(region, 0, 0)]))
    for several in (2, 3):
        preparing.in_parts(compiled, [0] * len(kernel.arguments), parts=several)
    assert parts == [(1, 2), (0, 2), (2, 3), (1, 3), (0, 3)]
