"""Pyopencl's arrays as arguments and results; pyopencl is never imported here.

An array is a part of a buffer, on the device of its queue. OpenCL passes parts of buffers to
kernels if they begin at a multiple of some bytes: inputs that do not are copied on the device.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tc.runtime.arrays.cuda_arrays import no_host_arrays
from tc.runtime.arrays.device_array import OPENCL, DeviceArray, DeviceLocation, on_device
from tc.runtime.arrays.family import DeviceOps, Family, Refusal, first_line

_BITS_PER_BYTE = 8


def opencl_family(library: Any) -> Family:
    """The family of the arrays of `library`, which is the module pyopencl."""
    readable = library.mem_flags.READ_ONLY

    def view(array: Any) -> DeviceArray:
        try:
            return _view(library, array)
        except Refusal:
            raise
        except Exception as error:
            raise Refusal(f"cannot be read: {first_line(error)}") from error

    def target(array: Any) -> DeviceArray:
        found = view(array)
        if found.memory is None:
            return found
        step = alignment(array.queue.device)
        if found.address % step:
            raise Refusal(
                f"begins at byte {found.address} of its buffer, and {found.place} has kernels "
                f"write to parts from multiples of {step} bytes on",
                "pyopencl.array.empty({name}.queue, {name}.shape, np.{dtype})",
            )
        if found.memory.flags & readable:
            return on_device(
                array, found.dtype, found.shape, found.strides, found.address, found.place,
                writable=False, stream=found.stream, memory=found.memory,
            )  # fmt: skip
        return found

    def new(shape: tuple[int, ...], dtype: np.dtype[Any], _place: DeviceLocation, like: Any) -> Any:
        try:
            return library.array.empty(like.queue, shape, dtype, allocator=like.allocator)
        except library.MemoryError as error:
            raise MemoryError(str(error)) from error

    devices = DeviceOps(
        new,
        fresh="pyopencl.array.empty({name}.queue, {shape}, np.{dtype})",
        convert="pyopencl.array.to_device({first}.queue, {name})",
        move="pyopencl.array.to_device({first}.queue, {name}.get())",
        copy="{name}.copy()",
    )
    return Family(
        "pyopencl",
        view,
        target,
        no_host_arrays("pyopencl"),
        view,
        "{name}.astype(np.{dtype})",
        None,
        to_host="{name}.get()",
        devices=devices,
    )


def alignment(device: Any) -> int:
    """The bytes of which a part of a buffer begins at a multiple."""
    return int(device.mem_base_addr_align) // _BITS_PER_BYTE


def _view(library: Any, array: Any) -> DeviceArray:
    queue, memory, offset = array.queue, array.base_data, array.offset
    if queue is None:
        raise Refusal("has no queue to run in", "{name}.with_queue(queue)")
    if memory is not None and not isinstance(memory, library.MemoryObjectHolder):
        raise Refusal(
            "lies in shared virtual memory, and not in a buffer",
            "pyopencl.array.to_device({name}.queue, {name}.get())",
        )
    if memory is not None:
        whole = memory.get_info(library.mem_info.ASSOCIATED_MEMOBJECT)
        if whole is not None:  # a part has none
            memory, offset = whole, offset + memory.get_info(library.mem_info.OFFSET)
    place = place_of(array.context, queue.device)
    return on_device(
        array, array.dtype, array.shape, array.strides, offset, place, stream=queue, memory=memory
    )


@lru_cache(maxsize=16)
def place_of(context: Any, device: Any) -> DeviceLocation:
    return DeviceLocation(OPENCL, context.devices.index(device), context)
