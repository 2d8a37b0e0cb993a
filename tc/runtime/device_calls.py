"""Calls whose arrays lie on a device: what runs there is put in line, and nobody waits for it.

Outputs and temporaries come from the library of the caller's arrays. A call allocates nothing
else, and waits for nothing unless it is checked, so that a graph can record it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import numpy as np

from tc.errors import BackendError, InputError
from tc.kernel.ir import Failure, Kernel
from tc.runtime.arguments import Parameter, Signature, fault, on_place
from tc.runtime.arrays import family_of
from tc.runtime.arrays.device_array import CUDA, DeviceArray, DeviceLocation
from tc.runtime.arrays.dlpack_capsule import LentArray
from tc.runtime.arrays.family import DeviceOps, Family, Refusal
from tc.runtime.device_frames import DeviceFrame
from tc.runtime.loaded import CompiledKernel
from tc.runtime.specialisation import (
    OutputSpace,
    Specialisation,
    access_error,
    out_of_memory,
)

_WORD = np.dtype(np.int64)

DEFAULT_STREAM = 0
"""CUDA's."""


class DeviceKernel(Protocol):
    """A kernel that is loaded at `place`; any number of threads may call it at the same time.

    What is named `pointer` is where an array has its element (0, ..., 0): a number for CUDA, for
    OpenCL the `DeviceArray`. `stream` is CUDA's handle, or OpenCL's queue.
    """

    @property
    def kernel(self) -> Kernel: ...

    @property
    def source(self) -> str: ...

    @property
    def place(self) -> DeviceLocation: ...

    @property
    def words(self) -> int:
        """The 8-byte words that a call needs for itself, 0 at first."""
        ...

    @property
    def waits(self) -> bool:
        """Whether `enqueue` waits for the end, as checks are read then."""
        ...

    def fill(self, pointer: Any, content: bytes, stream: Any) -> None:
        """Has the device write these bytes, of a power of two up to 8, or of zeros; in order with
        what else is in the stream, without reading memory of the processor later."""
        ...

    def after(self, stream: Any, other: Any) -> None:
        """Makes all later work of a stream wait for the work that is in the stream `other` now."""
        ...

    def wait(self, stream: Any) -> None:
        """Returns when all in a stream has been done."""
        ...

    def allocate(self, size: int) -> Any:
        """Memory of `size` bytes, for libraries that make no arrays: an object with an `address`
        that frees the memory when the object goes."""
        ...

    def enqueue(self, pointers: Sequence[Any], words: Any, stream: Any) -> Failure | None:
        """Puts the kernel in line, for arrays of all its arguments in order; `words` is a pointer,
        None where none are needed. The first failure on record, where checks are on."""
        ...


class DeviceComputation(Protocol):
    """A kernel that a library runs on its own arrays at `place`, on the current stream of the
    library."""

    @property
    def kernel(self) -> Kernel: ...

    @property
    def place(self) -> DeviceLocation: ...

    def compute(self, arrays: Sequence[Any]) -> None:
        """Takes the inputs, then the outputs, in order. MemoryError where there is no room for what
        the library copies."""
        ...


@dataclass(frozen=True, slots=True)
class Copies:
    """The bytes of arrays of the processor that a call copies to a device, `there`, and
    `back`. `move` makes an array that lies there of one with a {name}."""

    device: str
    there: int
    back: int
    move: str


@runtime_checkable
class CopyingKernel(CompiledKernel, Protocol):
    """A kernel that runs on a device."""

    @property
    def copied(self) -> Copies | None:
        """What `run` copies, None where the device has the arrays as they are."""
        ...


def is_computation(kernel: object) -> bool:
    """Whether it is a `DeviceComputation`, and no `DeviceKernel`."""
    return hasattr(kernel, "compute")


