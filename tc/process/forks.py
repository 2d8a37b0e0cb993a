"""Forks of a process whose threads compile.

A fork copies one thread. What another one held at that moment nobody releases in the child: locks
of LLVM, of numba and of Python's imports. So whoever needs such takes a `step`, and a fork waits
until no other thread is in one. Where that takes longer than `FORK_WAIT_SECONDS`, the process forks
all the same, and the child refuses to take steps (`check_child`), where it would wait for ever.

This is registered when `tc` is imported, before anything that it would have to wait for.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tc.errors import BackendError

FORK_WAIT_SECONDS = 30.0
"""The seconds that a fork waits for threads that compile."""

_PACKAGES = ("tc", "numba", "llvmlite", "numpy", "scipy", "islpy")
_PREFIXES = tuple(f"{name}." for name in _PACKAGES)
_NAP_SECONDS = 0.002  # seconds between looks at what gives no signal

_THREAD = "another thread of its parent was compiling"
_IMPORT = "another thread of its parent was importing what tc needs"
_COMPILER = "another thread of its parent was inside of numba or LLVM"


@dataclass
class _Fork:
    """A fork that a thread is about to make. The fork waits until `end`; `lacking` says what will
    keep the child from taking steps, None for nothing; `ready` says that `lacking` is final;
    `locks` are the locks that the fork has taken, and `log` is the lock of `logging` where the fork
    has given that back while it waits."""

    end: float = field(default_factory=lambda: time.monotonic() + FORK_WAIT_SECONDS)
    lacking: str | None = _THREAD
    ready: bool = False
    locks: list[Any] = field(default_factory=list)
    log: Any = None

    def hold(self) -> bool:
        """Takes the locks of compilers, which others than tc may hold, too."""
        for lock in compiler_locks():
            if not lock._is_owned():
                self.locks.append(lock)
                if not lock.acquire(timeout=max(self.end - time.monotonic(), 0.1)):
                    return False
        return True

    def release(self) -> None:
        for lock in self.locks:
            if lock._is_owned():
                lock.release()


class _Gate:
    """Who is in a step, and who is about to fork.

    What a signal handler raises breaks off the functions around a fork between any two of their
    instructions, and Python forks all the same. So each goes on where it was when it is called
    again, and forks call each twice.
    """

    def __init__(self) -> None:
        self.blocked_by: str | None = None  # what keeps this process from taking steps
        self.process = os.getpid()
        self.forking: dict[int, _Fork] = {}  # by thread
        self.renew()

    def renew(self) -> None:
        """For a process in which only this thread is left."""
        here = threading.get_ident()
        depth = getattr(self, "inside", {}).get(here, 0)
        self.lock = threading.RLock()  # in C: in `Condition` a handler's error leaves it taken
        self.inside = {here: depth} if depth else {}
        self.working_for: dict[int, int] = {}  # threads that others wait for, by these

    def enter(self) -> None:
        while not self._entered():
            time.sleep(_NAP_SECONDS)

    def leave(self) -> None:
        here = threading.get_ident()
        with self.lock:
            self.inside[here] -= 1
            if not self.inside[here]:
                del self.inside[here]

    def before(self) -> None:
        fork = self.forking.setdefault(threading.get_ident(), _Fork())
        if fork.ready:
            return
        with _without_log(fork):
            fork.lacking = (
                (None if _wait(self._others_left, fork.end) else _THREAD)
                or (None if _wait(_nobody_imports, fork.end) else _IMPORT)
                or (None if fork.hold() else _COMPILER)
            )
        fork.ready = True

    def after_in_parent(self) -> None:
        here = threading.get_ident()
        if here in self.forking:
            self.forking[here].release()
        self.forking.pop(here, None)

    def after_in_child(self) -> None:
        fork = self.forking.get(threading.get_ident())
        if fork is None and self.process == os.getpid():
            return  # as the first of the two calls has done all
        if fork is not None:
            fork.release()
            self.blocked_by = self.blocked_by or fork.lacking
        self.renew()
        _renew_properties()
        for renew in _RENEWED:
            renew()
        self.forking = {}
        self.process = os.getpid()

    def _entered(self) -> bool:
        """Whether this thread is in a step now: not while another is about to fork."""
        here = threading.get_ident()
        with self.lock:
            own = {here, self.working_for.get(here)}
            if here not in self.inside and self.forking.keys() - own:
                return False
            self.inside[here] = self.inside.get(here, 0) + 1
            return True

    def _others_left(self) -> bool:
        """Whether no thread but this is in a step."""
        with self.lock:
            return not self.inside.keys() - {threading.get_ident()}


@contextlib.contextmanager
def step() -> Iterator[None]:
    """While this thread imports, or is inside of a compiler: no fork happens.

    Nested steps are one. Raises BackendError in a process that cannot take any. Locks of tc's own
    that others wait for in steps are taken in a step, too.
    """
    check_child()
    _GATE.enter()
    try:
        yield
    finally:
        _GATE.leave()


def forker() -> int | None:
    """This thread, if it is about to fork, and a signal handler has interrupted it there."""
    here = threading.get_ident()
    return here if here in _GATE.forking else None


@contextlib.contextmanager
def working_for(thread: int | None) -> Iterator[None]:
    """A block in which this thread works for a thread that is about to fork and waits for this one:
    the steps of this thread do not wait for that fork."""
    here = threading.get_ident()
    if thread is not None:
        _GATE.working_for[here] = thread
    try:
        yield
    finally:
        _GATE.working_for.pop(here, None)


def check_not_forked(opened_by: int, library: str, lost: str) -> None:
    """BackendError where this is a forked child of the process `opened_by`, which has opened a
    driver of a library; `lost` says what of the driver the child does not have."""
    if os.getpid() != opened_by:
        raise BackendError(
            f"this process was forked from one that has used {library}, and {lost} are not in it",
            repair='multiprocessing.get_context("spawn"), or use backend="numba"',
        )


def check_child() -> None:
    """BackendError in a forked process in which compiling would wait for ever."""
    if _GATE.blocked_by is not None:
        raise BackendError(
            f"this process was forked while {_GATE.blocked_by}, and what that thread had locked "
            "stays locked here: it runs what was compiled before, and compiles nothing",
            repair='multiprocessing.get_context("spawn")',
        )


def is_blocked() -> bool:
    """Whether this is a forked process that cannot compile."""
    return _GATE.blocked_by is not None


def renew_in_child(renew: Callable[[], object]) -> None:
    """Has a function called in forked children, to make new locks for instance."""
    _RENEWED.append(renew)


def compiler_locks() -> list[Any]:
    """The locks of numba and LLVM, as far as those are loaded, in the order in which numba takes
    them."""
    numba = sys.modules.get("numba.core.compiler_lock")
    llvm = sys.modules.get("llvmlite.binding.ffi")
    owners = (
        getattr(numba, "global_compiler_lock", None),
        getattr(getattr(llvm, "lib", None), "_lock", None),
    )
    locks = (getattr(owner, "_lock", None) for owner in owners)
    return [lock for lock in locks if lock is not None]


def imported_here() -> set[str]:
    """The modules that this thread is importing."""
    names = set()
    frame = sys._getframe()
    while frame.f_back is not None:
        frame = frame.f_back
        if frame.f_code.co_name == "<module>":
            names.add(str(frame.f_globals.get("__name__")))
    return names


def is_loading(module: object) -> bool:
    """Whether a module is still being imported."""
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


def _nobody_imports() -> bool:
    """No other thread is importing what tc needs."""
    loading = {
        name
        for name, module in list(sys.modules.items())
        if (name in _PACKAGES or name.startswith(_PREFIXES)) and is_loading(module)
    }
    return not loading or loading <= imported_here()


def _renew_properties() -> None:
    """Before Python 3.12 each cached property had a lock, of all objects that have the property."""
    for name, module in list(sys.modules.items()):
        if name.startswith("tc."):
            classes = [value for value in vars(module).values() if isinstance(value, type)]
            for value in [value for cls in classes for value in vars(cls).values()]:
                if isinstance(value, cached_property) and hasattr(value, "lock"):
                    value.lock = threading.RLock()


def _wait(condition: Callable[[], bool], end: float) -> bool:
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(_NAP_SECONDS)
    return True


@contextlib.contextmanager
def _without_log(fork: _Fork) -> Iterator[None]:
    """Gives the lock of `logging` back while this thread waits, as compilers write to a log.

    Forks take it before they come here where `logging` was loaded after this was registered. After
    it they release locks of all modules that ask for it: also of those loaded while this waited,
    whose locks nobody has taken.
    """
    before = _paired_locks()
    log: Any = before.get("logging")
    if not _LOG_FIRST and log is not None and log._is_owned():
        fork.log = log
        log.release()
    try:
        yield
    finally:
        if fork.log is not None and not fork.log._is_owned():
            fork.log.acquire()
        for name, lock in _paired_locks().items():
            if name not in before:
                lock.acquire()


def _paired_locks() -> dict[str, Any]:
    """The locks that other modules, if they are loaded, have forks take before and release
    after."""
    found = {name: sys.modules.get(name) for name in _PAIRED}
    return {
        name: getattr(module, _PAIRED[name])
        for name, module in found.items()
        if module is not None and not is_loading(module) and hasattr(module, _PAIRED[name])
    }


_PAIRED = {"logging": "_lock", "concurrent.futures.thread": "_global_shutdown_lock"}
_LOG_FIRST = "logging" in _paired_locks()
_RENEWED: list[Callable[[], object]] = []
_GATE = _Gate()
if hasattr(os, "register_at_fork"):
    for _ in range(2):  # see `_Gate`
        os.register_at_fork(
            before=_GATE.before,
            after_in_parent=_GATE.after_in_parent,
            after_in_child=_GATE.after_in_child,
        )
