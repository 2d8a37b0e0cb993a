"""`python -m tests.soak --minutes n --seed s`: processes, threads and forks that call and compile
at random on one directory of kernels, and are killed, signalled and out of disk meanwhile.

Every result is compared with numpy. What dies, hangs, computes something else or grows without
bound is printed with what it was doing, and with the stacks of its threads.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.soak.campaign import SILENCE_SECONDS, Campaign


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="stop after so long")
    parser.add_argument("--seed", default="0", help="of what the workers do")
    parser.add_argument("--workers", type=int, default=3, help="processes at a time")
    parser.add_argument("--actions", type=int, default=400, help="of each until it is replaced")
    parser.add_argument(
        "--patience", type=int, default=SILENCE_SECONDS, help="seconds until it hangs"
    )
    parser.add_argument("--log", type=Path, default=None, help="all records")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="tc-soak-", ignore_cleanup_errors=True) as folder:
        campaign = Campaign(
            Path(folder, "kernels"),
            seed=chosen.seed,
            workers=chosen.workers,
            actions=chosen.actions,
            patience=chosen.patience,
        )
        if chosen.log is not None:
            chosen.log.parent.mkdir(parents=True, exist_ok=True)
            campaign.log = chosen.log.open("w")
        try:
            campaign.run(end=time.monotonic() + chosen.minutes * 60)
        finally:
            if campaign.log is not None:
                campaign.log.close()
            print(campaign.summary(), flush=True)
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
