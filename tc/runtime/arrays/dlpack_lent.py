"""Memory of a device lent to a library that makes arrays by DLPack alone."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from tc.runtime.arrays.dlpack_capsule import CODES, NAMES, ManagedTensor, api_function

DLPACK_CUDA = 2

_NAME = NAMES[0]
_LENT: dict[int, tuple[Any, ...]] = {}
"""The lent arrays by the addresses of their descriptions: all objects that have to stay until an
array is given back."""


def _returned(at: int) -> None:
    _LENT.pop(at, None)


def _dropped(capsule: int) -> None:
    """A capsule goes; if nobody has taken it over, the memory is not needed any more."""
    if _is_named(capsule, _NAME):
        _returned(_pointer(capsule, _NAME))


_DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_returned)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_dropped)
_is_named = api_function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer = api_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)
_new = api_function(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)


class LentArray:
    """A row-major array on a CUDA device, for a library's `from_dlpack`. Its `memory` has an
    `address`, and nothing writes to it any more when it is given away."""

    def __init__(
        self, memory: Any, shape: tuple[int, ...], dtype: np.dtype[Any], number: int
    ) -> None:
        self.memory, self.shape, self.dtype, self.number = memory, shape, dtype, number

    @property
    def address(self) -> int:
        return int(self.memory.address)

    def __dlpack_device__(self) -> tuple[int, int]:
        return DLPACK_CUDA, self.number

    def __dlpack__(self, **_options: Any) -> Any:
        """A capsule of the old form, which every library takes."""
        rank = len(self.shape)
        shape = (ctypes.c_int64 * rank)(*self.shape)
        managed: Any = ManagedTensor()
        tensor = managed.tensor
        tensor.data, tensor.ndim = self.address, rank
        tensor.device[:] = self.__dlpack_device__()
        tensor.code, tensor.bits, tensor.lanes = CODES[self.dtype.kind], 8 * self.dtype.itemsize, 1
        tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        managed.deleter = ctypes.cast(_DELETER, ctypes.c_void_p)
        at = ctypes.addressof(managed)
        _LENT[at] = managed, shape, self.memory
        return _new(at, _NAME, ctypes.cast(_DESTRUCTOR, ctypes.c_void_p))
