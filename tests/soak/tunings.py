"""`python -m tests.soak.tunings --count n --seed s`: generated programs, tuned for a moment each.

What tc chooses for a program and some candidates are compiled, checked between guarded pages and
timed, as `tc.autotune` does it, on inputs of odd layouts or on those that the tuner draws. A
candidate that fails is printed with its program: none has a reason to.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import warnings
from collections import Counter

import tc
from tc.errors import InternalError, TCError
from tc.polyhedral.rewrite.coalescing import coalesce
from tests.fuzz import generate
from tests.fuzz.execute import Arrays, run_of
from tests.fuzz.model import ENTRY, Case
from tests.support.trials import Trials, trials

SECONDS = 0.2
"""For candidates beside what tc chooses."""


EVERY = 100
"""Programs after which the campaign prints its counts."""


class Campaign:
    """Tunes cases of one sequence, and counts."""

    def __init__(self, seed: int, backend: str, made: Trials) -> None:
        self.seed, self.backend, self.trials = seed, backend, made
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []

    def tune(self, index: int) -> None:
        """Tunes the case of a number, if the program may run at all."""
        case = generate.case(self.seed, index, (self.backend,))
        if case.refused:
            self.counts["programs that break a rule, passed over"] += 1
            return
        draw = random.Random(f"{self.seed}/{index}/tuning")
        views, _ = Arrays(run_of(case)).guarded()
        try:
            problem = self.trials.problem(case.text, views, entry=ENTRY)
            real = views if draw.random() < 0.5 else None
            end = time.monotonic() + SECONDS
            tried = 0
            failures = self.trials.failures(problem, real, candidates=20, seed=index)
            for tried, (options, failure) in enumerate(failures, 1):
                if failure is not None:
                    self._find(index, case, f"{options.to_json()}\n{failure}")
                if tried == 1:
                    end = time.monotonic() + SECONDS
                elif time.monotonic() > end:
                    break
        except InternalError as error:
            self._find(index, case, str(error))
            return
        except TCError as error:
            self.counts[f"refused: {type(error).__name__} {error.rule or ''}".rstrip()] += 1
            return
        shaped = problem.shaped()
        strides = problem.element_strides(shaped)
        self.counts["tunings"] += 1
        self.counts["candidates"] += tried
        self.counts["tunings with joined dimensions"] += coalesce(shaped, strides)[0] is not shaped
        self.counts["tunings on real inputs"] += real is not None

    def _find(self, index: int, case: Case, what: str) -> None:
        self.findings.append(f"{index}: {what}\n{case.text}")
        print(self.findings[-1], flush=True)

    def summary(self) -> str:
        counts = [f"{number:6d} {what}" for what, number in sorted(self.counts.items())]
        return "\n".join([f"seed {self.seed}, {len(self.findings)} findings", *counts])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak.tunings", description=__doc__)
    parser.add_argument("--count", type=int, default=2000, help="how many tunings")
    parser.add_argument("--minutes", type=float, default=None, help="stop after so long")
    parser.add_argument("--seed", type=int, default=0, help="of the sequence of programs")
    parser.add_argument("--start", type=int, default=0, help="number of the first program")
    parser.add_argument("--backend", default="numba")
    chosen = parser.parse_args(arguments)
    end = time.monotonic() + chosen.minutes * 60 if chosen.minutes else float("inf")
    warnings.simplefilter("ignore", tc.TCWarning)
    with trials(chosen.backend) as made:
        campaign = Campaign(chosen.seed, chosen.backend, made)
        index = chosen.start
        try:
            while campaign.counts["tunings"] < chosen.count and time.monotonic() < end:
                campaign.tune(index)
                index += 1
                if index % EVERY == 0:
                    print(f"{campaign.counts['tunings']} tunings", flush=True)
        finally:
            print(f"programs {chosen.start} to {index - 1}\n{campaign.summary()}", flush=True)
    return 1 if campaign.findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
