"""Candidates measured: compiled by workers beside each other, then checked and timed one by one.

with Measurer(problem, backend) as measurer:
    for trial in measurer.measure(candidates):
        ...
    measurer.best
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import (
    FIRST_COMPLETED,
    Executor,
    Future,
    InvalidStateError,
    ThreadPoolExecutor,
    wait,
)
from dataclasses import dataclass, replace
from statistics import median
from types import TracebackType
from typing import Any

import numpy as np

from tc.backends.base import Backend
from tc.dtypes import Array
from tc.errors import BackendError, TCError
from tc.gpu import Gpu
from tc.options import Options
from tc.process.processors import available, get_threads
from tc.tuning.measuring import shared_arrays
from tc.tuning.measuring.compiling import (
    CompiledCandidate,
    CompileJob,
    Compilers,
    compile_job,
    name_of,
)
from tc.tuning.measuring.fork_server import Task
from tc.tuning.measuring.profiling import Session
from tc.tuning.measuring.references import Reference
from tc.tuning.measuring.workers import Outcome, Worker
from tc.tuning.problem import Problem, Trial

_SERIAL = ("c",)
"""Backends whose kernels run on one thread."""

_NOISE_SHARE = 0.01
"""The part of a time that is not told from noise."""

_TRIES = 3
"""How often the default is tried: without it there is no search, and others may end a process."""

_ROUNDS = 11
_WON_ROUNDS = 9
"""Rounds in which two candidates are timed in turns, and in how many of them the new one has to be
ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a candidate may take, and how long it is timed.

    It may be compiled for `compile_seconds`, with bytes of `memory`; the first one is checked and
    timed within `run_seconds`, others within a few times what that took. Calls are timed for
    `timing_seconds`; one that takes `slow` times as long as the fastest so far is not repeated.
    """

    compile_seconds: float = 60.0
    run_seconds: float = 120.0
    memory: int = 4 << 30
    timing_seconds: float = 0.2
    slow: float = 3.0


class Stopped(Exception):
    """A measurer was stopped: the measurement under way is dropped."""


class Stopper:
    """Ends a measurer, at once, from any thread; `cancelled` is done from then on."""

    def __init__(self) -> None:
        self.cancelled: Future[None] = Future()

    def stop(self) -> None:
        with contextlib.suppress(InvalidStateError):
            self.cancelled.set_result(None)

    def check(self) -> None:
        """Raises `Stopped` after `stop`."""
        if self.cancelled.done():
            raise Stopped


@dataclass(frozen=True, slots=True)
class PairedTiming:
    """The seconds of a call of two candidates, `new` and `old`, in rounds that alternate between
    the two."""

    new: tuple[float, ...]
    old: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median of the new one's times over the old one's, round by round."""
        return median(a / b for a, b in zip(self.new, self.old, strict=True))

    @property
    def is_won(self) -> bool:
        """Whether the new one is faster, beyond noise.

        >>> PairedTiming((1.0,) * 11, (2.0,) * 11).is_won
        True
        >>> PairedTiming((1.0,) * 11, (1.0,) * 11).is_won
        False
        """
        ahead = sum(a < b for a, b in zip(self.new, self.old, strict=True))
        return self.ratio < 1 - _NOISE_SHARE and ahead >= _WON_ROUNDS


