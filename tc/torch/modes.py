"""What torch does beside computing: all that is asked of what it does not make public."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.autograd import forward_ad

from tc.runtime.arrays.torch_looks import tangents_of, tracing_of

PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
"""The types of tensors that mean no more than their numbers and gradients."""

is_tracing, has_tangent = tracing_of(torch), tangents_of(torch)

_TENSORS = (torch.Tensor, torch.fx.Proxy)
_modes = getattr(torch._C, "_len_torch_dispatch_stack", lambda: 0)
_FUNCTORCH = getattr(torch._C, "_functorch", None)
_FUNCTIONALIZE = getattr(getattr(_FUNCTORCH, "TransformType", None), "Functionalize", None)
_interpreter = getattr(_FUNCTORCH, "peek_interpreter_stack", lambda: None)
_is_legacy = getattr(_FUNCTORCH, "is_legacy_batchedtensor", lambda _: False)
_unwrapped = getattr(_FUNCTORCH, "unwrap_if_dead", lambda tensor: tensor)


def _transform() -> Any:
    """The innermost transform of torch.func, None outside of them. That functions become free of
    side effects is none: the operator has no side effects."""
    found = _interpreter()
    return None if found is None or found.key() == _FUNCTIONALIZE else found


def outside(value: Any) -> Any:
    """What a transform that has ended has left of a tensor, without it."""
    return _unwrapped(value) if isinstance(value, torch.Tensor) else value


def is_transformed(values: Iterable[Any]) -> bool:
    """Whether torch.func transforms the function that is running, or a batch, or tangents go along
    with it."""
    tensors = (value for value in values if isinstance(value, torch.Tensor))
    return (
        forward_ad._current_level >= 0 or _transform() is not None or any(map(_is_legacy, tensors))
    )


def computes_alone(values: Iterable[Any]) -> bool:
    """Whether torch follows nothing that is done with these: no tracing or other mode, and tensors
    that have values."""
    if _modes() or is_tracing():
        return False
    tensors = (value for value in values if isinstance(value, _TENSORS))
    return not any(type(t) not in PLAIN or t.is_meta or _is_legacy(t) for t in tensors)


def records_alone(values: Iterable[Any]) -> bool:
    """Whether torch does nothing with these but to compute and to record gradients: no transforms
    of functions and no tangents, either."""
    if forward_ad._current_level >= 0 or _interpreter() is not None:
        return False
    return computes_alone(values)


# --- batches of autograd's own --------------------------------------------------------------------


def is_batched(value: Any) -> bool:
    """Whether it is such a batch, as `is_grads_batched` and `vectorize` make them: these are older
    than torch.func."""
    return isinstance(value, torch.Tensor) and _is_legacy(value)


def batch_level() -> int:
    """The level of the innermost batches."""
    torch._C._vmapmode_increment_nesting()
    return int(torch._C._vmapmode_decrement_nesting())


def has_batch(value: Any, level: int) -> bool:
    """Whether it is a batch of this level: what is not would be expanded."""
    return is_batched(value) and bool(torch._remove_batch_dim(value, level, 0, 0).shape[0])


def without_batch(value: Any, level: int) -> Any:
    """A batch of this level as a tensor, with the batch as its first dimension."""
    return torch._remove_batch_dim(value, level, 0, 0)


def with_batch(tensor: Any, level: int) -> Any:
    """The first dimension of a tensor as a batch of this level."""
    return torch._add_batch_dim(tensor, 0, level)
