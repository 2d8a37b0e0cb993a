"""Calls that torch.func or forward mode transforms: what a call, its gradient, its tangents and
its batches are, from which torch makes all that it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tc.torch.modes import (
    batch_level,
    computes_alone,
    has_batch,
    is_batched,
    with_batch,
    without_batch,
)
from tc.torch.operator import by_operator
from tc.torch.reverse import Differentiable, gradients_of, keep


def transformed(by: Differentiable, inputs: Sequence[Any]) -> Any:
    """The results of a call, whatever transforms it. GradError for what has no gradient, no
    tangents or no batches."""
    found = Transformed.apply(by, *inputs)
    result = by.function.result
    return found[0] if result is None else tuple.__new__(result, found)


class Transformed(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
    """A call that is transformed. What it is made of are calls, which may be transformed as well:
    by transforms around this one, and for derivatives of any order."""

    @staticmethod
    def forward(by: Differentiable, *inputs: Any) -> tuple[Any, ...]:
        if computes_alone(inputs):
            return tuple(by.run(inputs))
        if any(map(is_batched, inputs)):
            return _for_batches(by, inputs)
        return tuple(by_operator(by.function, inputs))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        by, *values = inputs
        keep(ctx, by, values, output)
        ctx.save_for_forward(*(value for value in values if isinstance(value, torch.Tensor)))
        ctx.given = [None if isinstance(value, torch.Tensor) else value for value in values]

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        return gradients_of(ctx, cotangents)

    @staticmethod
    def jvp(ctx: Any, _by: None, *tangents: Any) -> tuple[Any, ...]:
        by: Differentiable = ctx.by
        wrt = tuple(place for place, tangent in enumerate(tangents) if tangent is not None)
        if not wrt or not by.gradients.floating:
            return (None,) * len(by.function.program.outputs)
        given = iter(ctx.saved_tensors)
        values = [next(given) if number is None else number for number in ctx.given]
        found = by.derived.tangents(wrt).results(values, [tangents[place] for place in wrt])
        return tuple(found)

    @staticmethod
    def vmap(
        _info: Any, in_dims: tuple[Any, ...], by: Differentiable, *inputs: Any
    ) -> tuple[Any, Any]:
        batch = by.derived.batched(in_dims[1:])
        return batch.results(inputs), tuple(0 if one else None for one in batch.batched)


def _for_batches(by: Differentiable, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The results of a call with batches of autograd's own, as `vectorize` and `is_grads_batched`
    make them, which are nested by levels."""
    level = batch_level()
    while not any(has_batch(value, level) for value in inputs):
        level -= 1
    axes = tuple(0 if has_batch(value, level) else None for value in inputs)
    batch = by.derived.batched(axes)
    pairs = zip(inputs, axes, strict=True)
    found = batch.results([v if axis is None else without_batch(v, level) for v, axis in pairs])
    results = zip(found, batch.batched, strict=True)
    return tuple(with_batch(result, level) if one else result for result, one in results)
