"""Whether tensors look like others that were passed before; torch is never imported here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from tc.runtime.arrays.looks import Look, LookAtAll, Looks, one_by_one
from tc.runtime.arrays.torch_memory_llvm import Find, finder

_MOST_GUARDS = 4


def looks_of(torch: Any) -> Looks:
    """Those of torch's tensors, wherever they lie."""
    is_tracing, forward = tracing_of(torch), torch.autograd.forward_ad

    def is_usual() -> bool:
        return forward._current_level < 0 and not is_tracing()

    return Looks(partial(_look, torch), partial(_together, torch), is_usual, plain_of(torch))


def _look(
    torch: Any,
    tensor: Any,
    view: Any,
    written: bool,  # noqa: ARG001  # no tensor is read-only
) -> Look:
    """As `Looks.look`; tensors are refused as when they are read."""
    kind, dtype, shape, steps = type(tensor), tensor.dtype, tensor.shape, tensor.stride()
    number, item, needed = tensor.get_device(), view.dtype.itemsize, _needed(tensor)
    rows, is_empty = tensor.is_contiguous(), not tensor.numel()
    grad_mode = torch.is_grad_enabled
    is_functional = getattr(torch, "_is_functional_tensor", lambda _: False)

    def pointer(other: Any) -> int | None:
        if type(other) is not kind or other.dtype is not dtype or other.shape != shape:
            return None
        try:
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


def _together(torch: Any, tensors: Sequence[Any], looks: Sequence[Look]) -> LookAtAll:
    """As `Looks.together`, by what torch.compile asks of tensors, in C++: type, dtype, shape,
    strides, device, whether they require gradients, and which of torch's features are made use of.
    It asks nothing of memory, and tells apart more than the looks do, which decide then."""
    slowly = one_by_one(looks)
    try:
        make_guard = torch._C._dynamo.guards.TensorGuards
        make_guard(*tensors[:1], dynamic_dims_sizes=None, dynamic_dims_strides=None)
    except (AttributeError, TypeError):  # of another version: it is not public
        return slowly
    wanted = [(tensor.element_size(), _needed(tensor)) for tensor in tensors]
    checks: list[tuple[Callable[..., bool], bool]] = []  # the other: some require gradients
    grad_mode = torch.is_grad_enabled

    find = (finder(torch, wanted) if plain_of(torch)() else None) or _finder(wanted)

    def pointers(others: Sequence[Any]) -> list[Any] | None:
        for check, learns in checks:
            if check(*others) and not (learns and grad_mode()):
                break
        else:
            admitted = slowly(others)
            if admitted is not None and len(checks) < _MOST_GUARDS and _differ(others):
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


def tracing_of(torch: Any) -> Callable[[], bool]:
    """Whether torch records what is done, by torch.jit.trace, make_fx or fake tensors: what tc
    computes would become a constant of the record."""
    private = torch._C
    try:
        functions = private._len_torch_function_stack
        before = torch._ops._len_torch_dispatch_stack_pre_dispatch
        state, modes = private._get_tracing_state, private._len_torch_dispatch_stack
        keys = private._TorchDispatchModeKey
        recording = (keys.FAKE, keys.PROXY, keys.FUNCTIONAL)
        mode = private._get_dispatch_mode
    except AttributeError:  # of another version: not all of them are public
        return torch.jit.is_tracing  # type: ignore[no-any-return]

    def is_tracing() -> bool:
        if state() is not None:
            return True
        if modes() and any(mode(key) is not None for key in recording):
            return True
        # make_fx before dispatch has a mode of functions, too
        return bool(functions() and before())

    return is_tracing


def plain_of(torch: Any) -> Callable[[], bool]:
    """As `Looks.is_plain`; never where torch does not tell, as it is not public."""
    private, forward = torch._C, torch.autograd.forward_ad
    try:
        functions, modes = private._len_torch_function_stack, private._len_torch_dispatch_stack
        interpreter, state = private._functorch.peek_interpreter_stack, private._get_tracing_state
    except AttributeError:
        return lambda: False

    def is_plain() -> bool:
        if forward._current_level >= 0 or interpreter() is not None:
            return False
        return not (modes() or functions()) and state() is None

    return is_plain


def tangents_of(torch: Any) -> Callable[[Any], bool]:
    """Whether a tensor carries a tangent of forward mode, where these count."""
    forward = torch.autograd.forward_ad
    count = getattr(torch._C, "_is_fwd_grad_enabled", lambda: True)

    def has_tangent(tensor: Any) -> bool:
        if forward._current_level < 0 or not count():
            return False
        return forward.unpack_dual(tensor).tangent is not None

    return has_tangent
