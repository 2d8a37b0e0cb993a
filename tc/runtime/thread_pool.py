"""The thread pool: shares the parts of a region among threads.

A region is a C function `region(arguments, record, number, parts)` that does part `number` of so
many, and has a record for its own failure. A pool runs each part of a launch once, on whatever
thread is free, and a launch ends when all parts have: also where a signal handler raises
meanwhile, as the caller frees the memory that they write. A fork leaves no thread in the child:
there the pool starts anew.

`ThreadPool` does that in plain Python, and defines what `thread_pool_llvm` does in machine code. It
is used where that cannot be (`native_pool`).

`NativePool` is the pool in machine code, which hands a part over within a microsecond or two. A
thread that sleeps takes as long to wake as a small kernel runs; a worker of this pool spins for
some 50 to 100 us after its last part before it sleeps. The pool measures in what time its workers
begin, and launches what saves more than that. A worker that sleeps on the processor of the
launching thread is sent to another one before it is woken. The text is for Linux on x86-64.

A launch of a `NativePool` takes one of a few slots, puts there what is to run and counts `left`
down with the workers, one part after another; whoever meets a slot with parts left helps. So the
launching thread runs all parts that no worker takes, and a launch never waits for a worker that
sleeps, is not scheduled or, after a fork, not there. A thread reads what is to run only after it
has taken a part: the slot can then not change before that part is done. Where all slots are in use,
nothing runs.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from tc.process import numba_settings
from tc.process.forks import renew_in_child
from tc.process.processors import available, default_threads
from tc.process.uninterrupted import Lazy, uninterrupted
from tc.runtime import loaded
from tc.runtime.loaded import PERFORM, WORD_BYTES
from tc.runtime.object_files import lasting_code
from tc.runtime.thread_pool_llvm import CODE, RUN_REGIONS

_REGION = ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 4)
_FAULTS = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS"}

Launch: TypeAlias = Callable[[int, int, int, int, int, int], object]
"""Takes a region, its arguments, the first record, the bytes from one to the next, the number of
parts, and the ticks of the processor's clock that one thread takes for all; runs all parts, or
none: then it gives what is false."""

ALWAYS = (1 << 62) - 1
"""Ticks for which a launch pays, also of one part."""


class Regions:
    """Regions to be run in their order, by their addresses, with the ticks that each takes on one
    thread, 0 where it has no parts to share. At `address` the same stands as pairs of words."""

    __slots__ = ("_words", "address", "steps")

    def __init__(self, regions: Sequence[tuple[int, int]]) -> None:
        self.steps = tuple((_REGION(place), place, work) for place, work in regions)
        words = [word for place, work in regions for word in (place, work)]
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
    for region, place, work in regions.steps:
        if not (work and launch and launch(place, arguments, failures, width, parts, work)):
            region(arguments, failures, 0, 1)
        if width and any(_words_at(failures, parts * width)[:: width // WORD_BYTES]):
            return True
    return False


def _words_at(address: int, size: int) -> Any:
    return (ctypes.c_int64 * (size // WORD_BYTES)).from_address(address)


def thread_count() -> int:
    """As many as numba is told to use (`NUMBA_NUM_THREADS`), else as many as can run at the same
    time on the processors, and in the time, that this process is given now."""
    config = numba_settings.config()
    if config is None:
        return default_threads()
    told = int(config.NUMBA_NUM_THREADS)
    if told != config.NUMBA_DEFAULT_NUM_THREADS or "NUMBA_NUM_THREADS" in os.environ:
        return told
    return min(told, default_threads())


WAKING_TICKS = 200_000
"""Ticks in which Python has a thread begin."""


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

    def launch(
        self,
        region: int,
        arguments: int,
        failures: int,
        width: int,
        parts: int,
        work: int = ALWAYS,
    ) -> bool:
        """A `Launch`, which runs nothing where it does not pay."""
        if work < ALWAYS and work - work // parts < WAKING_TICKS:
            return False
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


_MODES_BYTES = 512
"""Bytes that hold the floating-point modes, on any system."""


def _modes() -> list[Callable[[], object]]:
    """The function that gives another thread the floating-point modes of this thread."""
    library = ctypes.CDLL(None) if os.name == "posix" else None
    if not hasattr(library, "fegetenv"):
        return []
    modes = ctypes.create_string_buffer(_MODES_BYTES)
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


MACHINES = ("x86_64",)

SPIN_TICKS = 200_000
"""Ticks of the processor's clock (2 to 4 GHz) for which a thread spins before it sleeps."""

SPINNING_TRIALS = 8
WAKING_TRIALS = 3
LONGEST_WAIT = 500e-6
"""Launches by which a pool finds out in what time its workers begin, and the seconds for which it
waits until the workers sleep: a pool starts within a millisecond or two."""

USUAL_SPINNING_TICKS, USUAL_WAKING_TICKS = 1000, 50_000
"""Ticks in which workers begin that spin, and that sleep (two processors of a virtual machine)."""

