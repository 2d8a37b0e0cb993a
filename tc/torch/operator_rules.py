"""The rules by which torch derives gradients, tangents and batches of the operator `tc::run`. The
results are calls of `tc::run` too, so that transforms may be nested and derivatives be of any
order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from tc.derivatives.gradients import COTANGENT, INPUT, Taken
from tc.derivatives.text_functions import texts_of
from tc.torch.modes import (
    PRIVATE,
    SingleLevelFunction,
    as_around,
    batch_level,
    has_batch,
    has_numbers_alone,
    is_recorded,
    one_level,
    tangents_around,
    with_batch,
    without_batch,
    without_tangent,
)
from tc.torch.operation import TextOperation, operation_of, operator, run
from tc.torch.reverse import is_zero, zeros


def recorded(keys: Any, ins: list[Any], *texts: str) -> list[Any]:
    """The results of a call within one transform, recorded for gradients or computed with tangents
    where inputs ask for either."""
    if not is_recorded(ins) and has_numbers_alone(ins):
        return run(operation_of(*texts), ins)  # what is below would come to the same, later
    below = keys & PRIVATE.after_autograd

    def call(*tensors: Any) -> tuple[Any, ...]:
        with PRIVATE.below_autograd():
            return tuple(torch.ops.tc.run.default.redispatch(below, list(tensors), *texts))

    if not is_recorded(ins):
        return list(call(*ins))
    call = as_around(call)
    with one_level():
        operation = operation_of(*texts)
        return list(node_of(operation).apply(call, operation, *ins))


def node_of(operation: TextOperation) -> Any:
    """The class of a node, of the name of the def: torch calls nodes after their classes."""
    if operation.node is None:
        name = operation.function.program.name
        operation.node = type(name, (Recorded,), {"__module__": __name__})
    return operation.node


class Recorded(SingleLevelFunction):  # type: ignore[misc]  # torch has no types here
    """A call of the operator as a node of what autograd records, within one transform: from 2.14 on
    a `torch.autograd.Function` looks for all transforms itself."""

    @staticmethod
    def forward(call: Callable[..., Any], _operation: TextOperation, *ins: Any) -> Any:
        return call(*ins)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, ...]) -> None:
        _, operation, *ins = inputs
        ctx.set_materialize_grads(False)
        ctx.mark_non_differentiable(*(output[place] for place in operation.by.whole))
        ctx.save_for_forward(*ins)
        ctx.operation, gradients = operation, operation.by.gradients
        needed = zip(operation.places, ctx.needs_input_grad[2:], strict=True)
        wrt = tuple(place for place, need in needed if need)
        if not wrt or not gradients.floating:
            return
        ctx.gradient = gradients.of(wrt, operation.inputs(ins))
        values = operation.values(ins)
        kept = [taken for taken in ctx.gradient.kept if taken[0] != INPUT or taken in values]
        ctx.kept = kept
        ctx.save_for_backward(*(values[t] if t in values else output[t[1]] for t in kept))
        ctx.shapes = [(result.shape, result.dtype, result.device) for result in output]

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> tuple[Any, ...]:
        operation: TextOperation = ctx.operation
        gradients = operation.by.gradients
        unused = tuple(at for at in gradients.floating if is_zero(cotangents[at]))
        found: dict[int, Any] = {}
        if len(unused) < len(gradients.floating):
            values: dict[Taken, Any] = dict(zip(ctx.kept, ctx.saved_tensors, strict=True))
            for at in gradients.floating:
                is_unused = at in unused
                values[COTANGENT, at] = zeros(*ctx.shapes[at]) if is_unused else cotangents[at]
            gradient = gradients.without(ctx.gradient, unused)
            tensors = [values[taken] for taken in gradient.arguments if taken in values]
            numbers = operation.named(at for kind, at in gradient.arguments if kind == INPUT)
            results = operator(tensors, texts_of(gradient.function, numbers))
            found = dict(zip(gradient.wrt, results, strict=True))
        return (None, None, *(found.get(at) for at in operation.places))

    @staticmethod
    def jvp(ctx: Any, _call: None, _operation: None, *tangents: Any) -> tuple[Any, ...]:
        operation: TextOperation = ctx.operation
        pairs = zip(operation.places, tangents, strict=True)
        given = {place: tangent for place, tangent in pairs if not is_zero(tangent)}
        outputs = operation.function.program.outputs
        if not given or not operation.by.gradients.floating:
            return (None,) * len(outputs)
        derived = operation.by.derived.tangents(tuple(given))
        texts = texts_of(derived.function, operation.named(operation.numbers))
        with tangents_around():
            tensors = [*map(without_tangent, ctx.saved_tensors), *given.values()]
            return tuple(derived.of(operator(tensors, texts)))


# --- batches --------------------------------------------------------------------------------------


def of_batches(_info: Any, in_dims: Any, ins: list[Any], *texts: str) -> tuple[list[Any], Any]:
    """The results for a batch, and the dimension of the batch in each."""
    results, batched = _batch(operation_of(*texts), ins, in_dims[0])
    return results, [0 if one else None for one in batched]


def of_old_batches(ins: list[Any], *texts: str) -> list[Any]:
    """The same for the batches that autograd makes itself, as for `vectorize` and
    `is_grads_batched`: these are nested by levels."""
    level = batch_level()
    while not any(has_batch(tensor, level) for tensor in ins):
        level -= 1
    axes = [0 if has_batch(tensor, level) else None for tensor in ins]
    pairs = zip(ins, axes, strict=True)
    tensors = [t if axis is None else without_batch(t, level) for t, axis in pairs]
    results, batched = _batch(operation_of(*texts), tensors, axes)
    found = zip(results, batched, strict=True)
    return [with_batch(result, level) if one else result for result, one in found]


def _batch(
    operation: TextOperation, ins: Sequence[Any], axes: Sequence[int | None]
) -> tuple[list[Any], tuple[bool, ...]]:
    """The results, and which of them have the batch as their first dimension."""
    along = dict(zip(operation.places, axes, strict=True))
    derived = operation.by.derived.batched(tuple(map(along.get, range(operation.by.inputs))))
    derived.check(operation.values(ins))
    texts = texts_of(derived.function, operation.named(operation.numbers))
    return operator(ins, texts), derived.batched
