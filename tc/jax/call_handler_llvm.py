"""The machine code that XLA calls for a call of tc: a handler of its foreign function interface.

XLA gives it a frame: addresses, types and shapes of arrays, and attributes, of which the first is
the digest of what is to run. The handler looks the digest and the shapes up in a table of calls
that are ready (`tc.jax.ready_calls`), takes the memory of one call at a time, and runs the kernel.
What it does not find, and failures, are left to Python, by two functions that take the lock of
Python themselves. It never raises: what Python gives it is null, or an error of XLA's.

XLA's threads take denormal numbers for 0; kernels run in the modes that threads start with, so
that results are those of other calls.

The structs of a frame are those of XLA's `c_api.h`, which is stable and has a version; `read_frame`
reads a frame in Python.
"""

from __future__ import annotations

import ctypes
import platform
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tc import dtypes
from tc.dtypes import Array
from tc.process.uninterrupted import Lazy
from tc.runtime.arrays.any_address import array_at
from tc.runtime.loaded import direct_call
from tc.runtime.object_files import lasting_code

DTYPES = (
    ("bool", 1), ("int8", 2), ("int16", 3), ("int32", 4), ("int64", 5), ("uint8", 6),
    ("uint16", 7), ("uint32", 8), ("uint64", 9), ("float16", 10), ("float32", 11), ("float64", 12),
    ("bfloat16", 16), ("float8_e5m2", 19), ("float8_e4m3fn", 20),
)  # fmt: skip
NUMBERS = {dtypes.DTYPES[name].numpy: number for name, number in DTYPES}
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


SLOTS = 8
"""The number of calls of one kind that run at the same time without Python."""

CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
"""The type of a function of Python for a frame and a slot (or 0): it gives an error of XLA, or
0."""

SLOT_WORDS = 11
"""Words of a slot: whether the slot is in use, the address of a word that is 0 while the slot may
not be used, the function to run, the seven arguments of the function, and where addresses go."""

ENTRY_WORDS = 7 + SLOTS
"""Words of an entry before the words of its arrays: the digest, the numbers of arguments, results
and slots, where among the addresses each array has its place, the next entry of the row, the slots.
Then come, for each array, its type and rank in XLA's numbers, and its shape."""

