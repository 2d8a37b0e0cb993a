"""Generated programs, with arrays, options and processors of their own, against the interpreter
(R5) and the model of the language: a share of what `make fuzz` runs for longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.campaign import ProgramCampaign
from tests.fuzz.workers import TESTED_CASE_SECONDS

SEED = 2026
PROGRAMS = 300
BATCH = 25


@pytest.fixture(scope="module")
def campaign() -> Iterator[ProgramCampaign]:
    campaign = ProgramCampaign(seed=SEED, shrinks=False, seconds=TESTED_CASE_SECONDS)
    yield campaign
    campaign.close()


@pytest.mark.drawn(6)
@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_programs(first: int, campaign: ProgramCampaign, tmp_path: Path) -> None:
    """A failing program is written to a file: move the file to `tests/programs/found` once tc is
    mended."""
    campaign.found = tmp_path
    before = sum(finding.times for finding in campaign.findings)
    campaign.run(BATCH, first)
    found = sum(finding.times for finding in campaign.findings)
    assert found == before, f"{campaign.summary()}\n{tmp_path}"
