"""The inline cache of calls on devices: those like the last one, with a few microseconds of Python.

The second call in succession with arrays of the same layout leaves a `DeviceEntry`, which serves
later calls with arrays of that layout. Every other call is left to the usual path and its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tc.errors import InputError
from tc.runtime.arguments import NUMBERS, Parameter, Signature, read_number
from tc.runtime.arrays.device_array import DeviceArray
from tc.runtime.arrays.family import DeviceOps, Family
from tc.runtime.arrays.layout_check import (
    ArrayCheck,
    ArrayLayoutCheck,
    CallCheck,
    OverlapRange,
    overlap_ranges,
)
from tc.runtime.device_calls import (
    DEFAULT_STREAM,
    DeviceKernel,
    is_computation,
    made_at,
    new_array,
    new_frame,
    streams_of,
)
from tc.runtime.device_frames import DeviceFrame
from tc.runtime.specialisation import Specialisation, access_error, out_of_memory


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A specialisation, for calls with arrays of a library on a device that have the layout of
    those of an earlier call: `inputs` is the number of inputs, `given` that of outputs, 0 where
    `makers` make these. `check` takes all that is passed, and gives the bytes of numbers.
    `overlaps` are the ranges of overlap of each output with the arrays before it, `numbers` the
    places of inputs that are numbers, each with its place in a frame. `framed` says that calls need
    a frame. `stream` is the stream that arrays name, None for the library's current one. `result`
    is the type of several results. `made` has the checks of outputs that the library has made.
    """

    special: Specialisation
    kernel: DeviceKernel
    family: Family
    devices: DeviceOps
    layout_check: ArrayLayoutCheck
    inputs: int
    given: int
    check: CallCheck
    overlaps: tuple[OverlapRange, ...]
    numbers: tuple[tuple[int, int], ...]
    makers: tuple[Callable[[Any], Any], ...]
    framed: bool
    stream: Any
    result: Any
    made: dict[str, ArrayCheck] = field(default_factory=dict)

    # no calls where there is nothing to do: this runs before every kernel
    def serve(self, inputs: tuple[Any, ...], outputs: Any) -> Any:
        """The results, or None where arrays have another layout: then nothing has run. Errors are
        those of `run_on_device`."""
        devices, kernel = self.devices, self.kernel
        if len(inputs) != self.inputs or not self.layout_check.is_usual():
            return None
        if self.given:
            kind = type(outputs)
            results = [*outputs] if kind is tuple or kind is list else [outputs]
            if len(results) != self.given:
                return None
            pointers = self.check((*inputs, *results))
            if pointers is None:
                return None
            for output, other, below, above in self.overlaps:
                if below < pointers[other] - pointers[output] < above:
                    return None
        else:
            pointers = self.check(inputs) if outputs is None else None
            if pointers is None:
                return None
            results = []
        if self.framed and devices.capturing(kernel.place):
            return None
        touch = self.family.touch
        if touch is not None:
            for target in results:
                touch(target)
        stream = self.stream
        if stream is None:
            stream = devices.stream(kernel.place)
        try:
            frame = self._frame(inputs[0], stream) if self.framed else None
            for make in self.makers:
                made = make(inputs[0])
                at = devices.pointer
                pointers.append(self._made_at(made, len(results)) if at is None else at(made))
                results.append(made)
        except MemoryError as error:
            raise out_of_memory(self.special.shaped) from error
        if frame is None:
            failure = kernel.enqueue(pointers, None, stream)
        else:
            for place, number in self.numbers:
                pointers[place] = frame.number(number, pointers[place], kernel, stream)
            failure = kernel.enqueue([*pointers, *frame.temporaries], frame.words, stream)
            self.special.frames.give_back(stream, frame)
        if self.stream:
            kernel.after(DEFAULT_STREAM, stream)
        if failure is not None:
            raise access_error(self.special.shaped, kernel.kernel, failure)
        return results[0] if self.result is None else tuple.__new__(self.result, results)

    def _frame(self, like: Any, stream: Any) -> DeviceFrame:
        frame = self.special.frames.take(stream)
        if frame is not None:
            return frame
        return new_frame(self.special, self.kernel, self.family, self.devices, like, stream)

    def _made_at(self, array: Any, place: int) -> Any:
        """The pointer to an array that the library has made, as it should be."""
        space = self.special.outputs[place]
        check = self.made.get(space[0])
        pointer = None if check is None else check(array)
        if pointer is None:
            pointer = made_at(array, space, self.family, self.kernel.place)
            self.made[space[0]] = self.layout_check.of_array(array, self.family.target(array), True)
        return pointer


def _number(parameter: Parameter) -> ArrayCheck:
    def content(value: Any) -> bytes | None:
        try:
            return read_number(parameter, value).tobytes() if isinstance(value, NUMBERS) else None
        except InputError:
            return None

    return content


def new_device_entry(
    special: Specialisation,
    signature: Signature,
    inputs: Sequence[Any],
    views: Sequence[Any],
    outputs: Sequence[Any],
    targets: Sequence[DeviceArray],
    family: Family,
    result: Any,
) -> DeviceEntry | None:
    """The entry for calls with arrays like these, which have been checked; None where the library
    has no layout check. `outputs` are all outputs, or none."""
    devices, found = family.devices, family.devices.layout_check
    kernel: Any = special.runner
    arrays = [*zip(inputs, views, strict=True), *zip(outputs, targets, strict=True)]
    if found is None or is_computation(kernel):
        return None
    if any(type(view) is DeviceArray and view.memory is not None for _, view in arrays):
        return None
    if not views or type(views[0]) is not DeviceArray:
        return None  # new arrays are like the first input
    checks, spans, numbers = [], [], []
    for place, (array, view) in enumerate(arrays):
        if type(view) is DeviceArray:
            checks.append(found.of_array(array, view, place >= len(inputs)))
            spans.append((place, view.address - view.span[0], view.span[1] - view.address))
        else:
            checks.append(_number(signature.inputs[place]))
            numbers.append((place, sum(not each.ndim for each in views[:place])))
    current = devices.stream(kernel.place)
    stream, others = streams_of(current, views, targets)
    if others:
        return None
    return DeviceEntry(
        special,
        kernel,
        family,
        devices,
        found,
        len(inputs),
        len(outputs),
        found.of_all([array for array, _ in arrays], checks, numbers=bool(numbers)),
        overlap_ranges(spans, len(inputs)),
        tuple(numbers),
        () if outputs else tuple(_maker(kernel, devices, *space[1:]) for space in special.outputs),
        bool(kernel.words or special.temporaries.buffers or numbers),
        stream if current is None else None,
        result,
    )


def _maker(
    kernel: DeviceKernel, devices: DeviceOps, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> Callable[[Any], Any]:
    """What makes an output, like an input."""
    if devices.maker is not None:
        return devices.maker(shape, dtype, kernel.place)
    return partial(new_array, kernel, devices, shape, dtype)


def is_entry_of(
    special: Specialisation, entry: Any, views: Sequence[Any], family: Family, *, given: bool
) -> bool:
    """Whether an entry is what `new_device_entry` would make again of arrays of the same shapes, as
    far as a family and streams go."""
    if type(entry) is not DeviceEntry or entry.special is not special:
        return False
    return (
        bool(entry.given) == given
        and entry.family is family
        and (entry.stream is None or entry.stream == streams_of(None, views, ())[0])
    )
