"""The machine code of `guards`: a frame that Python calls as a function written in C.

Looking at arrays one attribute at a time takes longer than a small kernel runs, and so do calls
through `ctypes`. So the function of a `NativeGuardFrame` compares words with numpy's own records
(`numpy_records`) of its arguments, and runs the kernel. It does what `GuardFrame` does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from tc.dtypes import Array
from tc.process.uninterrupted import Once
from tc.runtime import native
from tc.runtime.arrays import numpy_records
from tc.runtime.arrays.numpy_records import (
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
from tc.runtime.guards import (
    ADMITTED,
    DONE,
    FAILED,
    OTHER,
    CallGuard,
    FrameMemory,
    GuardFrame,
    Wanted,
)
from tc.runtime.loaded import Direct
from tc.runtime.object_files import new_engine, parse_module

MACHINES = ("x86_64", "aarch64")

_WORDS = 15
"""Words of a frame (see `CODE`)."""

_READY = 6
"""Where among them `Direct.ready` stands; behind it are the function and its arguments."""


def frame_kind() -> type[GuardFrame] | type[NativeGuardFrame]:
    """Frames in machine code, where what that assumes is known to hold, else those in Python."""
    known = native.is_allowed(MACHINES) and numpy_records.is_known()
    return NativeGuardFrame if known else GuardFrame


class NativeGuardFrame(FrameMemory):
    """A frame whose `serve` is machine code."""

    __slots__ = ("records", "serve", "words")

    def __init__(
        self, guard: CallGuard, buffers: int, temporaries: list[Array], direct: Direct | None
    ) -> None:
        super().__init__(guard, buffers, temporaries, direct)
        records = [_record(wanted) for wanted in guard.wanted]
        width = max(map(len, records))
        padded = [word for record in records for word in (*record, *[0] * (width - len(record)))]
        self.records = (ctypes.c_int64 * len(padded))(*padded)
        self.words = (ctypes.c_int64 * _WORDS)(
            *(ctypes.addressof(self.records), width, id(np.ndarray)),
            *(guard.inputs, len(guard.wanted), ctypes.addressof(self.addresses)),
        )
        place = ctypes.addressof(self.words)
        always = place + WORD  # the address of a word that is not 0
        self.words[_READY] = direct.ready if direct and direct.ready else always
        if direct:
            self.words[_READY + 1 :] = [direct.function, *direct.arguments]
        self.serve = _python_function(place)


def _record(wanted: Wanted) -> tuple[int, ...]:
    """See `CODE`."""
    strides = wanted.strides or ()
    flags = ALIGNED if wanted.strides is not None else ALIGNED | CONTIGUOUS | WRITABLE
    start = (id(wanted.dtype), len(wanted.shape), flags, wanted.below, wanted.above, len(strides))
    return (*start, *wanted.shape, *strides)


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


FAST_CALL = 0x80
"""METH_FASTCALL: the arguments come as the address of objects, and their number."""

PYTHON = ("PyLong_AsVoidPtr", "PyLong_FromLong", "PyEval_SaveThread", "PyEval_RestoreThread")
"""Functions of Python's C interface; ADDRESS_OF_... in the text."""

