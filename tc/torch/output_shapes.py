"""The shapes of inputs, and of results, of sizes that torch may not know yet: expressions of the
sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tc.derivatives.symbolic_sizes import (
    Expressions,
    SizeTuple,
    SymbolArithmetic,
    symbolic_shapes,
)
from tc.errors import InputError
from tc.pipeline import shape_program
from tc.runtime.arguments import Parameter, fault, ranked
from tc.runtime.sizes import CallSizes
from tc.semantics import program as p

_ARITHMETIC = SymbolArithmetic(
    torch.sym_min, torch.sym_max, lambda holds, text: torch._check(holds, lambda: text)
)


def output_shapes(
    program: p.Program,
    expressions: Callable[[], Expressions],
    shapes: Mapping[str, SizeTuple],
    scalars: Mapping[str, int],
) -> list[SizeTuple]:
    """Those of the outputs, in return order, for inputs of these shapes, whose sizes are numbers
    or torch's symbols. Where they have no expression, symbols become numbers. InputError and
    RangeError for numbers that do not fit."""
    known = all(isinstance(size, int) for shape in shapes.values() for size in shape)
    found = None if known else expressions()
    if found is None:
        numbers = {name: tuple(map(int, shape)) for name, shape in shapes.items()}
        shaped = shape_program(program, CallSizes(numbers, scalars))
        return [shaped.shapes[name] for name in program.outputs]
    results = symbolic_shapes(program, found, shapes, scalars, _ARITHMETIC)
    for size in (size for shape in results for size in shape):
        torch._check(size >= 0)
    return results


def shapes_of(names: Sequence[str], tensors: Sequence[Any]) -> dict[str, SizeTuple]:
    return {name: tuple(tensor.shape) for name, tensor in zip(names, tensors, strict=True)}


def check_tensor(parameter: Parameter, tensor: Any, *, batch: int | None = None) -> None:
    """InputError for a tensor that a call would refuse, if it has values, or for its elements
    along the dimension of a batch."""
    name, wanted = parameter.name, getattr(torch, parameter.dtype.name)
    shape = tuple(size for axis, size in enumerate(tensor.shape) if axis != batch)
    if len(shape) != parameter.rank:
        is_known = all(isinstance(size, int) for size in shape)
        raise fault(
            parameter,
            f"has rank {len(shape)}, but {parameter.text} asks for rank {parameter.rank}",
            ranked(shape, parameter) if is_known else None,
        )
    if tensor.dtype != wanted and parameter.rank:
        raise InputError(
            f"{parameter.function}: {name} has dtype {tensor.dtype}, but {parameter.text} asks "
            f"for {wanted}",
            rule="Y3",
            span=parameter.span,
            repair=f"{name}.to({wanted})",
        )


def check_values(parameters: Sequence[Parameter], tensors: Sequence[Any]) -> None:
    """InputError for a tensor without values beside one that has some; numbers stand beside both,
    as they do for torch."""
    lacking = next((at for at, t in enumerate(tensors) if t.device.type == "meta"), None)
    if lacking is None:
        return
    for parameter, tensor in zip(parameters, tensors, strict=True):
        if tensor.device.type == "meta" or not tensor.dim():
            continue
        cause = (
            f"is a meta tensor, which has a shape and no values, but {parameter.name} lies on "
            f"{tensor.device}: the tensors of a call are in one place"
        )
        repair = f'torch.zeros_like({{name}}, device="{tensor.device}")'
        shapes = f'{parameter.name}.to("meta") for the shapes of results alone'
        raise fault(parameters[lacking], cause, f"{repair}, or {shapes}")


def place_of(tensors: Sequence[Any]) -> Any:
    """The device of the results of a call: the device of its tensors of rank 1 or more, as numbers
    may lie on the processor all the same."""
    for tensor in tensors:
        if tensor.dim() or tensor.device.type == "meta":
            return tensor.device
    return tensors[0].device if tensors else torch.device("cpu")
