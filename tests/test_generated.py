"""Generated programs, with arrays, options and processors of their own, against the interpreter
(R5) and the model of the language: a share of what `make fuzz` runs for longer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.campaign import Campaign
from tests.fuzz.workers import TESTED_CASE_SECONDS

SEED = 2026
PROGRAMS = 300
BATCH = 25


@pytest.fixture(scope="module")
def campaign() -> Iterator[Campaign]:
    campaign = Campaign(seed=SEED, shrinks=False, seconds=TESTED_CASE_SECONDS)
    yield campaign
    campaign.close()


@pytest.mark.parametrize("first", range(0, PROGRAMS, BATCH))
def test_programs(first: int, campaign: Campaign, tmp_path: Path) -> None:
    """A failing program is written to a file: move the file to `tests/programs/found` once tc is
    mended."""
    campaign.found = tmp_path
    before = dict(campaign.failures)
    campaign.run(range(first, first + BATCH))
    new = {k: v for k, v in campaign.failures.items() if before.get(k) != v}
    assert not new, f"{campaign.summary()}\n{tmp_path}"
