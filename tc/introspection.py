"""How functions present themselves to Python's tools."""

from __future__ import annotations

import keyword
from inspect import Parameter, Signature
from typing import Any

from tc.runtime.arguments import Signature as CallSignature


class PerInstance:
    """An attribute that instances make when they are asked, and that their class has not: what
    Python looks for on both, as `__signature__`."""

    def __init__(self, method: str) -> None:
        self._method = method

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None:
            raise AttributeError(self._method)
        return getattr(instance, self._method)()


def python_signature(signature: CallSignature) -> Signature:
    """The signature of a function as `inspect.signature` gives it.

    Inputs that Python cannot spell can only be given by position; they get "_" in front. The
    annotations are the declarations of the text.
    """
    spelled = [_spelled(p.name) for p in signature.inputs]
    by_name = Parameter.POSITIONAL_OR_KEYWORD
    last = max((i for i, p in enumerate(signature.inputs) if p.name != spelled[i]), default=-1)
    parameters = [
        Parameter(
            name, Parameter.POSITIONAL_ONLY if place <= last else by_name, annotation=parameter.text
        )
        for place, (name, parameter) in enumerate(zip(spelled, signature.inputs, strict=True))
    ]
    if len({*spelled}) < len(spelled):
        parameters = [Parameter("inputs", Parameter.VAR_POSITIONAL)]
    if "outputs" not in spelled:
        parameters.append(Parameter("outputs", Parameter.KEYWORD_ONLY, default=None))
    results = ", ".join(p.text for p in signature.outputs)
    return Signature(parameters, return_annotation=results)


def _spelled(name: str) -> str:
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"_{name}"
