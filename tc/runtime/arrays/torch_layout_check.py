"""Whether tensors have the layout of tensors of an earlier call; torch is never imported here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from tc.runtime.arrays.layout_check import ArrayCheck, ArrayLayoutCheck, CallCheck, one_by_one
from tc.runtime.arrays.torch_memory_llvm import Find, finder
from tc.runtime.arrays.torch_private import (
    plain_of,
    plain_tensors_of,
    private_parts,
    usual_of,
)

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
