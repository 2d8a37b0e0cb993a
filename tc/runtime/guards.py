"""The guard of a specialisation: the test that a call's arrays fit compiled code.

Looking at arrays one attribute at a time takes longer than a small kernel runs, and so do calls
through `ctypes`. `guard_of` puts down as numbers what arrays look like. The function of a `Frame`,
which Python calls as one written in C, compares them with numpy's own records
(`tc.runtime.arrays.numpy_records`) of its arguments and runs the kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tc.dtypes import Array
from tc.kernel.ir import row_major
from tc.process.uninterrupted import Once
from tc.runtime.arrays import address
from tc.runtime.arrays.numpy_records import ALIGNED, CONTIGUOUS, WORD, WRITABLE
from tc.runtime.guards_llvm import CODE, PYTHON
from tc.runtime.loaded import Direct
from tc.runtime.object_files import new_engine, parse_module

Shape: TypeAlias = tuple[int, ...]

_WORDS = 15
"""Words of a frame (see `CODE`)."""

_READY = 6
"""Where among them `Direct.ready` stands; behind it are the function and its arguments."""


@dataclass(frozen=True, slots=True)
class CallGuard:
    """What the arrays of a call look like, of which the first so many are inputs. `records` refer
    to `dtypes`."""

    inputs: int
    width: int
    records: Any
    dtypes: tuple[np.dtype[Any], ...]


class Frame:
    """The memory of one call at a time, and the function that uses it.

    `serve(*arrays)` returns one of the numbers of `guards_llvm`. `addresses` are those of all
    buffers, of which the last are those of the `temporaries`; they stand where `direct` wants
    them.
    """

    __slots__ = ("addresses", "direct", "guard", "serve", "temporaries", "words")

    def __init__(
        self, guard: CallGuard, buffers: int, temporaries: list[Array], direct: Direct | None
    ) -> None:
        self.guard = guard
        self.temporaries = temporaries
        self.direct = direct
        kind = ctypes.c_int64 * buffers
        self.addresses: Any = kind.from_address(direct.addresses) if direct else kind()
        self.addresses[buffers - len(temporaries) :] = [address(array) for array in temporaries]
        self.words = (ctypes.c_int64 * _WORDS)(
            *(ctypes.addressof(guard.records), guard.width, id(np.ndarray)),
            *(guard.inputs, len(guard.dtypes), ctypes.addressof(self.addresses)),
        )
        place = ctypes.addressof(self.words)
        always = place + WORD  # the address of a word that is not 0
        self.words[_READY] = direct.ready if direct and direct.ready else always
        if direct:
            self.words[_READY + 1 :] = [direct.function, *direct.arguments]
        self.serve = _python_function(place)


def guard_of(inputs: Sequence[Array], outputs: Sequence[tuple[Shape, np.dtype[Any]]]) -> CallGuard:
    """The guard of arrays like these; only where `numpy_records` is known to be true. Outputs are
    row-major."""
    written = ALIGNED | CONTIGUOUS | WRITABLE
    records = [
        *(_record(a.dtype, a.shape, a.strides, ALIGNED, compared=a.ndim) for a in inputs),
        *(_record(d, s, _row_major(s, d), written, compared=0) for s, d in outputs),
    ]
    width = max(map(len, records))
    words = [word for record in records for word in (*record, *[0] * (width - len(record)))]
    held = (ctypes.c_int64 * len(words))(*words)
    dtypes = (*(array.dtype for array in inputs), *(dtype for _, dtype in outputs))
    return CallGuard(len(inputs), width, held, dtypes)


def _record(
    dtype: np.dtype[Any], shape: Shape, strides: Shape, flags: int, *, compared: int
) -> tuple[int, ...]:
    steps = [(n - 1) * step for n, step in zip(shape, strides, strict=True)]
    below = -sum(step for step in steps if step < 0)
    above = sum(step for step in steps if step > 0) + dtype.itemsize
    if 0 in shape:
        below = above = 0
    start = (id(dtype), len(shape), flags, below, above, compared)
    return (*start, *shape, *strides[:compared])


def _row_major(shape: Shape, dtype: np.dtype[Any]) -> Shape:
    return tuple(step * dtype.itemsize for step in row_major(shape))


def _python_function(place: int) -> Callable[..., int]:
    """The function of the frame at an address."""
    method, make = _serving()
    function: Callable[..., int] = make(method, place, None)
    return function


@Once
def _serving() -> tuple[int, Any]:
    """The address of what Python's functions refer to, and how they are made. They may outlive
    this module, so that is in the memory of the code, which is never freed."""
    text = CODE
    for name in PYTHON:
        place = ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value
        text = text.replace(f"ADDRESS_OF_{name} ", f"{place} ")
    engine = new_engine(parse_module(text))
    engine.finalize_object()
    method = engine.get_global_value_address("method")
    engine.detach()
    prototype = ctypes.PYFUNCTYPE(
        ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object
    )
    return int(method), prototype(("PyCFunction_NewEx", ctypes.pythonapi))
