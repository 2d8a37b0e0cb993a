"""Candidates compiled in worker processes, of this machine or of any executor.

`compile_job` is what an executor runs: a plain function of plain data, so that the workers of
`concurrent.futures`, of dask or of MPI take it. Whatever the worker is, it has the compiler run in
a process of its own, which may crash or hang.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tc.backends import registry
from tc.backends.base import Backend, KernelText
from tc.device import Device
from tc.errors import BackendError
from tc.gpu import Gpu
from tc.options import Options
from tc.pipeline import compile_for, shape_program
from tc.process.object_pool import ObjectPool
from tc.runtime import cache as disk
from tc.runtime.loaded import CompiledKernel
from tc.tuning.measuring.fork_server import Task
from tc.tuning.measuring.workers import Outcome, Worker
from tc.tuning.problem import Problem


@dataclass(frozen=True, slots=True)
class CompileJob:
    """A candidate to compile for a device; `backend` is "name=module:Class". It may take `seconds`,
    and bytes of `memory`; `processors` are those that it runs on, None for all."""

    problem: Problem
    options: Options
    backend: str
    device: Device | Gpu
    seconds: float
    memory: int
    processors: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class CompiledCandidate:
    """A kernel's text, pickled, and what the backend would keep of it on disk by key; or why there
    is none. Candidates with the same `digest` are the same code."""

    text: bytes = b""
    entries: Mapping[str, bytes] = ()  # type: ignore[assignment]  # frozen, and never empty text
    digest: str = ""
    failure: str | None = None


def compile_job(job: CompileJob) -> CompiledCandidate:
    """Compiles a candidate in another process, which this process keeps for the next candidate."""
    with _LOCK:
        compilers = _COMPILERS.setdefault(job.backend, Compilers(job.backend))
    return compilers.compile(job)


class Compilers:
    """Worker processes that compile for a backend, as many as there are threads that ask."""

    def __init__(self, backend: str) -> None:
        self._backend = backend
        self._idle: ObjectPool[Worker] = ObjectPool()
        self._all: list[Worker] = []
        self._closed = False

    def compile(self, job: CompileJob) -> CompiledCandidate:
        arguments = pickle.dumps((job.problem, job.options, job.backend, job.device))
        task = Task(
            f"{__name__}:compile_here", arguments, job.seconds, job.memory,
            processors=job.processors,
        )  # fmt: skip
        return candidate_of(self._run(task))

    def pause(self) -> None:
        for worker in tuple(self._all):
            worker.pause()

    def resume(self) -> None:
        for worker in tuple(self._all):
            worker.resume()

    def close(self) -> None:
        self._closed = True
        for worker in tuple(self._all):
            worker.close()

    def _run(self, task: Task) -> Outcome:
        worker = self._idle.take(self._new_worker)
        try:
            return worker.run_twice(task)
        finally:
            self._idle.give_back(worker)

    def _new_worker(self) -> Worker:
        worker = Worker(f"{__name__}:warm_up", [self._backend])
        self._all.append(worker)
        if self._closed:
            worker.close()
        return worker


_LOCK = threading.Lock()
_COMPILERS: dict[str, Compilers] = {}
"""The compilers of this process, for executors that run in the process, by the text of the backend.
"""


def candidate_of(outcome: Outcome) -> CompiledCandidate:
    if outcome.failure is not None:
        return CompiledCandidate(failure=outcome.failure)
    text, entries = outcome.blobs[0], pickle.loads(outcome.blobs[1])
    return CompiledCandidate(text, entries, outcome.header["digest"])


# --- in the worker --------------------------------------------------------------------------------


def name_of(backend: Backend) -> str:
    """The text that another process finds a backend by (`backend_named`)."""
    kind = type(backend)
    return f"{backend.name}={kind.__module__}:{kind.__qualname__}"


def backend_named(text: str) -> Backend:
    """
    >>> backend_named("c=tc.backends.clike.backend:CBackend").name
    'c'
    """
    name, _, target = text.partition("=")
    if name not in registry.names():
        registry.register(name, target)
    backend = registry.get(name)
    if not isinstance(backend, Backend):
        raise BackendError(f"backend {name!r} compiles nothing", repair='backend="numba"')
    return backend


def warm_up(backend: str) -> None:
    """Loads what each task needs, before forks."""
    backend_named(backend)
    disk.code_version()


def compile_here(
    problem: Problem, options: Options, backend: str, device: Device | Gpu
) -> tuple[Mapping[str, Any], Sequence[bytes]]:
    """The text of a candidate and what its machine code is kept as: a task."""
    entries: dict[str, bytes] = {}
    disk.enable_in_memory(entries)
    compiler, request = backend_named(backend), problem.request(options)
    shaped = shape_program(request.program, request.sizes)
    _, text = compile_for(request, shaped, compiler, device)
    compiler.load(text)
    code = hashlib.sha256(f"{options.threads}\n{text.source}".encode()).hexdigest()
    return {"digest": code}, [zlib.compress(pickle.dumps(text), 1), pickle.dumps(entries)]


def loaded(backend: str, candidate: CompiledCandidate) -> CompiledKernel:
    """The kernel of a candidate in this process; what the backend kept of it is used."""
    disk.enable_in_memory(dict(candidate.entries))
    text: KernelText = pickle.loads(zlib.decompress(candidate.text))
    return backend_named(backend).load(text)
