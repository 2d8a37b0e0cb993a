"""The shapes of results, of sizes that a framework does not know yet: expressions of the sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tc.builtins.operators import ARITHMETIC
from tc.errors import GradError, InputError
from tc.gradient.symbolic_ranges import symbolic_ranges
from tc.semantics import program as p
from tc.semantics.ranges.symbolic_text import to_text

SizeTuple = tuple[Any, ...]
"""A shape, of numbers or of symbols of a framework."""

Expressions = Mapping[str, tuple[p.Expr, ...]] | None
"""Shapes by the names of tensors, None where they have no expression."""


@dataclass(frozen=True, slots=True)
class SymbolArithmetic:
    """Operations of a framework on its symbols, beside `+ - * // %`. `demand` makes sure that a
    condition holds, or raises an error with a text."""

    minimum: Callable[[Any, Any], Any]
    maximum: Callable[[Any, Any], Any]
    demand: Callable[[Any, str], None]


def expressions_of(program: p.Program) -> Expressions:
    """The shapes of tensors as expressions that hold for all sizes, if there are such."""
    try:
        return symbolic_ranges(program).shapes
    except GradError:
        return None


def symbolic_shapes(
    program: p.Program,
    expressions: Mapping[str, tuple[p.Expr, ...]],
    shapes: Mapping[str, SizeTuple],
    scalars: Mapping[str, int],
    arithmetic: SymbolArithmetic,
) -> list[SizeTuple]:
    """The shapes of the outputs, in return order, for inputs of given shapes, whose sizes agree
    (T4). InputError for expressions that symbols cannot carry."""
    sizes: dict[str, Any] = {}
    for definition in program.sizes.values():
        for extent in (e for e in definition.extents if e.tensor in shapes):
            size = shapes[extent.tensor][extent.axis]
            first = sizes.setdefault(definition.name, size)
            if first is not size:
                arithmetic.demand(first == size, f"size {definition.name} differs (T4)")
    for name, shape in shapes.items():
        for axis, declared in enumerate(program.tensors[name].shape or ()):
            if isinstance(declared, p.Literal):
                arithmetic.demand(
                    shape[axis] == declared.value,
                    f"a dimension of {name} is declared as {declared.value} (T4)",
                )
    known = _Known(sizes, shapes, scalars, arithmetic)
    return [tuple(map(known.value, expressions[name])) for name in program.outputs]


@dataclass(frozen=True, slots=True)
class _Known:
    """The values of size expressions, at sizes, shapes and scalars of a call."""

    sizes: Mapping[str, Any]
    shapes: Mapping[str, SizeTuple]
    scalars: Mapping[str, int]
    arithmetic: SymbolArithmetic

    def value(self, expr: p.Expr) -> Any:
        """The value of a size expression, as `semantics.size_values` has it for numbers."""
        match expr:
            case p.Literal(value=number):
                return number
            case p.Size(name=name) if name in self.sizes:
                return self.sizes[name]
            case p.Extent(tensor=tensor, axis=axis) if tensor in self.shapes:
                return self.shapes[tensor][axis]
            case p.Read(tensor=tensor, subscripts=()) if tensor in self.scalars:
                return self.scalars[tensor]
            case p.Unary(operand=operand):
                return -self.value(operand)
            case p.Convert(operand=operand):
                return self.value(operand)
            case p.Binary(op=op, left=left, right=right) if op in ARITHMETIC:
                own = {"min": self.arithmetic.minimum, "max": self.arithmetic.maximum}
                return own.get(op, ARITHMETIC[op])(self.value(left), self.value(right))
        raise InputError(f"the size {to_text(expr)} is no expression that symbols can carry")
