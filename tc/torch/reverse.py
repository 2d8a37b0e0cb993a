"""Reverse mode of eager calls: a function of autograd that keeps what the gradient reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from tc.derivatives.gradients import COTANGENT, INPUT, Gradient, Gradients
from tc.function import Compiled
from tc.torch.derived_functions import Derived
from tc.torch.modes import PLAIN, records_alone

_NAME = "tc.torch"


class Differentiable:
    """Serves the calls of a function some of whose tensors require gradients, and leaves the others
    to what serves them as ever."""

    def __init__(self, function: Compiled) -> None:
        self.function = function
        self.gradients = Gradients(function)
        self.derived = Derived(function, self.gradients.floating)
        program = function.program
        self.inputs = len(program.inputs)
        floating = self.gradients.floating
        self.scalars = any(not parameter.rank for parameter in function.signature.inputs)
        self.known: dict[tuple[bool, ...], Gradient] = {}
        self.whole = [n for n in range(len(program.outputs)) if n not in floating]

    def serve(self, inputs: tuple[Any, ...], outputs: Any) -> Any:
        """As an entry of the function does."""
        if torch.is_grad_enabled():
            for value in inputs:
                if type(value) in PLAIN and value.requires_grad:
                    if outputs is None and len(inputs) == self.inputs and records_alone(inputs):
                        return self.call(inputs)
                    return None
        usual = self.function.usual
        return None if usual is None else usual.serve(inputs, outputs)

    def call(self, inputs: tuple[Any, ...]) -> Any:
        """The results of a call that gradients are recorded of, where nothing else is done."""
        if not self.gradients.floating:
            with torch.no_grad():
                return self.function(*inputs)
        found = _apply(self, *inputs)
        result = self.function.result
        return found if result is None else tuple.__new__(result, found)

    def run(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The results, where torch records nothing."""
        usual = self.function.usual
        found = None if usual is None else usual.serve(inputs, None)
        if found is None:
            found = self.function.call(inputs, None, numbers=True)
        return (found,) if self.function.result is None else found


def differentiable(function: Compiled) -> Differentiable:
    """What torch keeps of a function."""
    found: Differentiable = function.fronts.get(_NAME) or function.fronts.setdefault(
        _NAME, Differentiable(function)
    )
    return found


class Reverse(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
    """A call, and the call of its gradient: that is a function of tc, too, and has gradients."""

    @staticmethod
    def forward(ctx: Any, by: Differentiable, *inputs: Any) -> Any:
        results = by.run(inputs)
        keep(ctx, by, inputs, results)
        return results[0] if by.function.result is None else tuple(results)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return gradients_of(ctx, cotangents)


_apply = super(torch.autograd.Function, Reverse).apply
"""`Reverse.apply`, without asking for transforms."""


def keep(ctx: Any, by: Differentiable, inputs: Sequence[Any], results: Sequence[Any]) -> None:
    """Has autograd keep what the gradient of a call reads, where one is needed."""
    needed = ctx.needs_input_grad
    gradient = by.known.get(needed)
    if gradient is None:
        wrt = tuple(place for place in range(len(inputs)) if needed[place + 1])
        if not wrt:
            return
        gradient = by.gradients.of(wrt, inputs)
        if gradient.sizes is None:
            by.known[needed] = gradient
    kept = [inputs[at] if kind == INPUT else results[at] for kind, at in gradient.kept]
    ctx.numbers = None
    if by.scalars:
        ctx.numbers = [None if isinstance(value, torch.Tensor) else value for value in kept]
        kept = [value for value in kept if isinstance(value, torch.Tensor)]
    ctx.save_for_backward(*kept)
    ctx.set_materialize_grads(False)
    if by.whole:
        ctx.mark_non_differentiable(*(results[place] for place in by.whole))
    ctx.by, ctx.gradient = by, gradient
    if len(results) > 1:
        ctx.shapes = [(result.shape, result.dtype, result.device) for result in results]


def gradients_of(ctx: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
    """The gradient of each input of a call that was kept, and of what stands before them: None."""
    by, gradients = ctx.by, ctx.by.gradients
    unused = tuple(place for place in gradients.floating if is_zero(cotangents[place]))
    found: list[Any] = [None] * (by.inputs + 1)
    if len(unused) == len(gradients.floating):
        return tuple(found)
    saved: Iterable[Any] = ctx.saved_tensors
    if ctx.numbers is not None:
        given = iter(saved)
        saved = [next(given) if number is None else number for number in ctx.numbers]
    values = dict(zip(ctx.gradient.kept, saved, strict=True))
    for place in gradients.floating:
        is_unused = place in unused
        values[COTANGENT, place] = zeros(*ctx.shapes[place]) if is_unused else cotangents[place]
    gradient = gradients.without(ctx.gradient, unused)
    for place, result in zip(gradient.wrt, gradient.results(values), strict=True):
        found[place + 1] = result
    return tuple(found)


def is_zero(derivative: Any) -> bool:
    """Whether torch gives nothing, or a tensor without memory, in the place of zeros."""
    return derivative is None or derivative._is_zerotensor()


def zeros(shape: Any, dtype: Any, device: Any) -> Any:
    """Zeros that take no memory."""
    return torch.zeros((), dtype=dtype, device=device).expand(shape)
