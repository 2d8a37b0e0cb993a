"""Tuning a problem: a search asks for candidates, workers measure them, the database keeps what
they found (Vasilache et al. 2018, section 6)."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median

from tc.backends.base import Backend
from tc.dtypes import Array
from tc.errors import BackendError, InputError
from tc.options import Options
from tc.process.uninterrupted import run_in_helper_thread
from tc.tuning.database import TuningDatabase
from tc.tuning.measure import Limits, Measurer, Stopper
from tc.tuning.problem import Problem, Trial
from tc.tuning.search import FAILED, Search, check_search, check_seed, search_named
from tc.tuning.space import Candidate, SearchSpace

__all__ = [
    "Budget",
    "Problem",
    "TuningDatabase",
    "TuningResult",
    "check_search",
    "check_seed",
    "tune",
]

MAX_KNOWN_PLANS = 4
"""Plans of the database that are tried first."""

GENERATION_CANDIDATES = 20
"""Candidates of a generation, of searches that have none of their own."""

_PATIENCE_SECONDS = 5.0
"""The seconds that an interrupt waits for a trial that is being kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """The bounds of a search in seconds, candidates and generations: the search ends at the first
    bound that it meets. None is no bound. InputError for values that are no bounds."""

    max_seconds: float | None = 60.0
    max_candidates: int | None = None
    generations: int | None = None

    def __post_init__(self) -> None:
        seconds: object = self.max_seconds
        is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
        if seconds is not None and not (is_number and 0 < self.seconds < math.inf):
            raise InputError(
                f"max_seconds={seconds!r}: a search takes a positive number of seconds",
                repair="max_seconds=60",
            )
        for name in ("max_candidates", "generations"):
            value: object = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise InputError(
                    f"{name}={value!r}: it is an integer of at least 1, or None",
                    repair=f"{name}={100 if name == 'max_candidates' else 10}",
                )
        if seconds is None and self.candidates == math.inf:
            raise InputError("a search without a bound would never end", repair="max_seconds=60")

    @property
    def seconds(self) -> float:
        return math.inf if self.max_seconds is None else float(self.max_seconds)

    @property
    def candidates(self) -> float:
        """The most that are measured, beside the default."""
        bounds = [math.inf if self.max_candidates is None else self.max_candidates]
        if self.generations is not None:
            bounds.append(self.generations * GENERATION_CANDIDATES)
        return min(bounds)


@dataclass(frozen=True, slots=True)
class TrialTime:
    """When a trial was measured, in `seconds` after the beginning of the search; `best` are the
    seconds of a call of the best candidate from then on."""

    seconds: float
    best: float


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The result of tuning, so far or at its end: the trial of the choice of tc itself, the best
    trial, which is that one or a trial that is faster beyond noise, all trials in order, the time
    of each, and whether an interrupt ended the search. `unkept` is the number of measurements that
    could not be kept in the database.

    A default that was not measured before the interrupt has no seconds.
    """

    problem: Problem
    default: Trial
    best: Trial
    trials: tuple[Trial, ...] = ()
    moments: tuple[TrialTime, ...] = ()
    interrupted: bool = False
    unkept: int = 0

    @property
    def speedup(self) -> float:
        """The time of the default over that of the best."""
        if self.best.options == self.default.options:
            return 1.0
        return self.default.time / self.best.time

    def __repr__(self) -> str:
        """One line: the trials are a wall of text."""
        found = f"{self.best.time:.3g} s" if self.best.failure is None else "nothing that runs"
        return f"<tuning result: {found} after {len(self.trials)} candidates, {self.failed}>"

    @property
    def failures(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.failure is not None)

    @property
    def wrong(self) -> tuple[Trial, ...]:
        """The failures that computed wrong numbers: faults of tc's, to be reported."""
        return tuple(trial for trial in self.failures if trial.is_wrong)

    @property
    def failed(self) -> str:
        """The number of candidates that failed, and of those with wrong numbers, in words."""
        wrong = f", {len(self.wrong)} of them with wrong numbers" if self.wrong else ""
        return f"{len(self.failures)} failed{wrong}"

    @property
    def median(self) -> float:
        """The median of the candidates' times in seconds, infinite where none ran."""
        times = [trial.time for trial in self.trials if trial.failure is None]
        return median(times) if times else math.inf

    def __str__(self) -> str:
        if not self.default.seconds:
            return f"{self.problem.entry}: interrupted before anything was measured"
        times = f"{1e3 * self.best.time:.4g} ms, the default {1e3 * self.default.time:.4g} ms"
        found = f"{self.problem.entry}: {times} ({self.speedup:.3f} times as fast)"
        return f"{found}; {len(self.trials)} candidates, of which {self.failed}"


Told = Callable[[TuningResult], None]
"""The function that is called with the result so far when the default was measured, and after each
trial."""


