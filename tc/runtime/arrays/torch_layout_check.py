"""Whether tensors have the layout of tensors of an earlier call; torch is never imported here.

Where the elements of tensors lie is found by machine code that Python calls: asking a tensor one
thing at a time takes longer than a small kernel runs. So a function asks torch's own C functions,
those that compiled models call (the stable C interface of AOTInductor). That a tensor of C++ lies
behind the type in the object of Python is no promise of torch's: it is tried with tensors of known
memory, and where they are not found Python asks.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tc.process.uninterrupted import Lazy
from tc.runtime import loaded
from tc.runtime.arrays.layout_check import ArrayCheck, ArrayLayoutCheck, CallCheck, one_by_one
from tc.runtime.arrays.torch_private import plain_of, plain_tensors_of, private_parts, usual_of
from tc.runtime.loaded import python_function, python_method
from tc.runtime.object_files import lasting_code

MACHINES = ("x86_64", "aarch64")

Find: TypeAlias = Callable[..., list[int] | Literal[0]]
"""The addresses of the first elements of tensors, whose types are right; 0 where one has less
memory than it needs, or has none, or its elements are not aligned."""

_ASKED = ("aoti_torch_get_data_ptr", "aoti_torch_get_storage_size", "aoti_torch_get_storage_offset")

_HANDLE = 2
"""The words of a Python object before its content: the count of references and the type."""

_FIXED = 4
"""The words before those of each tensor (see `CODE`)."""


def finder(torch: Any, wanted: Sequence[tuple[int, int]]) -> Find | None:
    """The function that finds the addresses of as many tensors as `wanted` has pairs: the bytes of
    an element, and the bytes that a tensor needs from its first element on. None where machine code
    is not known to work."""
    asked = _known(torch)
    return None if asked is None else _new(asked, wanted)


def _new(asked: Sequence[int], wanted: Sequence[tuple[int, int]]) -> Find:
    pairs = [number for pair in wanted for number in pair]
    words = (ctypes.c_int64 * (_FIXED + len(pairs)))(len(wanted), *asked, *pairs)
    return python_function(_method(), ctypes.addressof(words), words)


@Lazy
def _method() -> int:
    return lasting_code(CODE, "method")[0]


@lru_cache(maxsize=1)
def _known(torch: Any) -> Sequence[int] | None:
    """The addresses of the functions that are asked, None where they are not known to work."""
    return _tried(torch) if loaded.is_allowed(MACHINES) else None


def _tried(torch: Any) -> Sequence[int] | None:
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        functions = [getattr(library, name) for name in _ASKED]
    except (OSError, AttributeError):
        return None
    asked = [ctypes.cast(function, ctypes.c_void_p).value or 0 for function in functions]
    return asked if _are_right(torch, asked) else None


def _are_right(torch: Any, asked: Sequence[int]) -> bool:
    """Whether functions at these addresses tell of tensors what Python knows of them."""
    whole = torch.arange(24, dtype=torch.int32, device="cpu")
    tensors = [whole, whole[5:], whole.view(4, 6).t()[1:], torch.nn.Parameter(whole.double())]
    fits = [(4, 24 * 4), (4, 19 * 4), (4, 23 * 4), (8, 24 * 8)]
    for tensor in tensors:
        head = (ctypes.c_int64 * (_HANDLE + 1)).from_address(id(tensor))
        if head[_HANDLE - 1] != id(type(tensor)) or head[_HANDLE] != tensor._cdata:
            return False
    find = _new(asked, fits)
    if find(*tensors) != [tensor.data_ptr() for tensor in tensors]:
        return False
    for place, (item, needed) in enumerate(fits):
        find = _new(asked, [*fits[:place], (item, needed + 1), *fits[place + 1 :]])
        if find(*tensors) != 0:
            return False
    return True


CODE = f"""
; tensors, what tells of one where its data lie, the bytes of its memory and the first element in it
%words = type {{ i64, ptr, ptr, ptr }}
; for each tensor: bytes of an element, bytes that it needs
%wanted = type {{ i64, i64 }}
; an object of Python: count, type | what torch's functions take the address of
%object = type {{ i64, ptr, ptr }}

