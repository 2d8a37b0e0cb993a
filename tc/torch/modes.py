"""What torch does beside computing: all that is asked of what it does not make public."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd import forward_ad

from tc.runtime.arrays.torch_looks import tracing_of

PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
"""The types of tensors that mean no more than their numbers and gradients."""

is_tracing = tracing_of(torch)

_TENSORS = (torch.Tensor, torch.fx.Proxy)
_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_FUNCTORCH = getattr(torch._C, "_functorch", None)
_FUNCTIONALIZE = getattr(getattr(_FUNCTORCH, "TransformType", None), "Functionalize", None)
_interpreter = getattr(_FUNCTORCH, "peek_interpreter_stack", lambda: None)
_is_batched = getattr(_FUNCTORCH, "is_legacy_batchedtensor", lambda _: False)


def _transform() -> Any:
    """The innermost transform of torch.func, None outside of them. That functions become free of
    side effects is none: the operator has no side effects."""
    found = _interpreter()
    return None if found is None or found.key() == _FUNCTIONALIZE else found


def has_tangent(tensor: Any) -> bool:
    """Whether a tensor carries a tangent of forward mode."""
    if forward_ad._current_level < 0:
        return False
    return forward_ad.unpack_dual(tensor).tangent is not None


def is_transformed(values: Iterable[Any]) -> bool:
    """Whether torch.func transforms the function that is running, or a batch, or tangents go along
    with it."""
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    return (
        forward_ad._current_level >= 0 or _transform() is not None or any(map(_is_batched, tensors))
    )


def records_alone(values: Iterable[Any]) -> bool:
    """Whether torch does nothing with these but to compute and to record gradients: no tracing or
    other mode, no transforms of functions, no tangents, and tensors that have values."""
    if forward_ad._current_level >= 0 or _interpreter() is not None or _modes() or is_tracing():
        return False
    tensors = (value for value in values if isinstance(value, _TENSORS))
    return not any(type(t) not in PLAIN or t.is_meta or _is_batched(t) for t in tensors)
