"""What tc asks of the arrays of a library: how they are read, written and made."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tc.errors import BackendError
from tc.runtime.arrays.layout_check import ArrayLayoutCheck


class Refusal(Exception):
    """An argument is no array that tc can read or write; the caller adds the parameter's name.

    `cause` continues "A ...", `repair` has "{name}" where the parameter's name belongs. Where the
    library asks for more than numbers, as gradients, `adapter` names the module of tc whose `call`
    may serve a call with such an argument.
    """

    def __init__(self, cause: str, repair: str | None = None, adapter: str | None = None) -> None:
        super().__init__(cause)
        self.cause = cause
        self.repair = repair
        self.adapter = adapter


@dataclass(frozen=True, slots=True)
class DeviceOps:
    """What a library does on devices: `new` makes an array with no particular contents, of a shape
    and a dtype of numpy at a `DeviceLocation`, like another array, in the order of the work on the
    current stream; `stream` is that, None where the library has none, and arrays say theirs;
    `capturing` is whether what is launched there is only recorded, for a graph.

    For calls that are like an earlier one: `layout_check` is how that is found out; `maker` is
    `new` in two steps, the second of which takes the other array; `pointer` is that of an array
    made by `new`, None where that may be another one than it was asked for.

    Where the library makes arrays by DLPack alone, `new` is None, and `adopt` makes one of what has
    `__dlpack__`, like its second argument; such a call waits for its end. With neither, users have
    to pass outputs. `keeps_recorded` says that memory which a graph uses is the graph's for as long
    as there is one.

    `fresh` is how users make an array there, `convert` how they take over one of another library,
    `move` how they bring an array of theirs there, and `copy` how they copy one; "{device}" is the
    number of the device, "{first}" an array there.
    """

    new: Callable[[tuple[int, ...], np.dtype[Any], Any, Any], Any] | None
    stream: Callable[[Any], Any] = lambda _place: None
    capturing: Callable[[Any], bool] = lambda _place: False
    layout_check: ArrayLayoutCheck | None = None
    maker: Callable[[tuple[int, ...], np.dtype[Any], Any], Callable[[Any], Any]] | None = None
    pointer: Callable[[Any], Any] | None = None
    adopt: Callable[[Any, Any], Any] | None = None
    keeps_recorded: bool = False
    fresh: str | None = None
    convert: str | None = None
    move: str | None = None
    copy: str = "a copy of {name}"


NO_DEVICES = DeviceOps(None)
"""Of a library without arrays on devices."""


Maker: TypeAlias = Callable[[tuple[int, ...], np.dtype[Any]], Callable[[], tuple[Any, int]]]


@dataclass(frozen=True, slots=True)
class Family:
    """The arrays of one library.

    `view` gives a numpy array on the same memory, valid for as long as the array that was given
    is kept, or a `DeviceArray`, `target` one that may be written to, and both raise `Refusal`;
    `wrap` makes a fresh row-major numpy array, aligned to `alignment` bytes, an array like its
    second argument; `measure` is a view of which only shape, strides and dtype are read; `cast` is
    how its users write a change of dtype, `convert` how they take over an array, and `fresh` how
    they make one; `touch` tells the library that an array is being written to, where it wants to
    know. `layout_check` is how arrays are found to be like those of an earlier call, and `maker`,
    where the library's own memory is as good, gives what makes small results of a shape and type
    for such calls, with their addresses; `wrap` then asks nothing of its second argument. `to_host`
    is how users copy an array to the processor's memory, and `devices` what the library does
    elsewhere. `mark` gives the context in which a call of a name is to run, for the library's
    profiler; None where nobody looks.
    """

    name: str
    view: Callable[[Any], Any]
    target: Callable[[Any], Any]
    wrap: Callable[[np.ndarray, Any], Any]
    measure: Callable[[Any], Any]
    cast: str = "{name}.astype(np.{dtype})"
    convert: str | None = "np.asarray({name})"
    alignment: int = 1
    fresh: str = "np.empty({shape}, np.{dtype})"
    touch: Callable[[Any], None] | None = None
    layout_check: ArrayLayoutCheck | None = None
    maker: Maker | None = None
    to_host: str = "copy it to the CPU"
    devices: DeviceOps = NO_DEVICES
    mark: Callable[[str], Any] | None = None


def no_such_type(library: str, dtype: np.dtype[Any]) -> BackendError:
    """The error about results that a library has no arrays for."""
    name = dtype.names[0] if dtype.names else dtype
    return BackendError(
        f"{library} has no arrays of {name}, so that results cannot be such",
        repair="compute another type, for instance float(...)",
    )


def is_out_of_memory(error: Exception) -> bool:
    """Whether a library says that it has no memory for an array, by the type of its error or by
    its text: not all have Python's MemoryError.

    >>> is_out_of_memory(RuntimeError("[2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY"))
    True
    >>> is_out_of_memory(RuntimeError("an illegal memory access was encountered"))
    False
    """
    text = str(error).lower().replace("_", " ")
    return type(error).__name__ in _MEMORY_ERRORS or "out of memory" in text


_MEMORY_ERRORS = ("MemoryError", "OutOfMemoryError")


def same_family(left: Family, right: Family) -> bool:
    return left is right or left.name == right.name


def type_name(kind: type) -> str:
    return f"type {kind.__name__}"


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
