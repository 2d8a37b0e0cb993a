"""The loop of every campaign: numbered cases are judged one after another, and findings printed.

A campaign is a subclass of `Campaign` whose `judge` draws and judges the case of one number; its
module parses the arguments with `parser_of` and ends with `run_campaign`:

    python -m tests.fuzz --seed 1 --start 200 --count 50 --minutes 5

The exit code is 1 where anything was found.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
import time
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tc.errors import STRICT

REPORT_SECONDS = 60.0
"""Seconds between two lines that say how many cases have been judged."""


class Passed(Exception):
    """A case, or a part of it, cannot be judged: the text says why."""


@dataclass
class Finding:
    """A case that was judged to be wrong: of findings with one `signature`, the first is kept, and
    the others are counted in `times`."""

    kind: str
    number: object
    text: str
    signature: str
    times: int = 1


class Campaign(ABC):
    """Judges numbered cases, and keeps counts and findings. `repeat` is the command that repeats a
    case once the number of the case is appended; `refusals` are the errors that no case is blamed
    for."""

    repeat = ""
    refusals: tuple[type[Exception], ...] = ()

    def __init__(self, seed: Any, log: Path | None = None) -> None:
        self.seed, self.log = seed, log
        self.counts: Counter[str] = Counter()
        self.findings: list[Finding] = []
        self.judged = self.left = 0
        self.end = float("inf")

    @abstractmethod
    def judge(self, number: int) -> int:
        """Judges what is drawn by this number, and returns how many cases that was: at most
        `self.left`, and 0 where the number gives none."""

    def run(self, count: int, start: int = 0, end: float = float("inf")) -> None:
        """Judges `count` cases, drawn by the numbers from `start` on, or fewer if the monotonic
        clock reaches `end` before."""
        self.end = end
        last, report_at = self.judged + count, time.monotonic() + REPORT_SECONDS
        for number in itertools.count(start):
            now = time.monotonic()
            self.left = last - self.judged
            if self.left <= 0 or now > end:
                break
            if now > report_at:
                report_at = now + REPORT_SECONDS
                print(f"{self.judged} cases, {len(self.findings)} findings", flush=True)
            self.judged += self.judge(number)

    def count_judged(self, number: object, text: str, judged: Iterable[str]) -> None:
        """Counts what a judge yields, the reason of `Passed` and the rule of a refusal by
        `refusals`; any other exception is a finding, told with the text that was judged."""
        try:
            for what in judged:
                self.counts[what] += 1
        except Passed as passed:
            self.counts[f"passed: {passed}"] += 1
        except self.refusals as error:
            what = f"{type(error).__name__} {getattr(error, 'rule', '')}"
            self.counts[what] += 1
            print(f"\n--- {number}: {what}: {error}\n{text}", flush=True)
        except Exception as error:
            kind = type(error).__name__
            self.counts[f"WRONG {kind}"] += 1
            self.find(kind, number, f"{error}\n{text}")
            if not isinstance(error, AssertionError):
                traceback.print_exc(limit=-4, file=sys.stdout)

    def find(self, kind: str, number: object, text: str, signature: str = "") -> bool:
        """Keeps and prints a finding; returns False if its signature (or else its kind and text)
        was found before."""
        signature = signature or f"{kind}: {text}"
        for known in self.findings:
            if known.signature == signature:
                known.times += 1
                return False
        self.findings.append(Finding(kind, number, text, signature))
        print(f"\n--- {number}: {kind}: {text}", flush=True)
        if self.repeat:
            print(f"again: {self.repeat} {number}", flush=True)
        return True

    def note(self, entry: dict[str, Any]) -> None:
        """Appends a line of JSON to the log, if there is one."""
        if self.log is not None:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            with self.log.open("a") as log:
                log.write(json.dumps(entry) + "\n")

    def summary(self) -> str:
        """The counts, and one line for each finding."""
        lines = [f"seed {self.seed}: {self.judged} cases, {len(self.findings)} findings"]
        lines += [f"  {number:6d} {kind}" for kind, number in self.counts.most_common()]
        lines += [f"first at {f.number}, {f.times} times: {f.signature}" for f in self.findings]
        return "\n".join(lines)

    def close(self) -> None:  # noqa: B027  # most campaigns judge in their own process
        """Ends the processes that judge cases."""


def parser_of(
    module: str, description: str | None, *, count: int = 1000, seed: Any = 0
) -> argparse.ArgumentParser:
    """The options of every campaign; `count` and `seed` are the defaults."""
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.add_argument("--count", type=int, default=count, help="cases to judge")
    parser.add_argument("--seed", type=type(seed), default=seed, help="of the sequence of cases")
    parser.add_argument("--start", type=int, default=0, help="number of the first case")
    parser.add_argument("--minutes", type=float, default=None, help="stop after this time")
    parser.add_argument("--log", type=Path, default=None, help="file for lines of JSON")
    return parser


def run_campaign(campaign: Campaign, chosen: argparse.Namespace) -> int:
    """Runs a campaign as the options say, prints its summary, and returns the exit code: 1 where
    anything was found."""
    os.environ.setdefault(STRICT, "1")  # every pass is verified
    end = time.monotonic() + chosen.minutes * 60 if chosen.minutes else float("inf")
    try:
        campaign.run(chosen.count, chosen.start, end)
    finally:
        campaign.close()
        print(campaign.summary(), flush=True)
    return 1 if campaign.findings else 0
