"""The memory of `evaluate`: elements, which of them are written, and who touched them.

Elements are addressed by a place: one int64 array of indices per dimension (numpy scalars for one
element), all in bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tc.kernel.ir import PRIVATE, Buffer

ElementIndex: TypeAlias = "tuple[Any, ...]"
"""Index arrays of one length, or integers."""

_NEVER = -1


@dataclass
class Loop:
    """A loop now running whose iterations must not meet: who wrote each element, and who read it
    first, as numbers of iterations. Numbers are not used twice in a run, so that no array is
    cleared between loops. Buffers named in `shared` may be used by all iterations."""

    first: int
    now: int
    shared: frozenset[str]
    writers: dict[str, np.ndarray[Any, Any]]
    readers: dict[str, np.ndarray[Any, Any]]

    def others(self, table: np.ndarray[Any, Any], place: ElementIndex) -> Any:
        """At which elements another iteration of this loop is in the table."""
        found = table[place]
        return (found != self.now) & (found >= self.first)


@dataclass
class Memory:
    """Arrays by buffer name. All of what is `given` is written. `private` buffers are unwritten at
    the start of each iteration of a parallel loop; the loops of `running` are checked for races.
    Reads of `undefined` buffers find poison where nothing is written: NaN, and the least and the
    largest integers in turn."""

    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    written: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)
    private: set[str] = field(default_factory=set)
    undefined: set[str] = field(default_factory=set)
    running: dict[str, Loop] = field(default_factory=dict)
    iterations: int = 0
    tables: dict[tuple[str, str], dict[str, np.ndarray[Any, Any]]] = field(default_factory=dict)

    def add(self, buffer: Buffer, array: np.ndarray[Any, Any], *, given: bool) -> None:
        self.arrays[buffer.name] = array
        self.written[buffer.name] = np.full(buffer.shape, given)
        if buffer.role in PRIVATE:
            self.private.add(buffer.name)
        elif given:
            self.given.add(buffer.name)
        if buffer.drops_unwritten:
            self.undefined.add(buffer.name)
            poison(array)

    def forget_private(self) -> None:
        for name in self.private:
            self.written[name][...] = False
        for name in self.undefined:
            poison(self.arrays[name])

    # --- loops ------------------------------------------------------------------------------

    def enter(self, kind: str, shared: frozenset[str]) -> None:
        """Starts a "parallel" or "vector" loop; each kind runs once at a time. The private
        buffers are shared by the iterations of the second kind only."""
        writers = self.tables.setdefault((kind, "writers"), {})
        readers = self.tables.setdefault((kind, "readers"), {})
        free = shared | self.private if kind == "parallel" else shared
        self.running[kind] = Loop(self.iterations, self.iterations, free, writers, readers)

    def next_iteration(self, kind: str) -> None:
        self.running[kind].now = self.iterations
        self.iterations += 1
        if kind == "parallel":
            self.forget_private()

    def leave(self, kind: str) -> None:
        del self.running[kind]
        if kind == "parallel":
            self.forget_private()

    # --- accesses ---------------------------------------------------------------------------

    def read(self, name: str, place: ElementIndex) -> str | None:
        """Notes a read; returns why it may not be, if so."""
        if name not in self.given and name not in self.undefined:
            unwritten = ~self.written[name][place]
            if any_of(unwritten):
                return f"reads {element_text(name, place, unwritten)} before any write"
        for loop in self._checked(name):
            others = loop.others(self._table(loop.writers, name), place)
            if any_of(others):
                return f"race at {element_text(name, place, others)}: another iteration writes it"
            readers = self._table(loop.readers, name)
            unread = readers[place] < loop.first
            if any_of(unread):
                readers[place] = np.where(unread, loop.now, readers[place])
        return None

    def write(self, name: str, place: ElementIndex, value: Any) -> str | None:
        """Writes; returns why that may not be, if so."""
        for loop in self._checked(name):
            writers = self._table(loop.writers, name)
            readers = self._table(loop.readers, name)
            others = loop.others(writers, place) | loop.others(readers, place)
            if any_of(others):
                return f"race at {element_text(name, place, others)}: another iteration uses it"
            writers[place] = loop.now
        self.arrays[name][place] = value
        self.written[name][place] = True
        return None

    def _checked(self, name: str) -> list[Loop]:
        return [loop for loop in self.running.values() if name not in loop.shared]

    def _table(self, tables: dict[str, np.ndarray[Any, Any]], name: str) -> np.ndarray[Any, Any]:
        if name not in tables:
            tables[name] = np.full(self.arrays[name].shape, _NEVER)
        return tables[name]


def poison(array: np.ndarray[Any, Any]) -> None:
    """Overwrites an array with what no result should come from.

    >>> a = np.zeros(3, np.int8)
    >>> poison(a)
    >>> a
    array([-128,  127, -128], dtype=int8)
    """
    if array.dtype.kind == "f":
        array[...] = np.nan
        return
    if array.dtype.kind == "V":  # of a float that numpy does not have: NaN
        array.view(f"u{array.dtype.itemsize}")[...] = (1 << (8 * array.dtype.itemsize)) - 1
        return
    flat = array.reshape(-1)
    if array.dtype.kind == "b":
        flat[1::2] = True
        return
    info = np.iinfo(array.dtype)
    flat[::2], flat[1::2] = info.min, info.max


def any_of(which: Any) -> bool:
    """numpy's any, which is slow for one element."""
    return bool(which) if which.ndim == 0 else bool(which.any())


def element_text(name: str, place: ElementIndex, which: Any) -> str:
    """The first element of a place where `which` is true.

    >>> element_text("o", (np.array([1, 2]), np.array([3, 4])), np.array([False, True]))
    'o[2, 4]'
    """
    lane = int(np.argmax(which))
    return f"{name}{[int(np.atleast_1d(axis)[lane]) for axis in place]}"
