"""`python -m tests.soak.tunings --count n --seed s`: generated programs, tuned for a moment each.

What tc chooses for a program and some candidates are compiled, checked between guarded pages and
timed, as `tc.autotune` does it, on inputs of odd layouts or on those that the tuner draws. A
candidate that fails is printed with its program: none has a reason to.
"""

from __future__ import annotations

import random
import sys
import time
import warnings

import tc
from tc.errors import InternalError, TCError
from tc.polyhedral.rewrite.coalescing import coalesce
from tests.fuzz import generate
from tests.fuzz.execute import Arrays, run_of
from tests.fuzz.model import ENTRY
from tests.support.campaigns import Campaign, parser_of, run_campaign
from tests.support.trials import Trials, trials

SECONDS = 0.2
"""For candidates beside what tc chooses."""


class TuningCampaign(Campaign):
    """Tunes generated programs."""

    def __init__(self, seed: int, backend: str, made: Trials) -> None:
        super().__init__(seed)
        self.backend, self.trials = backend, made
        self.repeat = (
            f"python -m tests.soak.tunings --seed {seed} --backend {backend} --count 1 --start"
        )

    def judge(self, index: int) -> int:
        """Tunes the program of a number, if the program may run at all."""
        case = generate.case(self.seed, index, (self.backend,))
        if case.refused:
            self.counts["programs that break a rule, passed over"] += 1
            return 0
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
                    self.find("candidate", index, f"{options.to_json()}\n{failure}\n{case.text}")
                if tried == 1:
                    end = time.monotonic() + SECONDS
                elif time.monotonic() > end:
                    break
        except InternalError as error:
            self.find("internal", index, f"{error}\n{case.text}")
            return 1
        except TCError as error:
            self.counts[f"refused: {type(error).__name__} {error.rule or ''}".rstrip()] += 1
            return 0
        shaped = problem.shaped()
        strides = problem.element_strides(shaped)
        self.counts["tunings"] += 1
        self.counts["candidates"] += tried
        self.counts["tunings with joined dimensions"] += coalesce(shaped, strides)[0] is not shaped
        self.counts["tunings on real inputs"] += real is not None
        return 1


def main(arguments: list[str]) -> int:
    parser = parser_of("tests.soak.tunings", __doc__, count=2000)
    parser.add_argument("--backend", default="numba")
    chosen = parser.parse_args(arguments)
    warnings.simplefilter("ignore", tc.TCWarning)
    with trials(chosen.backend) as made:
        return run_campaign(TuningCampaign(chosen.seed, chosen.backend, made), chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