class Measurer:
    """Measures candidates of one problem.

    `executor` compiles, by default threads that have a process each; of its own processes `workers`
    run at a time. `inputs` are real ones by name, else they are drawn from `seed`. `default` is the
    trial of the base options, `best` the fastest so far: what beats it is timed against it in turns
    before it takes its place. What is being measured when `stopper` stops it is dropped: worker
    processes are ended then, `measure` ends, other methods raise `Stopped`.
    """

    def __init__(
        self,
        problem: Problem,
        backend: Backend,
        *,
        base: Options | None = None,
        inputs: Mapping[str, Array] | None = None,
        executor: Executor | None = None,
        workers: int | None = None,
        limits: Limits | None = None,
        seed: int = 0,
        stopper: Stopper | None = None,
    ) -> None:
        self.problem, self.limits = problem, limits or Limits()
        self.default = self.best = Trial(base or Options())
        self._inputs, self._seed = inputs, seed
        self._backend, self._device = name_of(backend), backend.device()
        self._alone, beside = _processors(backend)
        self._beside = beside or None
        self._workers = workers or max(1, len(available()) - 1)
        self._executor, self._owned = executor, executor is None
        self._compilers = Compilers(self._backend)
        self._memory = shared_arrays.new_memory()
        self._profiler = Worker(
            "tc.tuning.measuring.compiling:warm_up", [self._backend], files=[self._memory]
        )
        self._candidates: dict[Options, CompiledCandidate] = {}
        self._known: dict[str, Trial] = {}
        self._session: Session | None = None
        self._seconds = math.inf  # that the default took, all in all
        self._closed = False
        self._stopper = stopper or Stopper()
        self._stopper.cancelled.add_done_callback(self._end_workers)

    def __enter__(self) -> Measurer:
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends all worker processes, at once, and gives memory back."""
        if self._closed:
            return
        self._closed = True
        self._stopper.stop()
        if self._executor is not None and self._owned:
            self._executor.shutdown(cancel_futures=True)
        os.close(self._memory)

    def measure(self, candidates: Iterable[Options], *, until: float = math.inf) -> Iterator[Trial]:
        """The trial of each candidate, in the order in which they are ready. Some more are taken
        from the iterable than trials were given, to be compiled meanwhile. Ends with the iterable,
        or when `time.perf_counter()` is `until`; what is under way then is dropped."""
        source = iter(candidates)
        pending: dict[Future[Any], Options] = {}
        try:
            while True:
                self._submit(source, pending)
                if not pending:
                    return
                left = until - time.perf_counter()
                done, _ = wait(
                    {*pending, self._stopper.cancelled},
                    max(left, 0) if left < math.inf else None,
                    FIRST_COMPLETED,
                )
                if not done or self._stopper.cancelled in done:
                    return
                for future in done & pending.keys():
                    trial = self._trial(pending.pop(future), future, until)
                    if trial is None:
                        return
                    yield trial
        except Stopped:
            return
        except BaseException as error:
            if not isinstance(error, GeneratorExit):
                self.close()
            raise
        finally:
            for future in pending:
                future.cancel()

    def confirm(self) -> Trial:
        """Times the best against the default once more, and returns the one to use: the default,
        unless the best is faster beyond noise."""
        if self.best.options != self.default.options:
            duel = self._duel(self.best.options, self.default.options)
            if not (isinstance(duel, PairedTiming) and duel.is_won):
                self.best = self.default
        return self.best

    # --- steps ------------------------------------------------------------------------------------

    def _start(self) -> None:
        """Prepares inputs and what comes of them, and measures the default."""
        if self._executor is None:
            self._executor = ThreadPoolExecutor(self._workers, "tc compiles candidates")
        future = self._submitted(self.default.options)
        real = None
        if self._inputs is not None:
            arrays = {name: np.asarray(array) for name, array in self._inputs.items()}
            real = shared_arrays.write(self._memory, arrays)
        rounds = self.default.options.gpu.tf32
        arguments = (self.problem, self._seed, self._memory, real, rounds)
        for _ in range(_TRIES):
            outcome = self._profiled("references:prepare", arguments, self.limits.run_seconds)
            if outcome.failure is None or outcome.raised is not None:
                break
        if outcome.failure is not None:
            raise _raised(outcome, f"{self.problem.entry} cannot be prepared")
        references: tuple[Reference, ...] = tuple(map(pickle.loads, outcome.blobs))
        threads = get_threads()
        self._session = Session(self.problem, self._backend, threads, self._memory, references)
        begin = time.perf_counter()
        trial = self._trial(self.default.options, future, math.inf)
        for _ in range(1, _TRIES):
            if trial is None or trial.failure is None:
                break
            self._known.clear()
            future = self._submitted(self.default.options)
            trial = self._trial(self.default.options, future, math.inf)
        assert trial is not None
        if trial.failure is not None:
            raise BackendError(f"what tc chooses for {self.problem.entry} fails: {trial.failure}")
        self._seconds = time.perf_counter() - begin
        self.default = self.best = trial

    def _submit(self, source: Iterator[Options], pending: dict[Future[Any], Options]) -> None:
        while len(pending) <= self._workers:
            options = next(source, None)
            if options is None or self._stopper.cancelled.done():
                return
            pending[self._submitted(options)] = options

    def _submitted(self, options: Options) -> Future[CompiledCandidate]:
        limits = self.limits
        job = CompileJob(
            self.problem, options, self._backend, self._device, limits.compile_seconds,
            limits.memory, self._beside if self._owned else None,
        )  # fmt: skip
        assert self._executor is not None
        function = self._compilers.compile if self._owned else compile_job
        return self._executor.submit(function, job)

    def _trial(
        self, options: Options, future: Future[CompiledCandidate], until: float
    ) -> Trial | None:
        """What becomes of a compiled candidate; None where there was no time for it."""
        try:
            candidate = future.result()
        except Exception as error:  # whatever an executor does to its tasks
            self._stopper.check()
            return Trial(options, failure=f"its worker was lost: {type(error).__name__}: {error}")
        self._stopper.check()
        if candidate.failure is not None:
            return Trial(options, failure=f"it cannot be compiled: {candidate.failure}")
        known = self._known.get(candidate.digest)
        if known is not None:
            return replace(known, options=options)
        self._candidates[options] = candidate
        slow, most = self.limits.slow * self.best.time, self._most_seconds()
        arguments = (
            self._session, candidate, options.threads, self.limits.timing_seconds, slow
        )  # fmt: skip
        seconds = min(most, max(until - time.perf_counter(), 0.1))
        outcome = self._profiled("profiling:profile", arguments, seconds)
        if outcome.failure is not None:
            if seconds < most and time.perf_counter() >= until:
                return None
            trial = Trial(options, failure=outcome.failure)
        else:
            trial = Trial(options, tuple(outcome.header["seconds"]))
            trial = self._challenged(trial)
        self._known[candidate.digest] = trial
        if trial.options not in (self.best.options, self.default.options):
            del self._candidates[options]
        return trial

    def _challenged(self, trial: Trial) -> Trial:
        """The trial, timed in turns with the best trial where it seems to be faster; a failed trial
        where that timing failed."""
        if self.best.seconds and trial.time < self.best.time:
            duel = self._duel(trial.options, self.best.options)
            if not isinstance(duel, PairedTiming):
                return replace(trial, seconds=(), failure=duel)
            if duel.is_won:
                if self.best.options != self.default.options:
                    del self._candidates[self.best.options]
                self.best = trial
        return trial

    def _duel(self, new: Options, old: Options) -> PairedTiming | str:
        """Two candidates timed in turns, or why that failed."""
        both = [(self._candidates[options], options.threads) for options in (new, old)]
        arguments = (self._session, both, _ROUNDS, 2 * self.limits.timing_seconds)
        outcome = self._profiled("profiling:compare", arguments, 2 * self._most_seconds())
        if outcome.failure is not None:
            return outcome.failure
        return PairedTiming(*map(tuple, outcome.header["seconds"]))

    def _most_seconds(self) -> float:
        return min(self.limits.run_seconds, 2.0 + 5 * self._seconds)

    def _profiled(self, function: str, arguments: object, seconds: float) -> Outcome:
        """The outcome of a task that runs while nothing else runs on its processors."""
        task = Task(
            f"tc.tuning.measuring.{function}", pickle.dumps(arguments), seconds, self.limits.memory,
            processors=self._alone,
        )  # fmt: skip
        if self._beside is None:
            self._compilers.pause()
        try:
            outcome = self._profiler.run_twice(task)
        finally:
            if self._beside is None:
                self._compilers.resume()
        if outcome.failure is not None:
            self._stopper.check()
        return outcome

    def _end_workers(self, _: object) -> None:
        self._compilers.close()
        self._profiler.close()


def _processors(backend: Backend) -> tuple[frozenset[int] | None, frozenset[int]]:
    """The processors that profiling has for itself (None: it needs none in particular), and others.

    A kernel on several threads has all of them; compilation waits meanwhile.
    """
    everything = sorted(available())
    if isinstance(backend.device(), Gpu):
        return None, frozenset(everything)
    threads = 1 if backend.name in _SERIAL else len(everything)
    return frozenset(everything[-threads:]), frozenset(everything[:-threads])


def _raised(outcome: Outcome, what: str) -> Exception:
    """The exception that a task has raised, if that is an error of tc, else an error that tells of
    the exception."""
    if outcome.raised is not None:
        with contextlib.suppress(Exception):  # whatever pickle may raise
            error = pickle.loads(outcome.raised)
            if isinstance(error, TCError):
                return error
    return BackendError(f"{what}: {outcome.failure}")
