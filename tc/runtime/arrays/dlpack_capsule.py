"""Capsules of DLPack taken over: what they say of an array, and their deleter, called once.

Numpy reads none that lie on a device, or hold bfloat16 or floats of 8 bits. A capsule is of the old
form, "dltensor", or of the versioned one, which tells of memory that may only be read.

A `LentArray` is memory of a device lent to a library that makes arrays by DLPack alone.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from tc.dtypes import BFLOAT16, FLOAT8_E4M3FN, FLOAT8_E5M2
from tc.runtime.arrays.family import Refusal

VERSION = (1, 0)
"""The newest version that is understood."""

CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
"""DLPack's numbers for the kinds of types that numpy knows."""

_KINDS = {code: kind for kind, code in CODES.items()}

_ENCODED = {(4, 16): BFLOAT16.numpy, (10, 8): FLOAT8_E4M3FN.numpy, (12, 8): FLOAT8_E5M2.numpy}
"""The types that numpy does not have, by DLPack's numbers for their kinds and their bits."""

_CODES = {dtype: code for (code, _), dtype in _ENCODED.items()}

_NAMES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_READ_ONLY = 1


class TensorFields(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class ManagedTensor(ctypes.Structure):
    _fields_ = (
        ("tensor", TensorFields),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
    )


class VersionedTensor(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint32 * 2),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", TensorFields),
    )


# a deleter may belong to Python, so it is called with the lock held
_DELETER = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)

NAMES = b"dltensor", b"dltensor_versioned"
_USED = b"used_dltensor", b"used_dltensor_versioned"
_FORMS = ManagedTensor, VersionedTensor
"""The names of capsules, those of capsules taken over, and what is in them. A name has to stay in
memory for as long as its capsule."""

_API: Any = ctypes.pythonapi


def api_function(name: str, result: Any, *arguments: Any) -> Any:
    """A function of Python's C API."""
    return ctypes.PYFUNCTYPE(result, *arguments)((name, _API))


_is_named = api_function("PyCapsule_IsValid", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)
_pointer = api_function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)
_rename = api_function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_char_p)


class TakenTensor:
    """What a capsule held: `address` of element (0, ..., 0), `strides` in bytes, None where the
    array is row-major, `device` as its type and number. When it goes, so does the memory."""

    def __init__(self, at: int, form: type[ctypes.Structure]) -> None:
        self._at = at
        content: Any = form.from_address(at)
        self._deleter = content.deleter
        if form is VersionedTensor and content.version[0] > VERSION[0]:
            raise Refusal(f"gives a capsule of DLPack {content.version[0]}, which is newer than 1")
        tensor = content.tensor
        rank = tensor.ndim
        self.dtype = _dtype(tensor)
        self.shape: Sequence[int] = tuple(tensor.shape[:rank]) if rank else ()
        item = self.dtype.itemsize
        has_strides = rank and bool(tensor.strides)
        self.strides = tuple(s * item for s in tensor.strides[:rank]) if has_strides else None
        self.address = (tensor.data or 0) + tensor.byte_offset
        self.device = tensor.device[0], tensor.device[1]
        self.read_only = form is VersionedTensor and bool(content.flags & _READ_ONLY)

    def __del__(self, _deleter: Any = _DELETER) -> None:
        if self._deleter:
            _deleter(self._deleter)(self._at)


def take_over(capsule: object) -> TakenTensor:
    """The content of a capsule, which nobody else can take over afterwards; `Refusal` where it is
    none, or has been taken over, or has elements that numpy does not know."""
    for name, used, form in zip(NAMES, _USED, _FORMS, strict=True):
        if _is_named(capsule, name):
            at = _pointer(capsule, name)
            _rename(capsule, used)
            return TakenTensor(at, form)
    raise Refusal("gives no capsule of DLPack that is still to be taken over")


def _dtype(tensor: Any) -> np.dtype[Any]:
    code, bits, lanes = tensor.code, tensor.bits, tensor.lanes
    if (code, bits) in _ENCODED and lanes == 1:
        return _ENCODED[code, bits]
    if code in _KINDS and lanes == 1 and bits % 8 == 0:
        with contextlib.suppress(TypeError):  # of such a size there is none
            return np.dtype(f"{_KINDS[code]}{bits // 8}")
    name = f"{_NAMES[code]}{bits}" if code in _NAMES else f"number {code} with {bits} bits"
    several = "" if lanes == 1 else f", {lanes} at a time"
    raise Refusal(f"has dtype {name}{several}, which tc does not know", "{name}.astype({dtype})")


DLPACK_CPU, DLPACK_CUDA = 1, 2

_NAME = NAMES[0]
_LENT: dict[int, tuple[Any, ...]] = {}
"""The lent arrays by the addresses of their descriptions: all objects that have to stay until an
array is given back."""


def _returned(at: int) -> None:
    _LENT.pop(at, None)


def _dropped(capsule: int) -> None:
    """A capsule goes; if nobody has taken it over, the memory is not needed any more."""
    if _is_named_at(capsule, _NAME):
        _returned(_pointer_at(capsule, _NAME))


_RETURNER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_returned)
_DESTRUCTOR = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_dropped)

# a destructor has the address of a capsule that nobody refers to any more
_is_named_at = api_function("PyCapsule_IsValid", ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)
_pointer_at = api_function(
    "PyCapsule_GetPointer", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p
)
_new = api_function(
    "PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)


class LentArray:
    """A row-major array, by default on a CUDA device, for a library's `from_dlpack`. Its `memory`
    has an `address`, and nothing writes to it any more when it is given away."""

    def __init__(
        self,
        memory: Any,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        number: int,
        kind: int = DLPACK_CUDA,
    ) -> None:
        self.memory, self.shape, self.dtype, self.number = memory, shape, dtype, number
        self.kind = kind

    @property
    def address(self) -> int:
        return int(self.memory.address)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.kind, self.number

    def __dlpack__(self, **_options: Any) -> Any:
        """A capsule of the old form, which every library takes."""
        rank = len(self.shape)
        shape = (ctypes.c_int64 * rank)(*self.shape)
        managed: Any = ManagedTensor()
        tensor = managed.tensor
        tensor.data, tensor.ndim = self.address, rank
        tensor.device[:] = self.__dlpack_device__()
        known = _CODES.get(self.dtype)
        tensor.code = CODES[self.dtype.kind] if known is None else known
        tensor.bits, tensor.lanes = 8 * self.dtype.itemsize, 1
        tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
        managed.deleter = ctypes.cast(_RETURNER, ctypes.c_void_p)
        at = ctypes.addressof(managed)
        _LENT[at] = managed, shape, self.memory
        return _new(at, _NAME, ctypes.cast(_DESTRUCTOR, ctypes.c_void_p))
