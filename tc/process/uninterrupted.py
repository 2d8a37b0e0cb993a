"""Work that no signal handler may tear apart, such as compiling and importing.

Python runs signal handlers in the main thread, between any two of its instructions, and what a
handler raises goes on from there. Compilers do not outlive that. So work of the main thread is done
by a helper thread, while the main thread waits; handlers run, raise, or call tc themselves
meanwhile. Where one raises, the work goes on to its end all the same, and what it has made serves
the next call.

>>> uninterrupted(lambda: 6 * 7)
42
"""

from __future__ import annotations

import _thread
import sys
import threading
import weakref
from collections.abc import Callable, Hashable, Iterator
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, Generic, TypeVar

from tc.errors import BackendError
from tc.process import forks

T = TypeVar("T")

_STACK_BYTES = 32 << 20  # of the helper: LLVM needs more than some systems give a thread
_NO_THREAD = ("can't start new thread", "can't create new thread")


def uninterrupted(work: Callable[[], T]) -> T:
    """What `work` returns or raises; an exception of a signal handler does not reach into `work`.

    Locks that `work` takes are never those of the main thread, so handlers may ask for them.
    """
    if sys.is_finalizing():
        return _at_the_end(work)
    if threading.current_thread() is not threading.main_thread() or _inside_compiler():
        return work()
    return _Helper(work).result()


def _at_the_end(work: Callable[[], T]) -> T:
    """What `work` gives while Python ends (a call in `__del__`): threads no longer start then, and
    modules that are not loaded yet, or are no longer, cannot be imported."""
    try:
        return work()
    except (ImportError, AttributeError, TypeError, RuntimeError) as error:
        raise BackendError(
            "Python is ending, and what this call needs can no longer be loaded",
            repair="call it before, as in atexit.register(...), and not in __del__",
        ) from error


def run_in_helper_thread(work: Callable[[], T]) -> T:
    """What `work`, which takes long, returns or raises in a thread of its own, while the main
    thread waits. An exception of a signal handler comes out at once and does not reach into `work`:
    who catches the exception has to stop `work`. The thread does not keep the process from ending.

    >>> run_in_helper_thread(lambda: 6 * 7)
    42
    """
    if sys.is_finalizing():
        return _at_the_end(work)
    if threading.current_thread() is not threading.main_thread() or _inside_compiler():
        return work()
    return _DetachedHelper(work).result()


def load(name: str) -> ModuleType:
    """The module of that name, imported where neither signals nor forks tear it apart."""
    module = sys.modules.get(name)
    if module is not None and not forks.is_loading(module):
        return module

    def work() -> ModuleType:
        with forks.step():
            return import_module(name)

    # a helper would wait for what this thread is importing
    nested = any(at.partition(".")[0] == "tc" for at in forks.imported_here())
    return work() if nested else uninterrupted(work)


def stack() -> Iterator[FrameType]:
    """The frames of this thread, the innermost first; behind the frames of a helper come the frames
    of the main thread, which waits for the helper."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        if frame.f_code in (_Helper._run.__code__, _DetachedHelper._run.__code__):
            frame = sys._current_frames().get(threading.main_thread().ident or 0)
            while frame is not None and frame.f_code is not _Helper.result.__code__:
                frame = frame.f_back  # from where it waits
        else:
            frame = frame.f_back


class Lazy(Generic[T]):
    """A value made at the first call, in a step and uninterrupted, for all threads and forks.

    >>> number = Lazy(lambda: 7)
    >>> number(), number()
    (7, 7)
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self.made: list[T] = []
        self._renew()
        _LAZY.add(self)

    def __call__(self) -> T:
        return self.made[0] if self.made else uninterrupted(self._first)

    def _first(self) -> T:
        with forks.step(), self._lock:
            if not self.made:
                self.made.append(self._make())
            return self.made[0]

    def _renew(self) -> None:
        self._lock = threading.RLock()


_LAZY: weakref.WeakSet[Lazy[Any]] = weakref.WeakSet()
"""All lazy values; a lazy value goes with the object that holds it, such as a function with its
gradients."""


