"""`python -m tests.fuzz.places --count N --seed S`: programs with computed places, conditions, and
ranges that depend on others, against the rules read literally."""

from __future__ import annotations

import sys

from tests.fuzz.places.campaign import PlaceCampaign
from tests.support.campaigns import parser_of, run_campaign


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.fuzz.places", __doc__)
    parser.add_argument(
        "--backends", default="interpret", help="interpret,numba,c,opencl,evaluate,gpus,dynamic"
    )
    chosen = parser.parse_args(arguments)
    campaign = PlaceCampaign(chosen.seed, tuple(chosen.backends.split(",")), chosen.log)
    code = run_campaign(campaign, chosen)
    for found in campaign.shortest.values():
        print(f"\nshortest ({found.number}): {found.signature}\n{found.kind}\n{found.text}")
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
