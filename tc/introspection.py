"""How functions present themselves to Python's tools, and to torch.compile."""

from __future__ import annotations

import keyword
import sys
from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any, TypeVar

import numpy as np

from tc.process.uninterrupted import load
from tc.runtime.arguments import Signature as CallSignature
from tc.runtime.arguments import dtype_text
from tc.runtime.arrays.torch_private import private_part

T = TypeVar("T", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """The `shape` and the `dtype` of an output, as `Compiled.infer` gives them.

    >>> import tc
    >>> f = tc.compile("def f(float(N,M) x) -> (y) { y(i,j) = 2 * x(i,j) }")
    >>> print(f.infer(N=2, M=3)["y"])
    float32(2, 3)
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    def __str__(self) -> str:
        return f"{dtype_text(self.dtype)}({', '.join(map(str, self.shape))})"


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
    spelled = [python_name(p.name) for p in signature.inputs]
    by_name = Parameter.POSITIONAL_OR_KEYWORD
    last = max((i for i, p in enumerate(signature.inputs) if p.name != spelled[i]), default=-1)
    parameters = [
        Parameter(
            name,
            Parameter.POSITIONAL_ONLY if place <= last else by_name,
            annotation=parameter.text,
            default=Parameter.empty if parameter.default is None else parameter.default,
        )
        for place, (name, parameter) in enumerate(zip(spelled, signature.inputs, strict=True))
    ]
    if len({*spelled}) < len(spelled):
        parameters = [Parameter("inputs", Parameter.VAR_POSITIONAL)]
    if "outputs" not in spelled:
        parameters.append(Parameter("outputs", Parameter.KEYWORD_ONLY, default=None))
    results = ", ".join(p.text for p in signature.outputs)
    return Signature(parameters, return_annotation=results)


def python_name(name: str) -> str:
    """A name as Python takes it: a keyword, or what is no identifier, has `_` in front."""
    return name if name.isidentifier() and not keyword.iskeyword(name) else f"_{name}"


# --- torch.compile --------------------------------------------------------------------------------

TORCH = "tc.torch.routes"
"""The module that serves calls of which torch asks for more than numbers."""

_ROUTES: list[Any] = []
_HIDDEN: set[Any] = set()


def followed_by_torch(call: T) -> T:
    """Has torch.compile, where it meets a call of a function, follow `traced` of the routes in its
    place. Other calls do not notice: it is an attribute that only torch reads."""

    def follow(function: Any, /, *inputs: Any, outputs: Any = None, **named: Any) -> Any:
        _load_routes()
        return _ROUTES[0].traced(function, inputs, outputs, named)

    call._torchdynamo_inline = follow  # type: ignore[attr-defined]
    return call


def _load_routes() -> None:
    """Run by torch.compile while it follows a call, which then finds the routes where they lie."""
    if not _ROUTES:
        _ROUTES.append(load(TORCH))


_load_routes._dynamo_marked_constant = True  # type: ignore[attr-defined]


def hide_from_torch(*functions: Callable[..., Any]) -> None:
    """Has torch.compile leave calls of these functions, and all calls within, to Python, where
    torch.compile meets them outside of the code that it follows."""
    torch = sys.modules.get("torch")
    if torch is None or _HIDDEN.issuperset(functions):
        return
    try:
        frames = private_part(torch, "eval_frame")
        skip = frames._FrameAction.SKIP
        for function in functions:
            how = frames._FrameExecStrategy(skip, skip)
            frames.set_code_exec_strategy(function.__code__, how)
        _HIDDEN.update(functions)
    except AttributeError:  # of another version, or of a torch half imported
        return
