"""Objects that one call at a time uses, kept for later calls."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class ObjectPool(Generic[_T]):
    """Objects that one call at a time uses: a call takes an object and gives the object back at its
    end, so that in the long run nothing is made anew. At most `most_idle` objects are kept; an
    object that an exception left is not given back, and so not used again.

    Calls in any thread, and in handlers of signals, take and give back without a lock, as each is
    one step of a list. The pool does not hold what makes its objects, which mostly owns the pool.

    >>> pool = ObjectPool()
    >>> first, second = pool.take(object), pool.take(object)
    >>> pool.give_back(first)
    >>> pool.take(object) is first, first is second
    (True, False)
    """

    __slots__ = ("idle", "most_idle")

    def __init__(self, most_idle: int = sys.maxsize) -> None:
        self.idle: list[_T] = []
        self.most_idle = most_idle

    def take(self, make: Callable[[], _T]) -> _T:
        """An object that no other call has: one that was given back, or what `make` returns."""
        try:
            return self.idle.pop()
        except IndexError:
            return make()

    def give_back(self, thing: _T) -> None:
        if len(self.idle) < self.most_idle:
            self.idle.append(thing)
