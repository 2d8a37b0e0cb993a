"""Functions that take part in torch's autocast: its halves are cast before the call."""

from __future__ import annotations

from typing import Any

import torch

from tc.errors import InputError
from tc.wording import nearest

_FLOATS = ("bfloat16", "float16", "float32", "float64")


def dtype_of(wanted: Any) -> Any:
    """The type of torch that a name or a type stands for; InputError for others."""
    name = str(wanted).removeprefix("torch.")
    if name not in _FLOATS:
        meant = {"float": "float32", "half": "float16", "double": "float64"}.get(name)
        near = meant or nearest(name, _FLOATS) or "float32"
        raise InputError(
            f"autocast={wanted!r} is no type of floats that programs have",
            repair=f'autocast="{near}"',
        )
    return getattr(torch, name)


def cast(value: Any, dtype: Any) -> Any:
    """The value cast to `dtype`, if it is a tensor of floats other than float64 and autocast is on
    for the device of the tensor; any other value as it is."""
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return value
    if value.dtype in (dtype, torch.float64) or not torch.is_autocast_enabled(value.device.type):
        return value
    return value.to(dtype)


class Autocast:
    """A function, `tc.torch.autocast(f, dtype)`, that takes part in `torch.autocast`: where
    autocast is on, tensors of floats, but for float64, are cast to `dtype` before `function`, which
    is `f`, is called; elsewhere the call is one of `f`. `outputs=` is not cast. Gradients flow back
    through the casts.

    Raises InputError for a dtype other than bfloat16, float16, float32 and float64.

    >>> import tc, tc.torch, torch
    >>> f = tc.compile("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }")
    >>> g = tc.torch.autocast(f, "float32")
    >>> with torch.autocast("cpu", torch.bfloat16):
    ...     g(torch.ones(2, dtype=torch.bfloat16))
    tensor([2., 2.])
    """

    def __init__(self, function: Any, dtype: Any = "float32") -> None:
        self.function = function
        self.dtype = dtype_of(dtype)

    def __call__(self, /, *inputs: Any, outputs: Any = None, **named: Any) -> Any:
        given = [cast(value, self.dtype) for value in inputs]
        by_name = {name: cast(value, self.dtype) for name, value in named.items()}
        if outputs is None:
            return self.function(*given, **by_name)
        return self.function(*given, outputs=outputs, **by_name)

    def __repr__(self) -> str:
        return f"tc.torch.autocast({self.function!r}, {str(self.dtype).removeprefix('torch.')!r})"
