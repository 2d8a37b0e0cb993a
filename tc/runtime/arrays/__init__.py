"""Arguments of any library in, results of its kind out.

Every array library is a `Family`: how one of its arrays becomes a numpy view without a copy, and
how a numpy array becomes one of its own. Frameworks are found by the type of an argument and are
never imported here: an array of theirs exists only where they are loaded already.
"""

from __future__ import annotations

import ctypes
import math
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from tc.runtime.arrays import numpy_records
from tc.runtime.arrays.any_address import array_at
from tc.runtime.arrays.cuda_arrays import has_interface, numba_family
from tc.runtime.arrays.cupy_arrays import cupy_family
from tc.runtime.arrays.device_array import DeviceArray
from tc.runtime.arrays.encoded_arrays import as_users
from tc.runtime.arrays.family import Family, Refusal, type_name
from tc.runtime.arrays.foreign_arrays import foreign_family, has_dlpack
from tc.runtime.arrays.jax_arrays import jax_family, traced_by_jax
from tc.runtime.arrays.opencl_arrays import opencl_family
from tc.runtime.arrays.torch_tensors import torch_family, traced_by_torch

_ANYWHERE = 4096


def family_of(array: object) -> Family:
    """The family of an array; `Refusal` where there is none for its type."""
    return _family_of_type(type(array))  # type: ignore[arg-type]  # types can be hashed


@lru_cache(maxsize=256)
def _family_of_type(kind: type) -> Family:
    if kind in (np.ndarray, np.memmap):
        return NUMPY
    if issubclass(kind, np.ma.MaskedArray):
        raise Refusal(
            "is a masked array, and its mask would be lost",
            "{name}.filled(0), with what its masked elements count as",
        )
    if issubclass(kind, np.ndarray):
        raise Refusal(
            f"is of {type_name(kind)}, a subclass of numpy's arrays that may mean more than its "
            "numbers",
            "np.asarray({name})",
        )
    torch, jax, opencl = map(sys.modules.get, ("torch", "jax", "pyopencl.array"))
    if torch is not None and issubclass(kind, getattr(torch, "Tensor", ())):
        return torch_family(torch, kind)
    if kind.__module__ == "torch.fx.proxy":
        raise traced_by_torch()
    if jax is not None and hasattr(jax, "Array"):
        if issubclass(kind, jax.core.Tracer):
            raise traced_by_jax()
        if issubclass(kind, jax.Array):
            return jax_family(jax)
    if opencl is not None and issubclass(kind, opencl.Array):
        return opencl_family(sys.modules["pyopencl"])
    if has_interface(kind):
        cupy, cuda = sys.modules.get("cupy"), sys.modules.get("numba.cuda")
        if cupy is not None and issubclass(kind, getattr(cupy, "ndarray", ())):
            return cupy_family(cupy, kind)
        if cuda is not None and kind.__module__.startswith("numba.cuda."):
            return numba_family(cuda)
    if has_interface(kind) or has_dlpack(kind):
        return foreign_family(kind)
    if kind is type(None):
        raise Refusal("is None, which is no array")
    converts = issubclass(kind, list | tuple | range) or hasattr(kind, "__array__")
    convert = "np.asarray({name}, np.{dtype})" if converts else None
    raise Refusal(f"is of {type_name(kind)}, which is no array", convert)


def _new_bytes(size: int) -> np.ndarray:
    return np.empty(size, np.uint8)


def empty(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    alignment: int = 1,
    memory: Callable[[int], np.ndarray] = _new_bytes,
) -> np.ndarray:
    """A row-major array with no particular contents, aligned to `alignment` bytes, in an array of
    bytes that `memory` gives for a number of them."""
    if alignment <= dtype.itemsize:
        return np.empty(shape, dtype)
    raw = memory(math.prod(shape) * dtype.itemsize + alignment)
    array: np.ndarray = np.ndarray(shape, dtype, raw, -address(raw) % alignment)
    return array


def overlaps(left: np.ndarray, right: np.ndarray) -> bool:
    """Whether two arrays of numpy have an element in common; where that is hard to decide, yes."""
    if not np.may_share_memory(left, right):
        return False
    try:
        return np.shares_memory(left, right, max_work=10_000)  # type: ignore[arg-type]  # any integer
    except np.exceptions.TooHardError:
        return True


def overlaps_on_device(left: DeviceArray, right: Any) -> bool:
    """The same for an array on a device and any other, by arrays of numpy at such addresses, which
    nobody reads."""
    if type(right) is not DeviceArray or left.place != right.place or left.memory != right.memory:
        return False
    (low, end), (other_low, other_end) = left.span, right.span
    if end <= other_low or other_end <= low:
        return False

    def placed(array: DeviceArray) -> np.ndarray:
        place = array.address - min(low, other_low) + _ANYWHERE
        return array_at(place, array.dtype, array.shape, array.strides)

    return overlaps(placed(left), placed(right))


def _address_from_interface(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _address_from_object(
    array: np.ndarray, *, _read: Callable[[int], Any] = ctypes.c_size_t.from_address
) -> int:
    value: int = _read(id(array) + numpy_records.DATA).value
    return value


# numpy's own ways to an address take a microsecond per array, this a fifth of that
address = _address_from_object if numpy_records.is_known() else _address_from_interface
"""The address of element (0, ..., 0) of an array in bytes."""


def _same(array: np.ndarray) -> np.ndarray:
    return array


def _wrap_numpy(array: np.ndarray, _like: Any) -> np.ndarray:
    found: np.ndarray = as_users(array)
    return found


NUMPY = Family("numpy", _same, _same, _wrap_numpy, _same)
