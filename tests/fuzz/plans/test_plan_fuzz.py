"""Random plans for generated programs: each is refused with a repair that works, or right under
R5's bound. What `make fuzz-plans` runs for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.plans.campaign import PlanCampaign
from tests.fuzz.workers import TESTED_CASE_SECONDS

SEED = 2026


def check(
    plans: int, compiled_every: dict[str, int], found: Path, seconds: float, *, gpus: bool = False
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
        campaign.run(plans)
    finally:
        campaign.close()
    assert not campaign.findings, f"{campaign.summary()}\n{found}"
    assert campaign.judged == plans


def test_plans(tmp_path: Path) -> None:
    check(100, {"numba": 4, "c": 10}, tmp_path, TESTED_CASE_SECONDS)


def test_plans_for_gpus(tmp_path: Path) -> None:
    check(60, {}, tmp_path, TESTED_CASE_SECONDS, gpus=True)


@pytest.mark.slow
def test_many_plans(tmp_path: Path) -> None:
    check(2000, {"numba": 1, "c": 3}, tmp_path, TESTED_CASE_SECONDS)


@pytest.mark.slow
def test_many_plans_for_gpus(tmp_path: Path) -> None:
    check(2000, {}, tmp_path, TESTED_CASE_SECONDS, gpus=True)
