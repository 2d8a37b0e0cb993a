"""`python -m tests.damaged --minutes n --seed s`: files with one byte changed, as many as there is
time for, of all kinds in turn. A finding is printed with the command that repeats it."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.damaged.kinds import KINDS, case
from tests.support.campaigns import Campaign, parser_of, run_campaign


class DamageCampaign(Campaign):
    """Damages files of the given kinds in a folder; case `number` is of one kind."""

    def __init__(self, seed: str, names: list[str], folder: Path) -> None:
        super().__init__(seed)
        for name in names:
            Path(folder, name).mkdir(mode=0o700)
        kinds = [KINDS[name](Path(folder, name)) for name in names]
        # a share of each kind, as some kinds take a long time for one case
        self.kinds = [kind for kind in kinds for _ in range(max(1, kind.drawn // 20))]

    def judge(self, number: int) -> int:
        kind = self.kinds[number % len(self.kinds)]
        self.repeat = f"python -m tests.damaged --seed {self.seed} --kind {kind.name} --only"
        self.judge_one(kind.name, f"{self.seed}.{number}")
        return 1

    def judge_one(self, name: str, seed: str) -> None:
        """Damages one file of a kind, as the seed says."""
        kind = next(kind for kind in self.kinds if kind.name == name)
        judged = (f"{name}: {what}" for what in (case(kind, each) for each in (seed,)))
        self.count_judged(seed, f"a file of the kind {name!r}", judged)


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.damaged", __doc__, count=10**9, seed="0")
    parser.set_defaults(minutes=10)
    parser.add_argument("--kind", action="append", choices=KINDS, help="only files of this kind")
    parser.add_argument("--only", metavar="CASE", help="one case, as a finding names it")
    chosen = parser.parse_args(arguments)
    names = chosen.kind or list(KINDS)
    with tempfile.TemporaryDirectory(prefix="tc-damaged-", ignore_cleanup_errors=True) as folder:
        campaign = DamageCampaign(chosen.seed, names, Path(folder))
        if chosen.only:
            for name in names:
                campaign.judge_one(name, chosen.only)
            print(campaign.summary())
            return 1 if campaign.findings else 0
        return run_campaign(campaign, chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
