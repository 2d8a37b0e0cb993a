"""Tuners with faults at random, and what must hold of them: nothing that was measured is lost, no
wrong kernel is returned, no process stays, and the database is whole.

A tuner is a process of its own (`python -m tests.soak.tuners SEED CANDIDATES DATABASE`). Its
candidates are those of `tests.support.faulty_backend`; meanwhile it loses workers, its clock jumps,
its disk is full for a while; from outside it is interrupted or killed, and another tuner writes to
the same database.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, ClassVar

from tc.options import Options
from tc.pipeline import check_module, parse_source
from tc.runtime.sizes import CallSizes
from tc.source import Source
from tc.tuning.database import Measurement, TuningDatabase
from tc.tuning.measure import Limits
from tc.tuning.problem import Problem, Trial
from tc.tuning.search import SEARCHES, RandomSearch
from tc.tuning.space import Candidate
from tc.tuning.tuner import Budget, TuningResult, tune
from tests.support.campaigns import Campaign
from tests.support.faulty_backend import (
    FAULTS,
    WELL,
    FaultyBackend,
    what_it_does,
    while_compiling,
    while_running,
)

ROOT = Path(__file__).resolve().parents[2]
TWICE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"
LIMITS = Limits(compile_seconds=2, run_seconds=30, timing_seconds=0.05, memory=1 << 28)

GOOD = {None, *(each.__name__ for each in WELL)}
BAD = [fault.__name__ for fault in FAULTS]
ENDING = [name for name in BAD if name in ("hang", "talk", "end_process", "kill_server")]
"""What compilers do, too."""

CANDIDATES = 30  # of a tuner
HANG_SECONDS = 400.0  # seconds, after which a tuner hangs
BUDGET = 120.0


def problem_of(backend: FaultyBackend, text: str = TWICE) -> Problem:
    program = check_module(parse_source(Source(text)), None)
    return Problem.of(program, CallSizes({"x": (40,)}, {}), backend, check=True)


class FaultySearch(RandomSearch):
    """Asks for the default, and then for options that are given."""

    asked: ClassVar[list[Options]] = []

    def ask(self) -> Candidate | None:
        if not self.known:
            return super().ask()
        place = len(self.known) - 1
        if place >= len(self.asked):
            return None
        return self._new(Candidate({}, self.asked[place], f"candidate {place}", ()))


def children_of(process: int) -> list[str]:
    """What the workers of a process are called that are not gone after a moment."""
    until = time.monotonic() + 30  # as one that starts looks around when it has begun
    while found := [words for _, words in workers_of(process)]:
        if time.monotonic() > until:
            return found
        time.sleep(0.02)
    return []


def workers_of(process: int) -> list[tuple[int, str]]:
    """The processes that a process watches over candidates with, and the children of those."""
    mark, found = f'"parent": {process},', []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            words = (folder / "cmdline").read_text()
            state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
            if mark in words and state != "Z":
                found.append((int(folder.name), words.replace("\0", " ")[-200:]))
    return found


# --- a tuner --------------------------------------------------------------------------------------


def main(seed: str, candidates: str, database: str) -> None:
    draw = random.Random(seed)
    FaultySearch.asked = drawn(draw, int(candidates))
    SEARCHES["faulty"] = FaultySearch
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    _jump(draw.random(), counts)
    _fill_disk(random.Random(seed), counts)
    backend = FaultyBackend()

    def told(_: TuningResult) -> None:
        if draw.random() < 0.1:
            _kill_worker(draw, counts)

    _say("begun", None)
    if draw.random() < 0.3:
        _kill_worker(draw, counts)
    result = tune(
        problem_of(backend), backend, search="faulty", limits=LIMITS, workers=2,
        budget=Budget(max_seconds=BUDGET), database=TuningDatabase(Path(database)), told=told,
    )  # fmt: skip
    left = children_of(os.getpid())
    for trial in result.trials:
        _say("trial", trial)
    about = {"interrupted": result.interrupted, "left": left, "counts": counts}
    _say("best", result.best, **about)


def drawn(draw: random.Random, number: int) -> list[Options]:
    found = []
    for again in range(number):
        if draw.random() < 0.15:
            found.append(while_running(draw.choice(WELL).__name__, again))
        elif draw.random() < 0.2:
            found.append(while_compiling(draw.choice(ENDING), again))
        else:
            found.append(while_running(draw.choice(BAD), again))
    return found


def _say(kind: str, trial: Trial | None, **about: Any) -> None:
    if trial is not None:
        about["options"], about["failure"] = trial.options.to_json(), trial.failure
        about["seconds"] = trial.seconds
    print(json.dumps({"kind": kind, **about}), flush=True)


def _jump(share: float, counts: Counter[str]) -> None:
    """The time of day jumps, back and forth."""
    draw, now = random.Random(share), time.time

    def jumping() -> float:
        if draw.random() < 0.1:
            counts["the clock jumps"] += 1
        return now() + draw.choice((0.0, -1e6, 1e6))

    time.time = jumping


def _fill_disk(draw: random.Random, counts: Counter[str]) -> None:
    """Now and then no file may become longer, for a moment. What is kept is said."""
    add = TuningDatabase.add
    last = [0]

    def full(database: TuningDatabase, measurements: Sequence[Measurement]) -> int:
        arguments = database, measurements
        if last[0] or draw.random() > 0.1:
            last[0] = 0
            added = add(*arguments)
            for measurement in measurements:
                _say("kept", measurement.trial)
            return added
        last[0] = 1
        counts["the disk is full"] += 1
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            return add(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    TuningDatabase.add = full  # type: ignore[method-assign]


def _kill_worker(draw: random.Random, counts: Counter[str]) -> None:
    """Ends one, in a moment."""

    def kill() -> None:
        workers = workers_of(os.getpid())
        if workers:
            counts["a worker is killed"] += 1
            with suppress(ProcessLookupError):
                os.kill(draw.choice(workers)[0], signal.SIGKILL)

    threading.Timer(draw.uniform(0.0, 0.3), kill).start()


# --- from outside ---------------------------------------------------------------------------------


class TunerCampaign(Campaign):
    """Runs tuners one after the other, some two at a time on one database, and counts the faults
    injected; interrupts some, kills some, and judges each by its output and the database."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        super().__init__(seed)
        self.folder, self.draw = folder, random.Random(seed)
        self.started = 0

    def judge(self, number: int) -> int:
        """Runs one tuner or two, and returns the number of faults that they met; `self.left` after
        a finding, as tuners that end at once meet no faults."""
        before = sum(self.counts.values())
        path = self.folder / f"{number}.db"
        both = self.draw.random() < 0.3
        tuners = [self._start(path, min(CANDIDATES, self.left // 2 + 2)) for _ in range(1 + both)]
        self.counts["two tuners on one database"] += int(both)
        threads = [threading.Thread(target=self._end, args=(t, path)) for t in tuners]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self._judge_file(path)
        return self.left if self.findings else sum(self.counts.values()) - before

    def _start(self, path: Path, candidates: int) -> subprocess.Popen[str]:
        self.started += 1
        command = [sys.executable, "-m", __name__, f"{self.seed} {self.started}",
                   str(candidates), str(path)]  # fmt: skip
        return subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def _end(self, tuner: subprocess.Popen[str], path: Path) -> None:
        """Waits for the end of a tuner, or brings it about."""
        how = self.draw.choices((None, signal.SIGINT, signal.SIGKILL), (5, 3, 2))[0]
        after = self.draw.randrange(CANDIDATES)
        delay = self.draw.uniform(0.0, 0.5 if after else 5.0)
        hung = threading.Timer(HANG_SECONDS, tuner.kill)
        hung.start()
        assert tuner.stdout is not None
        assert tuner.stderr is not None
        said: list[dict[str, Any]] = []
        for line in tuner.stdout:
            if line.endswith("}\n"):
                said.append(json.loads(line))
            if how is not None and len(said) == after + 1:
                threading.Timer(delay, tuner.send_signal, [how]).start()
        with tuner:
            err = tuner.stderr.read()
        if hung.finished.is_set():
            self.find("tuner", self.started, f"a tuner has not ended after {HANG_SECONDS:g} s")
        hung.cancel()
        was_cut = how is not None and tuner.returncode == -how
        if how is signal.SIGINT and any(each.get("interrupted") for each in said):
            self.counts["an interrupt"] += 1
        self.counts["a tuner is killed"] += was_cut
        if tuner.returncode and not was_cut:
            self.find("tuner", self.started, f"status {tuner.returncode}: {err[-2000:]}")
        self._judge(said, path, tuner.pid)

    def _judge(self, said: list[dict[str, Any]], path: Path, process: int) -> None:
        self._find_children(children_of(process))
        kept = [
            (m.trial.options.to_json(), m.trial.failure, list(m.trial.seconds))
            for m in (TuningDatabase(path).measurements() if path.exists() else ())
        ]
        for each in said:
            if each["kind"] in ("kept", "trial"):
                does = what_it_does(Options.from_json(each["options"]))
                if each["kind"] == "kept" and does is not None and does not in GOOD:
                    self.counts[does] += 1
                if does not in GOOD and each["failure"] is None:
                    self.find("tuner", self.started, f"taken as right: {does}")
                if (each["options"], each["failure"], each["seconds"]) not in kept:
                    self.find("tuner", self.started, f"lost: {each}")
            elif each["kind"] == "best":
                self.counts.update(each["counts"])
                self._find_children(each["left"])
                does = what_it_does(Options.from_json(each["options"]))
                if does not in GOOD or each["failure"] is not None:
                    self.find("tuner", self.started, f"returned: {does}")

    def _find_children(self, found: Sequence[str]) -> None:
        for words in found:
            self.find("tuner", self.started, f"stays: {words}")

    def _judge_file(self, path: Path) -> None:
        if path.exists():
            with closing(sqlite3.connect(path)) as connection:
                (found,) = connection.execute("PRAGMA integrity_check").fetchone()
            if found != "ok":
                self.find("tuner", self.started, f"damaged: {found}")


if __name__ == "__main__":
    main(*sys.argv[1:])
