"""The frames that XLA passes to a handler of its foreign function interface, read by Python: the
structs of XLA's `c_api.h`, which is stable and has a version."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tc.dtypes import Array
from tc.runtime.arrays.any_address import array_at

DTYPES = (
    ("bool", 1), ("int8", 2), ("int16", 3), ("int32", 4), ("int64", 5), ("uint8", 6),
    ("uint16", 7), ("uint32", 8), ("uint64", 9), ("float16", 10), ("float32", 11), ("float64", 12),
)  # fmt: skip
NUMBERS = {np.dtype(name): number for name, number in DTYPES}
"""XLA's number for each type that arrays of tc have."""

_TYPES = {number: dtype for dtype, number in NUMBERS.items()}
_STRING, _METADATA = 4, 1
_INVALID_ARGUMENT, _CANCELLED, _OUT_OF_RANGE, _INTERNAL = 3, 1, 11, 13
CODES = {"argument": _INVALID_ARGUMENT, "access": _OUT_OF_RANGE, "interrupt": _CANCELLED}
"""XLA's numbers for kinds of errors; others are internal."""

_pointer, _word = ctypes.c_void_p, ctypes.c_int64


class _Buffer(ctypes.Structure):
    _fields_ = (("size", _word), ("extension", _pointer), ("dtype", ctypes.c_int32),
                ("data", _pointer), ("rank", _word), ("dims", _pointer))  # fmt: skip


class _Several(ctypes.Structure):
    _fields_ = (("size", _word), ("extension", _pointer), ("count", _word), ("types", _pointer),
                ("values", _pointer))  # fmt: skip


class _Attributes(ctypes.Structure):
    _fields_ = (("size", _word), ("extension", _pointer), ("count", _word), ("types", _pointer),
                ("names", _pointer), ("values", _pointer))  # fmt: skip


class _Frame(ctypes.Structure):
    _fields_ = (("size", _word), ("extension", _pointer), ("api", _pointer), ("context", _pointer),
                ("stage", ctypes.c_int32), ("inputs", _Several), ("outputs", _Several),
                ("attributes", _Attributes), ("future", _pointer))  # fmt: skip


class _Span(ctypes.Structure):
    _fields_ = (("start", _pointer), ("length", ctypes.c_size_t))


class _Extension(ctypes.Structure):
    _fields_ = (("size", _word), ("type", ctypes.c_int32), ("next", _pointer),
                ("metadata", _pointer))  # fmt: skip


class _Metadata(ctypes.Structure):
    _fields_ = (("size", _word), ("version_size", _word), ("version_extension", _pointer),
                ("major", ctypes.c_int32), ("minor", ctypes.c_int32),
                ("traits", ctypes.c_uint32))  # fmt: skip


class _Api(ctypes.Structure):
    _fields_ = (("size", _word), ("extension", _pointer), ("version_size", _word),
                ("version_extension", _pointer), ("major", ctypes.c_int32),
                ("minor", ctypes.c_int32), ("internal", _pointer),
                ("create_error", _pointer))  # fmt: skip


class _NewError(ctypes.Structure):
    _fields_ = (("size", _word), ("extension", _pointer), ("message", ctypes.c_char_p),
                ("code", ctypes.c_int32))  # fmt: skip


_CREATE = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.POINTER(_NewError))


@dataclass(frozen=True, slots=True)
class XlaCall:
    """One call by XLA: arrays on the memory of its buffers, and its attributes that are texts, by
    name."""

    inputs: list[Array]
    outputs: list[Array]
    texts: dict[str, str]


def read_frame(address: int) -> XlaCall | None:
    """The call that a frame is; None where XLA only asks for the version, which is answered."""
    frame = _Frame.from_address(address)
    if frame.extension:
        extension = _Extension.from_address(frame.extension)
        if extension.type == _METADATA and extension.metadata:
            told = _Metadata.from_address(extension.metadata)
            told.major, told.minor = _version()
            told.traits = 0
            return None
    return XlaCall(_arrays(frame.inputs), _arrays(frame.outputs), _texts(frame.attributes))


def _arrays(several: _Several) -> list[Array]:
    return [_array(_Buffer.from_address(at)) for at in _words(several.values, several.count)]


def _array(buffer: _Buffer) -> Array:
    dtype = _TYPES[buffer.dtype]
    shape = tuple(_words(buffer.dims, buffer.rank))
    if 0 in shape or not buffer.data:
        return np.empty(shape, dtype)
    return array_at(buffer.data, dtype, shape)


def _texts(attributes: _Attributes) -> dict[str, str]:
    count = attributes.count
    kinds = (ctypes.c_int32 * count).from_address(attributes.types) if count else ()
    names, values = (_words(at, count) for at in (attributes.names, attributes.values))
    return {
        _text(name): _text(value)
        for kind, name, value in zip(kinds, names, values, strict=True)
        if kind == _STRING
    }


def _text(address: int) -> str:
    span = _Span.from_address(address)
    return ctypes.string_at(span.start, span.length).decode() if span.length else ""


def _words(address: int | None, count: int) -> Sequence[int]:
    return list((_word * count).from_address(address)) if address and count else []


def _version() -> tuple[int, int]:
    """The version of the interface in the header of this jaxlib. All versions so far have the
    frames above."""
    header = Path(jax.ffi.include_dir(), "xla", "ffi", "api", "c_api.h")
    text = header.read_text(encoding="utf-8")
    found = [re.search(rf"#define XLA_FFI_API_{part} (\d+)", text) for part in ("MAJOR", "MINOR")]
    major, minor = (int(match[1]) if match else 0 for match in found)
    return major, minor


def error_of(address: int, kind: str, message: str) -> int:
    """An error of XLA's for the call of a frame, by its address."""
    api = _Api.from_address(_Frame.from_address(address).api)
    wanted = _NewError(ctypes.sizeof(_NewError), None, message.encode(), CODES.get(kind, _INTERNAL))
    create: Any = _CREATE(api.create_error)
    return create(ctypes.byref(wanted)) or 0
