"""The shapes of inputs, and of results, of sizes that torch may not know yet: expressions of the
sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tc.errors import GradError, InputError
from tc.gradient.sampled_ranges import sampled_ranges
from tc.pipeline import shape_program
from tc.runtime.arguments import Parameter
from tc.runtime.sizes import CallSizes
from tc.semantics import program as p
from tc.semantics.ranges.symbolic_text import to_text

Sizes = tuple[Any, ...]
Expressions = Mapping[str, tuple[p.Expr, ...]] | None


def output_shapes(
    program: p.Program,
    expressions: Callable[[], Expressions],
    shapes: Mapping[str, Sizes],
    scalars: Mapping[str, int],
) -> list[Sizes]:
    """Those of the outputs, in return order, for inputs of these shapes, whose sizes are numbers
    or torch's symbols. Where they have no expression, symbols become numbers. InputError and
    RangeError for numbers that do not fit."""
    known = all(isinstance(size, int) for shape in shapes.values() for size in shape)
    found = None if known else expressions()
    if found is None:
        numbers = {name: tuple(map(int, shape)) for name, shape in shapes.items()}
        shaped = shape_program(program, CallSizes(numbers, scalars))
        return [shaped.shapes[name] for name in program.outputs]
    sizes = _sizes(program, shapes)
    results = [tuple(_value(e, sizes, shapes, scalars) for e in found[n]) for n in program.outputs]
    for size in (size for shape in results for size in shape):
        torch._check(size >= 0)
    return results


def expressions_of(program: p.Program) -> Expressions:
    """The shapes of tensors as expressions that hold for all sizes, if there are such."""
    try:
        return sampled_ranges(program).shapes
    except GradError:
        return None


def _sizes(program: p.Program, shapes: Mapping[str, Sizes]) -> dict[str, Any]:
    """The sizes that inputs have, which agree (T4)."""
    sizes: dict[str, Any] = {}
    for definition in program.sizes.values():
        found = [e for e in definition.extents if e.tensor in shapes]
        for extent in found:
            size = shapes[extent.tensor][extent.axis]
            first = sizes.setdefault(definition.name, size)
            if first is not size:
                torch._check(first == size, lambda d=definition: f"size {d.name} differs (T4)")
    for name, shape in shapes.items():
        for axis, declared in enumerate(program.tensors[name].shape or ()):
            if isinstance(declared, p.Literal):
                torch._check(
                    shape[axis] == declared.value,
                    lambda n=name, d=declared: f"a dimension of {n} is declared as {d.value} (T4)",
                )
    return sizes


def _value(
    expr: p.Expr, sizes: Mapping[str, Any], shapes: Mapping[str, Sizes], scalars: Mapping[str, int]
) -> Any:
    """The value of a size expression, as `semantics.size_values` has it for numbers."""

    def value(operand: p.Expr) -> Any:
        return _value(operand, sizes, shapes, scalars)

    match expr:
        case p.Literal(value=number):
            return number
        case p.Size(name=name) if name in sizes:
            return sizes[name]
        case p.Extent(tensor=tensor, axis=axis) if tensor in shapes:
            return shapes[tensor][axis]
        case p.Read(tensor=tensor, subscripts=()) if tensor in scalars:
            return scalars[tensor]
        case p.Unary(operand=operand):
            return -value(operand)
        case p.Convert(operand=operand):
            return value(operand)
        case p.Binary(op=op, left=left, right=right) if op in _OPERATORS:
            return _OPERATORS[op](value(left), value(right))
    raise InputError(f"the size {to_text(expr)} is no expression of sizes that torch can carry")


_OPERATORS: Mapping[str, Any] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a // b,
    "%": lambda a, b: a % b,
    "min": torch.sym_min,
    "max": torch.sym_max,
}


def shapes_of(names: Sequence[str], tensors: Sequence[Any]) -> dict[str, Sizes]:
    return {name: tuple(tensor.shape) for name, tensor in zip(names, tensors, strict=True)}


def check_tensor(parameter: Parameter, tensor: Any, *, batch: int = 0) -> None:
    """InputError for a tensor that a call would refuse, if it has values, or for its elements
    along so many dimensions of a batch."""
    name, wanted = parameter.name, getattr(torch, parameter.dtype.name)
    rank = tensor.dim() - batch
    if rank != parameter.rank:
        raise InputError(
            f"{parameter.function}: {name} has rank {rank}, but {parameter.text} asks for "
            f"rank {parameter.rank}",
            span=parameter.span,
        )
    if tensor.dtype != wanted and parameter.rank:
        raise InputError(
            f"{parameter.function}: {name} has dtype {tensor.dtype}, but {parameter.text} asks "
            f"for {wanted}",
            rule="Y3",
            span=parameter.span,
            repair=f"{name}.to({wanted})",
        )
