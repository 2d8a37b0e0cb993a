"""The machine code of `guards`: a frame that Python calls as a function written in C.

Looking at arrays one attribute at a time takes longer than a small kernel runs, and so do calls
through `ctypes`. So the function of a `NativeGuardFrame` compares words with numpy's own records
(`numpy_records`) of its arguments, and runs the kernel. It does what `GuardFrame` does.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np

from tc.dtypes import Array
from tc.process.uninterrupted import Lazy
from tc.runtime import loaded
from tc.runtime.arrays import numpy_records
from tc.runtime.arrays.numpy_records import ALIGNED, CONTIGUOUS, KIND, WRITABLE
from tc.runtime.guards import ADMITTED, DONE, FAILED, OTHER, ArraySpec, CallGuard, GuardFrame
from tc.runtime.loaded import WORD_BYTES, Direct, direct_call, python_function, python_method
from tc.runtime.object_files import lasting_code

MACHINES = ("x86_64", "aarch64")

_WORDS = 15
"""Words of a frame (see `CODE`)."""

_READY = 6
"""Where among them `Direct.ready` stands; behind it are the function and its arguments."""


def frame_kind() -> type[GuardFrame]:
    """The class of frames in machine code where their assumptions are known to hold, else the class
    of frames in Python."""
    known = loaded.is_allowed(MACHINES) and numpy_records.is_known()
    return NativeGuardFrame if known else GuardFrame


class NativeGuardFrame(GuardFrame):
    """A frame whose `serve` and `run` are machine code."""

    __slots__ = ("records", "run", "serve", "words")
    serve: Callable[..., int]
    run: Callable[..., int]

    def __init__(
        self, guard: CallGuard, buffers: int, temporaries: list[Array], direct: Direct | None
    ) -> None:
        super().__init__(guard, buffers, temporaries, direct)
        records = [_record(spec) for spec in guard.specs]
        width = max(map(len, records))
        padded = [word for record in records for word in (*record, *[0] * (width - len(record)))]
        self.records = (ctypes.c_int64 * len(padded))(*padded)
        self.words = (ctypes.c_int64 * _WORDS)(
            *(ctypes.addressof(self.records), width, id(np.ndarray)),
            *(guard.inputs, len(guard.specs), ctypes.addressof(self.addresses)),
        )
        place = ctypes.addressof(self.words)
        always = place + WORD_BYTES  # the address of a word that is not 0
        self.words[_READY] = direct.ready if direct and direct.ready else always
        if direct:
            self.words[_READY + 1 :] = [direct.function, *direct.arguments]
        serve, run = _methods()
        self.serve = python_function(serve, place)
        self.run = python_function(run, place)


def _record(spec: ArraySpec) -> tuple[int, ...]:
    """See `CODE`."""
    strides = spec.strides or ()
    flags = ALIGNED if spec.strides is not None else ALIGNED | CONTIGUOUS | WRITABLE
    start = (id(spec.dtype), len(spec.shape), flags, spec.below, spec.above, len(strides))
    return (*start, *spec.shape, *strides)


@Lazy
def _methods() -> tuple[int, int]:
    """The addresses of the objects that functions of Python refer to. The functions may outlive
    this module, so the addresses are in the memory of the code, which is never freed."""
    serve, run = lasting_code(CODE, "serving", "running")
    return serve, run


CODE = f"""
; records, words per record, type, inputs, arrays | where addresses go, a word that is 0 while
; nothing may run, what to run, its arguments
%frame = type {{ ptr, i64, ptr, i64, i64, ptr, ptr, ptr, [7 x i64] }}
; dtype, rank, flags, bytes below the address, bytes above it, strides to compare | shape, strides
%record = type {{ ptr, i64, i64, i64, i64, i64 }}
; an array as `numpy_records` has it: counts, type | data, rank, shape, strides, base, dtype, flags
%array = type {{ [{KIND} x i8], ptr, i64, i32, ptr, ptr, ptr, ptr, i32 }}

declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyErr_Occurred()
declare i32 @memcmp(ptr, ptr, i64)

{python_method("serving", "serve", "serve")}
{python_method("running", "run", "run")}

; the arrays of a call are `arguments`; `self` is the address of a frame
define ptr @serve(ptr %self, ptr %arguments, i64 %count) uwtable {{
start:
  %frame = call ptr @PyLong_AsVoidPtr(ptr %self)
  %words = load %frame, ptr %frame
  %may = call i1 @may_run(%frame %words, i64 %count)
  br i1 %may, label %look, label %end
look:
  %same = call i1 @admit(%frame %words, ptr %arguments, i64 %count)
  br i1 %same, label %choose, label %end
choose:
  %ran = call i64 @perform(%frame %words)
  br label %end
end:
  %status = phi i64 [ {OTHER}, %start ], [ {OTHER}, %look ], [ %ran, %choose ]
  %result = call ptr @PyLong_FromLong(i64 %status)
  ret ptr %result
}}