CODE = """
; size, extension, api, context, stage | arguments: size, extension, count, types, buffers | results
; alike | attributes: size, extension, count, types, names, values
%frame = type { i64, ptr, ptr, ptr, i64, i64, ptr, i64, ptr, ptr, i64, ptr, i64, ptr, ptr, i64, ptr,
                i64, ptr, ptr, ptr }
; size, extension, type, data, rank, shape
%buffer = type { i64, ptr, i32, ptr, i64, ptr }
; type, count, data
%numbers = type { i32, i64, ptr }
; digest, arguments, results, slots, places, next of its row, slots | the words of its arrays
%entry = type { i64, i64, i64, i64, i64, ptr, ptr, [SLOTS x ptr] }
; in use, ready, what to run, its arguments, where addresses go
%slot = type { i64, ptr, ptr, [7 x i64], ptr }

; rows less one, and the first entry of each row
@table = global ptr null
@serve = global ptr null
@fail = global ptr null

DECLARED

define ptr @handle(ptr %frame) uwtable {
  ENTER
  %status = call ptr @handle_in_usual_modes(ptr %frame)
  LEAVE
  ret ptr %status
}

define internal ptr @handle_in_usual_modes(ptr %frame) uwtable {
start:
  %held = load %frame, ptr %frame
  %extension = extractvalue %frame %held, 1
  %plain = icmp eq ptr %extension, null
  br i1 %plain, label %known, label %slow
known:
  %table = load atomic ptr, ptr @table acquire, align 8
  %empty = icmp eq ptr %table, null
  %attributes = extractvalue %frame %held, 17
  %none = icmp eq i64 %attributes, 0
  %nothing = or i1 %empty, %none
  br i1 %nothing, label %slow, label %asked_kind
asked_kind:
  %kinds = extractvalue %frame %held, 18
  %kind = load i32, ptr %kinds
  %array = icmp eq i32 %kind, 1
  br i1 %array, label %first, label %slow
first:
  %values = extractvalue %frame %held, 20
  %value = load ptr, ptr %values
  %numbers = load %numbers, ptr %value
  %type = extractvalue %numbers %numbers, 0
  %count = extractvalue %numbers %numbers, 1
  %wide = icmp eq i32 %type, 5
  %pair = icmp eq i64 %count, 2
  %digested = and i1 %wide, %pair
  br i1 %digested, label %digest, label %slow
digest:
  %words = extractvalue %numbers %numbers, 2
  %high = load i64, ptr %words
  %low_at = getelementptr i64, ptr %words, i64 1
  %low = load i64, ptr %low_at
  %inputs = extractvalue %frame %held, 7
  %input_buffers = extractvalue %frame %held, 9
  %outputs = extractvalue %frame %held, 12
  %output_buffers = extractvalue %frame %held, 14
  %hash = call i64 @hash(i64 %high, i64 %inputs, ptr %input_buffers)
  %mask = load i64, ptr %table
  %row = and i64 %hash, %mask
  %row_at = getelementptr { i64, [0 x ptr] }, ptr %table, i64 0, i32 1, i64 %row
  %head = load atomic ptr, ptr %row_at acquire, align 8
  br label %look
look:
  %entry = phi ptr [ %head, %digest ], [ %next, %other ]
  %over = icmp eq ptr %entry, null
  br i1 %over, label %slow, label %compare
compare:
  %record = load %entry, ptr %entry
  %its_high = extractvalue %entry %record, 0
  %its_low = extractvalue %entry %record, 1
  %its_inputs = extractvalue %entry %record, 2
  %its_outputs = extractvalue %entry %record, 3
  %c0 = icmp eq i64 %high, %its_high
  %c1 = icmp eq i64 %low, %its_low
  %c2 = icmp eq i64 %inputs, %its_inputs
  %c3 = icmp eq i64 %outputs, %its_outputs
  %c01 = and i1 %c0, %c1
  %c23 = and i1 %c2, %c3
  %named = and i1 %c01, %c23
  br i1 %named, label %shapes, label %other
shapes:
  %shapes_at = getelementptr %entry, ptr %entry, i64 1
  %after = call ptr @same(i64 %inputs, ptr %input_buffers, ptr %shapes_at)
  %alike = icmp ne ptr %after, null
  br i1 %alike, label %results, label %other
results:
  %end = call ptr @same(i64 %outputs, ptr %output_buffers, ptr %after)
  %whole = icmp ne ptr %end, null
  br i1 %whole, label %choose, label %other
other:
  %next = extractvalue %entry %record, 6
  br label %look
choose:
  %slots_at = getelementptr %entry, ptr %entry, i64 0, i32 4
  %slots = load atomic i64, ptr %slots_at acquire, align 8
  br label %try
try:
  %number = phi i64 [ 0, %choose ], [ %following, %busy ]
  %more = icmp ult i64 %number, %slots
  br i1 %more, label %take, label %slow
take:
  %slot_at = getelementptr %entry, ptr %entry, i64 0, i32 7, i64 %number
  %slot = load ptr, ptr %slot_at
  %exchange = cmpxchg ptr %slot, i64 0, i64 1 acquire monotonic
  %taken = extractvalue { i64, i1 } %exchange, 1
  br i1 %taken, label %ask, label %busy
busy:
  %following = add i64 %number, 1
  br label %try
ask:
  %memory = load %slot, ptr %slot
  %word = extractvalue %slot %memory, 1
  %ready = load i64, ptr %word
  %may = icmp ne i64 %ready, 0
  br i1 %may, label %run, label %back
back:
  store atomic i64 0, ptr %slot release, align 8
  br label %slow
run:
  %places = extractvalue %entry %record, 5
  %addresses = extractvalue %slot %memory, 4
  call void @place(i64 %inputs, ptr %input_buffers, ptr %places, ptr %addresses)
  %rest = getelementptr i64, ptr %places, i64 %inputs
  call void @place(i64 %outputs, ptr %output_buffers, ptr %rest, ptr %addresses)
  %function = extractvalue %slot %memory, 2
CALL_DIRECT
  %good = icmp eq i64 %failed, 0
  br i1 %good, label %done, label %bad
bad:
  %fail = load ptr, ptr @fail
  %frame_word = ptrtoint ptr %frame to i64
  %slot_word = ptrtoint ptr %slot to i64
  %error_word = call i64 %fail(i64 %frame_word, i64 %slot_word)
  br label %done
done:
  %told = phi i64 [ 0, %run ], [ %error_word, %bad ]
  store atomic i64 0, ptr %slot release, align 8
  %status = inttoptr i64 %told to ptr
  ret ptr %status
slow:
  %serve = load ptr, ptr @serve
  %asked = ptrtoint ptr %frame to i64
  %answer = call i64 %serve(i64 %asked, i64 0)
  %said = inttoptr i64 %answer to ptr
  ret ptr %said
}

; has all that was written before be seen by those who see this word
define void @publish(ptr %word, i64 %value) {
  store atomic i64 %value, ptr %word release, align 8
  ret void
}

; a number for the shapes of arrays, and one that it goes on from
define internal i64 @hash(i64 %from, i64 %count, ptr %buffers) {
start:
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %following, %done ]
  %number = phi i64 [ %from, %start ], [ %inner, %done ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %begin, label %end
begin:
  %buffer_at = getelementptr ptr, ptr %buffers, i64 %i
  %buffer = load ptr, ptr %buffer_at
  %held = load %buffer, ptr %buffer
  %rank = extractvalue %buffer %held, 4
  %shape = extractvalue %buffer %held, 5
  br label %axis
axis:
  %j = phi i64 [ 0, %begin ], [ %after, %mix ]
  %inner = phi i64 [ %number, %begin ], [ %mixed, %mix ]
  %left = icmp ult i64 %j, %rank
  br i1 %left, label %mix, label %done
mix:
  %size_at = getelementptr i64, ptr %shape, i64 %j
  %size = load i64, ptr %size_at
  %scaled = mul i64 %inner, FACTOR
  %mixed = add i64 %scaled, %size
  %after = add i64 %j, 1
  br label %axis
done:
  %following = add i64 %i, 1
  br label %next
end:
  ret i64 %number
}

; where the words end that arrays are like, null where they are not
define internal ptr @same(i64 %count, ptr %buffers, ptr %words) {
start:
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %following, %done ]
  %at = phi ptr [ %words, %start ], [ %end, %done ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %begin, label %yes
begin:
  %buffer_at = getelementptr ptr, ptr %buffers, i64 %i
  %buffer = load ptr, ptr %buffer_at
  %held = load %buffer, ptr %buffer
  %type = extractvalue %buffer %held, 2
  %type_wide = zext i32 %type to i64
  %its_type = load i64, ptr %at
  %same_type = icmp eq i64 %type_wide, %its_type
  %rank = extractvalue %buffer %held, 4
  %rank_at = getelementptr i64, ptr %at, i64 1
  %its_rank = load i64, ptr %rank_at
  %same_rank = icmp eq i64 %rank, %its_rank
  %fits = and i1 %same_type, %same_rank
  br i1 %fits, label %sizes, label %no
sizes:
  %shape = extractvalue %buffer %held, 5
  %its_shape = getelementptr i64, ptr %at, i64 2
  br label %axis
axis:
  %j = phi i64 [ 0, %sizes ], [ %after, %equal ]
  %left = icmp ult i64 %j, %rank
  br i1 %left, label %one_size, label %done
one_size:
  %size_at = getelementptr i64, ptr %shape, i64 %j
  %size = load i64, ptr %size_at
  %its_at = getelementptr i64, ptr %its_shape, i64 %j
  %its_size = load i64, ptr %its_at
  %same_size = icmp eq i64 %size, %its_size
  br i1 %same_size, label %equal, label %no
equal:
  %after = add i64 %j, 1
  br label %axis
done:
  %end = getelementptr i64, ptr %its_shape, i64 %rank
  %following = add i64 %i, 1
  br label %next
yes:
  ret ptr %at
no:
  ret ptr null
}

; puts the addresses of arrays where the kernel looks for them
define internal void @place(i64 %count, ptr %buffers, ptr %places, ptr %addresses) {
start:
  br label %next
next:
  %i = phi i64 [ 0, %start ], [ %following, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %end
one:
  %buffer_at = getelementptr ptr, ptr %buffers, i64 %i
  %buffer = load ptr, ptr %buffer_at
  %data_at = getelementptr %buffer, ptr %buffer, i64 0, i32 3
  %data = load ptr, ptr %data_at
  %place_at = getelementptr i64, ptr %places, i64 %i
  %place = load i64, ptr %place_at
  %address_at = getelementptr ptr, ptr %addresses, i64 %place
  store ptr %data, ptr %address_at
  %following = add i64 %i, 1
  br label %next
end:
  ret void
}
"""

