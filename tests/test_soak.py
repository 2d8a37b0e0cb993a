"""A short piece of `make soak`: no wrong number, no death and no hang; memory is for longer ones.

That the soak notices such at all is tested with workers that are made to fail.
"""

from __future__ import annotations

import os
import random
import sys
from pathlib import Path

import pytest

if not (hasattr(os, "fork") and sys.platform == "linux"):
    pytest.skip("forks, and counts what /proc lists", allow_module_level=True)

import numpy as np

from tests.soak.campaign import LoadCampaign
from tests.soak.programs import FORMS, Subject, WrongResult, form_of


def campaign(folder: Path, **about: int) -> LoadCampaign:
    made = LoadCampaign(folder / "kernels", seed="CI", **{"workers": 2, "actions": 4, **about})
    made.run(made.workers)
    return made


def test_a_short_soak(tmp_path: Path) -> None:
    soak = campaign(tmp_path)
    assert [finding for finding in soak.findings if finding.kind != "grew"] == []
    assert soak.counts["end"] == 8 or soak.counts["killed"] == 1, soak.summary()
    assert soak.counts["call"] > 8, soak.summary()


@pytest.mark.parametrize("kind", range(len(FORMS)))
def test_a_wrong_number_is_noticed(kind: int) -> None:
    form, k, m = form_of(kind)

    def wrong(*inputs: np.ndarray) -> object:
        results = form.expected(k, m, inputs)
        last = np.array(results[-1])
        last.reshape(-1)[-1] += 1
        return (*results[:-1], last) if len(results) > 1 else last

    with pytest.raises(WrongResult):
        Subject(kind, "none", wrong).call(random.Random(0))


FAILS = """
import os, time
time.sleep(START)
from tests.soak import worker
def run(self):
    BODY
worker.Worker.run = run
worker.main("x", 1, 100)
"""


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("os.kill(os.getpid(), 11)", "died", "status -11"),
        ("os._exit(0)", "died", "status 0"),
        ("1 // 0", "raised", "ZeroDivisionError"),
        ("worker.time.sleep(100)", "hung", "no record for 1 s"),
        ("worker.end_after(1), worker.time.sleep(100)", "died", "status -14"),
        ("worker.finish(os.spawnlp(os.P_NOWAIT, 'false', 'false'))", "raised", "with status 1"),
    ],
)
def test_how_a_worker_ends_is_noticed(tmp_path: Path, body: str, kind: str, text: str) -> None:
    soak = LoadCampaign(tmp_path, seed="CI", workers=1, actions=1)
    soak.patience = 1 if kind == "hung" else soak.patience
    start = "2" if kind == "hung" else "0"  # which is slow, but no hang
    soak.command = [sys.executable, "-c", FAILS.replace("BODY", body).replace("START", start)]
    soak.run(1)
    assert any(each.kind == kind and text in each.text for each in soak.findings), soak.summary()
