"""Calls like an earlier one, with a microsecond or two of Python around the kernel.

Looking at arrays one attribute at a time takes longer than a small kernel runs. So the second call
in succession with arrays of the same shapes, strides and types leaves a `Repeat`: what such arrays
look like, as numbers. A little machine code compares them with numpy's own records of the arrays
that come next; whatever differs is left to the usual way, with its messages.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from tc.arguments import Array
from tc.arrays import address, empty
from tc.backends.base import CompiledKernel
from tc.backends.object_files import new_engine, parse_module
from tc.specialisation import Specialisation, access_error, out_of_memory

_CONTIGUOUS, _ALIGNED, _WRITABLE = 0x1, 0x100, 0x400
"""Bits of numpy's flags."""

_KEPT = 4
"""Calls at the same time whose memory is kept."""

_WORD = 8
_HEADER = object.__basicsize__
_RANK, _DTYPE, _FLAGS, _END = (_HEADER + _WORD * place for place in (1, 5, 6, 7))
"""Where numpy's record of an array has these fields, and how long it is at least."""

_Admit = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

_CODE = f"""
; numpy's record of an array: header with the type last | data, rank, shape, strides, base, dtype,
; flags
%array = type {{ [{_HEADER - _WORD} x i8], ptr, i64, i32, ptr, ptr, ptr, ptr, i32 }}

; Whether `count` objects are arrays as in the frame's records, of which those from `inputs` on
; overlap no other; then their addresses are in the frame, behind the ids.
; a frame: records, words per record, type, inputs, how many ids there is room for, ids, addresses
; a record: dtype, rank, flags, bytes below the address, bytes above it, strides to compare
define i64 @admit(ptr %frame, i64 %count) {{
start:
  %records = load ptr, ptr %frame
  %width_at = getelementptr i64, ptr %frame, i64 1
  %width = load i64, ptr %width_at
  %type_at = getelementptr i64, ptr %frame, i64 2
  %type = load ptr, ptr %type_at
  %inputs_at = getelementptr i64, ptr %frame, i64 3
  %inputs = load i64, ptr %inputs_at
  %room_at = getelementptr i64, ptr %frame, i64 4
  %room = load i64, ptr %room_at
  %ids = getelementptr i64, ptr %frame, i64 5
  %addresses = getelementptr i64, ptr %ids, i64 %room
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %following, %apart ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %yes
look:
  %id_at = getelementptr ptr, ptr %ids, i64 %i
  %object = load ptr, ptr %id_at
  %kind_at = getelementptr %array, ptr %object, i64 0, i32 1
  %kind = load ptr, ptr %kind_at
  %known = icmp eq ptr %kind, %type
  br i1 %known, label %array, label %no
array:
  %skipped = mul i64 %i, %width
  %record = getelementptr i64, ptr %records, i64 %skipped
  %dtype_at = getelementptr %array, ptr %object, i64 0, i32 7
  %dtype = load i64, ptr %dtype_at
  %wanted_dtype = load i64, ptr %record
  %same_dtype = icmp eq i64 %dtype, %wanted_dtype
  %rank_at = getelementptr %array, ptr %object, i64 0, i32 3
  %short_rank = load i32, ptr %rank_at
  %rank = sext i32 %short_rank to i64
  %wanted_rank_at = getelementptr i64, ptr %record, i64 1
  %wanted_rank = load i64, ptr %wanted_rank_at
  %same_rank = icmp eq i64 %rank, %wanted_rank
  %flags_at = getelementptr %array, ptr %object, i64 0, i32 8
  %short_flags = load i32, ptr %flags_at
  %flags = zext i32 %short_flags to i64
  %wanted_flags_at = getelementptr i64, ptr %record, i64 2
  %wanted_flags = load i64, ptr %wanted_flags_at
  %present = and i64 %flags, %wanted_flags
  %same_flags = icmp eq i64 %present, %wanted_flags
  %alike = and i1 %same_dtype, %same_rank
  %fit = and i1 %alike, %same_flags
  br i1 %fit, label %dims, label %no
dims:
  %shape_at = getelementptr %array, ptr %object, i64 0, i32 4
  %shape = load ptr, ptr %shape_at
  %strides_at = getelementptr %array, ptr %object, i64 0, i32 5
  %strides = load ptr, ptr %strides_at
  %wanted_shape = getelementptr i64, ptr %record, i64 6
  %wanted_strides = getelementptr i64, ptr %wanted_shape, i64 %rank
  %compared_at = getelementptr i64, ptr %record, i64 5
  %compared = load i64, ptr %compared_at
  %same_shape = call i1 @same(ptr %shape, ptr %wanted_shape, i64 %rank)
  %same_strides = call i1 @same(ptr %strides, ptr %wanted_strides, i64 %compared)
  %same = and i1 %same_shape, %same_strides
  br i1 %same, label %place, label %no
place:
  %data_at = getelementptr %array, ptr %object, i64 0, i32 2
  %data = load i64, ptr %data_at
  %address_at = getelementptr i64, ptr %addresses, i64 %i
  store i64 %data, ptr %address_at
  %low = call i64 @low(i64 %data, ptr %record)
  %high = call i64 @high(i64 %data, ptr %record)
  %written = icmp sge i64 %i, %inputs
  br i1 %written, label %others, label %apart
others:
  %j = phi i64 [ 0, %place ], [ %after, %other ]
  %any = icmp slt i64 %j, %i
  br i1 %any, label %other, label %apart
other:
  %after = add i64 %j, 1
  %passed = mul i64 %j, %width
  %its_record = getelementptr i64, ptr %records, i64 %passed
  %its_at = getelementptr i64, ptr %addresses, i64 %j
  %its_data = load i64, ptr %its_at
  %its_low = call i64 @low(i64 %its_data, ptr %its_record)
  %its_high = call i64 @high(i64 %its_data, ptr %its_record)
  %begins = icmp ult i64 %its_low, %high
  %reaches = icmp ult i64 %low, %its_high
  %both = and i1 %begins, %reaches
  br i1 %both, label %no, label %others
apart:
  %following = add i64 %i, 1
  br label %next
yes:
  ret i64 1
no:
  ret i64 0
}}

define internal i1 @same(ptr %left, ptr %right, i64 %count) {{
start:
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %following, %equal ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %end
look:
  %left_at = getelementptr i64, ptr %left, i64 %i
  %right_at = getelementptr i64, ptr %right, i64 %i
  %one = load i64, ptr %left_at
  %other = load i64, ptr %right_at
  %equals = icmp eq i64 %one, %other
  br i1 %equals, label %equal, label %end
equal:
  %following = add i64 %i, 1
  br label %next
end:
  %all = phi i1 [ true, %next ], [ false, %look ]
  ret i1 %all
}}

define internal i64 @low(i64 %data, ptr %record) {{
  %below_at = getelementptr i64, ptr %record, i64 3
  %below = load i64, ptr %below_at
  %low = sub i64 %data, %below
  ret i64 %low
}}

define internal i64 @high(i64 %data, ptr %record) {{
  %above_at = getelementptr i64, ptr %record, i64 4
  %above = load i64, ptr %above_at
  %high = add i64 %data, %above
  ret i64 %high
}}
"""


