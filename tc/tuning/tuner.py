"""Tuning a problem: a search asks for candidates, workers measure them, the database keeps what
they found (Vasilache et al. 2018, section 6)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field

from tc.backends.base import Backend
from tc.dtypes import Array
from tc.errors import BackendError, InputError
from tc.options import Options
from tc.tuning.database import TuningDatabase
from tc.tuning.measure import Limits, Measurer
from tc.tuning.problem import Problem, Trial
from tc.tuning.search import FAILED, Search, search_named
from tc.tuning.space import Candidate, SearchSpace

GENERATION = 20
"""Candidates of a generation, of searches that have none of their own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """When a search ends: after so many seconds, candidates, or generations, whichever comes first;
    None is no bound. InputError for what is no budget."""

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
        bounds.append(math.inf if self.generations is None else self.generations * GENERATION)
        return min(bounds)


@dataclass(frozen=True, slots=True)
class TuningResult:
    """What tuning found: the trial of what tc chooses itself, the best, which is that or one that
    is faster beyond noise, all trials in order, and whether an interrupt ended it."""

    problem: Problem
    default: Trial
    best: Trial
    trials: tuple[Trial, ...]
    interrupted: bool = False

    @property
    def speedup(self) -> float:
        """The time of the default over that of the best."""
        return self.default.time / self.best.time

    @property
    def failures(self) -> tuple[Trial, ...]:
        return tuple(trial for trial in self.trials if trial.failure is not None)

    def __str__(self) -> str:
        times = f"{1e3 * self.best.time:.4g} ms, the default {1e3 * self.default.time:.4g} ms"
        found = f"{self.problem.entry}: {times} ({self.speedup:.3f} times as fast)"
        return f"{found}; {len(self.trials)} candidates, of which {len(self.failures)} failed"


Told = Callable[[Trial, Trial], None]
"""What is called after each trial, with it and the best so far."""


@dataclass
class _Run:
    """One search under way."""

    search: Search
    budget: Budget
    begin: float = field(default_factory=time.perf_counter)
    waiting: dict[Options, Candidate] = field(default_factory=dict)
    trials: list[Trial] = field(default_factory=list)
    asked: int = 0

    @property
    def until(self) -> float:
        return self.begin + self.budget.seconds

    def candidates(self) -> Iterator[Options]:
        while self.asked < self.budget.candidates and time.perf_counter() < self.until:
            candidate = self.search.ask()
            if candidate is None:
                return
            self.asked += 1
            self.waiting[candidate.options] = candidate
            yield candidate.options


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
    told: Told = lambda _trial, _best: None,
) -> TuningResult:
    """Searches for the fastest plan of a problem, within a budget.

    It begins with what tc chooses for the options `base`, which win unless another is faster beyond
    noise. All that is measured is kept in `database`. An interrupt (Ctrl-C) ends the search, and
    the result says so. BackendError for unknown searches, for programs without a choice, and where
    the default itself fails.
    """
    budget = budget or Budget()
    own = base or Options()
    if own.plan is not None:
        raise BackendError("options= has a plan already: tuning looks for one", repair="plan=None")
    space = SearchSpace(problem, backend, own)
    run = _Run(search_named(search, space, seed), budget)
    first = run.search.ask()
    assert first is not None
    device = backend.device()

    def kept(trial: Trial, *, confirmed: bool = False) -> None:
        if database is not None:
            database.record(problem, device, trial, search=search, seed=seed, confirmed=confirmed)

    interrupted = False
    with Measurer(
        problem,
        backend,
        base=first.options,
        inputs=inputs,
        executor=executor,
        workers=workers,
        limits=limits,
        seed=seed,
    ) as measurer:
        default = measurer.default
        run.search.tell(first, default.time)
        kept(default)
        try:
            for trial in measurer.measure(run.candidates(), until=run.until):
                run.trials.append(trial)
                candidate = run.waiting.pop(trial.options)
                run.search.tell(candidate, FAILED if trial.failure else trial.time)
                kept(trial)
                told(trial, measurer.best)
            best = measurer.confirm()
        except KeyboardInterrupt:
            interrupted, best = True, measurer.best
    if not run.trials and not interrupted and run.search.ask() is None:
        raise BackendError(
            f"{problem.entry}: there is nothing to tune at these sizes: one plan",
            repair="tc.compile, which chooses it",
        )
    if best.options != default.options and not interrupted:
        kept(best, confirmed=True)
    return TuningResult(problem, default, best, tuple(run.trials), interrupted)
