"""A program as a layer: a module of torch that holds some of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from tc.api import compile
from tc.frontend.given_text import Text
from tc.function import Compiled
from tc.runtime.arguments import NUMBERS, Parameter, bind_call, read_number
from tc.torch.autocasting import cast, dtype_of
from tc.torch.first_values import first_values
from tc.torch.held_inputs import (
    HeldShapes,
    check_sizes,
    described,
    is_another_tensor,
    is_no_tensor,
    is_taken,
    is_unknown,
    shape_of,
)


class Layer(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A program as a module of torch, `tc.torch.Module`: the inputs that are named belong to the
    module.

    An input is given as a tensor, or as the shape of a parameter. A parameter that is given by its
    shape starts as in torch's own layers: uniform, by the number of terms, where the program sums
    over the parameter; normal where the program gathers from it; otherwise with 1 for a factor and
    0 for a term. A float is a parameter of rank 0; tensors of integers are buffers, and integers
    constants. The call takes the other inputs, in order or by name. `src` is a program as for
    `tc.compile`, or a compiled function, which is the attribute `function`. With
    `autocast="float32"` the call takes part in `torch.autocast`, as `tc.torch.autocast` has it for
    functions; where the program has an input `autocast`, the keyword gives that input.

    Raises InputError for names and shapes that do not fit, and the errors of `tc.compile`.

    >>> import tc.torch, torch
    >>> linear = tc.torch.Module(
    ...     "def linear(float(N,I) x, float(O,I) W, float(O) b) -> (y) {"
    ...     " y(n,o) = b(o)  y(n,o) += x(n,i) * W(o,i) }", W=(2, 3), b=(2,))
    >>> linear
    Module(linear(x), W=float32(2, 3), b=float32(2))
    >>> [name for name, _ in linear.named_parameters()], linear(torch.ones(5, 3)).shape
    (['W', 'b'], torch.Size([5, 2]))
    """

    def __init__(self, src: Text | Compiled, /, **parameters: Any) -> None:
        super().__init__()
        function = src if isinstance(src, Compiled) else compile(src)
        self.function = function
        known = {p.name: p for p in function._signature.inputs}
        self._cast_to = None
        if "autocast" not in known and parameters.get("autocast") is not None:
            self._cast_to = dtype_of(parameters["autocast"])
        if "autocast" not in known:
            parameters.pop("autocast", None)
        shapes: dict[str, tuple[int, ...]] = {}
        self._started: dict[str, Any] = {}
        for name, value in parameters.items():
            if name not in known:
                raise is_unknown(function, name, value, parameters)
            shape = self._take(known[name], value, shapes)
            if shape is not None:
                shapes[name] = shape
        check_sizes(function.program, shapes)
        self._taken = tuple(p.name for p in function._signature.inputs if p.name not in parameters)
        self.reset_parameters()

    def _take(self, parameter: Parameter, value: Any, shapes: HeldShapes) -> tuple[int, ...] | None:
        """Keeps the value of an input, and returns its shape; None for a constant. `shapes` are the
        shapes of the inputs before."""
        program = self.function.program
        name, dtype = parameter.name, getattr(torch, parameter.dtype.name)
        is_float = parameter.dtype.is_float
        if hasattr(self, name):
            raise is_taken(program, parameter)
        if isinstance(value, NUMBERS) and parameter.rank == 0:
            number = read_number(parameter, value)
            if not is_float:
                setattr(self, name, number.item())
                return None
            value = torch.tensor(number.item(), dtype=dtype)
        elif isinstance(value, tuple) and is_float:
            value = torch.empty(shape_of(program, parameter, value, shapes), dtype=dtype)
            self._started[name] = first_values(program, name)
        elif not isinstance(value, torch.Tensor):
            raise is_no_tensor(program, parameter, value, shapes)
        if value.dtype != dtype or value.dim() != parameter.rank:
            raise is_another_tensor(parameter, value)
        if is_float:
            given = isinstance(value, torch.nn.Parameter)
            self.register_parameter(name, value if given else torch.nn.Parameter(value))
        else:
            self.register_buffer(name, value)
        return tuple(value.shape)

    def reset_parameters(self) -> None:
        """Gives parameters that were given by their shapes values to start from."""
        with torch.no_grad():
            for name, start in self._started.items():
                start(getattr(self, name))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The results for the other inputs."""
        if named or len(inputs) != len(self._taken):
            inputs = self._bound(inputs, named)
        given = dict(zip(self._taken, inputs, strict=True))
        names = self.function.program.inputs
        values = [given[n] if n in given else getattr(self, n) for n in names]
        if self._cast_to is not None:
            values = [cast(value, self._cast_to) for value in values]
        return self.function(*values)

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        signature = self.function._signature
        rest = tuple(p for p in signature.inputs if p.name in self._taken)
        return bind_call(replace(signature, inputs=rest), inputs, named)

    def extra_repr(self) -> str:
        signature = self.function._signature
        held = [p for p in signature.inputs if p.name not in self._taken]
        parts = [f"{p.name}={described(getattr(self, p.name))}" for p in held]
        if self._cast_to is not None:
            parts.append(f"autocast={str(self._cast_to).removeprefix('torch.')!r}")
        return ", ".join([f"{signature.name}({', '.join(self._taken)})", *parts])


Layer.__name__ = Layer.__qualname__ = "Module"  # as users know it
Layer.__module__ = "tc.torch"