class _Frame:
    """The memory of one call at a time: ids of its arrays, then the addresses of all buffers, of
    which the last are those of the `temporaries`."""

    __slots__ = ("addresses", "ids", "place", "temporaries", "words")

    def __init__(
        self, header: tuple[int, ...], arrays: int, buffers: int, temporaries: list[Array]
    ) -> None:
        self.ids = len(header) * _WORD
        self.words = (ctypes.c_int64 * (len(header) + arrays + buffers))(*header)
        self.place = ctypes.addressof(self.words)
        first = (len(header) + arrays) * _WORD
        self.addresses: Any = (ctypes.c_int64 * buffers).from_buffer(self.words, first)
        self.temporaries = temporaries
        self.addresses[buffers - len(temporaries) :] = [address(array) for array in temporaries]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A specialisation, for calls with numpy arrays that look as those of an earlier call.

    `given` says that outputs were passed, `result` is the type of several results. `header` is
    what a frame begins with; it refers to `records` and, in these, to `dtypes`.
    """

    special: Specialisation
    runner: CompiledKernel
    given: bool
    result: Any
    threads: int | None
    inputs: int
    admit: Callable[[int, int], int]
    pack: Callable[..., None]
    header: tuple[int, ...]
    records: Any
    dtypes: tuple[np.dtype[Any], ...]
    frames: list[_Frame] = field(default_factory=list)

    def __call__(self, inputs: tuple[Any, ...], outputs: Any) -> Any:
        """The results, or None where the arrays look different: then nothing has run.

        Raises AccessError where a check fails (G7).
        """
        if not self.given:
            if outputs is not None:
                return None
            arrays = inputs
        elif type(outputs) is np.ndarray:  # asking a type is faster
            arrays = (*inputs, outputs)
        elif type(outputs) is tuple or type(outputs) is list:
            arrays = (*inputs, *outputs)
        else:
            return None
        if len(arrays) != len(self.dtypes):
            return None
        try:
            frame = self.frames.pop()
        except IndexError:
            frame = self._frame()
        self.pack(frame.words, frame.ids, *map(id, arrays))
        if not self.admit(frame.place, len(arrays)):
            self._give_back(frame)
            return None
        results = arrays[self.inputs :] or self._fresh(frame)
        failure = self.runner.run(frame.addresses, threads=self.threads)
        self._give_back(frame)
        if failure is not None:
            raise access_error(self.special.shaped, self.runner.kernel, failure)
        return results[0] if self.result is None else self.result(*results)

    def _frame(self) -> _Frame:
        special = self.special
        try:
            temporaries = special.temporaries.take()
        except MemoryError as error:
            raise out_of_memory(special.shaped) from error
        buffers = self.inputs + len(special.outputs) + len(temporaries)
        return _Frame(self.header, len(self.dtypes), buffers, temporaries)

    def _fresh(self, frame: _Frame) -> list[Array]:
        """Arrays for the outputs; their addresses are in the frame."""
        try:
            outputs = [empty(shape, dtype) for _, shape, dtype in self.special.outputs]
        except MemoryError as error:
            raise out_of_memory(self.special.shaped) from error
        for place, array in enumerate(outputs, self.inputs):
            frame.addresses[place] = address(array)
        return outputs

    def _give_back(self, frame: _Frame) -> None:
        if len(self.frames) < _KEPT:
            self.frames.append(frame)


def new_repeat(
    special: Specialisation,
    inputs: Sequence[Any],
    outputs: Sequence[Array],
    result: Any,
    threads: int | None,
) -> Repeat | None:
    """What serves calls with arrays like these, which have been checked; None where it cannot:
    where inputs are not numpy's arrays in the memory that the kernel reads, or nothing is known
    of how numpy keeps them. `outputs` are all that there are, or none."""
    if special.runner is None or special.copies or not (inputs or outputs):
        return None
    if any(type(array) is not np.ndarray for array in inputs) or not _layout_is_known():
        return None
    written = _ALIGNED | _CONTIGUOUS | _WRITABLE
    records = [
        *(_record(array, _ALIGNED, array.strides) for array in inputs),
        *(_record(array, written, ()) for array in outputs),
    ]
    width = max(map(len, records))
    words = [word for record in records for word in (*record, *[0] * (width - len(record)))]
    held = (ctypes.c_int64 * len(words))(*words)
    return Repeat(
        special,
        special.runner,
        bool(outputs),
        result,
        threads,
        len(inputs),
        _machine_code(),
        struct.Struct(f"={len(records)}q").pack_into,
        (ctypes.addressof(held), width, id(np.ndarray), len(inputs), len(records)),
        held,
        tuple(array.dtype for array in (*inputs, *outputs)),
    )


def _record(array: Array, flags: int, strides: tuple[int, ...]) -> list[int]:
    steps = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    below = -sum(step for step in steps if step < 0)
    above = sum(step for step in steps if step > 0) + array.itemsize
    if not array.size:
        below = above = 0
    start = [id(array.dtype), array.ndim, flags, below, above, len(strides)]
    return [*start, *array.shape, *strides]


@cache
def _machine_code() -> Callable[[int, int], int]:
    engine = new_engine(parse_module(_CODE))
    engine.finalize_object()
    function: Any = _Admit(engine.get_function_address("admit"))
    function.engine = engine
    return function  # type: ignore[no-any-return]


@cache
def _layout_is_known() -> bool:
    """Whether numpy keeps its arrays as its C interface has it, here and in this version."""
    if sys.implementation.name != "cpython" or np.ndarray.__basicsize__ < _END:
        return False
    readonly = np.zeros((2, 3))
    readonly.flags.writeable = False
    unaligned = np.zeros(17, np.uint8)[1:].view(np.int32)
    arrays = (readonly, readonly.T, unaligned, np.zeros((0, 1, 2), np.int8), np.array(1.5, "f4"))
    return ctypes.sizeof(ctypes.c_void_p) == _WORD and all(map(_is_laid_out, arrays))


def _is_laid_out(array: Array) -> bool:
    place = id(array)

    def word(offset: int) -> int:
        return ctypes.c_int64.from_address(place + offset).value

    def number(offset: int) -> int:
        return ctypes.c_int32.from_address(place + offset).value

    flags = array.flags
    bits = flags.c_contiguous * _CONTIGUOUS | flags.aligned * _ALIGNED | flags.writeable * _WRITABLE
    known = _CONTIGUOUS | _ALIGNED | _WRITABLE
    fields = (word(_HEADER - _WORD), word(_HEADER), number(_RANK), word(_DTYPE))
    truth = (id(np.ndarray), array.__array_interface__["data"][0], array.ndim, id(array.dtype))
    if fields != truth or number(_FLAGS) & known != bits:
        return False
    axes = (ctypes.c_int64 * array.ndim).from_address
    first = _RANK + _WORD  # shape and strides follow the rank
    return not array.ndim or (
        tuple(axes(word(first))) == array.shape
        and tuple(axes(word(first + _WORD))) == array.strides
    )
