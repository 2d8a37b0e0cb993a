"""The ways that a call goes where torch asks for more than numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch

from tc.errors import InputError
from tc.function import Compiled
from tc.runtime.arguments import bind_call, fault
from tc.runtime.arrays.torch_tensors import never_served
from tc.torch.modes import outside, records_alone
from tc.torch.operator import by_operator
from tc.torch.reverse import differentiable


def call(function: Compiled, inputs: tuple[Any, ...], outputs: Any, refused: InputError) -> Any:
    """The results of a call that the usual way has refused, for this reason, as torch asks for
    more than numbers."""
    if outputs is not None:
        raise InputError(
            f"{refused.cause}: what is written to outputs= has no gradients",
            rule="R4",
            span=refused.span,
            repair=f"{refused.repair}, or {function._signature.call_text()}",
        )
    inputs = tuple(map(outside, inputs))
    for parameter, value in zip(function._signature.inputs, inputs, strict=True):
        refusal = never_served(torch, value) if isinstance(value, torch.Tensor) else None
        if refusal is not None:
            raise fault(parameter, refusal.cause, refusal.repair)
    if not records_alone(inputs):
        return _by_operator(function, inputs)
    by = differentiable(function)
    results = by.call(inputs)
    function._install_dispatcher(by)
    return results


def traced(
    function: Compiled | ShapeSpecialised,
    inputs: tuple[Any, ...],
    outputs: Any,
    named: Mapping[str, Any],
) -> Any:
    """A call as torch.compile follows it. A call of a function that has a def for each shape is one
    of the def for the shapes of these inputs, which graphs are guarded by; where elements decide
    the def, Python calls the function."""
    if outputs is not None:
        return _untraced(function, inputs, outputs, named)
    if isinstance(function, Compiled):
        few = len(inputs) != len(function._signature.inputs)
        if named or few or (len(inputs) == 1 and isinstance(inputs[0], (list, tuple, dict))):
            inputs = bind_call(function._signature, inputs, named)
        return _by_operator(function, inputs)
    ordered = _ordered(function.input_names, inputs, named)
    told = None if ordered is None else _told(ordered)
    found = "" if told is None else function.prepare_traced(function.identity, told)
    if ordered is None or not found:
        return _untraced(function, inputs, outputs, named)
    return _by_operator(getattr(function.traced_defs, found), tuple(ordered))


class ShapeSpecialised(Protocol):
    """A function that has a def for each set of types and shapes of its inputs."""

    identity: str
    """What no other function has: graphs are guarded by it."""
    input_names: Sequence[str]
    traced_defs: Any
    """An object that has the defs that graphs call as attributes, which graphs are guarded by."""

    def prepare_traced(self, identity: str, told: tuple[Any, ...]) -> str:
        """The attribute of `traced_defs` for inputs of which the shape and the type are told, or,
        of a number, its value; none where elements decide the def, or none serves. torch.compile
        runs this where it follows a call, and takes the result as a constant."""

    def __call__(self, /, *inputs: Any, outputs: Any = None, **named: Any) -> Any:
        """The results."""


def _ordered(
    names: Sequence[str], inputs: tuple[Any, ...], named: Mapping[str, Any]
) -> list[Any] | None:
    """The inputs in order; None for a call that is not of all inputs one by one, or of a dict."""
    if len(inputs) == 1 and not named:
        (only,) = inputs
        if isinstance(only, dict):
            inputs, named = (), only
    if len(inputs) + len(named) != len(names):
        return None
    found = list(inputs)
    for name in names[len(inputs) :]:
        if name not in named:
            return None
        found.append(named[name])
    return found


def _told(inputs: Sequence[Any]) -> tuple[Any, ...] | None:
    """What is told of inputs (`ShapeSpecialised`); None where one is neither tensor nor number."""
    found: list[Any] = []
    for value in inputs:
        if isinstance(value, torch.Tensor):
            found.append((tuple([_fixed(n) for n in value.shape]), str(value.dtype)))
        elif isinstance(value, (bool, float)):
            found.append(value)
        elif isinstance(value, int):
            found.append(_fixed(value))
        else:
            return None
    return tuple(found)


def _fixed(number: int) -> int:
    """The integer, which torch.compile takes as a number from here on, where it was a symbol."""
    return range(number, number + 1)[0]


def _untraced(
    function: Compiled | ShapeSpecialised,
    inputs: tuple[Any, ...],
    outputs: Any,
    named: Mapping[str, Any],
) -> Any:
    return function(*inputs, outputs=outputs, **named)


try:
    _untraced = torch.compiler.disable(
        _untraced, reason="outputs= of tc, and a choice of a def, are no part of a graph"
    )
except TypeError:  # an older torch takes no reason
    _untraced = torch.compiler.disable(_untraced)


def _by_operator(function: Compiled, inputs: tuple[Any, ...]) -> Any:
    results = by_operator(function, inputs)
    return results[0] if function._result_type is None else function._result_type(*results)
