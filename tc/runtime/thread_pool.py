"""A pool of threads that shares the parts of a region within a microsecond or two.

The layers of numba let their threads sleep soon after a region, and waking one takes as long as a
small kernel. Here a worker spins for some 50 to 100 us after its last part before it sleeps. The
pool is written in LLVM's language, for Linux on x86-64.

A launch takes one of a few slots, puts there what is to run and counts `left` down with the
workers, one part after another; whoever meets a slot with parts left helps. So the launching
thread runs all parts that no worker takes, and a launch never waits for a worker that sleeps, is
not scheduled or, after a fork, not there. A thread reads what is to run only after it has taken a
part: the slot can then not change before that part is done. Where all slots are in use, nothing
runs.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tc.process.processors import available
from tc.process.uninterrupted import Once, uninterrupted
from tc.runtime.object_files import new_engine, parse_module
from tc.runtime.thread_count import thread_count
from tc.runtime.thread_pool_llvm import CODE, PERFORM

PATIENCE = 200_000
"""Ticks of the processor's clock (2 to 4 GHz) for which a thread spins before it sleeps."""

SLOTS = 4
PROCESSORS = 1024
"""How many the pool knows by number."""

_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)
_PERFORM = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 7)
_FUNCTIONS = ("syscall", "sched_getcpu", "pthread_create", "pthread_detach")
_FAULTS = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS"}


class _Slot(ctypes.Structure):
    """A slot as in `CODE`."""

    _fields_ = (
        ("left", ctypes.c_int64),
        ("what", ctypes.c_int64 * 5),
        ("modes", ctypes.c_int32),
        ("processor", ctypes.c_int32),
        ("_", ctypes.c_int8 * 72),
        ("done", ctypes.c_int32),
        ("waiting", ctypes.c_int32),
        ("taken", ctypes.c_int32),
        ("__", ctypes.c_int8 * 116),
    )


class _Memory(ctypes.Structure):
    """The pool as in `CODE`."""

    _fields_ = (
        ("slots", _Slot * SLOTS),
        ("asleep", ctypes.c_int32),
        ("signal", ctypes.c_int32),
        ("_", ctypes.c_int8 * 120),
        ("patience", ctypes.c_int64),
        ("workers", ctypes.c_int64),
        ("started", ctypes.c_int64),
        ("process", ctypes.c_int64),
        ("allowed", ctypes.c_uint8 * (PROCESSORS // 8)),
    )


@dataclass(frozen=True, slots=True)
class _Code:
    launch: Any
    launch_address: int
    perform: Any
    work: int
    memory: _Memory


@dataclass
class ThreadPool:
    """As many threads as can run at the same time, counting the one that launches; they start with
    the first launch, and stay on the processors that the process is confined to (the first thread
    of it: nothing else is asked for by `taskset -a` and `os.sched_setaffinity` alike). `ready` is
    the code while they run."""

    code: _Code | None = None
    ready: _Code | None = None
    starting: Any = field(default_factory=threading.RLock)
    compiled: Once[_Code] = field(default_factory=lambda: Once(_compile))

    def launch(self, region: int, arguments: int, failures: int, width: int, parts: int) -> bool:
        """Runs all parts, at least one, of the region at address `region`, part p with its record
        of a failure at `failures` + p * `width`; False where too many launches are under way: then
        nothing has run."""
        code = self.ready or self._start()
        return bool(code.launch(region, arguments, failures, width, parts))

    def perform(
        self, regions: int, count: int, arguments: int, failures: int, width: int, parts: int
    ) -> bool:
        """Runs regions in their order, until one has recorded a failure, and says whether one has.

        At address `regions` are pairs of words: a region's address, and whether it has parts to
        share; where too many launches are under way, it runs as a single part.
        """
        code = self.ready or self._start()
        launch = code.launch_address
        return bool(code.perform(regions, count, arguments, failures, width, parts, launch))

    def launcher(self) -> tuple[int, int]:
        """Addresses, for machine code: of what `launch` calls, and of a word that is 0 while there
        are no threads to call it with. They stay the same, also in forks."""
        code = self._compiled()
        return code.launch_address, ctypes.addressof(code.memory) + _Memory.started.offset

    def _compiled(self) -> _Code:
        self.code = self.compiled()
        return self.code

    def _start(self) -> _Code:
        return uninterrupted(self._start_once)

    def _start_once(self) -> _Code:
        code = self._compiled()
        with self.starting:
            if self.ready is None:
                threads = thread_count()
                code.memory.patience = PATIENCE if len(available()) >= threads else 0
                code.memory.process = os.getpid()
                for number in os.sched_getaffinity(os.getpid()):
                    if number < PROCESSORS:
                        code.memory.allowed[number // 8] |= 1 << number % 8
                code.memory.workers = _start_threads(code.work, threads - 1)
                code.memory.started = 1
                self.ready = code
            return self.ready

    def after_fork_in_child(self) -> None:
        """No thread of the pool is here, nor one that was launching."""
        if self.code is not None:
            ctypes.memset(ctypes.addressof(self.code.memory), 0, ctypes.sizeof(_Memory))
        self.ready = None
        self.starting = threading.RLock()


def new_pool() -> ThreadPool | None:
    """A pool, or None where there can be none."""
    here = sys.platform == "linux" and platform.machine() == "x86_64" and sys.maxsize > 2**32
    return ThreadPool() if here and all(hasattr(_library(), name) for name in _FUNCTIONS) else None


def _compile() -> _Code:
    """The pool's code and memory, which stay for ever: its threads use them to the very end."""
    numbers = {
        "SLOTS": SLOTS,
        "BYTES": PROCESSORS // 8,
        "WORDS": PROCESSORS // 64,
        "BITS": PROCESSORS,
        "PATIENCE": PATIENCE,
    }
    text = CODE
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    for name in ("syscall", "sched_getcpu"):
        address = ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value
        text = text.replace(name.upper(), str(address))
    engine = new_engine(parse_module(text))
    engine.finalize_object()
    launch, work = map(engine.get_function_address, ("launch", "work"))
    memory = _Memory.from_address(engine.get_global_value_address("pool"))
    engine.detach()
    return _Code(_LAUNCH(launch), launch, _PERFORM(performer()), work, memory)


@Once
def performer() -> int:
    """The address of what runs regions, with threads or without (see `PERFORM`)."""
    engine = new_engine(parse_module(PERFORM))
    engine.finalize_object()
    address = engine.get_function_address("perform")
    engine.detach()
    return int(address)


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _start_threads(function: int, number: int) -> int:
    """Starts as many threads as can be had up to a number, and says how many.

    They are not Python's, so that neither `threading` nor the end of the process knows of them.
    """
    library = _library()
    thread = ctypes.c_size_t()
    with _without_signals():
        for i in range(number):
            if library.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(function), None):
                return i
            library.pthread_detach(thread)
    return number


@contextlib.contextmanager
def _without_signals() -> Iterator[None]:
    """Threads started here get no signals but those of their own faults: the others are for
    Python's threads, which they interrupt."""
    faults = {number for number in signal.valid_signals() if _name(number) in _FAULTS}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - faults)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _name(number: int) -> str:
    return number.name if isinstance(number, signal.Signals) else ""
