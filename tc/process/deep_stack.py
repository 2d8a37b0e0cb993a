"""Work that recurses deeper than a thread of Python may."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TypeVar

from tc.process import forks

T = TypeVar("T")

DEEP_LIMIT_CALLS = 20_000
"""Nested calls of Python functions in the deep thread."""

STACK_BYTES = 1 << 29
"""The address space of the deep thread's stack, of which the system provides what is touched."""


_one_at_a_time = threading.Lock()
"""The limit of nested calls is that of the whole process."""


def with_deep_stack(work: Callable[[], T]) -> T:
    """The result of `work()`; where it recurses too deep, that of another `work()` in a thread with
    a deep stack.

    `work` must be such that it can be begun anew. Raises what it raises, and RecursionError where
    the deep stack is too small, too.

    >>> def depth(n): return 0 if n == 0 else 1 + depth(n - 1)
    >>> with_deep_stack(lambda: depth(15_000))
    15000
    """
    try:
        return work()
    except RecursionError:
        pass
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    with _one_at_a_time:
        limit, size = sys.getrecursionlimit(), threading.stack_size(STACK_BYTES)
        sys.setrecursionlimit(max(limit, DEEP_LIMIT_CALLS))
        try:
            thread = threading.Thread(target=run, name="tc deep stack", daemon=True)
            thread.start()
            threading.stack_size(size)
            thread.join()
        finally:
            threading.stack_size(size)
            sys.setrecursionlimit(limit)
    if errors:
        raise errors[0]
    return results[0]


def _renew() -> None:
    global _one_at_a_time
    _one_at_a_time = threading.Lock()


forks.renew_in_child(_renew)
