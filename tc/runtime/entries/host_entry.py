"""The inline cache of calls with arrays of other libraries than numpy in the processor's memory:
those like the last one.

The second call in succession with arrays of the same layout leaves a `HostEntry`, which serves
later calls with arrays of that layout. Every other call is left to the usual path and its messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tc.dtypes import Array
from tc.errors import InputError
from tc.runtime.arguments import NUMBERS, Parameter, Signature, read_number
from tc.runtime.arrays import address
from tc.runtime.arrays.family import Family, Maker
from tc.runtime.arrays.layout_check import ArrayLayoutCheck, CallCheck, OverlapRange, overlap_ranges
from tc.runtime.entries.inline_cache import CallFrames
from tc.runtime.guards import DONE, GuardFrame, guard_of
from tc.runtime.specialisation import LARGE_BYTES, Specialisation, new_output, out_of_memory


@dataclass(frozen=True, slots=True)
class HostEntry:
    """A specialisation, for calls with arrays of a library that have the layout of those of an
    earlier call: `inputs` is the number of inputs, `given` that of outputs, 0 where calls make
    these. `check` takes all arrays that are passed, with arrays of numpy in the places of
    `numbers`. `overlaps` are the ranges of overlap of each output with the arrays before it. `like`
    is the place of an input that is an array, `result` the type of several results. `fast_path`
    serves calls without numbers and outputs, where the library makes small results itself, while
    the library is plain (`ArrayLayoutCheck.is_plain`).
    """

    special: Specialisation
    family: Family
    layout_check: ArrayLayoutCheck
    inputs: int
    given: int
    check: CallCheck
    overlaps: tuple[OverlapRange, ...]
    numbers: tuple[tuple[int, Parameter], ...]
    like: int
    result: Any
    frames: CallFrames
    fast_path: Callable[[tuple[Any, ...]], Any] | None

    def serve(self, inputs: tuple[Any, ...], outputs: Any) -> Any:
        """The results, or None where arrays have another layout or memory is short: then nothing
        has run. Errors are those of `run_specialised`."""
        if outputs is None and self.fast_path is not None and self.layout_check.is_plain():
            return self.fast_path(inputs)
        if not self.layout_check.is_usual():
            return None
        if len(inputs) != self.inputs:
            return None
        values = self._with_numbers(inputs) if self.numbers else inputs
        results: list[Any] = []
        if self.given:
            kind = type(outputs)
            results = [*outputs] if kind is tuple or kind is list else [outputs]
        elif outputs is not None:
            return None
        if values is None or len(results) != self.given:
            return None
        pointers = self.check((*values, *results) if results else values)
        if pointers is None:
            return None
        for output, other, below, above in self.overlaps:
            if below < pointers[other] - pointers[output] < above:
                return None
        frame = self.frames.pool.take(self.frames.new)
        if frame is None:
            return None
        if self.given:
            touch = self.family.touch
            if touch is not None:
                for target in results:
                    touch(target)
            self.frames.run(frame, pointers)
        else:
            arrays = self._arrays()
            self.frames.run(frame, [*pointers, *map(address, arrays)])
            wrap, like = self.family.wrap, inputs[self.like]
            results = [wrap(array, like) for array in arrays]
        return results[0] if self.result is None else tuple.__new__(self.result, results)

    def _with_numbers(self, inputs: tuple[Any, ...]) -> Sequence[Any] | None:
        """The inputs with an array for each number; None where one does not fit."""
        values = list(inputs)
        for place, parameter in self.numbers:
            if not isinstance(values[place], NUMBERS):
                return None
            try:
                values[place] = read_number(parameter, values[place])
            except InputError:
                return None
        return values

    def _arrays(self) -> list[Array]:
        special, alignment = self.special, self.family.alignment
        try:
            return [new_output(shape, dtype, alignment) for _, shape, dtype in special.outputs]
        except MemoryError as error:
            raise out_of_memory(special.shaped) from error

    def expects(
        self, special: Specialisation, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> bool:
        """Whether this entry serves calls with these arrays."""
        if special is not self.special or len(outputs) != self.given:
            return False
        values = self._with_numbers(tuple(inputs)) if self.numbers else inputs
        return values is not None and self.check((*values, *outputs)) is not None


def new_host_entry(
    special: Specialisation,
    signature: Signature,
    inputs: Sequence[Any],
    views: Sequence[Array],
    outputs: Sequence[Any],
    targets: Sequence[Array],
    family: Family,
    result: Any,
    threads: int | None,
) -> HostEntry | None:
    """The entry for calls with arrays like these, which have been checked; None where the library
    has no layout check, and where inputs are copied. `outputs` are all outputs, or none."""
    found, few = family.layout_check, len(inputs)
    if found is None or special.runner is None or special.copies:
        return None
    numbers = [place for place, value in enumerate(inputs) if isinstance(value, NUMBERS)]
    arrays = [*zip(inputs, views, strict=True), *zip(outputs, targets, strict=True)]
    made = [space[1:] for space in special.outputs]
    guard = guard_of(views, made)
    spans = [
        (at, spec.below, spec.above)
        for at, (spec, _) in enumerate(zip(guard.specs, arrays, strict=False))
        if at not in numbers
    ]
    if not spans or spans[0][0] >= few:
        return None  # new arrays are like an input
    checks = [
        address if place in numbers else found.of_array(array, view, place >= few)
        for place, (array, view) in enumerate(arrays)
    ]
    values = [view if at in numbers else array for at, (array, view) in enumerate(arrays)]
    check = found.of_all(values, checks, numbers=bool(numbers))
    if check(values) is None:
        return None
    frames = CallFrames(special, special.runner, threads, guard)
    fast_path = None
    # what makes results is made now, by the library's functions
    if family.maker is not None and not (outputs or numbers) and found.is_plain():
        makers = tuple(_maker(family, family.maker, shape, dtype) for shape, dtype in made)
        fast_path = _fast_path(few, check, makers, result, frames)
    return HostEntry(
        special,
        family,
        found,
        few,
        len(outputs),
        check,
        overlap_ranges(spans, few),
        tuple((place, signature.inputs[place]) for place in numbers),
        spans[0][0],
        result,
        frames,
        fast_path,
    )


def _maker(
    family: Family, small: Maker, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Callable[[], tuple[Any, int]]:
    """What makes a result of the library, with its address: a large one in memory of numpy's."""
    if math.prod(shape) * dtype.itemsize < LARGE_BYTES:
        return small(shape, dtype)
    wrap = family.wrap

    def make() -> tuple[Any, int]:
        array = new_output(shape, dtype)
        return wrap(array, None), address(array)

    return make


