"""Reverse mode of eager calls: a function of autograd that keeps what the gradient reads. The
functions derived from one function, for tangents and for batches, are made once each
(`Derived`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import torch

from tc.derivatives.followers import BatchAxes, Followers
from tc.derivatives.gradients import COTANGENT, INPUT, Gradient, Gradients, Taken
from tc.function import Compiled
from tc.runtime.arguments import Signature
from tc.torch.modes import PLAIN, computes_alone, has_function_mode, records_alone
from tc.torch.output_shapes import check_tensor

DETACHED = "{}.detach()"
"""How torch has nothing flow into a tensor."""


@dataclass(frozen=True, slots=True)
class Batched:
    """A function for a batch of calls of `each` along these axes of inputs; of its results, those
    in `batched` have the batch as their first dimension."""

    each: Signature
    function: Compiled
    axes: BatchAxes
    batched: tuple[bool, ...]

    def check(self, values: Mapping[Taken, Any]) -> None:
        """InputError where the elements of a batch are none that a call takes."""
        for place, (parameter, axis) in enumerate(zip(self.each.inputs, self.axes, strict=True)):
            if axis is not None:
                check_tensor(parameter, values[INPUT, place], batch=axis)


@dataclass(frozen=True, slots=True)
class Tangents:
    """A function of inputs and their tangents that gives outputs and tangents; `floating` are the
    places of the outputs that have a tangent."""

    function: Compiled
    outputs: int
    first: int
    floating: tuple[int, ...]

    def of(self, results: Sequence[Any]) -> list[Any]:
        """The tangent of each output; None for an output that has none."""
        found: list[Any] = [None] * self.outputs
        for place, tangent in zip(self.floating, results[self.first :], strict=True):
            found[place] = tangent
        return found


class Derived:
    """The functions derived from one function."""

    def __init__(self, function: Compiled, floating: tuple[int, ...]) -> None:
        self.function = function
        self.floating = floating
        self.followers = Followers(function, DETACHED)

    def tangents(self, wrt: tuple[int, ...]) -> Tangents:
        """What gives the tangents of the outputs, where inputs at these places have one.
        GradError."""
        found = self.followers.tangents(wrt)
        outputs = len(self.function.program.outputs)
        return Tangents(found.function, outputs, found.first, self.floating)

    def batched(self, axes: BatchAxes) -> Batched:
        """The function of a batch. GradError."""
        found = self.followers.batched(axes)
        return Batched(self.function._signature, found.function, axes, found.batched)


_NAME = "tc.torch"
_is_grad_enabled = torch.is_grad_enabled


class Differentiable:
    """Serves the calls of a function some of whose tensors require gradients, and leaves the others
    to what serves them as ever."""

    def __init__(self, function: Compiled) -> None:
        self.function = function
        self.gradients = Gradients(function, DETACHED)
        self.derived = Derived(function, self.gradients.floating)
        program = function.program
        self.inputs = len(program.inputs)
        floating = self.gradients.floating
        self.scalars = any(not parameter.rank for parameter in function._signature.inputs)
        self.learns = bool(floating)
        self.plain = not self.scalars and function._result_type is None
        self.known: dict[tuple[bool, ...], _Known] = {}
        self.apply = applied(type(program.name, (Reverse,), {"__module__": __name__}))
        self.whole = [n for n in range(len(program.outputs)) if n not in floating]

    def serve(self, inputs: tuple[Any, ...], outputs: Any) -> Any:
        """As an entry of the function does."""
        cache = self.function._inline_cache
        if cache is None:
            return None
        if _is_grad_enabled():
            for value in inputs:
                if type(value) in PLAIN and value.requires_grad:
                    break
            else:
                return cache.serve(inputs, outputs)
            if outputs is not None or len(inputs) != self.inputs or not computes_alone():
                return None
            if not self.learns:
                with torch.no_grad():
                    return cache.serve(inputs, None)
            try:  # what runs within looks at the tensors, and nothing before it
                found = self.apply(self, *inputs)
            except _MoreAskedError:
                return None
            result = self.function._result_type
            return found if result is None else tuple.__new__(result, found)
        return cache.serve(inputs, outputs)

    def call(self, inputs: tuple[Any, ...]) -> Any:
        """The results of a call that gradients are recorded of, where nothing else is done."""
        if not self.gradients.floating:
            with torch.no_grad():
                return self.function(*inputs)
        found = self.apply(self, *inputs)
        result = self.function._result_type
        return found if result is None else tuple.__new__(result, found)

    def run(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """The results, where torch records nothing."""
        found = self.served(inputs)
        if found is None:
            found = self.function._call(inputs, None, numbers=True)
        return (found,) if self.function._result_type is None else found

    def served(self, inputs: tuple[Any, ...]) -> Any:
        """The results of a call that is like the last one, from the inline cache; None for another
        call."""
        cache = self.function._inline_cache
        return None if cache is None else cache.serve(inputs, None)


class _MoreAskedError(Exception):
    """Torch does more with the inputs of a call than to compute and to record. Raised before
    anything has run, and never seen by users."""


@dataclass(frozen=True, slots=True)
class _Known:
    """The gradient for the inputs that need one; `choose` picks from inputs and results the values
    that the gradient reads. `kept` is what a call without numbers keeps beside these values, if the
    call has one result."""

    gradient: Gradient
    choose: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    kept: tuple[Any, ...]


def _choice(places: Sequence[int]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """A function that picks the values at these places."""
    if len(places) > 1:
        return itemgetter(*places)  # gives a tuple for more than one, and in less time
    return lambda values: tuple(values[place] for place in places)


def differentiable(function: Compiled) -> Differentiable:
    """What torch keeps of a function."""
    adapters = function._framework_adapters
    found: Differentiable = adapters.get(_NAME) or adapters.setdefault(
        _NAME, Differentiable(function)
    )
    return found


class Reverse(torch.autograd.Function):  # type: ignore[misc]  # torch has no types here
    """A call, and the call of its gradient: that is a function of tc, too, and has gradients."""

    @staticmethod
    def forward(ctx: Any, by: Differentiable, *inputs: Any) -> Any:
        cache = None if has_function_mode() else by.function._inline_cache
        fast_path = getattr(cache, "fast_path", None)
        found = by.served(inputs) if fast_path is None else fast_path(inputs)
        if found is None:
            if not records_alone(inputs):
                raise _MoreAskedError
            found = by.function._call(inputs, None, numbers=True)
        elif by.plain:
            known = by.known.get(ctx.needs_input_grad)
            if known is not None:  # as `keep`, in less time
                ctx.save_for_backward(*known.choose((*inputs, found)))
                ctx.kept = known.kept
                return found
        single = by.function._result_type is None
        keep(ctx, by, inputs, (found,) if single else found)
        return found if single else tuple(found)

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        return gradients_of(ctx, cotangents)


def applied(node: type[Reverse]) -> Callable[..., Any]:
    """The `apply` of a class of autograd, without a test for transforms. Torch names a recorded
    node after its class, so each function has a class with the name of its def."""
    found: Callable[..., Any] = super(torch.autograd.Function, node).apply
    return found


def keep(ctx: Any, by: Differentiable, inputs: tuple[Any, ...], results: tuple[Any, ...]) -> None:
    """Has autograd keep what the gradient of a call reads, where one is needed."""
    needed = ctx.needs_input_grad
    known = by.known.get(needed)
    if known is None:
        wrt = tuple(place for place in range(len(inputs)) if needed[place + 1])
        if not wrt:
            return
        gradient = by.gradients.of(wrt, inputs)
        places = [at if kind == INPUT else len(inputs) + at for kind, at in gradient.kept]
        known = _Known(gradient, _choice(places), (by, gradient, None, None))
        if known.gradient.sizes is None:
            by.known[needed] = known
    kept = list(known.choose((*inputs, *results)))
    numbers = shapes = None
    if by.scalars:
        numbers = [None if isinstance(value, torch.Tensor) else value for value in kept]
        kept = [value for value in kept if isinstance(value, torch.Tensor)]
    ctx.save_for_backward(*kept)
    if len(results) > 1:
        ctx.set_materialize_grads(False)
        shapes = [(result.shape, result.dtype, result.device) for result in results]
        if by.whole:
            ctx.mark_non_differentiable(*(results[place] for place in by.whole))
    ctx.kept = by, known.gradient, numbers, shapes  # one attribute: each takes its time


def gradients_of(ctx: Any, cotangents: Sequence[Any]) -> tuple[Any, ...]:
    """The gradient of each input of a call that was kept, and of what stands before them: None."""
    by, whole, numbers, shapes = ctx.kept
    gradients = by.gradients
    unused = tuple(place for place in gradients.floating if is_zero(cotangents[place]))
    found: list[Any] = [None] * (by.inputs + 1)
    if len(unused) == len(gradients.floating):
        return tuple(found)
    saved: Iterable[Any] = ctx.saved_tensors
    if numbers is not None:
        given = iter(saved)
        saved = [next(given) if number is None else number for number in numbers]
    values = dict(zip(whole.kept, saved, strict=True))
    for place in gradients.floating:
        is_unused = place in unused
        values[COTANGENT, place] = zeros(*shapes[place]) if is_unused else cotangents[place]
    gradient = gradients.without(whole, unused)
    for place, result in zip(gradient.wrt, gradient.results(values), strict=True):
        found[place + 1] = result
    return tuple(found)


def is_zero(derivative: Any) -> bool:
    """Whether torch gives nothing, or a tensor without memory, in the place of zeros."""
    return derivative is None or derivative._is_zerotensor()


def zeros(shape: Any, dtype: Any, device: Any) -> Any:
    """Zeros that take no memory."""
    return torch.zeros((), dtype=dtype, device=device).expand(shape)
