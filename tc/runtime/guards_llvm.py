"""The machine code of `guards`: a frame that Python calls as a function written in C.

Looking at arrays one attribute at a time takes longer than a small kernel runs, and so do calls
through `ctypes`. So the function of a `NativeGuardFrame` compares words with numpy's own records
(`numpy_records`) of its arguments, and runs the kernel. It does what `GuardFrame` does.

A step of Python around the frame takes as long as a small kernel, too. So the function that
`NativeGuardFrame.server` makes takes a call as Python has it, makes the outputs, runs the kernel
and returns the results; whatever else a call may be is left to a function in Python.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tc.dtypes import Array
from tc.kernel.ir import Failure
from tc.process.uninterrupted import Lazy
from tc.runtime import loaded
from tc.runtime.arrays import numpy_records
from tc.runtime.arrays.numpy_records import ALIGNED, CONTIGUOUS, KIND, WRITABLE
from tc.runtime.guards import (
    ADMITTED,
    DONE,
    FAILED,
    OTHER,
    ArraySpec,
    CallGuard,
    GuardFrame,
    Server,
)
from tc.runtime.loaded import WORD_BYTES, Direct, direct_call, python_function, python_method
from tc.runtime.object_files import lasting_code

MACHINES = ("x86_64", "aarch64")

_WORDS = 15
"""Words of a frame (see `CODE`)."""

_READY = 6
"""Where among them `Direct.ready` stands; behind it are the function and its arguments."""

_CALLER_WORDS = 10
_BUSY = 1
"""Words of a caller, and which of them says that a call is under way."""


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
        serve, run, _ = _methods()
        self.serve = python_function(serve, place)
        self.run = python_function(run, place)

    def server(
        self,
        makers: Sequence[Callable[[], Array]],
        result: Callable[[tuple[Array, ...]], Any] | None,
        fail: Callable[[Failure | None], None],
        otherwise: Server,
    ) -> Server:
        direct = self.direct
        if direct is None:
            return otherwise
        take_failure = direct.take_failure

        def failed() -> None:
            failure = take_failure()
            words[_BUSY] = 0
            fail(failure)

        objects = (ctypes.c_int64 * len(makers))(*map(id, makers))
        words: Any = (ctypes.c_int64 * _CALLER_WORDS)(
            *(ctypes.addressof(self.words), 0, ctypes.addressof(objects) if makers else 0),
            *(0 if result is None else id(result), id(failed), id(otherwise)),
            *(id(None), id(tuple), id(list), id(MemoryError)),
        )
        keeps = (self, words, objects, makers, result, failed, otherwise)
        return python_function(_methods()[2], ctypes.addressof(words), keeps)


_DOUBLE, _FLOAT, _LONG, _INT = range(1, 5)
_FLOAT_MAX = float(np.finfo(np.float32).max)

_NUMBERS: Mapping[np.dtype[Any], tuple[int, type, type]] = {
    np.dtype(np.float64): (_DOUBLE, float, np.float64),
    np.dtype(np.float32): (_FLOAT, float, np.float32),
    np.dtype(np.int64): (_LONG, int, int),
    np.dtype(np.int32): (_INT, int, int),
}
"""How numbers of two types stand for an array of rank 0, where its type holds them."""


def _record(spec: ArraySpec) -> tuple[int, ...]:
    """See `CODE`."""
    strides = spec.strides or ()
    flags = ALIGNED if spec.strides is not None else ALIGNED | CONTIGUOUS | WRITABLE
    start = (id(spec.dtype), len(spec.shape), flags, spec.below, spec.above, len(strides))
    known = _NUMBERS.get(spec.dtype) if spec.strides == () else None
    number = (0, 0, 0) if known is None else (known[0], id(known[1]), id(known[2]))
    return (*start, *number, 0, *spec.shape, *strides)


@Lazy
def _methods() -> tuple[int, int, int]:
    """The addresses of the objects that functions of Python refer to. The functions may outlive
    this module, so the addresses are in the memory of the code, which is never freed. By code of
    level 0 a call takes 50 ns longer, and the first of a process 20 ms less."""
    serve, run, call = lasting_code(CODE, "serving", "running", "calling", level=0)
    return serve, run, call


CODE = f"""
; records, words per record, type, inputs, arrays | where addresses go, a word that is 0 while
; nothing may run, what to run, its arguments
%frame = type {{ ptr, i64, ptr, i64, i64, ptr, ptr, ptr, [7 x i64] }}
; dtype, rank, flags, bytes below the address, bytes above it, strides to compare | how a number
; stands for the array (0: not at all), of which types, and its value | shape, strides
%record = type {{ ptr, i64, i64, i64, i64, i64, i64, ptr, ptr, i64 }}
; an array as `numpy_records` has it: counts, type | data, rank, shape, strides, base, dtype, flags
%array = type {{ [{KIND} x i8], ptr, i64, i32, ptr, ptr, ptr, ptr, i32 }}

