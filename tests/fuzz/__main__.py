"""`python -m tests.fuzz --programs N --seed S`: generated programs against the interpreter.

Each line of the log is a verdict; a failing program is shrunk and written as a file, in the form
that `tests/programs/found` holds.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.fuzz.campaign import Campaign
from tests.fuzz.workers import ROOT


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--programs", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, default=0, help="of the sequence")
    parser.add_argument("--start", type=int, default=0, help="number of the first")
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long")
    parser.add_argument("--tree", type=Path, default=ROOT, help="where tc is")
    parser.add_argument("--log", type=Path, default=None, help="one JSON line per program")
    parser.add_argument("--found", type=Path, default=None, help="folder for failing programs")
    parser.add_argument("--backends", default="numba,c,evaluate", help="to draw from")
    parser.add_argument("--no-shrink", action="store_true", help="write programs as drawn")
    chosen = parser.parse_args(arguments)
    campaign = Campaign(
        seed=chosen.seed,
        tree=chosen.tree,
        backends=tuple(chosen.backends.split(",")),
        log=chosen.log,
        found=chosen.found,
        shrinks=not chosen.no_shrink,
    )
    end = time.monotonic() + chosen.minutes * 60 if chosen.minutes else float("inf")
    try:
        campaign.run(range(chosen.start, chosen.start + chosen.programs), end)
    finally:
        campaign.close()
        print(campaign.summary())
    return 1 if campaign.failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
