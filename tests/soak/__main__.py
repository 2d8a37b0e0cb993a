"""`python -m tests.soak --minutes n --seed s`: processes, threads and forks that call and compile
at random on one directory of kernels, and are killed, signalled and out of disk meanwhile.

Every result is compared with numpy. What dies, hangs, computes something else or grows without
bound is printed with what it was doing, and with the stacks of its threads.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.soak.campaign import SILENCE_SECONDS, LoadCampaign
from tests.support.campaigns import parser_of, run_campaign


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.soak", __doc__, count=10**9, seed="0")
    parser.set_defaults(minutes=10)
    parser.add_argument("--workers", type=int, default=3, help="processes at a time")
    parser.add_argument("--actions", type=int, default=400, help="of each until it is replaced")
    parser.add_argument(
        "--patience", type=int, default=SILENCE_SECONDS, help="seconds until it hangs"
    )
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tc-soak-", ignore_cleanup_errors=True) as folder:
        campaign = LoadCampaign(
            Path(folder, "kernels"),
            seed=chosen.seed,
            workers=chosen.workers,
            actions=chosen.actions,
            patience=chosen.patience,
            log=chosen.log,
        )
        return run_campaign(campaign, chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
