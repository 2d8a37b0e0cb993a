"""`python -m tests.fuzz.plans --count N --seed S`: plans for generated programs, on `evaluate` and
compiled; each is refused with a repair that works, or right."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fuzz.model import Case
from tests.fuzz.plans.campaign import FAILURES, SECONDS, PlanCampaign
from tests.fuzz.workers import ROOT, Worker
from tests.support.campaigns import parser_of, run_campaign


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
    parser = parser_of("tests.fuzz.plans", __doc__)
    parser.add_argument("--tree", type=Path, default=ROOT, help="where tc is")
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
    return run_campaign(campaign, chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