def tune(
    problem: Problem,
    backend: Backend,
    *,
    base: Options | None = None,
    search: str = "guided",
    seed: int = 0,
    budget: Budget | None = None,
    inputs: Mapping[str, Array] | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    limits: Limits | None = None,
    database: TuningDatabase | None = None,
    told: Told = lambda _found: None,
) -> TuningResult:
    """Searches for the fastest plan of a problem, within a budget.

    It begins with what tc chooses for the options `base`, which win unless another is faster beyond
    noise, and with the nearest plans of `database`, where all that is measured is kept. An
    interrupt (Ctrl-C) ends the search at once, whatever it is at: the result says so, and has the
    best so far. BackendError for unknown searches, for programs without a choice, and where the
    default itself fails.
    """
    own = base or Options()
    if own.plan is not None:
        raise BackendError("options= has a plan already: tuning looks for one", repair="plan=None")
    device = backend.device()
    refused: list[tuple[Trial, bool]] = []

    def kept(trial: Trial, *, confirmed: bool = False) -> None:
        """And what could not be kept before, as a disk was full for a while."""
        if database is None:
            return
        refused.append((trial, confirmed))
        keep_refused()

    def keep_refused() -> None:
        while refused and database is not None:
            trial, confirmed = refused[0]
            if not database.record(
                problem, device, trial, base=own, search=search, seed=seed, confirmed=confirmed
            ):
                return
            del refused[0]

    run = _Run(TuningResult(problem, Trial(own), Trial(own)), budget or Budget(), kept, told)

    def work() -> None:
        space = SearchSpace(problem, backend, own, _known(problem, backend, own, database))
        asked = search_named(search, space, seed)
        first = asked.ask()
        assert first is not None
        with Measurer(
            problem,
            backend,
            base=first.options,
            inputs=inputs,
            executor=executor,
            workers=workers,
            limits=limits,
            seed=seed,
            stopper=run.stopper,
        ) as measurer:
            run.search(asked, first, measurer)

    try:
        run_in_helper_thread(work)
    except KeyboardInterrupt:
        run.stop(interrupted=True)
    except BaseException:
        run.stop()
        raise
    keep_refused()
    return replace(run.found, unkept=len(refused))


def _known(
    problem: Problem, backend: Backend, base: Options, database: TuningDatabase | None
) -> list[Options]:
    """The plans that a search begins with: those of the database that were fastest, of these sizes
    and of the nearest."""
    if database is None:
        return []
    try:
        found = database.plans(problem, backend.device(), base)
    except InputError:  # told of when the first trial is kept
        return []
    options = (each.options for each in islice(found, MAX_KNOWN_PLANS))
    return [each for each in options if each is not None]


class _Run:
    """A search under way, in a thread of its own. Interrupts reach the main thread alone, which
    stops the search. The results of the search are whole at any moment."""

    def __init__(
        self, found: TuningResult, budget: Budget, kept: Callable[..., None], told: Told
    ) -> None:
        self.found, self.stopper = found, Stopper()
        self._own = found.default.options
        self._budget, self._kept, self._told = budget, kept, told
        self._begin = time.perf_counter()
        self._waiting: dict[Options, Candidate] = {}
        self._asked = 0
        self._keeping = threading.Lock()

    def search(self, search: Search, default: Candidate, measurer: Measurer) -> None:
        """Measures what a search asks for, and then the best once more. BackendError where it asks
        for nothing."""
        search.tell(default, measurer.default.time)
        self._keep(measurer.default, replace(self.found, default=measurer.default), measurer.best)
        until = self._begin + self._budget.seconds
        for trial in measurer.measure(self._candidates(search, measurer, until), until=until):
            search.tell(self._waiting.pop(trial.options), FAILED if trial.failure else trial.time)
            self._keep(trial, self._found_with(trial, measurer.best), measurer.best)
        chosen = replace(measurer.default, options=self._own)
        if not self.found.trials and search.ask() is None:
            self._keep(chosen, self.found, measurer.best, confirmed=True)
            raise BackendError(
                f"{self.found.problem.entry}: there is nothing to tune at these sizes: one plan",
                repair="tc.compile, which chooses it",
            )
        best = measurer.confirm()
        is_found = best.options != self.found.default.options
        self._keep(best if is_found else chosen, self.found, best, confirmed=True)

    def stop(self, *, interrupted: bool = False) -> None:
        """Ends the search at once: what was found so far is kept, and nothing that is found
        later."""
        self.stopper.stop()
        is_kept = self._keeping.acquire(timeout=_PATIENCE_SECONDS)
        self.found = replace(self.found, interrupted=interrupted)
        if is_kept:
            best = self.found.best
            if interrupted and best.options not in (self._own, self.found.default.options):
                self._kept(best, confirmed=True)  # it has won once
            self._keeping.release()

    def _found_with(self, trial: Trial, best: Trial) -> TuningResult:
        return replace(
            self.found,
            trials=(*self.found.trials, trial),
            moments=(*self.found.moments, TrialTime(time.perf_counter() - self._begin, best.time)),
        )

    def _candidates(self, search: Search, measurer: Measurer, until: float) -> Iterator[Options]:
        faults = search.space.faults
        while self._asked < self._budget.candidates and time.perf_counter() < until:
            candidate = search.ask()
            while faults:
                found = self._found_with(faults.pop(0), measurer.best)
                self._keep(None, found, measurer.best)
            if candidate is None:
                return
            self._asked += 1
            self._waiting[candidate.options] = candidate
            yield candidate.options

    def _keep(
        self, trial: Trial | None, found: TuningResult, best: Trial, *, confirmed: bool = False
    ) -> None:
        """Keeps the result of the search so far, and in the database a trial, if there is one.
        Candidates that were not measured have no plan, by which the database would know them."""
        with self._keeping:
            self.stopper.check()
            if trial is not None:
                self._kept(trial, confirmed=confirmed)
            self.found = replace(found, best=best)
            self._told(self.found)
