"""The inline cache: calls like the last one, with less than a microsecond of Python around them.

The second call in succession with arrays of the same shapes, strides and types leaves a
`CacheEntry`. It serves calls that pass its guard (`tc.runtime.guards`); whatever differs is left to
the usual way, with its messages.

`CallFrames` is the memory of calls by the inline cache of a specialisation, kept for later calls.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tc.dtypes import Array
from tc.errors import BackendError, InputError
from tc.kernel.ir import Failure
from tc.process.object_pool import ObjectPool
from tc.runtime.arguments import NUMBERS, Parameter, Signature, read_number
from tc.runtime.arrays.encoded_arrays import user_dtype
from tc.runtime.guards import (
    ADMITTED,
    DONE,
    FAILED,
    OTHER,
    CallGuard,
    GuardFrame,
    Server,
    Shape,
    guard_of,
)
from tc.runtime.guards_llvm import frame_kind
from tc.runtime.loaded import CompiledKernel, MachineKernel
from tc.runtime.specialisation import LARGE_BYTES, Specialisation, access_error, new_output

_MAX_IDLE_FRAMES = 4
"""Calls at the same time whose memory is kept."""


@dataclass(frozen=True, slots=True)
class CallFrames:
    """The frames of a specialisation's calls, one for each call at a time. `kind` is how calls are
    tested and run."""

    special: Specialisation
    runner: CompiledKernel
    threads: int | None
    guard: CallGuard
    kind: type[GuardFrame] = field(default_factory=frame_kind)
    pool: ObjectPool[GuardFrame | None] = field(
        default_factory=partial(ObjectPool, _MAX_IDLE_FRAMES)
    )

    def run(self, frame: GuardFrame, addresses: Sequence[int]) -> None:
        """Runs a call with arrays at these addresses, which have been tested; raises AccessError as
        `finish` does."""
        self.finish_at(frame, frame.run(*addresses), addresses)

    def finish_at(self, frame: GuardFrame, status: int, addresses: Sequence[int]) -> None:
        """As `finish`, for arrays at these addresses, which have been tested."""
        if status == OTHER:  # machine code may not run it now
            frame.addresses[: len(addresses)] = addresses
            status = ADMITTED
        self.finish(frame, status)

    def finish(self, frame: GuardFrame, status: int) -> None:
        """Does what a call has left to do, and keeps the frame; raises AccessError where a check
        has failed (G7)."""
        failure = None
        if status == ADMITTED:
            failure = self.runner.run(frame.addresses, threads=self.threads)
        elif status == FAILED and frame.direct:
            failure = frame.direct.take_failure()
        self.pool.give_back(frame)
        self.fail(failure)

    def fail(self, failure: Failure | None) -> None:
        """Raises AccessError for a check that has failed."""
        if failure is not None:
            raise access_error(self.special.shaped, self.runner.kernel, failure)

    def new(self) -> GuardFrame | None:
        """A frame for one more call at the same time; None where there is no memory, and in a
        forked child that cannot compile (`tc.process.forks`): the usual way tells if it needs as
        much."""
        special, runner, direct = self.special, self.runner, None
        try:
            temporaries = special.temporaries.take()
            if isinstance(runner, MachineKernel):
                direct = runner.direct(threads=self.threads)
            buffers = self.guard.inputs + len(special.outputs) + len(temporaries)
            return self.kind(self.guard, buffers, temporaries, direct)
        except (MemoryError, BackendError):
            return None


@dataclass(frozen=True, slots=True)
class ArrayCalls:
    """Calls with numpy arrays that have the layout of those of an earlier call, or with numbers in
    place of arrays of rank 0, which are the `scalars` with their places. Those of which code is
    specialised on the value have a `fixed` one.

    `given` says that outputs were passed; `makers` make others. `result` is the type of several
    results.
    """

    scalars: tuple[tuple[int, Parameter], ...]
    fixed: tuple[tuple[int, int], ...]
    given: bool
    makers: tuple[Callable[[], Array], ...]
    result: Any
    frames: CallFrames

    def serve(self, inputs: tuple[Any, ...], outputs: Any) -> Any:
        """A `Server`; raises AccessError where a check fails (G7)."""
        frames = self.frames
        if len(inputs) != frames.guard.inputs:
            return None
        if self.scalars:
            try:
                found = self._arrays(inputs)
            except InputError:
                found = None
            if found is None:
                return None
            inputs = found
        if not self.given:
            fresh = None if outputs is not None else self._fresh()
            if fresh is None:
                return None
            arrays = (*inputs, *fresh)
        elif type(outputs) is np.ndarray:  # asking a type is faster
            arrays = (*inputs, outputs)
        elif type(outputs) is tuple or type(outputs) is list:
            arrays = (*inputs, *outputs)
        else:
            return None
        frame = frames.pool.take(frames.new)
        if frame is None:
            return None
        status = frame.serve(*arrays)
        if status == DONE:
            frames.pool.give_back(frame)
        else:
            frames.finish(frame, status)
            if status == OTHER:
                return None
        results = arrays[len(inputs) :]
        return results[0] if self.result is None else tuple.__new__(self.result, results)

    def _arrays(self, inputs: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """The inputs with an array for each number; None where one has not the fixed value. Raises
        InputError as `read_number` does."""
        arrays = list(inputs)
        for place, parameter in self.scalars:
            value = arrays[place]
            if isinstance(value, NUMBERS):
                arrays[place] = read_number(parameter, value)
        for place, number in self.fixed:
            array = arrays[place]
            if type(array) is not np.ndarray or array.shape or array.item() != number:
                return None
        return tuple(arrays)

    def _fresh(self) -> list[Array] | None:
        """Arrays for the outputs; None where there is no memory, which the usual path reports if
        it needs as much memory."""
        try:
            return [make() for make in self.makers]
        except MemoryError:
            return None

    def server(self) -> Server:
        """What serves these calls in the least time; machine code reads no values."""
        frame = None if self.fixed else self.frames.new()
        if frame is None:
            return self.serve
        result = None if self.result is None else partial(tuple.__new__, self.result)
        return frame.server(self.makers, result, self.frames.fail, self.serve)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """A specialisation for calls like an earlier one. `serve` serves them; `given` says that
    outputs were passed."""

    special: Specialisation
    given: bool
    frames: CallFrames
    serve: Server

    def expects(
        self, special: Specialisation, inputs: Sequence[Array], outputs: Sequence[Array]
    ) -> bool:
        """Whether this entry is equal to what `new_entry` would make of these arguments."""
        if special is not self.special or bool(outputs) != self.given:
            return False
        guard = self.frames.guard
        dtypes = guard.dtypes if self.given else guard.dtypes[: len(inputs)]
        return all(map(operator.is_, dtypes, (array.dtype for array in (*inputs, *outputs))))


def new_entry(
    special: Specialisation,
    signature: Signature,
    inputs: Sequence[Array],
    outputs: Sequence[Array],
    result: Any,
    threads: int | None,
) -> CacheEntry | None:
    """The entry for calls with arrays like these, which have been checked; None where inputs are of
    a class derived from numpy's, or copied for the kernel. `outputs` are all outputs, or none."""
    if special.runner is None or special.copies or not (inputs or outputs):
        return None
    if any(type(array) is not np.ndarray for array in inputs):
        return None
    written = [(a.shape, a.dtype) for a in outputs]
    written = written or [(shape, user_dtype(dtype)) for _, shape, dtype in special.outputs]
    guard = guard_of(inputs, written)
    scalars = tuple((i, p) for i, p in enumerate(signature.inputs) if not p.rank)
    frames = CallFrames(special, special.runner, threads, guard)
    makers = () if outputs else tuple(_maker(*space) for space in written)
    fixed = tuple((i, int(inputs[i])) for i, p in scalars if p.static)
    calls = ArrayCalls(scalars, fixed, bool(outputs), makers, result, frames)
    return CacheEntry(special, bool(outputs), frames, calls.server())


def _maker(shape: Shape, dtype: np.dtype[Any]) -> Callable[[], Array]:
    """What makes an output as `new_output` does."""
    small = math.prod(shape) * dtype.itemsize < LARGE_BYTES
    return partial(np.empty if small else new_output, shape, dtype)
