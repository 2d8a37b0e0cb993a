"""Arrays with `__cuda_array_interface__`: those of numba.cuda, and any other's.

The interface is that of numba's documentation, versions 0 to 3. Of version 3 an array may say on
which stream it was written last.

Where an address lies, of arrays that do not tell, the driver knows (`device_at`).
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from tc.errors import InternalError
from tc.runtime.arrays.device_array import CUDA, DeviceArray, DeviceLocation, on_device
from tc.runtime.arrays.family import DeviceOps, Family, Refusal, first_line, is_out_of_memory
from tc.runtime.arrays.layout_check import ArrayLayoutCheck

_NAMES = ("libcuda.so.1", "nvcuda.dll")
_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL


@cache
def library() -> Any:
    """CUDA's driver, which whoever has made an array has loaded; None where there is none."""
    for name in _NAMES:
        with contextlib.suppress(OSError):
            return ctypes.CDLL(name)
    return None


def device_at(address: int) -> int:
    """The number of the device in whose memory an address lies, the first where nobody knows."""
    driver = library()
    if driver is None or not address:
        return 0
    number = ctypes.c_int(0)
    failed = driver.cuPointerGetAttribute(
        ctypes.byref(number), ctypes.c_int(_ORDINAL), ctypes.c_uint64(address)
    )
    return 0 if failed else number.value


INTERFACE = "__cuda_array_interface__"


def has_interface(kind: type) -> bool:
    return hasattr(kind, INTERFACE)


def view_of_interface(array: Any, number: int) -> DeviceArray:
    """The view of an array on the device `number`, as the `__cuda_array_interface__` of the array
    describes it."""
    try:
        found: Mapping[str, Any] = getattr(array, INTERFACE)
        dtype, shape = _dtype(array, found), tuple(map(int, found["shape"]))
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
            DeviceLocation(CUDA, number),
            writable=not read_only,
            stream=_stream(found.get("stream")),
        )
    except Refusal:
        raise
    except Exception as error:  # of any library
        raise Refusal(f"cannot be read by {INTERFACE}: {first_line(error)}") from error


def _dtype(array: Any, found: Mapping[str, Any]) -> np.dtype[Any]:
    """The dtype; of structures the interface may leave out the fields, and the array tells."""
    dtype: np.dtype[Any] = np.dtype(found["typestr"])
    if dtype.kind != "V":
        return dtype
    told = getattr(array, "dtype", None)
    if isinstance(told, np.dtype) and told.itemsize == dtype.itemsize:
        return told
    described: np.dtype[Any] = np.dtype(found.get("descr") or dtype)
    return described


def _stream(told: Any) -> int | None:
    """The handle of a stream; the default one, which CUDA also calls 1, is 0."""
    if told is None:
        return None
    if told == 0:
        raise Refusal(
            f"names stream 0 in its {INTERFACE}, which may be the default stream or one of each "
            "thread's own",
            "give 1 for the default stream, 2 for that of a thread",
        )
    return 0 if told == 1 else int(told)


_TELL_DEVICE = ("__dlpack_device__", "device")


def device_of(array: Any) -> int:
    """The number of the device: the interface does not tell, DLPack does, and so may libraries
    and the driver."""
    ask = getattr(array, "__dlpack_device__", None)
    if ask is not None:
        return int(ask()[1])
    device = getattr(array, "device", None)
    number = getattr(device, "id", device)
    return number if isinstance(number, int) else device_at(pointer_of(array))


def check_by_interface(
    array: Any, view: DeviceArray, written: bool, device: Callable[[Any], int] | None = None
) -> Callable[[Any], int | None]:
    """As `ArrayLayoutCheck.of_array`; `device` returns the device of an array, where the address of
    the array alone does not tell."""
    kind, number, item = type(array), view.place.number, view.dtype.itemsize
    wanted: Mapping[str, Any] = getattr(array, INTERFACE)
    shape, typestr = wanted["shape"], wanted["typestr"]
    strides, stream = wanted.get("strides"), wanted.get("stream")
    if device is None and any(hasattr(array, name) for name in _TELL_DEVICE):
        device = device_of

    def pointer(other: Any) -> int | None:
        if type(other) is not kind:
            return None
        try:
            found = other.__cuda_array_interface__
            get = found.get
            address, read_only = found["data"]
            address = address or 0
            if found["shape"] != shape or found["typestr"] != typestr or get("strides") != strides:
                return None
            if get("stream") != stream or get("mask") is not None:
                return None
            if (device_at(address) if device is None else device(other)) != number:
                return None
        except Exception:  # of any library: the usual way tells of it
            return None
        if address % item or (written and read_only) or (view.shape and not address):
            return None
        return int(address)

    return pointer


def pointer_of(array: Any) -> int:
    """The address of an array."""
    return int(getattr(array, INTERFACE)["data"][0] or 0)


def no_host_arrays(library: str) -> Callable[[np.ndarray, Any], Any]:
    """As `Family.wrap`, which is never asked for."""

    def wrap(_array: np.ndarray, _like: Any) -> Any:
        raise InternalError(f"{library} has no arrays on the processor")

    return wrap


# --- numba ------------------------------------------------------------------------------------


def numba_family(cuda: Any) -> Family:
    """The family of arrays of numba.cuda; it has no current stream, its arrays have theirs."""

    def number_of(array: Any) -> int:
        return int(array.gpu_data.context.device.id)

    def view(array: Any) -> DeviceArray:
        try:
            number = number_of(array)
        except Exception as error:
            raise Refusal(f"does not tell its device: {first_line(error)}") from error
        return view_of_interface(array, number)

    def new(shape: tuple[int, ...], dtype: np.dtype[Any], place: DeviceLocation, like: Any) -> Any:
        try:
            with cuda.gpus[place.number]:
                return cuda.device_array(shape, dtype, stream=getattr(like, "stream", 0))
        except Exception as error:
            if is_out_of_memory(error):
                raise MemoryError(str(error)) from error
            raise

    def of_array(array: Any, view: DeviceArray, written: bool) -> Callable[[Any], int | None]:
        return check_by_interface(array, view, written, number_of)

    devices = DeviceOps(
        new,
        layout_check=ArrayLayoutCheck(of_array),
        pointer=pointer_of,
        fresh="numba.cuda.device_array({shape}, np.{dtype})",
        convert="numba.cuda.to_device({name})",
        move="with numba.cuda.gpus[{device}]: {name} = numba.cuda.to_device({name}.copy_to_host())",
        copy="numba.cuda.to_device({name}.copy_to_host())",
    )
    return Family(
        "numba",
        view,
        view,
        no_host_arrays("numba"),
        view,
        "numba.cuda.to_device({name}.copy_to_host().astype(np.{dtype}))",
        "numba.cuda.to_device({name})",
        to_host="{name}.copy_to_host()",
        devices=devices,
    )
