"""`python -m tests.fuzz.plans --plans N --seed S`: plans for generated programs, on `evaluate` and
compiled; each is refused with a repair that works, or right."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.model import Case
from tests.fuzz.plans.campaign import FAILURES, SECONDS, PlanCampaign
from tests.fuzz.workers import ROOT, Worker


def again(files: list[Path]) -> int:
    """Judges stored plans, each with the case beside it."""
    worker = Worker(seconds=SECONDS)
    wrong = 0
    for file in files:
        question = {"case": file.read_text(), "plan": file.with_suffix(".json").read_text()}
        on_gpu = "arch" in Case.from_json(question["case"]).device
        backends = [] if on_gpu else ["numba", "c"]
        verdict = worker.ask(
            "judge a plan", {**question, "backends": backends, "check_repair": True}
        )
        wrong += verdict.kind in FAILURES
        print(f"{file.stem}: {verdict.kind}: {verdict.detail}")
    worker.close()
    return min(wrong, 1)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.plans", description=__doc__)
    parser.add_argument("--plans", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the sequence")
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long")
    parser.add_argument("--tree", type=Path, default=ROOT, help="where tc is")
    parser.add_argument("--log", type=Path, default=None, help="JSON lines, two per plan")
    parser.add_argument("--found", type=Path, default=None, help="folder for failing plans")
    parser.add_argument("--backends", default="numba:1,c:3", help="name:every how many, or none")
    parser.add_argument("--gpus", action="store_true", help="plans for GPUs, on evaluate alone")
    parser.add_argument("--no-shrink", action="store_true", help="write plans as drawn")
    parser.add_argument("--again", type=Path, nargs="+", help="judge .case files that were found")
    chosen = parser.parse_args(arguments)
    if chosen.again:
        return again(chosen.again)
    every = {b: int(n) for b, _, n in (x.partition(":") for x in chosen.backends.split(",") if x)}
    campaign = PlanCampaign(
        seed=chosen.seed,
        tree=chosen.tree,
        log=chosen.log,
        found=chosen.found,
        shrinks=not chosen.no_shrink,
        compiled_every={} if chosen.gpus else every,
        gpus=chosen.gpus,
    )
    end = time.monotonic() + chosen.minutes * 60 if chosen.minutes else float("inf")
    try:
        campaign.run(chosen.plans, end)
    finally:
        campaign.close()
        print(campaign.summary())
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
