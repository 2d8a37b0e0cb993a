"""The first cases of the campaign of programs with places, on everything that runs them; more by
`python -m tests.fuzz.places`."""

from __future__ import annotations

import pytest

from tests.fuzz.places.campaign import DYNAMIC, GPUS, PlaceCampaign

CASES = 4
"""Of each test, the first of which no other has."""


@pytest.mark.filterwarnings("ignore::tc.TCWarning")
@pytest.mark.drawn(5)
@pytest.mark.parametrize("start", range(0, 20 * CASES, CASES))
@pytest.mark.parametrize("backend", ["interpret", "numba", "c", "evaluate", GPUS, DYNAMIC])
def test_drawn_cases(backend: str, start: int) -> None:
    campaign = PlaceCampaign(1702, (backend,))
    campaign.run(CASES, start)
    assert not campaign.findings
    assert campaign.judged == CASES