CODE = f"""
; records, words per record, type, inputs, arrays | where addresses go, a word that is 0 while
; nothing may run, what to run, its arguments
%frame = type {{ ptr, i64, ptr, i64, i64, ptr, ptr, ptr, [7 x i64] }}

@name = internal constant [6 x i8] c"serve\\00"

; Python's PyMethodDef: name, function, flags, documentation; functions refer to it to their end
@method = global {{ ptr, ptr, i32, ptr }} {{ ptr @name, ptr @serve, i32 {FAST_CALL}, ptr null }}

; the arrays of a call are `arguments`; `self` is the address of a frame
define ptr @serve(ptr %self, ptr %arguments, i64 %count) uwtable {{
start:
  %address_of = inttoptr i64 ADDRESS_OF_PyLong_AsVoidPtr to ptr
  %frame = call ptr %address_of(ptr %self)
  %wanted_at = getelementptr %frame, ptr %frame, i64 0, i32 4
  %wanted = load i64, ptr %wanted_at
  %complete = icmp eq i64 %count, %wanted
  br i1 %complete, label %ask, label %end
ask:
  %ready_at = getelementptr %frame, ptr %frame, i64 0, i32 6
  %word = load ptr, ptr %ready_at
  %ready = load i64, ptr %word
  %may = icmp ne i64 %ready, 0
  br i1 %may, label %look, label %end
look:
  %same = call i1 @admit(ptr %frame, ptr %arguments, i64 %count)
  br i1 %same, label %choose, label %end
choose:
  %function_at = getelementptr %frame, ptr %frame, i64 0, i32 7
  %function = load ptr, ptr %function_at
  %nothing = icmp eq ptr %function, null
  br i1 %nothing, label %end, label %run
run:
  %at0 = getelementptr %frame, ptr %frame, i64 0, i32 8, i64 0
  %at1 = getelementptr %frame, ptr %frame, i64 0, i32 8, i64 1
  %at2 = getelementptr %frame, ptr %frame, i64 0, i32 8, i64 2
  %at3 = getelementptr %frame, ptr %frame, i64 0, i32 8, i64 3
  %at4 = getelementptr %frame, ptr %frame, i64 0, i32 8, i64 4
  %at5 = getelementptr %frame, ptr %frame, i64 0, i32 8, i64 5
  %at6 = getelementptr %frame, ptr %frame, i64 0, i32 8, i64 6
  %a0 = load i64, ptr %at0
  %a1 = load i64, ptr %at1
  %a2 = load i64, ptr %at2
  %a3 = load i64, ptr %at3
  %a4 = load i64, ptr %at4
  %a5 = load i64, ptr %at5
  %a6 = load i64, ptr %at6
  %release = inttoptr i64 ADDRESS_OF_PyEval_SaveThread to ptr
  %thread = call ptr %release()
  %failed = call i64 %function(i64 %a0, i64 %a1, i64 %a2, i64 %a3, i64 %a4, i64 %a5, i64 %a6)
  %acquire = inttoptr i64 ADDRESS_OF_PyEval_RestoreThread to ptr
  call void %acquire(ptr %thread)
  %good = icmp eq i64 %failed, 0
  %ran = select i1 %good, i64 {DONE}, i64 {FAILED}
  br label %end
end:
  %status = phi i64 [ {OTHER}, %start ], [ {OTHER}, %ask ], [ {OTHER}, %look ],
                    [ {ADMITTED}, %choose ], [ %ran, %run ]
  %number = inttoptr i64 ADDRESS_OF_PyLong_FromLong to ptr
  %result = call ptr %number(i64 %status)
  ret ptr %result
}}

; Whether `count` objects are arrays as in the frame's records, of which those from `inputs` on
; overlap no other; then their addresses are where the frame wants them.
; a record: dtype, rank, flags, bytes below the address, bytes above it, strides to compare
define internal i1 @admit(ptr %frame, ptr %objects, i64 %count) {{
start:
  %records = load ptr, ptr %frame
  %width_at = getelementptr %frame, ptr %frame, i64 0, i32 1
  %width = load i64, ptr %width_at
  %type_at = getelementptr %frame, ptr %frame, i64 0, i32 2
  %type = load ptr, ptr %type_at
  %inputs_at = getelementptr %frame, ptr %frame, i64 0, i32 3
  %inputs = load i64, ptr %inputs_at
  %addresses_at = getelementptr %frame, ptr %frame, i64 0, i32 5
  %addresses = load ptr, ptr %addresses_at
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %following, %apart ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %yes
look:
  %object_at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object_at
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
  ret i1 true
no:
  ret i1 false
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