; the addresses of a call's arrays are the integers `arguments`
define ptr @run(ptr %self, ptr %arguments, i64 %count) uwtable {{
start:
  %frame = call ptr @PyLong_AsVoidPtr(ptr %self)
  %words = load %frame, ptr %frame
  %may = call i1 @may_run(%frame %words, i64 %count)
  br i1 %may, label %read, label %end
read:
  %addresses = extractvalue %frame %words, 5
  br label %next
next:
  %i = phi i64 [ 0, %read ], [ %following, %number ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %number, label %ask
number:
  %object_at = getelementptr ptr, ptr %arguments, i64 %i
  %object = load ptr, ptr %object_at
  %address = call ptr @PyLong_AsVoidPtr(ptr %object)
  %address_at = getelementptr ptr, ptr %addresses, i64 %i
  store ptr %address, ptr %address_at
  %following = add i64 %i, 1
  br label %next
ask:
  %error = call ptr @PyErr_Occurred()
  %fine = icmp eq ptr %error, null
  br i1 %fine, label %choose, label %raise
raise:
  ret ptr null
choose:
  %ran = call i64 @perform(%frame %words)
  br label %end
end:
  %status = phi i64 [ {OTHER}, %start ], [ %ran, %choose ]
  %result = call ptr @PyLong_FromLong(i64 %status)
  ret ptr %result
}}

; whether a call with `count` arguments may run now
define internal i1 @may_run(%frame %words, i64 %count) {{
  %wanted = extractvalue %frame %words, 4
  %complete = icmp eq i64 %count, %wanted
  %word = extractvalue %frame %words, 6
  %ready = load i64, ptr %word
  %may = icmp ne i64 %ready, 0
  %both = and i1 %complete, %may
  ret i1 %both
}}

; runs what there is to run, other threads of Python beside it
define internal i64 @perform(%frame %words) uwtable {{
start:
  %function = extractvalue %frame %words, 7
  %nothing = icmp eq ptr %function, null
  br i1 %nothing, label %end, label %run
run:
  %thread = call ptr @PyEval_SaveThread()
{direct_call("%frame %words, 8")}
  call void @PyEval_RestoreThread(ptr %thread)
  %good = icmp eq i64 %failed, 0
  %ran = select i1 %good, i64 {DONE}, i64 {FAILED}
  br label %end
end:
  %status = phi i64 [ {ADMITTED}, %start ], [ %ran, %run ]
  ret i64 %status
}}

; Whether `count` objects are arrays as in the frame's records, of which those from `inputs` on
; overlap no other; then their addresses are where the frame wants them.
define internal i1 @admit(%frame %words, ptr %objects, i64 %count) {{
start:
  %records = extractvalue %frame %words, 0
  %width = extractvalue %frame %words, 1
  %type = extractvalue %frame %words, 2
  %inputs = extractvalue %frame %words, 3
  %addresses = extractvalue %frame %words, 5
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %following, %apart ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %look, label %yes
look:
  %object_at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object_at
  %kind_at = getelementptr %array, ptr %object, i64 0, i32 1
  %kind = load ptr, ptr %kind_at
  %known = icmp eq ptr %kind, %type
  br i1 %known, label %array, label %no
array:
  %held = load %array, ptr %object
  %skipped = mul i64 %i, %width
  %record = getelementptr i64, ptr %records, i64 %skipped
  %like = load %record, ptr %record
  %dtype = extractvalue %array %held, 7
  %wanted_dtype = extractvalue %record %like, 0
  %same_dtype = icmp eq ptr %dtype, %wanted_dtype
  %short_rank = extractvalue %array %held, 3
  %rank = sext i32 %short_rank to i64
  %wanted_rank = extractvalue %record %like, 1
  %same_rank = icmp eq i64 %rank, %wanted_rank
  %short_flags = extractvalue %array %held, 8
  %flags = zext i32 %short_flags to i64
  %wanted_flags = extractvalue %record %like, 2
  %present = and i64 %flags, %wanted_flags
  %same_flags = icmp eq i64 %present, %wanted_flags
  %alike = and i1 %same_dtype, %same_rank
  %fit = and i1 %alike, %same_flags
  br i1 %fit, label %dims, label %no
dims:
  %shape = extractvalue %array %held, 4
  %strides = extractvalue %array %held, 5
  %wanted_shape = getelementptr %record, ptr %record, i64 1
  %wanted_strides = getelementptr i64, ptr %wanted_shape, i64 %rank
  %compared = extractvalue %record %like, 5
  %same_shape = call i1 @same(ptr %shape, ptr %wanted_shape, i64 %rank)
  %same_strides = call i1 @same(ptr %strides, ptr %wanted_strides, i64 %compared)
  %same = and i1 %same_shape, %same_strides
  br i1 %same, label %place, label %no
place:
  %data = extractvalue %array %held, 2
  %address_at = getelementptr i64, ptr %addresses, i64 %i
  store i64 %data, ptr %address_at
  %below = extractvalue %record %like, 3
  %above = extractvalue %record %like, 4
  %low = sub i64 %data, %below
  %high = add i64 %data, %above
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
  %its = load %record, ptr %its_record
  %its_below = extractvalue %record %its, 3
  %its_above = extractvalue %record %its, 4
  %its_low = sub i64 %its_data, %its_below
  %its_high = add i64 %its_data, %its_above
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
  %bytes = mul i64 %count, {WORD_BYTES}
  %order = call i32 @memcmp(ptr %left, ptr %right, i64 %bytes)
  %equal = icmp eq i32 %order, 0
  ret i1 %equal
}}
"""