declare ptr @PyLong_AsVoidPtr(ptr)
declare ptr @PyLong_FromVoidPtr(ptr)
declare ptr @PyLong_FromLong(i64)
declare ptr @PyList_New(i64)
declare i32 @PyList_SetItem(ptr, i64, ptr)
declare void @Py_DecRef(ptr)

{python_method("method", "find", "find")}

; the tensors are `arguments`; `self` is the address of words
define ptr @find(ptr %self, ptr %arguments, i64 %count) uwtable {{
start:
  %data = alloca i64
  %size = alloca i64
  %first = alloca i64
  %at = call ptr @PyLong_AsVoidPtr(ptr %self)
  %words = load %words, ptr %at
  %tensors = extractvalue %words %words, 0
  %complete = icmp eq i64 %count, %tensors
  br i1 %complete, label %all, label %no
all:
  %data_of = extractvalue %words %words, 1
  %size_of = extractvalue %words %words, 2
  %first_of = extractvalue %words %words, 3
  %each = getelementptr %words, ptr %at, i64 1
  %list = call ptr @PyList_New(i64 %count)
  %memory = icmp ne ptr %list, null
  br i1 %memory, label %next, label %raise
next:
  %i = phi i64 [ 0, %all ], [ %following, %keep ]
  %more = icmp slt i64 %i, %count
  br i1 %more, label %ask, label %done
ask:
  %object_at = getelementptr ptr, ptr %arguments, i64 %i
  %object = load ptr, ptr %object_at
  %tensor = getelementptr %object, ptr %object, i64 0, i32 2
  %wanted_at = getelementptr %wanted, ptr %each, i64 %i
  %wanted = load %wanted, ptr %wanted_at
  %item = extractvalue %wanted %wanted, 0
  %needed = extractvalue %wanted %wanted, 1
  %e0 = call i32 %data_of(ptr %tensor, ptr %data)
  %e1 = call i32 %size_of(ptr %tensor, ptr %size)
  %e2 = call i32 %first_of(ptr %tensor, ptr %first)
  %e01 = or i32 %e0, %e1
  %error = or i32 %e01, %e2
  %asked = icmp eq i32 %error, 0
  br i1 %asked, label %test, label %drop
test:
  %address = load i64, ptr %data
  %held = load i64, ptr %size
  %elements = load i64, ptr %first
  %before = mul i64 %elements, %item
  %left = sub i64 %held, %before
  %enough = icmp sge i64 %left, %needed
  %over = urem i64 %address, %item
  %aligned = icmp eq i64 %over, 0
  %somewhere = icmp ne i64 %address, 0
  %fits = and i1 %enough, %aligned
  %good = and i1 %fits, %somewhere
  br i1 %good, label %keep, label %drop
keep:
  %pointer = inttoptr i64 %address to ptr
  %number = call ptr @PyLong_FromVoidPtr(ptr %pointer)
  %kept = call i32 @PyList_SetItem(ptr %list, i64 %i, ptr %number)
  %following = add i64 %i, 1
  br label %next
done:
  ret ptr %list
drop:
  call void @Py_DecRef(ptr %list)
  br label %no
no:
  %nothing = call ptr @PyLong_FromLong(i64 0)
  ret ptr %nothing
raise:
  ret ptr null
}}
"""


_MAX_GUARDS = 4


def layout_check_of(torch: Any) -> ArrayLayoutCheck:
    """How the layouts of torch's tensors are checked, in whatever memory the tensors lie."""
    of_array, of_call = partial(_array_check, torch), partial(_call_check, torch)
    return ArrayLayoutCheck(of_array, of_call, usual_of(torch), plain_of(torch))