def _fast_path(
    inputs: int,
    check: CallCheck,
    makers: tuple[Callable[[], tuple[Any, int]], ...],
    result: Any,
    frames: CallFrames,
) -> Callable[[tuple[Any, ...]], Any]:
    """The `fast_path` of a `HostEntry`: it gives what `HostEntry.serve` gives, with fewer tests, as
    a call has no numbers and no outputs."""
    # what `ObjectPool` does in few steps is done here in fewer: this is most of a small call's time
    idle, new, finish = frames.pool.idle, frames.new, frames.finish_at
    first = makers[0] if len(makers) == 1 else None

    def serve(arrays: tuple[Any, ...]) -> Any:
        if len(arrays) != inputs:
            return None
        pointers = check(arrays)
        if pointers is None:
            return None
        try:
            frame: GuardFrame | None = idle.pop()
        except IndexError:
            frame = new()
        if frame is None:
            return None
        results: Any
        try:
            if first is not None:
                results, pointer = first()
                pointers.append(pointer)
            else:
                made = [make() for make in makers]
                results = tuple.__new__(result, [array for array, _ in made])
                pointers += [pointer for _, pointer in made]
        except MemoryError as error:
            raise out_of_memory(frames.special.shaped) from error
        status = frame.run(*pointers)
        if status == DONE and not idle:
            idle.append(frame)
        else:
            finish(frame, status, pointers)
        return results

    return serve
