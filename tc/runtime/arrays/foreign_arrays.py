"""Arrays of libraries that tc has never heard of: with DLPack, with CUDA's interface, or both."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from tc.runtime.arrays.cuda_arrays import (
    check_by_interface,
    device_of,
    has_interface,
    view_of_interface,
)
from tc.runtime.arrays.device_array import CUDA, DeviceArray, DeviceLocation, on_device
from tc.runtime.arrays.dlpack_capsule import (
    DLPACK_CPU,
    VERSION,
    LentArray,
    TakenTensor,
    take_over,
)
from tc.runtime.arrays.encoded_arrays import ENCODED
from tc.runtime.arrays.family import (
    DeviceOps,
    Family,
    Refusal,
    first_line,
    is_out_of_memory,
    no_such_type,
    type_name,
)
from tc.runtime.arrays.layout_check import ArrayLayoutCheck

DLPACK_DEVICES = {
    1: "CPU", 2: "CUDA", 3: "CUDA host", 4: "OpenCL", 7: "Vulkan", 8: "Metal", 10: "ROCm",
    11: "ROCm host", 13: "CUDA managed", 14: "oneAPI", 15: "WebGPU", 16: "Hexagon", 17: "MAIA",
    18: "Trainium",
}  # fmt: skip
_ON_HOST = (1, 3)
_ON_CUDA = (2, 13)
_DEFAULT_STREAM = 1  # as DLPack and the array API name it


def has_dlpack(kind: type) -> bool:
    return hasattr(kind, "__dlpack__") and hasattr(kind, "__dlpack_device__")


def foreign_family(kind: type) -> Family:
    """The family of a type that has DLPack or CUDA's interface."""
    library = kind.__module__.partition(".")[0]
    by_dlpack, by_interface = has_dlpack(kind), has_interface(kind)

    def view(array: Any) -> Any:
        try:
            where = array.__dlpack_device__() if by_dlpack else (_ON_CUDA[0], device_of(array))
            device, number = map(int, where)
            if device in _ON_CUDA:
                if by_interface:
                    return view_of_interface(array, number)
                return _view_of_capsule(array, number)
            if device in _ON_HOST and _importer(array, kind) is not None:
                seen = _seen(array)
                if seen.size == 0 or not seen.flags.owndata:
                    return seen
                # of address 0, numpy makes an array with memory of its own, with anything in it
                raise Refusal("has no memory: its address is 0")
        except Refusal:
            raise
        except Exception as error:
            raise Refusal(f"cannot be read through DLPack: {first_line(error)}") from error
        if device in _ON_HOST:
            raise Refusal(
                f"is of {type_name(kind)}, and {library} has no from_dlpack for the results",
                "np.from_dlpack({name})",
            )
        name = DLPACK_DEVICES.get(device, f"type {device}")
        raise Refusal(f"lies on a device of {library}: {name} {number}", "copy it to the CPU")

    def wrap(array: Any, like: Any) -> Any:
        if isinstance(array, np.ndarray) and array.dtype in ENCODED:  # which numpy does not lend
            memory = SimpleNamespace(address=array.ctypes.data, array=array)
            array = LentArray(memory, array.shape, array.dtype, 0, DLPACK_CPU)
        return _importer(like, kind)(array)

    return Family(
        library,
        view,
        view,
        wrap,
        view,
        "{name}.astype({dtype})" if by_dlpack else "{name}.astype(np.{dtype})",
        None,
        devices=DeviceOps(
            _maker(kind, library),
            layout_check=ArrayLayoutCheck(check_by_interface) if by_interface else None,
            adopt=wrap if _module(kind, "from_dlpack") is not None else None,
            fresh="a row-major {dtype} array of shape {shape} on CUDA device {device}",
            convert=f"a copy of {{name}} as an array of {library}, on CUDA device {{device}}",
            move="a copy of {name} on CUDA device {device}",
        ),
    )


class _TakenArray:
    """What numpy makes an array of, that keeps a capsule's memory."""

    def __init__(self, held: TakenTensor) -> None:
        self.held = held
        self.__array_interface__ = {
            "typestr": f"|V{held.dtype.itemsize}",
            "shape": tuple(held.shape),
            "strides": held.strides,
            "data": (held.address, held.read_only),
            "version": 3,
        }


def _seen(array: Any) -> np.ndarray:
    """An array in the processor's memory, as numpy's. Numpy itself takes over no bfloat16 and no
    floats of 8 bits."""
    try:
        return np.from_dlpack(array)
    except (BufferError, RuntimeError):
        held = take_over(_capsule(array))
        if held.dtype not in ENCODED:
            raise
    return np.asarray(_TakenArray(held)).view(held.dtype)


def _capsule(array: Any, **options: Any) -> Any:
    """The capsule of an array, in the form that its library has."""
    try:
        return array.__dlpack__(max_version=VERSION, **options)
    except TypeError:  # of a library from before versions
        return array.__dlpack__(**options)


def _view_of_capsule(array: Any, number: int) -> DeviceArray:
    """An array as a capsule describes it, ready for work on the default stream."""
    held = take_over(_capsule(array, stream=_DEFAULT_STREAM))
    return on_device(
        held,
        held.dtype,
        held.shape,
        held.strides,
        held.address,
        DeviceLocation(CUDA, number),
        writable=not held.read_only,
    )


def _module(kind: type, name: str) -> Any:
    """The attribute of a name in the library of a type, or in the module of the type; None where
    there is none."""
    modules = (sys.modules.get(m) for m in (kind.__module__.partition(".")[0], kind.__module__))
    return next(filter(None, (getattr(module, name, None) for module in modules)), None)


def _importer(array: Any, kind: type) -> Any:
    """The library's from_dlpack, or None."""
    if hasattr(kind, "__array_namespace__"):
        return getattr(array.__array_namespace__(), "from_dlpack", None)
    return _module(kind, "from_dlpack")


def _maker(kind: type, library: str) -> Callable[..., Any] | None:
    """As `DeviceOps.new`: by the array API, else by what is called `empty`, if anything is."""
    if hasattr(kind, "__array_namespace__"):

        def by_namespace(
            shape: tuple[int, ...], dtype: np.dtype[Any], _place: DeviceLocation, like: Any
        ) -> Any:
            namespace = like.__array_namespace__()
            kind_of = getattr(namespace, str(ENCODED.get(dtype, dtype.name)), None)
            if kind_of is None:
                raise no_such_type(library, dtype)
            return _made(lambda: namespace.empty(shape, dtype=kind_of, device=like.device))

        return by_namespace
    empty = _module(kind, "empty")
    if empty is None:
        return None

    def by_module(
        shape: tuple[int, ...], dtype: np.dtype[Any], _place: DeviceLocation, _like: Any
    ) -> Any:
        return _made(lambda: empty(shape, dtype))

    return by_module


def _made(make: Callable[[], Any]) -> Any:
    """An array that a library makes; MemoryError where the library has no memory for the array."""
    try:
        return make()
    except Exception as error:
        if is_out_of_memory(error):
            raise MemoryError(str(error)) from error
        raise