SLOTS = 4
PROCESSORS = 1024
WORKERS = 256
"""How many the pool knows by number."""

BEING_SENT, SENT = 1, 2
"""States of a worker that a launching thread sends away from its own processor."""

_LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 6)
_MEASURE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_FUNCTIONS = (
    "syscall", "sched_getcpu", "memcmp", "pthread_create", "pthread_detach", "clone"
)  # fmt: skip


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


class Worker(ctypes.Structure):
    """The record of a worker as in `CODE`."""

    _fields_ = (
        ("number", ctypes.c_int64),
        ("thread", ctypes.c_int64),
        ("state", ctypes.c_int32),
        ("processor", ctypes.c_int32),
        ("allowed", ctypes.c_uint8 * (PROCESSORS // 8)),
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
        ("begun", ctypes.c_int64),
        ("places", ctypes.c_int32 * WORKERS),
        ("records", ctypes.c_void_p * WORKERS),
        ("waking", ctypes.c_int64),
        ("spinning", ctypes.c_int64),
        ("last", ctypes.c_int64),
    )


@dataclass(frozen=True, slots=True)
class PoolCode:
    """The machine code of a pool, and its memory, which stay for ever: its threads use them to the
    very end. `attempt` makes the system calls that they make, once; `measure` gives the ticks in
    which all parts of a launch have begun."""

    launch: Any
    launch_address: int
    perform: Any
    work: int
    attempt: int
    measure: Any
    memory: _Memory


@dataclass
class NativePool:
    """As a `ThreadPool`. Its threads start with the first launch, and stay on the processors that
    the process is confined to (the first thread of it: nothing else is asked for by `taskset -a`
    and `os.sched_setaffinity` alike). `is_ready` while they run."""

    code: PoolCode
    is_ready: bool = False
    starting: Any = field(default_factory=threading.RLock)

    def launch(self, *call: int) -> bool:
        """A `Launch`, as that of a `ThreadPool`, which runs nothing where too many are under way,
        either."""
        self._start()
        return bool(self.code.launch(*call[:5], *(call[5:] or (ALWAYS,))))

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
                self._measure()
                memory.started = 1
                self.is_ready = True

    def _measure(self) -> None:
        """Finds out in how many ticks the workers begin, those that sleep and those that spin: the
        least of a few launches. Where something else keeps the workers from their processors, what
        was found elsewhere stands."""
        memory, measure = self.code.memory, self.code.measure
        threads = memory.workers + 1
        _wait(lambda: memory.begun == memory.workers)
        found = [min(measure(threads) for _ in range(SPINNING_TRIALS))]
        for _ in range(WAKING_TRIALS):
            _wait(lambda: memory.asleep == memory.workers)
            found.append(measure(threads))
        spinning, waking = found[0], min(found[1:])
        memory.spinning = spinning if spinning < SPIN_TICKS else USUAL_SPINNING_TICKS
        waking = waking if waking < SPIN_TICKS else USUAL_WAKING_TICKS
        memory.waking = max(waking, memory.spinning)


def _wait(condition: Callable[[], bool]) -> None:
    """Waits until something holds, but not for long."""
    end = time.perf_counter() + LONGEST_WAIT
    while not condition() and time.perf_counter() < end:
        pass


def new_pool() -> ThreadPool | NativePool:
    """A pool in machine code where its assumptions are known to hold, else a pool in Python."""
    if not loaded.is_allowed(MACHINES) or not all(hasattr(_library(), name) for name in _FUNCTIONS):
        return ThreadPool()
    code = compile_pool()
    return NativePool(code) if not _is_filtered() or _survives(code.attempt) else ThreadPool()


def compile_pool() -> PoolCode:
    """The machine code of a pool, as it comes first: what takes time in a launch is memory that
    goes from one processor to another."""
    numbers = {
        "SLOTS": SLOTS,
        "WORKERS": WORKERS,
        "BEING_SENT": BEING_SENT,
        "SENT": SENT,
        "ALWAYS": ALWAYS,
        "BYTES": PROCESSORS // 8,
        "BITS": PROCESSORS,
        "SPIN_TICKS": SPIN_TICKS,
    }
    text = CODE
    for name, number in numbers.items():
        text = text.replace(name, str(number))
    names = ("launch", "work", "attempt", "measure", "pool")
    launch, work, attempt, measure, memory = lasting_code(text, *names, level=0)
    return PoolCode(
        *(_LAUNCH(launch), launch, PERFORM(performer()), work, attempt, _MEASURE(measure)),
        _Memory.from_address(memory),
    )


@Lazy
def performer() -> int:
    """The address of what runs regions, with threads or without (see `RUN_REGIONS`). A call takes a
    hundredth longer by code of level 0, and a first call 4 ms less."""
    return lasting_code(RUN_REGIONS, "perform", level=0)[0]


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
_STACK_BYTES = 1 << 16


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
    """
    stack = ctypes.create_string_buffer(_STACK_BYTES)
    top = (ctypes.addressof(stack) + _STACK_BYTES) & ~0xFF
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
