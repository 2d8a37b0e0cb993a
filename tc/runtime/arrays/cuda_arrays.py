"""Arrays with `__cuda_array_interface__`: CuPy's, those of numba.cuda, and any other's.

The interface is that of numba's documentation, versions 2 and 3. Of version 3 an array may say on
which stream it was written last.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tc.errors import InternalError
from tc.runtime.arrays.device_array import CUDA, DeviceArray, Place, on_device
from tc.runtime.arrays.family import Family, OnDevices, Refusal, first_line

INTERFACE = "__cuda_array_interface__"


def has_interface(kind: type) -> bool:
    return hasattr(kind, INTERFACE)


def cuda_family(kind: type) -> Family:
    """The family of a type of arrays with the interface."""
    library = kind.__module__.partition(".")[0]

    def wrap(_array: np.ndarray, _like: Any) -> Any:
        raise InternalError(f"{library} has no arrays on the processor")

    return Family(
        library,
        view_of_interface,
        view_of_interface,
        wrap,
        view_of_interface,
        "{name}.astype(np.{dtype})",
        None,
        fresh=f"{library}.empty({{shape}}, np.{{dtype}})",
        to_host="{name}.get()" if library == "cupy" else "{name}.copy_to_host()",
        devices=_on_devices(kind, library),
    )


def view_of_interface(array: Any) -> DeviceArray:
    """An array as its `__cuda_array_interface__` describes it."""
    try:
        found: Mapping[str, Any] = getattr(array, INTERFACE)
        dtype, shape = np.dtype(found["typestr"]), tuple(map(int, found["shape"]))
        address, read_only = found["data"]
        strides = found.get("strides")
        if found.get("mask") is not None:
            raise Refusal("has a mask, which would be lost")
        return on_device(
            array,
            dtype,
            shape,
            None if strides is None else tuple(map(int, strides)),
            int(address or 0),
            Place(CUDA, _device_of(array)),
            writable=not read_only,
            stream=found.get("stream"),
        )
    except Refusal:
        raise
    except Exception as error:  # of any library
        raise Refusal(f"cannot be read by {INTERFACE}: {first_line(error)}") from error


def look_of_interface(array: Any, view: DeviceArray, written: bool) -> Callable[[Any], int | None]:
    """As `OnDevices.look`."""
    kind, number, item = type(array), view.place.number, view.dtype.itemsize
    wanted = _fields(getattr(array, INTERFACE))

    def pointer(other: Any) -> int | None:
        if type(other) is not kind:
            return None
        try:
            found = getattr(other, INTERFACE)
            address, read_only = found["data"]
            if _fields(found) != wanted or _device_of(other) != number:
                return None
        except Exception:  # of any library: the usual way tells of it
            return None
        if address % item or (written and read_only) or (view.shape and not address):
            return None
        return int(address)

    return pointer


def _fields(found: Mapping[str, Any]) -> tuple[Any, ...]:
    get = found.get
    return found["shape"], found["typestr"], get("strides"), get("stream"), get("mask")


def _pointer(array: Any) -> int:
    return int(getattr(array, INTERFACE)["data"][0])


def _cupy_pointer(array: Any) -> int:
    return int(array.data.ptr)


def _device_of(array: Any) -> int:
    """The number of the device: the interface does not tell, DLPack does."""
    ask = getattr(array, "__dlpack_device__", None)
    if ask is not None:
        return int(ask()[1])
    device = getattr(array, "device", None)
    return int(getattr(device, "id", device) or 0)


def _on_devices(kind: type, library: str) -> OnDevices | None:
    if library == "cupy":
        return _cupy(sys.modules[library])
    if library == "numba":
        empty = sys.modules["numba.cuda"].device_array
    else:
        modules = [sys.modules.get(name) for name in (library, kind.__module__)]
        empty = next(filter(None, (getattr(module, "empty", None) for module in modules)), None)
    if empty is None:
        return None

    def new(shape: tuple[int, ...], dtype: np.dtype[Any], _place: Place, _like: Any) -> Any:
        return empty(shape, dtype)

    return OnDevices(new, look=look_of_interface, pointer=_pointer)


def _cupy(cupy: Any) -> OnDevices:
    def new(shape: tuple[int, ...], dtype: np.dtype[Any], place: Place, _like: Any) -> Any:
        with cupy.cuda.Device(place.number):
            return cupy.empty(shape, dtype)

    def stream(_place: Place) -> int:
        return int(cupy.cuda.get_current_stream().ptr)

    def capturing(_place: Place) -> bool:
        return bool(cupy.cuda.get_current_stream().is_capturing())

    return OnDevices(new, stream, capturing, look_of_interface, _cupy_pointer)
