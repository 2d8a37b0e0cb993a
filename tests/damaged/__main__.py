"""`python -m tests.damaged --minutes n --seed s`: files with one byte changed, as many as there is
time for, of all kinds in turn. What should not come of one is printed with how it comes again."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from tests.damaged.kinds import KINDS, case


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.damaged", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="stop after so long")
    parser.add_argument("--seed", default="0", help="of what is damaged")
    parser.add_argument("--kind", action="append", choices=KINDS, help="only files of this kind")
    parser.add_argument("--only", metavar="CASE", help="one case, as a finding names it")
    chosen = parser.parse_args(arguments)
    names = chosen.kind or list(KINDS)
    counts: dict[str, Counter[str]] = {name: Counter() for name in names}
    findings = 0
    end = time.monotonic() + 60 * chosen.minutes
    with tempfile.TemporaryDirectory(prefix="tc-damaged-", ignore_cleanup_errors=True) as folder:
        kinds = []
        for name in names:
            Path(folder, name).mkdir(mode=0o700)
            kinds.append(KINDS[name](Path(folder, name)))
        number = 0
        while time.monotonic() < end and not (chosen.only and number):
            for kind in kinds:
                for _ in range(1 if chosen.only else max(1, kind.drawn // 20)):
                    seed = chosen.only or f"{chosen.seed}.{number}"
                    number += 1
                    try:
                        counts[kind.name][case(kind, seed)] += 1
                    except Exception:
                        findings += 1
                        print(f"--kind {kind.name} --only {seed}")
                        traceback.print_exc()
    for name, count in counts.items():
        told = ", ".join(f"{number} {what}" for what, number in sorted(count.items()))
        print(f"{name}: {count.total()} cases: {told}")
    print(f"{findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
