"""The number of threads of calls that do not name a number themselves."""

from __future__ import annotations

import os
from collections.abc import Callable

from tc.errors import BackendError

VARIABLE = "TC_THREADS"

_most: int | None = None
_was_set = False
_listeners: list[Callable[[], None]] = []


def set_threads(most: int | None) -> None:
    """The largest number of threads that a call may use from now on, in this process, where its
    `tc.Options` name none; None leaves it to the backend. The environment variable TC_THREADS says
    the same at the start.

    >>> import tc
    >>> tc.set_threads(2)
    >>> tc.get_threads()
    2
    >>> tc.set_threads(None)
    """
    global _most, _was_set
    number: object = most
    if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
        raise _refused(repr(most), "tc.set_threads(2)")
    if most is not None and most < 1:
        raise _refused(repr(most), "tc.set_threads(1)")
    _most, _was_set = most, True
    for changed in _listeners:
        changed()


def get_threads() -> int | None:
    """What `set_threads` or TC_THREADS said; None where nothing did.

    Raises BackendError where TC_THREADS is no number of threads.
    """
    return _most if _was_set else _from_environment()


def on_change(changed: Callable[[], None]) -> None:
    """Calls a function whenever the number is set."""
    _listeners.append(changed)


def _from_environment() -> int | None:
    text = os.environ.get(VARIABLE, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise _refused(f"{VARIABLE}={text}", f"{VARIABLE}=1")
    return int(text)


def _refused(given: str, repair: str) -> BackendError:
    return BackendError(
        f"{given}: the number of threads is an integer of at least 1", repair=repair
    )
