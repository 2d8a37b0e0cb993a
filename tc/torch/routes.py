"""The ways that a call goes where torch asks for more than numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
    function: Compiled, inputs: tuple[Any, ...], outputs: Any, named: Mapping[str, Any]
) -> Any:
    """A call as torch.compile follows it. A function of `tc.sac` is called by Python, as the shapes
    of its inputs say which def serves the call."""
    if outputs is not None or not isinstance(function, Compiled):
        return _untraced(function, inputs, outputs, named)
    few = len(inputs) != len(function._signature.inputs)
    if named or few or (len(inputs) == 1 and isinstance(inputs[0], (list, tuple, dict))):
        inputs = bind_call(function._signature, inputs, named)
    return _by_operator(function, inputs)


def _untraced(
    function: Compiled, inputs: tuple[Any, ...], outputs: Any, named: Mapping[str, Any]
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