def run_on_device(
    special: Specialisation,
    signature: Signature,
    inputs: Sequence[Any],
    targets: Mapping[str, DeviceArray],
    family: Family,
    like: Any,
) -> list[Any]:
    """The outputs in return order: None for those of `targets`, else fresh arrays of the family.

    Inputs and targets have been checked, and lie where the kernel is loaded, but for numbers.
    Raises AccessError where a check fails (G7), BackendError where the device cannot run it.
    """
    kernel, devices = cast(DeviceKernel, special.runner), family.devices
    if devices.new is None and devices.adopt is None:
        _check_all_given(special, signature, targets, family)
    place = kernel.place
    if is_computation(kernel):
        return _run_library(special, inputs, targets, devices, like)
    stream, others = streams_of(devices.stream(place), inputs, targets.values())
    for other in others:
        kernel.after(stream, other)
    capturing = devices.capturing(place)
    if capturing and kernel.waits:
        raise BackendError(
            f"{signature.name} is checked, so that a call waits for the device, and this stream is "
            "being captured to a graph",
            repair="tc.compile(..., check=False)",
        )
    frame = None if capturing else special.frames.take(stream)
    try:
        if frame is None:
            frame = new_frame(special, kernel, family, devices, like, stream)
        outputs = [
            None if name in targets else new_array(kernel, devices, shape, dtype, like)
            for name, shape, dtype in special.outputs
        ]
    except MemoryError as error:
        raise out_of_memory(special.shaped) from error
    pointers = [
        *_inputs(kernel, inputs, frame, stream),
        *(
            targets[space[0]].pointer if output is None else made_at(output, space, family, place)
            for space, output in zip(special.outputs, outputs, strict=True)
        ),
        *frame.temporaries,
    ]
    failure = kernel.enqueue(pointers, frame.words, stream)
    if not capturing:
        special.frames.give_back(stream, frame)
    elif frame.arrays and not devices.keeps_recorded:
        special.frames.recorded.append(frame)
    if failure is not None:
        raise access_error(special.shaped, kernel.kernel, failure)
    if stream and devices.stream(place) is None and place.kind == CUDA:
        others = [*others, DEFAULT_STREAM]  # where results are expected
    for other in others:
        kernel.after(other, stream)
    return _adopted(kernel, devices, outputs, like, stream)


def new_array(
    kernel: DeviceKernel,
    devices: DeviceOps,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    like: Any,
) -> Any:
    """An array of a library, or memory of the driver that it can adopt later."""
    if devices.new is not None:
        return devices.new(shape, dtype, kernel.place, like)
    size = max(math.prod(shape) * dtype.itemsize, 1)
    return LentArray(kernel.allocate(size), shape, dtype, kernel.place.number)


def _adopted(
    kernel: DeviceKernel, devices: DeviceOps, outputs: list[Any], like: Any, stream: Any
) -> list[Any]:
    """The outputs as arrays of the library. A library knows no stream for arrays that it takes
    over, so the call waits for its end."""
    adopt, lent = devices.adopt, [type(output) is LentArray for output in outputs]
    if adopt is None or not any(lent):
        return outputs
    if not kernel.waits:
        kernel.wait(stream)
    return [adopt(o, like) if own else o for o, own in zip(outputs, lent, strict=True)]


def made_at(array: Any, space: OutputSpace, family: Family, place: DeviceLocation) -> Any:
    """The pointer to an array that the library has made, of an output or, without a name, of memory
    that only the kernel needs; BackendError where it is not what it was asked for."""
    if type(array) is LentArray:
        return array.address
    name, shape, dtype = space
    given = "pass outputs=" if name else None
    try:
        view = family_of(array).target(array)
    except Refusal as refusal:
        raise BackendError(f"{family.name} has made an array that {refusal.cause}") from refusal
    found = view.place if type(view) is DeviceArray else "the processor"
    if found != place:
        raise BackendError(
            f"{family.name} has made an array on {found}, and the arrays of the call lie on "
            f"{place}",
            repair="make that device its current one" + (f", or {given}" if given else ""),
        )
    if view.shape != shape or view.dtype != dtype or not view.plain:
        raise BackendError(
            f"{family.name} has made an array of shape {view.shape} and dtype {view.dtype}, with "
            f"strides {view.strides} in bytes, for a row-major one of shape {shape} and dtype "
            f"{dtype}",
            repair=given,
        )
    return view.pointer


def streams_of(
    current: Any, inputs: Sequence[Any], targets: Iterable[DeviceArray]
) -> tuple[Any, list[Any]]:
    """The stream of a call, and the streams that the call waits for. The stream is the current one
    of the library; where the library has none, the first that an array names, else the default
    stream of CUDA."""
    views = (*inputs, *targets)
    named = [v.stream for v in views if type(v) is DeviceArray and v.stream is not None]
    stream = current if current is not None else named[0] if named else DEFAULT_STREAM
    return stream, [other for other in dict.fromkeys(named) if other != stream]


