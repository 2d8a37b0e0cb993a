"""Whatever candidates do, to themselves, their workers or the machine: each is recorded with its
reason, none is returned, and nothing that was measured is lost."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

if sys.platform != "linux":
    pytest.skip("limits and processes are those of Linux", allow_module_level=True)

import _thread
import time

from tc.errors import TCWarning
from tc.options import Options
from tc.tuning.database import TuningDatabase
from tc.tuning.measure import Limits, Measurer
from tc.tuning.measuring.compiling import Compilers
from tc.tuning.measuring.workers import Worker
from tc.tuning.problem import Trial
from tc.tuning.search import SEARCHES
from tc.tuning.tuner import Budget, TuningResult, tune
from tests.soak.tuners import FaultySearch, TunerCampaign, children_of, problem_of
from tests.support.faulty_backend import FAULTS, FaultyBackend, while_compiling, while_running

LIMITS = Limits(compile_seconds=3, run_seconds=30, timing_seconds=0.02, memory=1 << 28)

WRONG = "it is wrong: y"
REASONS = {
    "hang": "it has not ended after",
    "allocate": "there is not enough memory for it",
    "talk": "it has printed more than 1048576 bytes",
    "write_behind": "it was ended by SIGSEGV: it reads or writes memory that is not its own",
    "write_before": "it was ended by SIGSEGV: it reads or writes memory that is not its own",
    "read_far_behind": "it was ended by SIGSEGV: it reads or writes memory that is not its own",
    "write_input": "it was ended by SIGSEGV: it reads or writes memory that is not its own",
    "be_wrong": WRONG,
    "be_turned": WRONG,
    "forget_one": WRONG,
    "be_wrong_later": WRONG,
    "be_fast_and_wrong_later": WRONG,
    "end_process": "it has ended with status 3",
    "end_politely": "SystemExit: 0",
    "be_killed": "it was ended by SIGKILL",
    "kill_server": "the process that watches over it was ended",
    "raise_error": "ValueError: no such luck",
    "fork_and_stay": "it has not ended after",
}
"""What is said of each fault."""

COMPILING = ("hang", "allocate", "talk", "end_process", "be_killed", "kill_server", "raise_error")


def test_all_have_reasons() -> None:
    assert [fault.__name__ for fault in FAULTS] == list(REASONS)


@pytest.fixture(scope="module")
def trials(request: pytest.FixtureRequest) -> dict[Options, Trial]:
    """Of the faults that the tests of this run ask for."""
    backend = FaultyBackend()
    cases = [(item.originalname, item.callspec.params["name"]) for item in request.session.items
             if item.path == request.path and "trials" in item.fixturenames]  # fmt: skip
    asked = [
        (while_running if test == test_a_fault_while_it_runs.__name__ else while_compiling)(name)
        for test, name in cases
    ]
    asked.append(while_running("be_fast"))
    with Measurer(problem_of(backend), backend, limits=LIMITS) as measurer:
        found = {trial.options: trial for trial in measurer.measure(asked)}
        assert measurer.confirm() == found[while_running("be_fast")]
    return found


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", REASONS)
def test_a_fault_while_it_runs(name: str, trials: dict[Options, Trial]) -> None:
    failure = trials[while_running(name)].failure
    assert failure is not None
    assert failure.startswith(REASONS[name])


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", COMPILING)
def test_a_fault_while_it_is_compiled(name: str, trials: dict[Options, Trial]) -> None:
    failure = trials[while_compiling(name)].failure
    assert failure is not None
    assert failure.startswith(f"it cannot be compiled: {REASONS[name]}")


# --- searches -------------------------------------------------------------------------------------


def searched(
    path: Path, monkeypatch: pytest.MonkeyPatch, asked: list[Options], **how: Any
) -> TuningResult:
    """A search that asks for these, in this process."""
    backend = FaultyBackend()
    monkeypatch.setitem(SEARCHES, "faulty", FaultySearch)
    monkeypatch.setattr(FaultySearch, "asked", asked)
    return tune(
        problem_of(backend), backend, search="faulty", limits=LIMITS, workers=1,
        budget=Budget(max_seconds=60), database=TuningDatabase(path), **how,
    )  # fmt: skip


def kept(path: Path) -> list[Trial]:
    return [measurement.trial for measurement in TuningDatabase(path).measurements()]


def interrupting(call: Callable[..., Any], number: int) -> Callable[..., Any]:
    """The function, whose so-and-so-manieth call comes with an interrupt of the main thread, and
    goes on a while."""
    left = [number]

    def interrupted(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0:
            _thread.interrupt_main()
            time.sleep(0.05)
        return call(*arguments, **named)

    return interrupted


PHASES = {
    "the default lowered": (FaultySearch, "ask", 1, 0),
    "inputs prepared": (Measurer, "_start", 1, 0),
    "the default measured": (Measurer, "_trial", 1, 0),
    "a candidate lowered": (FaultySearch, "ask", 3, 0),
    "compiling": (Compilers, "compile", 3, 0),
    "profiling": (Measurer, "_trial", 3, 1),
    "a worker runs": (Worker, "run", 6, 0),
    "in turns": (Measurer, "_duel", 1, 1),
    "keeping": (TuningDatabase, "record", 2, 1),
    "the last turns": (Measurer, "confirm", 1, 3),
}


@pytest.mark.drawn(5)
@pytest.mark.parametrize("phase", PHASES)
def test_an_interrupt_in_each_phase(
    phase: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    owner, name, number, least = PHASES[phase]
    request.addfinalizer(partial(signal.signal, signal.SIGINT, signal.getsignal(signal.SIGINT)))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background
    monkeypatch.setattr(owner, name, interrupting(getattr(owner, name), number))
    path = tmp_path / "tuned.db"
    asked = [while_running("be_slow"), while_running("be_fast"), while_running("be_alike")]
    result = searched(path, monkeypatch, asked)
    assert children_of(os.getpid()) == []
    assert result.interrupted
    assert least <= len(result.trials) <= 3
    measured = [result.default] if result.default.seconds else []
    assert kept(path)[: len(measured) + 3] == [*measured, *result.trials] if path.exists() else True
    assert result.best.options in (result.default.options, while_running("be_fast"))


def test_what_a_full_disk_refused_is_kept_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files break off where they pass some length, as on a disk that has become full."""
    path = tmp_path / "tuned.db"
    add = TuningDatabase.add
    calls = []

    def full(*arguments: Any) -> int:
        import resource

        calls.append(1)
        if len(calls) not in (2, 3, 7):
            return add(*arguments)
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            return add(*arguments)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    monkeypatch.setattr(TuningDatabase, "add", full)
    asked = [while_running("be_slow"), while_running("be_alike"), while_running("raise_error")]
    with pytest.warns(TCWarning, match="what is measured is not kept"):
        result = searched(path, monkeypatch, asked)
    assert {result.default, *result.trials} <= set(kept(path))
    assert len(kept(path)) == 5  # and that the default was confirmed, which was refused last


# --- at random ------------------------------------------------------------------------------------


def test_some_at_random(tmp_path: Path) -> None:
    check(TunerCampaign(tmp_path, seed=1), 6)


@pytest.mark.slow
def test_a_thousand_at_random(tmp_path: Path) -> None:
    check(TunerCampaign(tmp_path, seed=int(time.time())), 1000)


def check(campaign: TunerCampaign, faults: int) -> None:
    campaign.run(faults)
    assert campaign.findings == [], campaign.summary()
    assert sum(campaign.counts.values()) >= faults
