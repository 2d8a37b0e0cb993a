"""CuPy's arrays as arguments and results; CuPy is never imported here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tc.runtime.arrays.cuda_arrays import no_host_arrays
from tc.runtime.arrays.device_array import CUDA, DeviceArray, DeviceLocation, on_device
from tc.runtime.arrays.family import DeviceOps, Family, Refusal, first_line, type_name
from tc.runtime.arrays.layout_check import ArrayLayoutCheck


def cupy_family(cupy: Any, kind: type) -> Family:
    """The family of a type of CuPy's arrays; `Refusal` where it may mean more than its numbers."""
    if kind is not cupy.ndarray:
        raise Refusal(
            f"is of {type_name(kind)}, a subclass of CuPy's arrays that may mean more than its "
            "numbers",
            "cupy.asarray({name})",
        )
    if getattr(cupy.cuda.runtime, "is_hip", False):
        raise Refusal("lies on a device of ROCm, which tc does not run on", "{name}.get()")
    return Family(
        "cupy",
        _view,
        _view,
        no_host_arrays("cupy"),
        _view,
        "{name}.astype(np.{dtype})",
        None,
        to_host="{name}.get()",
        devices=_on_devices(cupy),
    )


# the interface tells the same in twice the time, and the stream of another device
def _view(array: Any) -> DeviceArray:
    try:
        memory = array.data
        place = DeviceLocation(CUDA, memory.device_id)
        return on_device(array, array.dtype, array.shape, array.strides, memory.ptr, place)
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(f"cannot be read: {first_line(error)}") from error


def _on_devices(cupy: Any) -> DeviceOps:
    def new(shape: tuple[int, ...], dtype: np.dtype[Any], place: DeviceLocation, _like: Any) -> Any:
        with cupy.cuda.Device(place.number):
            return cupy.empty(shape, dtype)

    def stream(place: DeviceLocation) -> int:
        return int(cupy.cuda.get_current_stream(place.number).ptr)

    def capturing(place: DeviceLocation) -> bool:
        return bool(cupy.cuda.get_current_stream(place.number).is_capturing())

    return DeviceOps(
        new,
        stream,
        capturing,
        ArrayLayoutCheck(_array_check),
        pointer=_pointer,
        fresh="cupy.empty({shape}, np.{dtype})",
        convert="with {first}.device: {name} = cupy.asarray({name})",
        move="with {first}.device: {name} = {name}.copy()",
        copy="{name}.copy()",
    )


def _array_check(
    array: Any,
    view: DeviceArray,
    written: bool,  # noqa: ARG001  # no array is read-only
) -> Callable[[Any], int | None]:
    kind, number = type(array), view.place.number
    dtype, shape, strides, item = array.dtype, array.shape, array.strides, view.dtype.itemsize

    def pointer(other: Any) -> int | None:
        if type(other) is not kind or other.dtype != dtype:
            return None
        memory = other.data
        if other.shape != shape or other.strides != strides or memory.device_id != number:
            return None
        address = int(memory.ptr)
        return None if address % item or not address else address

    return pointer


def _pointer(array: Any) -> int:
    return int(array.data.ptr)
