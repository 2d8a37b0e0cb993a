"""`python -m tests.fuzz --count N --seed S`: generated programs against the interpreter.

Each line of the log is a verdict; a failing program is shrunk and written as a file, in the form
that `tests/programs/found` holds.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.fuzz.campaign import ProgramCampaign
from tests.fuzz.workers import ROOT
from tests.support.campaigns import parser_of, run_campaign


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.fuzz", __doc__)
    parser.add_argument("--tree", type=Path, default=ROOT, help="where tc is")
    parser.add_argument("--found", type=Path, default=None, help="folder for failing programs")
    parser.add_argument("--backends", default="numba,c,evaluate", help="to draw from")
    parser.add_argument("--no-shrink", action="store_true", help="write programs as drawn")
    chosen = parser.parse_args(arguments)
    campaign = ProgramCampaign(
        seed=chosen.seed,
        tree=chosen.tree,
        backends=tuple(chosen.backends.split(",")),
        log=chosen.log,
        found=chosen.found,
        shrinks=not chosen.no_shrink,
    )
    return run_campaign(campaign, chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
