"""A program as a layer: a module of torch that holds some of its inputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from tc.api import compile
from tc.errors import InputError
from tc.frontend.given_text import Text
from tc.function import Compiled
from tc.runtime.arguments import NUMBERS, Parameter, bind_call, fault, read_number
from tc.semantics.program import Literal, Program, Size
from tc.semantics.suggest import nearest
from tc.torch.first_values import first_values


class Layer(torch.nn.Module):  # type: ignore[misc]  # torch has no types here
    """A program as a module, `tc.torch.Module`: the inputs that are named belong to it.

    An input is given as a tensor, or as the shape of a parameter with values to start from: as of
    torch's own layers for what is summed over (uniform, by the number of terms) and for what is
    gathered from (normal), else 1 for a factor and 0 for a term. A float is a parameter of rank 0;
    tensors of integers are buffers, and integers constants. The call takes the other inputs, in
    order or by name. `src` is a program as for `tc.compile`, or a function that this has made.

    Raises InputError for names and shapes that do not fit, and what `tc.compile` raises.

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
        known = {p.name: p for p in function.signature.inputs}
        shapes: dict[str, tuple[int, ...]] = {}
        self.started: dict[str, Any] = {}
        for name, value in parameters.items():
            if name not in known:
                raise _unknown(name, function)
            shape = self._take(known[name], value)
            if shape is not None:
                shapes[name] = shape
        _check_sizes(function.program, shapes)
        self.taken = tuple(p.name for p in function.signature.inputs if p.name not in parameters)
        self.reset_parameters()

    def _take(self, parameter: Parameter, value: Any) -> tuple[int, ...] | None:
        """Keeps the value of an input; its shape, unless it is a constant."""
        name, dtype = parameter.name, getattr(torch, parameter.dtype.name)
        is_float = parameter.dtype.is_float
        if hasattr(self, name):
            raise fault(parameter, "is the name of what modules of torch have", "another name")
        if isinstance(value, NUMBERS) and parameter.rank == 0:
            number = read_number(parameter, value)
            if not is_float:
                setattr(self, name, number.item())
                return None
            value = torch.tensor(number.item(), dtype=dtype)
        elif isinstance(value, tuple) and is_float:
            value = torch.empty(_shape(parameter, value), dtype=dtype)
            self.started[name] = first_values(self.function.program, name)
        elif not isinstance(value, torch.Tensor):
            wanted = "or a shape as a tuple" if is_float else "whose integers are its values"
            cause = f"is given as {type(value).__name__}, where a tensor is asked for, {wanted}"
            raise fault(parameter, cause)
        if value.dtype != dtype or value.dim() != parameter.rank:
            cause = f"is {_described(value)}, but {parameter.text} is asked for"
            raise fault(parameter, cause, "{name}.to(torch.{dtype})")
        if is_float:
            given = isinstance(value, torch.nn.Parameter)
            self.register_parameter(name, value if given else torch.nn.Parameter(value))
        else:
            self.register_buffer(name, value)
        return tuple(value.shape)

    def reset_parameters(self) -> None:
        """Gives parameters that were given by their shapes values to start from."""
        with torch.no_grad():
            for name, start in self.started.items():
                start(getattr(self, name))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The results for the other inputs."""
        if named or len(inputs) != len(self.taken):
            inputs = self._bound(inputs, named)
        given = dict(zip(self.taken, inputs, strict=True))
        names = self.function.program.inputs
        return self.function(*[given[n] if n in given else getattr(self, n) for n in names])

    def _bound(self, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[Any, ...]:
        signature = self.function.signature
        rest = tuple(p for p in signature.inputs if p.name in self.taken)
        return bind_call(replace(signature, inputs=rest), inputs, named)

    def _get_name(self) -> str:
        return "Module"

    def extra_repr(self) -> str:
        signature = self.function.signature
        held = [p for p in signature.inputs if p.name not in self.taken]
        parts = [f"{p.name}={_described(getattr(self, p.name))}" for p in held]
        return ", ".join([f"{signature.name}({', '.join(self.taken)})", *parts])


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return repr(value)
    dtype = str(value.dtype).removeprefix("torch.")
    return f"{dtype}({', '.join(map(str, value.shape))})" if value.dim() else dtype


def _shape(parameter: Parameter, value: tuple[Any, ...]) -> tuple[int, ...]:
    if len(value) != parameter.rank or not all(type(n) is int and n >= 0 for n in value):
        raise fault(parameter, f"has the shape {value!r}, but {parameter.text} is asked for")
    return value


def _unknown(name: str, function: Compiled) -> InputError:
    names = function.program.inputs
    close = nearest(name, names)
    return InputError(
        f"{function.program.name} has no input {name!r}; it takes {', '.join(names) or 'none'}",
        repair=f"{close}=..." if close else None,
    )


def _check_sizes(program: Program, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """InputError where two parameters, or a parameter and its declaration, disagree (T4)."""
    known: dict[str, tuple[int, str]] = {}
    for name, shape in shapes.items():
        tensor = program.tensors[name]
        for axis, (size, declared) in enumerate(zip(shape, tensor.shape or (), strict=True)):
            wanted, where = size, ""
            match declared:
                case Literal(value=number):
                    wanted, where = int(number), "its declaration"
                case Size(name=label):
                    wanted, where = known.setdefault(label, (size, name))
            if wanted != size:
                cause = f"dimension {axis} of {name} is {size}, but {wanted} by {where}"
                raise InputError(
                    f"{program.name}: {cause}",
                    rule="T4",
                    span=tensor.span,
                )
