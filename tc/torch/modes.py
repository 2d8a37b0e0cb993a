"""What torch does beside computing (recording, tracing, transforming), asked of its private
parts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import torch

from tc.runtime.arrays.torch_private import plain_of, private_parts, tracing_of

PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
"""The types of tensors that mean no more than their numbers and gradients."""

TENSORS = (torch.Tensor, torch.fx.Proxy)
"""The types of tensors, and of the proxies that stand for tensors in a graph."""

PRIVATE = private_parts(torch)
is_tracing, is_plain = tracing_of(torch), plain_of(torch)

one_level = PRIVATE.one_level
"""Allows a function of autograd to be applied within one transform of several."""

SingleLevelFunction: Any = PRIVATE.SingleLevelFunction
"""The base class of functions of autograd that are applied within one transform."""

has_function_mode = PRIVATE.function_modes or (lambda: 1)
forward_ad = PRIVATE.forward
_modes = PRIVATE.dispatch_modes or (lambda: 0)
_interpreter = PRIVATE.interpreter or (lambda: None)
_counts, _unpacked = PRIVATE.counts_tangents, PRIVATE.unpack_dual
_is_legacy, _is_transformed = PRIVATE.is_legacy_batch, PRIVATE.is_transformed


def outside(value: Any) -> Any:
    """A tensor without the wrapper of a transform that has ended."""
    return PRIVATE.unwrap_if_dead(value) if isinstance(value, torch.Tensor) else value


def is_recorded(tensors: Sequence[Any]) -> bool:
    """Whether autograd may have to record what is computed of these tensors. In graphs of
    torch.compile Python does not know the level of forward mode, and only tensors tell of
    tangents."""
    if _counts() and (forward_ad._current_level >= 0 or _interpreter() is not None):
        return True
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return True
    return _counts() and any(_unpacked(tensor, level=0).tangent is not None for tensor in tensors)


def has_numbers_alone(tensors: Sequence[Any]) -> bool:
    """Whether torch has nothing to do with these below autograd but to compute."""
    return records_alone(tensors) and not any(map(PRIVATE.is_functional, tensors))


def as_around(call: Callable[..., Any]) -> Callable[..., Any]:
    """The call for a function of autograd, which records nothing within: transforms around the
    innermost one do."""
    if _interpreter() is None:
        return call
    records, counts = torch.is_grad_enabled(), _counts()

    def recorded(*given: Any) -> Any:
        with torch.set_grad_enabled(records), PRIVATE.set_counts_tangents(counts):
            return call(*given)

    return recorded


def tangents_around() -> Any:
    """Has transforms around the innermost one see the tangents that a function of autograd makes,
    of tensors `without_tangent` of the innermost: that does not see them."""
    if _interpreter() is None:
        return nullcontext()
    return PRIVATE.set_counts_tangents(True)


def without_tangent(tensor: Any) -> Any:
    """The primal of a tensor that has a tangent at the current level; another tensor as it is."""
    return _unpacked(tensor, level=0).primal if _counts() else tensor


def computes_alone() -> bool:
    """Whether no transform of torch.func, mode or tracing is to see what is called here, and no
    tangents are computed."""
    if is_plain():
        return True  # in less time
    if forward_ad._current_level >= 0 or _interpreter() is not None:
        return False
    return not (_modes() or is_tracing())


def records_alone(values: Iterable[Any]) -> bool:
    """Whether torch does nothing with these but to compute and to record gradients: no tracing or
    other mode, no transforms of functions, past ones included, no tangents, and tensors that have
    values."""
    if not computes_alone():
        return False
    for value in values:
        if type(value) in PLAIN:
            if value.is_meta or _is_transformed(value) or _is_legacy(value):
                return False
        elif isinstance(value, TENSORS):
            return False
    return True


# --- batches of autograd's own --------------------------------------------------------------------


def batch_level() -> int:
    """The level of the innermost batches."""
    PRIVATE.enter_batches()
    return int(PRIVATE.leave_batches())


def has_batch(value: Any, level: int) -> bool:
    """Whether it is a batch of this level; what is not would be expanded."""
    return _is_legacy(value) and bool(PRIVATE.remove_batch_dim(value, level, 0, 0).shape[0])


def without_batch(value: Any, level: int) -> Any:
    """A batch of this level as a tensor, with the batch as its first dimension."""
    return PRIVATE.remove_batch_dim(value, level, 0, 0)


def with_batch(tensor: Any, level: int) -> Any:
    """The first dimension of a tensor as a batch of this level."""
    return PRIVATE.add_batch_dim(tensor, 0, level)
