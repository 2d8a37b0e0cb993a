"""The inline cache of calls on devices: those like the last one, with a few microseconds of Python.

The second call in succession with arrays of the same looks leaves a `DeviceEntry`, which serves
calls whose arrays look so, too. Whatever differs is left to the usual way, with its messages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tc.errors import InputError
from tc.runtime.arguments import NUMBERS, Parameter, Signature, read_number
from tc.runtime.arrays.device_array import DeviceArray
from tc.runtime.arrays.family import Family, OnDevices
from tc.runtime.device_calls import (
    DEFAULT_STREAM,
    DeviceKernel,
    is_computation,
    made_at,
    new_array,
    new_frame,
    streams_of,
)
from tc.runtime.specialisation import OutputSpace, Specialisation, access_error, out_of_memory

Look: TypeAlias = Callable[[Any], Any]
"""The pointer to an array that looks as wanted, the bytes of a number; None for others."""


@dataclass(frozen=True, slots=True)
class DeviceEntry:
    """A specialisation, for calls with arrays of a library on a device that look as those of an
    earlier call. `looks` are those of the inputs in order, `given` those of outputs, none where
    these are made anew. `spans` are the bytes of each array before and behind its pointer, `places`
    where a frame has the inputs that are numbers. `stream` is the one that arrays name, None where
    it is the library's current one. `result` is the type of several results. `made` has the looks
    of outputs that the library has made.
    """

    special: Specialisation
    kernel: DeviceKernel
    family: Family
    devices: OnDevices
    looks: tuple[Look, ...]
    given: tuple[Look, ...]
    spans: tuple[tuple[int, int], ...]
    places: tuple[int, ...]
    stream: Any
    result: Any
    made: dict[str, Look] = field(default_factory=dict)

    def serve(self, inputs: tuple[Any, ...], outputs: Any) -> Any:
        """The results, or None where arrays look different: then nothing has run. Errors are those
        of `run_on_device`."""
        devices, kernel = self.devices, self.kernel
        if len(inputs) != len(self.looks) or not devices.is_usual():
            return None
        place = kernel.place
        if devices.capturing(place):
            return None
        pointers: list[Any] = []
        numbers = []
        for value, look in zip(inputs, self.looks, strict=True):
            pointer = look(value)
            if pointer is None:
                return None
            if type(pointer) is bytes:
                numbers.append((len(pointers), pointer))
            pointers.append(pointer)
        results = self._targets(outputs, pointers)
        if results is None:
            return None
        stream = devices.stream(place) if self.stream is None else self.stream
        frame = self.special.frames.take(stream)
        try:
            if frame is None:
                frame = new_frame(self.special, kernel, self.family, devices, inputs[0], stream)
            if not self.given:
                for space in self.special.outputs:
                    results.append(new_array(kernel, devices, *space[1:], inputs[0]))
                    pointers.append(self._made_at(results[-1], space))
        except MemoryError as error:
            raise out_of_memory(self.special.shaped) from error
        for at, content in numbers:
            pointers[at] = frame.number(self.places[at], content, kernel, stream)
        failure = kernel.enqueue((*pointers, *frame.temporaries), frame.words, stream)
        self.special.frames.give_back(stream, frame)
        if self.stream:
            kernel.after(DEFAULT_STREAM, stream)
        if failure is not None:
            raise access_error(self.special.shaped, kernel.kernel, failure)
        return results[0] if self.result is None else tuple.__new__(self.result, results)

    def _made_at(self, array: Any, space: OutputSpace) -> Any:
        """The pointer to an array that the library has made, as it should be."""
        devices, name = self.devices, space[0]
        if devices.pointer is not None:
            return devices.pointer(array)
        look = self.made.get(name)
        pointer = None if look is None else look(array)
        if pointer is None:
            pointer = made_at(array, space, self.family, self.kernel.place)
            if devices.look is not None:
                self.made[name] = devices.look(array, self.family.target(array), True)
        return pointer

    def _targets(self, outputs: Any, pointers: list[Any]) -> list[Any] | None:
        """The outputs that were given, whose pointers are added; None where they look different,
        or where two arrays may share memory."""
        if not self.given:
            return [] if outputs is None else None
        targets = list(outputs) if type(outputs) in (tuple, list) else [outputs]
        if len(targets) != len(self.given):
            return None
        for target, look in zip(targets, self.given, strict=True):
            pointer = look(target)
            if pointer is None:
                return None
            below, above = self.spans[len(pointers)]
            for other, (before, behind) in zip(pointers, self.spans, strict=False):
                apart = type(other) is bytes or other + behind <= pointer - below
                if not apart and other - before < pointer + above:
                    return None
            pointers.append(pointer)
        touch = self.family.touch
        if touch is not None:
            for target in targets:
                touch(target)
        return targets


def _number(parameter: Parameter) -> Look:
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
    """What serves calls with arrays like these, which have been checked; None where the library
    does not say how its arrays look. `outputs` are all that there are, or none."""
    devices = family.devices
    kernel: Any = special.runner
    arrays = [*zip(inputs, views, strict=True), *zip(outputs, targets, strict=True)]
    if devices.look is None or is_computation(kernel):
        return None
    if any(type(view) is DeviceArray and view.memory is not None for _, view in arrays):
        return None
    if not views or type(views[0]) is not DeviceArray:
        return None  # new arrays are like the first input
    looks, spans, places = [], [], []
    for place, (array, view) in enumerate(arrays):
        places.append(sum(not each.ndim for each in views[:place]))
        if type(view) is DeviceArray:
            low, high = view.span
            looks.append(devices.look(array, view, place >= len(inputs)))
            spans.append((view.address - low, high - view.address))
        else:
            looks.append(_number(signature.inputs[place]))
            spans.append((0, 0))
    few, current = len(inputs), devices.stream(kernel.place)
    stream, others = streams_of(current, views, targets)
    if others:
        return None
    known = (tuple(looks[:few]), tuple(looks[few:]), tuple(spans), tuple(places))
    named = stream if current is None else None
    return DeviceEntry(special, kernel, family, devices, *known, named, result)


def is_entry_of(special: Specialisation, entry: Any, *, given: bool) -> bool:
    """Whether an entry is what `new_device_entry` would make again."""
    return type(entry) is DeviceEntry and entry.special is special and bool(entry.given) == given
