"""Trials of candidates for many problems: what `tc.tuning.measure` does with each, in its own
worker processes, which are kept from one problem to the next, so that a trial is short.
"""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

import tc
from tc.backends import registry
from tc.backends.base import Backend
from tc.pipeline import check_module, parse_source
from tc.runtime.sizes import resolve_sizes
from tc.source import Source
from tc.tuning.measuring import shared_arrays
from tc.tuning.measuring.compiling import CompileJob, Compilers, name_of
from tc.tuning.measuring.fork_server import Task
from tc.tuning.measuring.profiling import Session
from tc.tuning.measuring.references import Reference
from tc.tuning.measuring.workers import Outcome, Worker
from tc.tuning.problem import Problem
from tc.tuning.search import RandomSearch
from tc.tuning.space import SearchSpace

SECONDS = 120.0
"""What a task may take, on a machine that has other work."""

MEMORY = 4 << 30


class Trials:
    """The worker processes of one backend; one problem after the other is tried in them."""

    def __init__(self, backend: str = "numba") -> None:
        found = registry.get(backend)
        assert isinstance(found, Backend)
        self.backend, self.name = found, name_of(found)
        self._compilers = Compilers(self.name)
        self._memory = shared_arrays.new_memory()
        self._profiler = Worker(
            "tc.tuning.measuring.compiling:warm_up", [self.name], files=[self._memory]
        )

    def close(self) -> None:
        self._compilers.close()
        self._profiler.close()
        os.close(self._memory)

    def problem(
        self, text: str, inputs_or_sizes: object, *, entry: str | None = None, check: bool = True
    ) -> Problem:
        """The problem that `tc.autotune` makes for a text and inputs or sizes."""
        program = check_module(parse_source(Source(text)), entry)
        sizes = resolve_sizes(program, inputs_or_sizes)
        given = frozenset(program.needs_initial)
        return Problem.of(program, sizes, self.backend, check=check, given=given)

    def failures(
        self,
        problem: Problem,
        *inputs: Mapping[str, Any] | None,
        candidates: int = 0,
        seed: int = 0,
    ) -> Iterator[tuple[tc.Options, str | None]]:
        """The default options and `candidates` random candidates, each with the reason why its
        trial failed, or None. Each is checked on all `inputs`: arrays by name, or None for inputs
        that the tuner draws. Errors of the program on these inputs are raised."""
        space = SearchSpace(problem, self.backend)
        search = RandomSearch(space, seed)
        os.ftruncate(self._memory, 0)
        references = tuple(r for each in inputs for r in self._references(problem, each))
        for _ in range(1 + candidates):
            candidate = search.ask()
            for fault in space.faults:
                yield fault.options, fault.failure
            space.faults.clear()
            if candidate is None:
                return
            yield candidate.options, self._failure(problem, references, candidate.options)

    def _references(
        self, problem: Problem, inputs: Mapping[str, Any] | None
    ) -> tuple[Reference, ...]:
        real = None
        if inputs is not None:
            tensors = problem.program().tensors
            arrays = {n: np.asarray(a, tensors[n].dtype.numpy) for n, a in inputs.items()}
            real = shared_arrays.write(self._memory, arrays)
        outcome = self._run("references:prepare", problem, 0, self._memory, real)
        if outcome.raised is not None:
            raise pickle.loads(outcome.raised)
        assert outcome.failure is None, outcome.failure
        return tuple(map(pickle.loads, outcome.blobs))

    def _failure(
        self, problem: Problem, references: tuple[Reference, ...], options: tc.Options
    ) -> str | None:
        device = self.backend.device()
        job = CompileJob(problem, options, self.name, device, SECONDS, MEMORY)
        candidate = self._compilers.compile(job)
        if candidate.failure is not None:
            return f"it cannot be compiled: {candidate.failure}"
        session = Session(problem, self.name, None, self._memory, references)
        arguments = session, candidate, options.threads, 0.0, math.inf
        return self._run("profiling:profile", *arguments).failure

    def _run(self, function: str, *arguments: object) -> Outcome:
        name = f"tc.tuning.measuring.{function}"
        return self._profiler.run(Task(name, pickle.dumps(arguments), SECONDS, MEMORY))


@contextmanager
def trials(backend: str = "numba") -> Iterator[Trials]:
    made = Trials(backend)
    try:
        yield made
    finally:
        made.close()
