"""A candidate run in a process of its own: first checked, element by element within the bound of
R5, then timed. Its arrays end at the edges of memory: one byte further is a page that nobody may
touch."""

from __future__ import annotations

import ctypes
import mmap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import numpy as np

from tc.backends.geometry import MemorySpan
from tc.device import LINE_BYTES
from tc.dtypes import Array
from tc.errors import TCError
from tc.kernel.ir import Buffer, row_major
from tc.runtime.arrays import empty
from tc.runtime.arrays.encoded_arrays import numbers
from tc.runtime.specialisation import access_error, new_output
from tc.tuning.measuring import shared_arrays
from tc.tuning.measuring.compiling import CompiledCandidate, loaded
from tc.tuning.measuring.references import Reference
from tc.tuning.problem import WRONG, Problem

_BLOCK_ELEMENTS = 1 << 20
"""Elements that are compared at a time."""


def is_within(actual: Array, expected: Array, bounds: Array) -> Array:
    """Per element, for arrays of one shape and type: NaN equals NaN, an infinity only the same
    infinity, and an infinite bound allows any value."""
    actual, expected = numbers(actual), numbers(expected)
    same = np.asarray(actual == expected)
    if actual.dtype.kind == "f":
        same |= np.isnan(actual) & np.isnan(expected)
    if actual.dtype.kind in "iu":
        # float64 cannot tell neighbouring int64 apart; differences modulo 2**64 are exact
        larger = np.where(actual > expected, actual, expected).astype(np.uint64)
        smaller = np.where(actual > expected, expected, actual).astype(np.uint64)
        apart = (larger - smaller).astype(np.float64)
    else:
        with np.errstate(invalid="ignore"):
            apart = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    return np.asarray(same | (apart <= bounds) | (bounds == np.inf))


def difference(name: str, actual: Array, expected: Array, bounds: Array) -> str | None:
    """Where a result is out of its bounds, which broadcast; None where it is not.

    >>> one = np.ones(3, np.float32)
    >>> difference("y", one * [1, 2, 1], one, np.float64(0.5))
    'y(1) is 2.0, and has to be within 0.5 of 1.0 (1 of 3 elements are wrong)'
    """
    bounds = np.broadcast_to(bounds, expected.shape)
    flat = actual.reshape(-1), expected.reshape(-1), bounds.reshape(-1)
    wrong, first = 0, -1
    for start in range(0, expected.size, _BLOCK_ELEMENTS):
        bad = ~is_within(*(array[start : start + _BLOCK_ELEMENTS] for array in flat))
        if bad.any():
            first = start + int(bad.argmax()) if first < 0 else first
            wrong += int(bad.sum())
    if not wrong:
        return None
    at = ", ".join(str(int(i)) for i in np.unravel_index(first, expected.shape))
    found, wanted = numbers(flat[0])[first], numbers(flat[1])[first]
    return (
        f"{name}({at}) is {found}, and has to be within {flat[2][first]:.3g} of "
        f"{wanted} ({wrong} of {expected.size} elements are wrong)"
    )


_FORBIDDEN, _READ_ONLY = 0, mmap.PROT_READ
_ZONE_BYTES = 1 << 20
"""The bytes on either side of an array that nobody may touch: many, so that accesses whole rows
beyond the array are noticed, too."""


