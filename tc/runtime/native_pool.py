"""The thread pool in machine code, which hands a part over within a microsecond or two.

A thread that sleeps takes as long to wake as a small kernel runs. Here a worker spins for some 50
to 100 us after its last part before it sleeps. The text is for Linux on x86-64.

A launch takes one of a few slots, puts there what is to run and counts `left` down with the
workers, one part after another; whoever meets a slot with parts left helps. So the launching
thread runs all parts that no worker takes, and a launch never waits for a worker that sleeps, is
not scheduled or, after a fork, not there. A thread reads what is to run only after it has taken a
part: the slot can then not change before that part is done. Where all slots are in use, nothing
runs.
"""

from __future__ import annotations

import ctypes
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tc.process.forks import renew_in_child
from tc.process.processors import available
from tc.process.uninterrupted import Lazy, uninterrupted
from tc.runtime import native
from tc.runtime.loaded import PERFORM
from tc.runtime.object_files import lasting_code
from tc.runtime.thread_pool import Regions, ThreadPool, thread_count, without_signals
from tc.runtime.thread_pool_llvm import CODE, RUN_REGIONS

MACHINES = ("x86_64",)

SPIN_TICKS = 200_000
"""Ticks of the processor's clock (2 to 4 GHz) for which a thread spins before it sleeps."""

SLOTS = 4
PROCESSORS = 1024
"""How many the pool knows by number."""

_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 5)
_FUNCTIONS = ("syscall", "sched_getcpu", "pthread_create", "pthread_detach", "clone")


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
class PoolCode:
    """The machine code of a pool, and its memory, which stay for ever: its threads use them to the
    very end. `attempt` makes the system calls that they make, once."""

    launch: Any
    launch_address: int
    perform: Any
    work: int
    attempt: int
    memory: _Memory


@dataclass
class NativePool:
    """As a `ThreadPool`. Its threads start with the first launch, and stay on the processors that
    the process is confined to (the first thread of it: nothing else is asked for by `taskset -a`
    and `os.sched_setaffinity` alike). `is_ready` while they run."""

    code: PoolCode
    is_ready: bool = False
    starting: Any = field(default_factory=threading.RLock)

    def launch(self, region: int, arguments: int, failures: int, width: int, parts: int) -> bool:
        """A `Launch`; it runs nothing where too many are under way."""
        self._start()
        return bool(self.code.launch(region, arguments, failures, width, parts))

    def perform(
        self, regions: Regions, arguments: int, failures: int, width: int, parts: int
    ) -> bool:
        self._start()
        table, launch = (regions.address, len(regions.steps)), self.code.launch_address
        return bool(self.code.perform(*table, arguments, failures, width, parts, launch))

    def launcher(self) -> tuple[int, int]:
        """Addresses, for machine code: of a C function that is a `Launch`, and of a word that is 0
        while there are no threads to call it with. They stay the same, also in forks."""
        memory = ctypes.addressof(self.code.memory)
        return self.code.launch_address, memory + _Memory.started.offset

    def after_fork_in_child(self) -> None:
        ctypes.memset(ctypes.addressof(self.code.memory), 0, ctypes.sizeof(_Memory))
        self.is_ready = False
        self.starting = threading.RLock()

    def _start(self) -> None:
        if not self.is_ready:
            uninterrupted(self._start_once)

    def _start_once(self) -> None:
        memory = self.code.memory
        with self.starting:
            if not self.is_ready:
                threads = thread_count()
                memory.patience = SPIN_TICKS if len(available()) >= threads else 0
                memory.process = os.getpid()
                for number in os.sched_getaffinity(os.getpid()):
                    if number < PROCESSORS:
                        memory.allowed[number // 8] |= 1 << number % 8
                memory.workers = _start_threads(self.code.work, threads - 1)
                memory.started = 1
                self.is_ready = True


def new_pool() -> ThreadPool | NativePool:
    """A pool in machine code where its assumptions are known to hold, else a pool in Python."""
    if not native.is_allowed(MACHINES) or not all(hasattr(_library(), name) for name in _FUNCTIONS):
        return ThreadPool()
    code = compile_pool()
    return NativePool(code) if not _is_filtered() or _survives(code.attempt) else ThreadPool()


def compile_pool() -> PoolCode:
    """The machine code of a pool, as it comes first: what takes time in a launch is memory that
    goes from one processor to another."""
    numbers = {
        "SLOTS": SLOTS,
        "BYTES": PROCESSORS // 8,
        "BITS": PROCESSORS,
        "SPIN_TICKS": SPIN_TICKS,
    }
    text = CODE
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    launch, work, attempt, memory = lasting_code(text, "launch", "work", "attempt", "pool", level=0)
    performs = PERFORM(performer())
    return PoolCode(_LAUNCH(launch), launch, performs, work, attempt, _Memory.from_address(memory))


@Lazy
def performer() -> int:
    """The address of what runs regions, with threads or without (see `RUN_REGIONS`)."""
    return lasting_code(RUN_REGIONS, "perform")[0]


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _start_threads(function: int, number: int) -> int:
    """Starts as many threads as can be had up to a number, and says how many.

    They are not Python's, so that neither `threading` nor the end of the process knows of them.
    """
    library = _library()
    thread = ctypes.c_size_t()
    with without_signals():
        for i in range(number):
            if library.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(function), None):
                return i
            library.pthread_detach(thread)
    return number


# --- filters of system calls (seccomp) --------------------------------------------------------

_SHARED_UNTIL_END = 0x100 | 0x4000  # CLONE_VM | CLONE_VFORK
_ANY_CHILD = 0x40000000  # __WALL
_STACK = 1 << 16


def _is_filtered() -> bool:
    """Whether a filter may refuse system calls to this process, as in most containers."""
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return True
    return "\nSeccomp:\t0\n" not in text


def _survives(attempt: int) -> bool:
    """Whether a process lives through a C function and gets 0 from it. A filter of system calls may
    end a process for what it refuses, so another process tries the function, on the memory of this
    process, which waits. The end of that process sends no signal, as handlers of the user would
    take the signal for one of their own children.

    A filter may end a process for what it refuses. So another process tries it, on the memory of
    this one, which waits. Its end sends no signal, as the user's handlers would take that for one
    of their own children.
    """
    stack = ctypes.create_string_buffer(_STACK)
    top = (ctypes.addressof(stack) + _STACK) & ~0xFF
    clone = _library().clone
    with without_signals():
        child = clone(ctypes.c_void_p(attempt), ctypes.c_void_p(top), _SHARED_UNTIL_END, None)
    if child < 0:
        return False
    try:
        return os.waitpid(child, _ANY_CHILD)[1] == 0
    except OSError:
        return False


# --- the pool of this process -----------------------------------------------------------------


pool = Lazy(new_pool)
"""The pool of this process. BackendError in a forked child that can make none."""


def _after_fork_in_child() -> None:
    for made in pool.made:
        made.after_fork_in_child()


renew_in_child(_after_fork_in_child)