def _array_check(
    torch: Any,
    tensor: Any,
    view: Any,
    written: bool,  # noqa: ARG001  # no tensor is read-only
) -> ArrayCheck:
    """As `ArrayLayoutCheck.of_array`; tensors are refused as when they are read."""
    kind, dtype, shape, steps = type(tensor), tensor.dtype, tensor.shape, tensor.stride()
    number, item, needed = tensor.get_device(), view.dtype.itemsize, _needed(tensor)
    rows, is_empty = tensor.is_contiguous(), not tensor.numel()
    grad_mode = torch.is_grad_enabled
    is_functional, is_plain = private_parts(torch).is_functional, plain_tensors_of(torch)

    def pointer(other: Any) -> int | None:
        if type(other) is not kind or not is_plain(other):
            return None
        try:
            if other.dtype is not dtype or other.shape != shape:
                return None
            if not other.is_contiguous() if rows else other.stride() != steps:
                return None
            if other.get_device() != number or other.is_neg() or is_functional(other):
                return None
            if other.requires_grad and grad_mode():
                return None
            address: int = other.data_ptr()
            held = other.untyped_storage().nbytes() - other.storage_offset() * item
        except Exception:  # of what torch has wrapped: the usual way tells of it
            return None
        if held < needed or address % item or not (address or is_empty):
            return None
        return address

    return pointer


def _call_check(
    torch: Any, tensors: Sequence[Any], checks_of_each: Sequence[ArrayCheck]
) -> CallCheck:
    """As `ArrayLayoutCheck.of_call`, by the guard of torch.compile, in C++. The guard compares
    types, dtypes, shapes, strides, devices, whether tensors require gradients, and which of torch's
    features are in use. The guard asks nothing of memory, and tells more tensors apart than the
    checks of each tensor, which decide then. No tensor without strides is shown to the guard, as
    that would end the process."""
    slowly, make_guard = one_by_one(checks_of_each), private_parts(torch).TensorGuards
    try:
        make_guard(*tensors[:1], dynamic_dims_sizes=None, dynamic_dims_strides=None)
    except TypeError:  # there is none, or one of other arguments
        return slowly
    wanted = [(tensor.element_size(), _needed(tensor)) for tensor in tensors]
    checks: list[tuple[Callable[..., bool], bool]] = []  # the other: some require gradients
    grad_mode = torch.is_grad_enabled
    strided, tensor_type, parameter_type = torch.strided, torch.Tensor, torch.nn.Parameter

    find = (finder(torch, wanted) if plain_of(torch)() else None) or _finder(wanted)

    def pointers(others: Sequence[Any]) -> list[Any] | None:
        # as `plain_tensors_of`, without calls: this runs before every kernel
        for other in others:
            kind = type(other)
            if kind is not tensor_type and kind is not parameter_type:
                return None
            if other.is_nested or other.layout is not strided:
                return None
        for check, learns in checks:
            if check(*others) and not (learns and grad_mode()):
                break
        else:
            admitted = slowly(others)
            if admitted is not None and len(checks) < _MAX_GUARDS and _differ(others):
                guard = make_guard(*others, dynamic_dims_sizes=None, dynamic_dims_strides=None)
                checks.append((guard.check, any(other.requires_grad for other in others)))
            return admitted
        return find(*others) or slowly(others)

    return pointers


def _finder(wanted: Sequence[tuple[int, int]]) -> Find:
    """As `torch_memory_llvm.finder`."""

    def find(*tensors: Any) -> list[int] | Literal[0]:
        found = []
        for tensor, (item, needed) in zip(tensors, wanted, strict=True):
            address = tensor.data_ptr()
            offset = tensor.storage_offset() * item
            if tensor.untyped_storage().nbytes() - offset < needed or address % item:
                return 0
            found.append(address)
        return found if all(found) else 0

    return find


def _differ(tensors: Sequence[Any]) -> bool:
    """Whether none is there twice, as torch's check has it."""
    return len({*map(id, tensors)}) == len(tensors)


def _needed(tensor: Any) -> int:
    """The bytes of memory from the first element of a tensor to its last."""
    if not tensor.numel():
        return 0
    last = sum(map(reach, tensor.shape, tensor.stride()))
    return int((last + 1) * tensor.element_size())


def reach(size: int, step: int) -> int:
    return (size - 1) * step
