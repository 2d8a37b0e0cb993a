"""Whether arrays look as earlier ones did: a comparison in machine code.

Looking at arrays one attribute at a time takes longer than a small kernel runs. `looks_of` puts
down as numbers what arrays look like, and a little machine code compares them with numpy's own
records (`tc.numpy_layout`) of the arrays in a `Frame`.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tc.arguments import Array
from tc.arrays import address
from tc.backends.object_files import LoadedCode, new_engine, parse_module
from tc.numpy_layout import (
    ALIGNED,
    CONTIGUOUS,
    DATA,
    DTYPE,
    FLAGS,
    KIND,
    RANK,
    SHAPE,
    STRIDES,
    WORD,
    WRITABLE,
)

_ADMIT = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)

_CODE = f"""
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
  %kind_at = getelementptr i8, ptr %object, i64 {KIND}
  %kind = load ptr, ptr %kind_at
  %known = icmp eq ptr %kind, %type
  br i1 %known, label %array, label %no
array:
  %skipped = mul i64 %i, %width
  %record = getelementptr i64, ptr %records, i64 %skipped
  %dtype_at = getelementptr i8, ptr %object, i64 {DTYPE}
  %dtype = load i64, ptr %dtype_at
  %wanted_dtype = load i64, ptr %record
  %same_dtype = icmp eq i64 %dtype, %wanted_dtype
  %rank_at = getelementptr i8, ptr %object, i64 {RANK}
  %short_rank = load i32, ptr %rank_at
  %rank = sext i32 %short_rank to i64
  %wanted_rank_at = getelementptr i64, ptr %record, i64 1
  %wanted_rank = load i64, ptr %wanted_rank_at
  %same_rank = icmp eq i64 %rank, %wanted_rank
  %flags_at = getelementptr i8, ptr %object, i64 {FLAGS}
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
  %shape_at = getelementptr i8, ptr %object, i64 {SHAPE}
  %shape = load ptr, ptr %shape_at
  %strides_at = getelementptr i8, ptr %object, i64 {STRIDES}
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
  %data_at = getelementptr i8, ptr %object, i64 {DATA}
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


@dataclass(frozen=True, slots=True)
class Looks:
    """What the arrays of a call look like.

    `admit(frame.place, count)` says whether so many arrays of a frame look like that, and those
    that are written overlap no other; their addresses are in the frame then. The arrays get there
    by `pack(frame.words, frame.ids, *ids)`. `header` is what a frame begins with; it refers to
    `records` and these to `dtypes`.
    """

    admit: Callable[[int, int], int]
    pack: Callable[..., None]
    header: tuple[int, ...]
    records: Any
    dtypes: tuple[np.dtype[Any], ...]
    code: LoadedCode


class Frame:
    """The memory of one call at a time: ids of its arrays, then the addresses of all buffers, of
    which the last are those of the `temporaries`."""

    __slots__ = ("addresses", "ids", "place", "temporaries", "words")

    def __init__(self, looks: Looks, buffers: int, temporaries: list[Array]) -> None:
        header, arrays = looks.header, len(looks.dtypes)
        self.ids = len(header) * WORD
        self.words = (ctypes.c_int64 * (len(header) + arrays + buffers))(*header)
        self.place = ctypes.addressof(self.words)
        first = (len(header) + arrays) * WORD
        self.addresses: Any = (ctypes.c_int64 * buffers).from_buffer(self.words, first)
        self.temporaries = temporaries
        self.addresses[buffers - len(temporaries) :] = [address(array) for array in temporaries]


def looks_of(inputs: Sequence[Array], outputs: Sequence[Array]) -> Looks:
    """What numpy's arrays look like; only where `tc.numpy_layout` is known to be true."""
    written = ALIGNED | CONTIGUOUS | WRITABLE
    records = [
        *(_record(array, ALIGNED, array.strides) for array in inputs),
        *(_record(array, written, ()) for array in outputs),
    ]
    width = max(map(len, records))
    words = [word for record in records for word in (*record, *[0] * (width - len(record)))]
    held = (ctypes.c_int64 * len(words))(*words)
    code = _machine_code()
    return Looks(
        _ADMIT(*code.addresses),
        struct.Struct(f"={len(records)}q").pack_into,
        (ctypes.addressof(held), width, id(np.ndarray), len(inputs), len(records)),
        held,
        tuple(array.dtype for array in (*inputs, *outputs)),
        code,
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
def _machine_code() -> LoadedCode:
    engine = new_engine(parse_module(_CODE))
    engine.finalize_object()
    return LoadedCode((engine.get_function_address("admit"),), engine)