_FACTOR = 1_099_511_628_211
_LOW = (1 << 64) - 1

_DECLARED = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
; as threads start
@usual = internal constant i32 8064
"""
_ENTER = """%modes = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %modes)
  call void @llvm.x86.sse.ldmxcsr(ptr @usual)"""
_LEAVE = "call void @llvm.x86.sse.ldmxcsr(ptr %modes)"


def hashed(digest: int, shapes: Iterable[tuple[int, ...]]) -> int:
    """As `@hash` in `CODE`: the number by which an entry has its row.

    >>> hashed(3, [(), (2,)]) == 3 * 1_099_511_628_211 + 2
    True
    """
    number = digest & _LOW
    for shape in shapes:
        for size in shape:
            number = (number * _FACTOR + size) & _LOW
    return number


@dataclass(frozen=True, slots=True)
class CallHandler:
    """The handler in machine code: its address, the address of the word that points to the table,
    and a function that writes a word so that the handler sees it."""

    address: int
    table: int
    publish: Callable[[int, int], None]


_KEPT: list[Any] = []
"""Functions that the machine code calls; they are kept to the end of the process, as threads of XLA
may call them until then."""


@Lazy
def _compiled() -> tuple[int, ...]:
    on_x86 = platform.machine() in ("x86_64", "AMD64")
    text = CODE
    for name, value in (
        ("DECLARED", _DECLARED if on_x86 else ""),
        ("ENTER", _ENTER if on_x86 else ""),
        ("LEAVE", _LEAVE if on_x86 else ""),
        ("SLOTS", str(SLOTS)),
        ("FACTOR", str(_FACTOR)),
        ("CALL_DIRECT", direct_call("%slot %memory, 3")),
    ):
        text = text.replace(name, value)
    return lasting_code(text, "handle", "table", "publish", "serve", "fail")


def new_handler(serve: Callable[[int, int], int], fail: Callable[[int, int], int]) -> CallHandler:
    """The handler, which calls `serve` of Python for a call that is not ready, and `fail` for a
    call in which a check has failed. Neither function may raise."""
    handle, table, publish, *places = _compiled()
    for place, function in zip(places, (serve, fail), strict=True):
        callback = CALLBACK(function)
        _KEPT.append(callback)
        ctypes.c_int64.from_address(place).value = address_of(callback)
    store = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(publish)
    return CallHandler(handle, table, store)


def address_of(function: Any) -> int:
    """The address of a C function."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0