class LazyByKey(Generic[T]):
    """Values by key, each made once, as a `Lazy` value is.

    >>> squares: LazyByKey[int] = LazyByKey()
    >>> squares.get(7, lambda: 49), squares.get(7, lambda: 50)
    (49, 49)
    """

    def __init__(self) -> None:
        self._made: dict[Hashable, Lazy[T]] = {}

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key: what the first `make` for this key has returned."""
        made = self._made.get(key)
        if made is None:
            made = self._made.setdefault(key, Lazy(make))
        return made()


def _renew_all() -> None:
    for value in _LAZY:
        value._renew()


forks.renew_in_child(_renew_all)


class _Helper(Generic[T]):
    """One piece of work of the main thread."""

    daemon = False

    def __init__(self, work: Callable[[], T]) -> None:
        self.work = work
        self.values: list[T] = []
        self.error: BaseException | None = None
        self.over = False
        self.abandoned = False
        self.lost = False
        self.unstarted = False
        self.forker = forks.forker()
        self.latch = threading.Lock()  # held until it is over
        self.latch.acquire()

    def result(self) -> T:
        _HELPERS[id(self)] = self
        try:
            self._begin()
            while not self.over:
                self.latch.acquire()
        except BaseException:
            self.abandoned = True
            raise
        finally:
            _HELPERS.pop(id(self), None)
        if self.unstarted:
            return self.work()
        if self.lost:  # a handler has forked, and this is the child
            return uninterrupted(self.work)
        if self.error is not None:
            error, self.error = self.error, None  # no cycle of traceback and frame
            try:
                raise error
            finally:
                del error
        return self.values.pop()  # the helper may linger, and keeps nothing alive

    def lose(self) -> None:
        """In a forked child, where the helper is not."""
        if not self.over:
            self.lost = self.over = True
        if self.latch.locked():
            self.latch.release()

    def _begin(self) -> None:
        """Has another thread start the helper: an exception of a handler inside of `Thread.start`
        makes `threading` forget a thread that runs, which then fails to say that it has begun."""
        try:
            _thread.start_new_thread(self._start, ())
        except RuntimeError as error:
            if not str(error).startswith(_NO_THREAD):
                raise  # of a signal handler
            self.unstarted = self.over = True

    def _start(self) -> None:
        """In a thread that no handler disturbs. There may be no helper: where the system gives no
        more threads, or the process ends."""
        try:
            with _STARTING[0]:
                _USUAL.append(threading.stack_size(_STACK_BYTES))
                try:
                    threading.Thread(
                        target=self._run, name="tc compiles", daemon=self.daemon
                    ).start()
                finally:
                    threading.stack_size(_USUAL.pop())
        except Exception:
            self.unstarted = self.over = True
            self.latch.release()

    def _run(self) -> None:
        try:
            with forks.working_for(self.forker), _TURN[0]:
                if not self.abandoned:
                    self.values.append(self.work())
        except BaseException as error:
            self.error = error
        finally:
            self.over = True
            self.latch.release()


class _DetachedHelper(_Helper[T]):
    """A helper beside which the main thread may have other helpers, which do not wait for it."""

    daemon = True

    def _run(self) -> None:
        try:
            if not self.abandoned:
                self.values.append(self.work())
        except BaseException as error:
            self.error = error
        finally:
            self.over = True
            self.latch.release()


def _inside_compiler() -> bool:
    """Whether this thread, in frames further up, holds what the helper would wait for."""
    return any(lock._is_owned() for lock in forks.compiler_locks())


_HELPERS: dict[int, _Helper[Any]] = {}
"""The helpers that the main thread waits for. No weak set, as exceptions of handlers in callbacks
of weak references are lost."""

_TURN = [threading.Lock()]
"""Of helpers, one works at a time: signals cannot leave more behind."""

_STARTING = [threading.Lock()]
_USUAL: list[int] = []
"""The size of others' stacks: `threading` has one size for all threads, for now that of helpers."""


def _after_fork() -> None:
    _TURN[0], _STARTING[0] = threading.Lock(), threading.Lock()
    if _USUAL:
        threading.stack_size(_USUAL.pop())
    for helper in list(_HELPERS.values()):
        helper.lose()


forks.renew_in_child(_after_fork)