def new_frame(
    special: Specialisation,
    kernel: DeviceKernel,
    family: Family,
    devices: DeviceOps,
    like: Any,
    stream: Any,
) -> DeviceFrame:
    """Memory for one more call at the same time, like the caller's arrays."""
    arrays = []

    def new(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
        arrays.append(new_array(kernel, devices, shape, dtype, like))
        return made_at(arrays[-1], ("", shape, dtype), family, kernel.place)

    temporaries = [new(b.shape, b.dtype.numpy) for b in special.temporaries.buffers]
    words = None
    if kernel.words:
        words = new((kernel.words,), _WORD)
        kernel.fill(words, bytes(8 * kernel.words), stream)
    scalars = (b for b in kernel.kernel.arguments if b.role == "input" and not b.shape)
    numbers = [new((), b.dtype.numpy) for b in scalars]
    return DeviceFrame(arrays, temporaries, words, numbers, [b""] * len(numbers))


def _run_library(
    special: Specialisation,
    inputs: Sequence[DeviceArray],
    targets: Mapping[str, DeviceArray],
    devices: DeviceOps,
    like: Any,
) -> list[Any]:
    kernel: Any = special.runner
    try:
        outputs = [
            targets[name].owner
            if name in targets
            else new_array(kernel, devices, shape, dtype, like)
            for name, shape, dtype in special.outputs
        ]
        kernel.compute([*(view.owner for view in inputs), *outputs])
    except MemoryError as error:
        raise out_of_memory(special.shaped) from error
    return outputs


def _inputs(
    kernel: DeviceKernel, inputs: Sequence[Any], frame: DeviceFrame, stream: Any
) -> list[Any]:
    """The pointers of the inputs; those that are numbers stand in the frame, which has a place for
    each of rank 0."""
    pointers, place = [], 0
    for view in inputs:
        if type(view) is DeviceArray:
            pointers.append(view.pointer)
        else:
            pointers.append(frame.number(place, view.tobytes(), kernel, stream))
        place += not view.ndim
    return pointers


def common_place(
    signature: Signature,
    inputs: Sequence[Any],
    targets: Mapping[str, Any],
    kinds: frozenset[str],
    backend: str,
    family: Family,
) -> DeviceLocation | None:
    """Where all arrays of a call lie, None for the memory of the processor; InputError where they
    lie apart, or where the backend cannot take them. Numbers lie anywhere."""
    parameters = [*zip(signature.inputs, inputs, strict=True)]
    parameters += [(p, targets[p.name]) for p in signature.outputs if p.name in targets]
    found: list[tuple[Any, DeviceLocation | None]] = []
    for parameter, view in parameters:
        if type(view) is DeviceArray:
            if view.place.kind not in kinds:
                cause = f"lies on {view.place}, which backend {backend!r} does not take"
                raise fault(parameter, cause, f'tc.compile(..., backend="{view.place.kind}")')
            found.append((parameter, view.place))
        elif view.ndim or parameter.name in targets:
            found.append((parameter, None))
    for parameter, place in found[1:]:
        if place != found[0][1]:
            raise _apart(found[0], (parameter, place), family)
    return found[0][1] if found else None


_Lies: TypeAlias = tuple[Parameter, DeviceLocation | None]


def _apart(first: _Lies, second: _Lies, family: Family) -> InputError:
    """The error about an array that lies elsewhere than another; of the two, about that on the
    processor, which may be moved."""
    if second[1] is None:
        first, second = second, first
    (parameter, place), (other, where) = (first, second) if first[1] is None else (second, first)
    texts = [str(each or "the processor") for each in (place, where)]
    if texts[0] == texts[1]:
        texts[1] += " in another context"
    cause = (
        f"lies on {texts[0]}, but {other.name} on {texts[1]}: the arrays of a call lie in one place"
    )
    move = on_place(family.devices.move, where, other.name) if where else None
    return fault(parameter, cause, move)


def _check_all_given(
    special: Specialisation, signature: Signature, targets: Mapping[str, Any], family: Family
) -> None:
    """Checks that all outputs are given, where tc does not know how a library makes arrays."""
    for name, shape, dtype in special.outputs:
        if name not in targets:
            parameter = next(p for p in signature.outputs if p.name == name)
            cause = (
                f"has shape {shape} and dtype {dtype}, and tc does not know how {family.name} "
                "makes such an array on a device"
            )
            raise fault(parameter, cause, f'outputs={{{{"{name}": {name}}}}}')