def bytes_at_edge(size: int, *, before: bool, alignment: int = 1) -> Array:
    """Zeros that end at forbidden pages, as nearly as their alignment allows, or begin after them;
    the pages go with the array.

    >>> bytes_at_edge(5, before=False).tolist()
    [0, 0, 0, 0, 0]
    """
    page = mmap.PAGESIZE
    inner = -(-size // page) * page
    memory = mmap.mmap(-1, inner + 2 * _ZONE_BYTES)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    _protect(start, _ZONE_BYTES, _FORBIDDEN)
    _protect(start + _ZONE_BYTES + inner, _ZONE_BYTES, _FORBIDDEN)
    offset = _ZONE_BYTES if before else _ZONE_BYTES + (inner - size) // alignment * alignment
    return np.frombuffer(memory, np.uint8, size, offset)


def forbid_writing(array: Array) -> None:
    """Nobody may write to the pages of an array of `bytes_at_edge` from now on."""
    page, start = mmap.PAGESIZE, array.ctypes.data
    first = start // page * page
    _protect(first, -(-(start + array.size) // page) * page - first, _READ_ONLY)


def _protect(start: int, size: int, rights: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if size and libc.mprotect(ctypes.c_void_p(start), ctypes.c_size_t(size), rights) != 0:
        raise OSError(ctypes.get_errno(), "mprotect")


_POISONS = (0xFF, 0x7F)
"""NaN of all float types, -1, and true; of other numbers, about the largest."""

_SAMPLE_SECONDS = 5e-5
"""Seconds that a sample takes at least: short calls are timed several at a time."""

_MAX_SAMPLES = 50
"""The most that are taken, and the fewest where time allows no more."""
_MIN_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Session:
    """The setting in which candidates of one problem are profiled: `backend` as `compiling.name_of`
    writes it, threads for candidates that name none, and the descriptor of the memory with the
    arrays."""

    problem: Problem
    backend: str
    threads: int | None
    memory: int
    references: tuple[Reference, ...]


class _Wrong(TCError):
    """A candidate whose results are not those of the program."""


def profile(
    session: Session, candidate: CompiledCandidate, threads: int | None, budget: float, slow: float
) -> tuple[Mapping[str, Any], Sequence[bytes]]:
    """Checks a candidate, and times its calls for `budget` seconds, fewer of them where one takes
    longer than `slow` seconds: a task.

    Timed calls find inputs, outputs and code in the caches as the call before has left them. After
    them results are checked again.
    """
    run = _Runner(session, candidate, threads)
    first, *others = session.references
    seconds = run.checked(run.between_pages(first, before=False), first)
    usual = run.on_usual_arrays(first)
    if seconds > slow and (seconds := min(_once(usual.call), _once(usual.call))) > slow:
        return {"seconds": [seconds]}, []
    run.checked(run.between_pages(first, before=True), first)
    for reference in others:
        for before in (False, True):
            run.checked(run.between_pages(reference, before=before), reference)
    count = _calls_in(_SAMPLE_SECONDS, min(_once(usual.call), _once(usual.call)))
    samples = list(_samples(usual.call, count, budget))
    run.checked(usual, first)
    return {"seconds": samples}, []


def compare(
    session: Session,
    candidates: Sequence[tuple[CompiledCandidate, int | None]],
    rounds: int,
    budget: float,
) -> tuple[Mapping[str, Any], Sequence[bytes]]:
    """Times candidates in turns, so that a slow moment of the machine falls on all of them: for
    each, the seconds of a call in each round. The first is checked once more in the end. A task."""
    first = session.references[0]
    runs = [_Runner(session, *candidate) for candidate in candidates]
    frames = [run.on_usual_arrays(first) for run in runs]
    calls = [frame.call for frame in frames]
    counts = [_calls_in(budget / rounds / len(calls), _once(call)) for call in calls]
    samples: list[list[float]] = [[] for _ in calls]
    places = list(range(len(calls)))
    for _ in range(rounds):
        for place in places:
            samples[place].append(_mean(calls[place], counts[place]))
        places.reverse()
    runs[0].checked(frames[0], first)
    return {"seconds": samples}, []


@dataclass(frozen=True, slots=True)
class _Frame:
    """Arrays for all arguments of a kernel, the memory of each as bytes, what outputs hold before
    a call, and the call."""

    arrays: Mapping[str, Array]
    memories: Mapping[str, Array]
    given: Mapping[str, Array]
    call: Callable[[], object]

    def poison(self, outputs: Sequence[str], byte: int) -> None:
        """Fills outputs with a byte, but for outputs that hold values before a call."""
        for name in outputs:
            self.memories[name][...] = byte
            if name in self.given:
                self.arrays[name][...] = self.given[name]


class _Runner:
    """A kernel, and arrays to run it on."""

    def __init__(self, session: Session, candidate: CompiledCandidate, threads: int | None) -> None:
        self.session, self.threads = session, threads or session.threads
        self.kernel = loaded(session.backend, candidate)
        self.shaped = session.problem.shaped()
        self.strides = session.problem.element_strides(self.shaped)
        self.poisons = cycle(_POISONS)
        self.written = [b.name for b in self.kernel.kernel.arguments if b.role != "input"]

    def checked(self, frame: _Frame, reference: Reference) -> float:
        """Runs the kernel on outputs full of meaningless bytes, and returns the seconds of the
        call; raises where results are wrong."""
        memory = self.session.memory
        frame.poison(self.written, next(self.poisons))
        seconds = _once(frame.call)
        bounds = shared_arrays.read(memory, reference.bounds)
        for name, values in shared_arrays.read(memory, reference.expected).items():
            wrong = difference(name, frame.arrays[name], values, bounds[name])
            if wrong is not None:
                raise _Wrong(f"{WRONG}{wrong}")
        return seconds

    def between_pages(self, reference: Reference, *, before: bool) -> _Frame:
        """Each array ends at a page that nobody may touch, or begins after one."""

        def place(buffer: Buffer, size: int) -> Array:
            alignment = LINE_BYTES if buffer.role == "temporary" else buffer.dtype.bytes
            return bytes_at_edge(size, before=before, alignment=alignment)

        frame = self._frame(reference, place)
        for buffer in self.kernel.kernel.arguments:
            if buffer.role == "input":
                forbid_writing(frame.memories[buffer.name])
        return frame

    def on_usual_arrays(self, reference: Reference) -> _Frame:
        """The frame of a call with arrays as users have them."""

        def place(buffer: Buffer, size: int) -> Array:
            if buffer.role == "output":
                return new_output((size,), np.dtype(np.uint8))
            return empty((size,), np.dtype(np.uint8), LINE_BYTES)

        return self._frame(reference, place)

    def as_declared(self, buffer: Buffer) -> Buffer:
        """An argument with the shape and the strides of the caller's array. The kernel may see the
        same memory with other dimensions, as the kernel joins dimensions that it walks together."""
        if buffer.role == "temporary":
            return buffer
        shape = self.shaped.shapes[buffer.name]
        strides = self.strides.get(buffer.name, row_major(shape))
        return replace(buffer, shape=shape, strides=strides)

    def _frame(self, reference: Reference, place: Callable[[Buffer, int], Array]) -> _Frame:
        kernel, threads, memory = self.kernel, self.threads, self.session.memory
        inputs, given = (shared_arrays.read(memory, p) for p in (reference.inputs, reference.given))
        arrays, memories = {}, {}
        for buffer in map(self.as_declared, kernel.kernel.arguments):
            span, step = MemorySpan.of(buffer), buffer.dtype.bytes
            memories[buffer.name] = place(buffer, span.size)
            arrays[buffer.name] = np.ndarray(
                buffer.shape,
                buffer.dtype.numpy,
                memories[buffer.name].data,
                span.start if span.size else 0,
                [stride * step for stride in buffer.strides],
            )
            if buffer.role == "input":
                arrays[buffer.name][...] = inputs[buffer.name]
        addresses = [arrays[b.name].ctypes.data for b in kernel.kernel.arguments]

        def call() -> object:
            failure = kernel.run(addresses, threads=threads)
            if failure is not None:
                raise access_error(self.shaped, kernel.kernel, failure)
            return memories  # which live as long as this function

        frame = _Frame(arrays, memories, given, call)
        frame.poison(self.written, _POISONS[0])
        return frame


# --- time -----------------------------------------------------------------------------------------


def _once(call: Callable[[], object]) -> float:
    begin = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - begin) / 1e9


def _mean(call: Callable[[], object], count: int) -> float:
    begin = time.perf_counter_ns()
    for _ in range(count):
        call()
    return (time.perf_counter_ns() - begin) / 1e9 / count


def _calls_in(seconds: float, each: float) -> int:
    """How many calls fill a time.

    >>> _calls_in(1.0, 0.3), _calls_in(1.0, 2.0), _calls_in(1.0, 0.0)
    (4, 1, 10000)
    """
    return max(1, min(10_000, -(-seconds // max(each, 1e-9)).__int__()))


def _samples(call: Callable[[], object], count: int, budget: float) -> Iterator[float]:
    spent, taken = 0.0, 0
    while taken < _MIN_SAMPLES or (taken < _MAX_SAMPLES and spent < budget):
        sample = _mean(call, count)
        yield sample
        spent, taken = spent + sample * count, taken + 1