; frame, whether it is in use, what makes each of the outputs (null: they are passed) | what makes
; the result of a tuple of several outputs (null: the only output is the result), what raises where
; a check has failed, what serves other calls; None, the types of tuples, lists, and errors for want
; of memory
%caller = type {{ ptr, i64, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr }}

declare ptr @PyLong_AsVoidPtr(ptr)
declare double @PyFloat_AsDouble(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare double @llvm.fabs.f64(double)
declare i64 @PyTuple_Size(ptr)
declare ptr @PyTuple_GetItem(ptr, i64)
declare i64 @PySequence_Size(ptr)
declare ptr @PySequence_GetItem(ptr, i64)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
declare ptr @PyObject_CallObject(ptr, ptr)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare i32 @PyErr_ExceptionMatches(ptr)
declare void @PyErr_Clear()
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare ptr @PyErr_Occurred()
declare i32 @memcmp(ptr, ptr, i64)

{python_method("serving", "serve", "serve")}
{python_method("running", "run", "run")}
{python_method("calling", "serve", "call")}

; the arrays of a call are `arguments`; `self` is the address of a frame
define ptr @serve(ptr %self, ptr %arguments, i64 %count) uwtable {{
start:
  %frame = call ptr @PyLong_AsVoidPtr(ptr %self)
  %words = load %frame, ptr %frame
  %may = call i1 @may_run(%frame %words, i64 %count)
  br i1 %may, label %look, label %end
look:
  %same = call i1 @admit(%frame %words, ptr %arguments, i64 %count, i1 false)
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

; a call with a tuple of inputs, and the outputs as they are passed; `self` is the address of a
; caller. A frame serves one call at a time: another call that comes meanwhile is left to what
; serves other calls, as is all that does not fit
define ptr @call(ptr %self, ptr %arguments, i64 %count) uwtable {{
start:
  %caller_at = call ptr @PyLong_AsVoidPtr(ptr %self)
  %caller = load %caller, ptr %caller_at
  %frame_at = extractvalue %caller %caller, 0
  %busy_at = getelementptr %caller, ptr %caller_at, i64 0, i32 {_BUSY}
  %makers = extractvalue %caller %caller, 2
  %result = extractvalue %caller %caller, 3
  %failed = extractvalue %caller %caller, 4
  %otherwise = extractvalue %caller %caller, 5
  %none = extractvalue %caller %caller, 6
  %tuple = extractvalue %caller %caller, 7
  %list = extractvalue %caller %caller, 8
  %shortage = extractvalue %caller %caller, 9
  %frame = load %frame, ptr %frame_at
  %inputs = extractvalue %frame %frame, 3
  %all = extractvalue %frame %frame, 4
  %written = sub i64 %all, %inputs
  %arrays = alloca ptr, i64 %all
  %outputs = getelementptr ptr, ptr %arrays, i64 %inputs
  %two = icmp eq i64 %count, 2
  br i1 %two, label %read, label %leave
read:
  %given = load ptr, ptr %arguments
  %target_at = getelementptr ptr, ptr %arguments, i64 1
  %target = load ptr, ptr %target_at
  %kind_at = getelementptr i8, ptr %given, i64 {KIND}
  %kind = load ptr, ptr %kind_at
  %is_tuple = icmp eq ptr %kind, %tuple
  br i1 %is_tuple, label %measure, label %leave
measure:
  %size = call i64 @PyTuple_Size(ptr %given)
  %complete = icmp eq i64 %size, %inputs
  br i1 %complete, label %next_input, label %leave
next_input:
  %i = phi i64 [ 0, %measure ], [ %following, %input ]
  %more = icmp slt i64 %i, %inputs
  br i1 %more, label %input, label %choose
input:
  %array = call ptr @PyTuple_GetItem(ptr %given, i64 %i)
  %array_at = getelementptr ptr, ptr %arrays, i64 %i
  store ptr %array, ptr %array_at
  %following = add i64 %i, 1
  br label %next_input
choose:
  %passed = icmp eq ptr %makers, null
  %fresh = icmp eq ptr %target, %none
  %mixed = icmp eq i1 %passed, %fresh
  br i1 %mixed, label %leave, label %decide
decide:
  br i1 %fresh, label %next_output, label %take
take:
  %target_kind_at = getelementptr i8, ptr %target, i64 {KIND}
  %target_kind = load ptr, ptr %target_kind_at
  %in_list = icmp eq ptr %target_kind, %list
  %in_tuple = icmp eq ptr %target_kind, %tuple
  %listed = or i1 %in_list, %in_tuple
  br i1 %listed, label %measure_targets, label %take_one
measure_targets:
  %targets = call i64 @PySequence_Size(ptr %target)
  %as_many = icmp eq i64 %targets, %written
  br i1 %as_many, label %next_target, label %leave
next_target:
  %t = phi i64 [ 0, %measure_targets ], [ %t_after, %hold_target ]
  %left = icmp slt i64 %t, %written
  br i1 %left, label %take_target, label %enter
take_target:
  %item = call ptr @PySequence_GetItem(ptr %target, i64 %t)
  %missing = icmp eq ptr %item, null
  br i1 %missing, label %lose_targets, label %hold_target
lose_targets:
  call void @drop(ptr %outputs, i64 %t)
  br label %raise
hold_target:
  %item_at = getelementptr ptr, ptr %outputs, i64 %t
  store ptr %item, ptr %item_at
  %t_after = add i64 %t, 1
  br label %next_target
take_one:
  %single = icmp eq i64 %written, 1
  br i1 %single, label %hold, label %leave
hold:
  call void @Py_IncRef(ptr %target)
  store ptr %target, ptr %outputs
  br label %enter
next_output:
  %j = phi i64 [ 0, %decide ], [ %after, %keep ]
  %lacks = icmp slt i64 %j, %written
  br i1 %lacks, label %make, label %enter
make:
  %maker_at = getelementptr ptr, ptr %makers, i64 %j
  %maker = load ptr, ptr %maker_at
  %made = call ptr @PyObject_CallObject(ptr %maker, ptr null)
  %has_none = icmp eq ptr %made, null
  br i1 %has_none, label %lost, label %keep
keep:
  %output_at = getelementptr ptr, ptr %outputs, i64 %j
  store ptr %made, ptr %output_at
  %after = add i64 %j, 1
  br label %next_output
lost:
  call void @drop(ptr %outputs, i64 %j)
  %short = call i32 @PyErr_ExceptionMatches(ptr %shortage)
  %is_short = icmp ne i32 %short, 0
  br i1 %is_short, label %clear, label %raise
clear:
  call void @PyErr_Clear()
  br label %leave
enter:
  ; no code of Python runs from here on until the frame is free again, or the kernel runs
  %busy = load i64, ptr %busy_at
  %idle = icmp eq i64 %busy, 0
  br i1 %idle, label %ask, label %refuse
ask:
  %may = call i1 @may_run(%frame %frame, i64 %all)
  br i1 %may, label %look, label %refuse
look:
  store i64 1, ptr %busy_at
  %same = call i1 @admit(%frame %frame, ptr %arrays, i64 %all, i1 true)
  br i1 %same, label %run, label %free
free:
  store i64 0, ptr %busy_at
  br label %refuse
refuse:
  call void @drop(ptr %outputs, i64 %written)
  br label %leave
run:
  %status = call i64 @perform(%frame %frame)
  %fails = icmp eq i64 %status, {FAILED}
  br i1 %fails, label %tell, label %finish
tell:
  %told = call ptr @PyObject_CallObject(ptr %failed, ptr null)
  %raised = icmp eq ptr %told, null
  br i1 %raised, label %undo, label %forget
forget:
  call void @Py_DecRef(ptr %told)
  br label %return
undo:
  call void @drop(ptr %outputs, i64 %written)
  br label %raise
raise:
  ret ptr null
finish:
  store i64 0, ptr %busy_at
  br label %return
return:
  %alone = icmp eq ptr %result, null
  br i1 %alone, label %only, label %several
only:
  %first = load ptr, ptr %outputs
  ret ptr %first
several:
  %joined = call ptr @PyTuple_New(i64 %written)
  %failing = icmp eq ptr %joined, null
  br i1 %failing, label %undo, label %next_result
next_result:
  %k = phi i64 [ 0, %several ], [ %next, %put ]
  %another = icmp slt i64 %k, %written
  br i1 %another, label %put, label %wrap
put:
  %result_at = getelementptr ptr, ptr %outputs, i64 %k
  %its_array = load ptr, ptr %result_at
  %status_of_put = call i32 @PyTuple_SetItem(ptr %joined, i64 %k, ptr %its_array)
  %next = add i64 %k, 1
  br label %next_result
wrap:
  %wrapped = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %result, ptr %joined, ptr null)
  call void @Py_DecRef(ptr %joined)
  ret ptr %wrapped
leave:
  %first_argument = load ptr, ptr %arguments
  %second_at = getelementptr ptr, ptr %arguments, i64 1
  %second = load ptr, ptr %second_at
  %answer = call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr %otherwise, ptr %first_argument,
                                                              ptr %second, ptr null)
  ret ptr %answer
}}

define internal void @drop(ptr %objects, i64 %count) {{
start:
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %following, %one ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %object_at = getelementptr ptr, ptr %objects, i64 %i
  %object = load ptr, ptr %object_at
  call void @Py_DecRef(ptr %object)
  %following = add i64 %i, 1
  br label %next
end:
  ret void
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
; overlap no other, or `numbers` that stand for inputs; then their addresses are where the frame
; wants them.
define internal i1 @admit(%frame %words, ptr %objects, i64 %count, i1 %numbers) {{
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
  %skipped = mul i64 %i, %width
  %record = getelementptr i64, ptr %records, i64 %skipped
  br i1 %known, label %array, label %other_kind
other_kind:
  br i1 %numbers, label %number, label %no
number:
  %fits = call i1 @read_number(ptr %record, ptr %object, ptr %kind)
  br i1 %fits, label %held_apart, label %no
held_apart:
  %value_at = getelementptr %record, ptr %record, i64 0, i32 9
  %own_address_at = getelementptr i64, ptr %addresses, i64 %i
  store ptr %value_at, ptr %own_address_at
  br label %apart
array:
  %held = load %array, ptr %object
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

; Whether a number of a kind stands for the array of a record, which then has its value
define internal i1 @read_number(ptr %record_at, ptr %object, ptr %kind) {{
start:
  %overflow_at = alloca i32
  %record = load %record, ptr %record_at
  %how = extractvalue %record %record, 6
  %one = extractvalue %record %record, 7
  %other = extractvalue %record %record, 8
  %value_at = getelementptr %record, ptr %record_at, i64 0, i32 9
  %is_one = icmp eq ptr %kind, %one
  %is_other = icmp eq ptr %kind, %other
  %known = or i1 %is_one, %is_other
  br i1 %known, label %choose, label %no
choose:
  switch i64 %how, label %no [
    i64 {_DOUBLE}, label %floating
    i64 {_FLOAT}, label %floating
    i64 {_LONG}, label %integer
    i64 {_INT}, label %integer
  ]
floating:
  %real = call double @PyFloat_AsDouble(ptr %object)
  %is_double = icmp eq i64 %how, {_DOUBLE}
  br i1 %is_double, label %store_double, label %narrow
store_double:
  store double %real, ptr %value_at
  ret i1 true
narrow:
  %size = call double @llvm.fabs.f64(double %real)
  %too_large = fcmp ogt double %size, {_FLOAT_MAX:.16e}
  %finite = fcmp olt double %size, 0x7FF0000000000000
  %lost = and i1 %too_large, %finite
  br i1 %lost, label %no, label %store_float
store_float:
  %single = fptrunc double %real to float
  store float %single, ptr %value_at
  ret i1 true
integer:
  %whole = call i64 @PyLong_AsLongLongAndOverflow(ptr %object, ptr %overflow_at)
  %overflow = load i32, ptr %overflow_at
  %within = icmp eq i32 %overflow, 0
  br i1 %within, label %measure, label %no
measure:
  %is_long = icmp eq i64 %how, {_LONG}
  %short = trunc i64 %whole to i32
  %extended = sext i32 %short to i64
  %is_short = icmp eq i64 %extended, %whole
  %held = or i1 %is_long, %is_short
  br i1 %held, label %store_integer, label %no
store_integer:
  store i64 %whole, ptr %value_at  ; the first four bytes are the integer of 32 bits
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
