"""The thread pool: shares the parts of a region among threads.

A region is a C function `region(arguments, record, number, parts)` that does part `number` of so
many, and has a record for its own failure. A pool runs each part of a launch once, on whatever
thread is free, and a launch ends when all parts have: also where a signal handler raises
meanwhile, as the caller frees the memory that they write. A fork leaves no thread in the child:
there the pool starts anew.

`ThreadPool` does that in plain Python, and defines what `thread_pool_llvm` does in machine code. It
is used where that cannot be (`native_pool`).
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numba

from tc.process.processors import default_threads
from tc.process.uninterrupted import uninterrupted
from tc.runtime.native import WORD_BYTES

_REGION = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
_FAULTS = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS"}

Launch: TypeAlias = Callable[[int, int, int, int, int], object]
"""Takes a region, its arguments, the first record, the bytes from one to the next, and the number
of parts; runs all parts, or none: then it gives what is false."""


class Regions:
    """Regions to be run in their order, by their addresses, and whether each has parts to share. At
    `address` the same stands as pairs of words."""

    __slots__ = ("_words", "address", "steps")

    def __init__(self, regions: Sequence[tuple[int, bool]]) -> None:
        self.steps = tuple((_REGION(place), place, shared) for place, shared in regions)
        words = [word for place, shared in regions for word in (place, shared)]
        self._words = (ctypes.c_int64 * len(words))(*words)
        self.address = ctypes.addressof(self._words)


def perform(
    regions: Regions, arguments: int, failures: int, width: int, parts: int, launch: Launch | None
) -> bool:
    """Runs regions in their order until one has recorded a failure, and says whether one has.

    Those with parts are shared by `launch`, part p with its record at `failures` + p * `width`; the
    others, and all where there is no `launch`, or it runs nothing, run as a single part. A record
    is empty where its first word is 0; a `width` of 0 says that nothing can fail.
    """
    for region, place, shared in regions.steps:
        if not (shared and launch and launch(place, arguments, failures, width, parts)):
            region(arguments, failures, 0, 1)
        if width and any(_words_at(failures, parts * width)[:: width // WORD_BYTES]):
            return True
    return False


def _words_at(address: int, size: int) -> Any:
    return (ctypes.c_int64 * (size // WORD_BYTES)).from_address(address)


def thread_count() -> int:
    """As many as numba is told to use (`NUMBA_NUM_THREADS`), else as many as can run at the same
    time on the processors, and in the time, that this process is given now."""
    told = int(numba.config.NUMBA_NUM_THREADS)
    if told != numba.config.NUMBA_DEFAULT_NUM_THREADS or "NUMBA_NUM_THREADS" in os.environ:
        return told
    return min(told, default_threads())


class ThreadPool:
    """As many threads as can run at the same time, counting the one that launches. They start when
    they are first wanted, and wait without using time. Where others keep them busy, a launching
    thread runs what is left itself.

    They take the floating-point modes of the launching thread, so that results do not depend on
    the number of threads.
    """

    def __init__(self) -> None:
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._process = os.getpid()
        self._starting = threading.RLock()
        self._started = 0
        self._idle: list[_Worker] = []  # taken and given back without a lock: handlers launch, too

    def launch(self, region: int, arguments: int, failures: int, width: int, parts: int) -> bool:
        """A `Launch`, which always runs."""
        run = _REGION(region)
        calls = [
            partial(run, arguments, failures + number * width, number, parts)
            for number in range(parts)
        ]
        workers = self._take(parts - 1)
        try:
            threads = len(workers) + 1
            modes = _modes()
            for number, worker in enumerate(workers, 1):
                worker.calls = (*modes, *calls[number::threads])
            steps = [*(w.begin for w in workers), *calls[::threads], *(w.wait for w in workers)]
            _run_all(steps)
        finally:  # a handler may raise before they have begun, or after they have ended
            self._idle.extend(workers)
        return True

    def perform(
        self, regions: Regions, arguments: int, failures: int, width: int, parts: int
    ) -> bool:
        """`perform`, with the launches of this pool."""
        launch = self.launch if parts > 1 else None
        return perform(regions, arguments, failures, width, parts, launch)

    def launcher(self) -> None:
        """Only Python can launch."""

    def after_fork_in_child(self) -> None:
        """Makes the pool anew in a forked child, where no thread of the pool is, nor one that was
        launching."""
        self._begin_anew()

    def _take(self, most: int) -> list[_Worker]:
        """At most `most` idle workers."""
        if self._process != os.getpid():  # a fork that nobody told of
            self._begin_anew()
        if self._started < min(most, thread_count() - 1):
            uninterrupted(self._start)
        workers: list[_Worker] = []
        with contextlib.suppress(IndexError):
            while len(workers) < most:
                workers.append(self._idle.pop())
        return workers

    def _start(self) -> None:
        with self._starting, without_signals(), contextlib.suppress(RuntimeError):
            while self._started < thread_count() - 1:
                worker = _Worker()
                _thread.start_new_thread(worker.work, ())
                self._started += 1
                self._idle.append(worker)


class _Worker:
    """A thread of the pool, and what it shall call next; `begin` and `wait` are C functions."""

    def __init__(self) -> None:
        ready, over = _new_lock(), _new_lock()
        self.calls: Sequence[Callable[[], object]] = ()
        self.begin, self._wait_to_begin = partial(_release, ready), partial(_acquire, ready, 1)
        self._end, self.wait = partial(_release, over), partial(_acquire, over, 1)

    def work(self) -> None:
        while True:
            self._wait_to_begin()
            for call in self.calls:
                call()
            self.calls = ()
            self._end()


def _run_all(steps: Sequence[partial[Any]]) -> None:
    """Calls C functions one after the other, without coming by any place where Python runs signal
    handlers: nothing can break in between them."""
    deque(map(partial.__call__, steps), maxlen=0)


def _python_function(name: str, result: Any, *kinds: Any) -> Any:
    """A function of Python's C interface that is called without Python's lock."""
    return ctypes.CFUNCTYPE(result, *kinds)((name, ctypes.pythonapi))


# locks without owners, which signals do not break off
_allocate = _python_function("PyThread_allocate_lock", ctypes.c_void_p)
_acquire = _python_function("PyThread_acquire_lock", None, ctypes.c_void_p, ctypes.c_int)
_release = _python_function("PyThread_release_lock", None, ctypes.c_void_p)


def _new_lock() -> ctypes.c_void_p:
    """A lock that is taken."""
    place = _allocate()
    if place is None:
        raise MemoryError
    lock = ctypes.c_void_p(place)
    _acquire(lock, 1)
    return lock


_MODES = 512
"""Bytes that hold the floating-point modes, on any system."""


def _modes() -> list[Callable[[], object]]:
    """The function that gives another thread the floating-point modes of this thread."""
    library = ctypes.CDLL(None) if os.name == "posix" else None
    if not hasattr(library, "fegetenv"):
        return []
    modes = ctypes.create_string_buffer(_MODES)
    library.fegetenv(modes)  # type: ignore[union-attr]
    return [partial(library.fesetenv, modes)]  # type: ignore[union-attr]


@contextlib.contextmanager
def without_signals() -> Iterator[None]:
    """Threads started here get no signals but those of their own faults: the others are for
    Python's threads, which they interrupt."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    faults = {number for number in signal.valid_signals() if _name(number) in _FAULTS}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _name(number: int) -> str:
    return number.name if isinstance(number, signal.Signals) else ""
