"""Sizes: the values of size variables and size expressions, and whether the places agree.

A size variable takes its value from the first dimension declared with it that becomes known; each
other one must agree (T4). Size expressions (declared dimensions, where bounds, constants in
subscripts) are evaluated on Python integers; one that would overflow its type has no value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from tc.affine.intervals import COMPARISONS
from tc.builtins.operators import ARITHMETIC, BITWISE, SHIFTS, shifted
from tc.dtypes import BOOL, INT64, DType, fits, wrap
from tc.errors import InputError, RangeError, TCError
from tc.extents.sizes import as_extent
from tc.semantics import program as p
from tc.source import Span

_EXACT = {**ARITHMETIC, **BITWISE}

AGREE = "T4"  # a size named twice is one
MAX_OFFSET = 2**62
"""The largest bound of a range, and the most bytes of a tensor: int64 offsets never overflow."""


@dataclass(frozen=True, slots=True)
class KnownSizes:
    """What is known so far of the sizes of one call; at a point, also index values."""

    sizes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    scalars: Mapping[str, int]
    indices: Mapping[str, int] = field(default_factory=dict)

    def at(self, point: Mapping[str, int]) -> KnownSizes:
        return replace(self, indices=point)

    def extent(self, tensor: str, axis: int) -> int | None:
        shape = self.shapes.get(tensor)
        return None if shape is None or axis >= len(shape) else shape[axis]


# --- values -----------------------------------------------------------------------------------


def evaluate(expr: p.Expr, known: KnownSizes) -> int | None:
    """The value of a size expression; conditions are 0 or 1.

    None where something is not known yet or no size (an index variable, a read, a float), where a
    divisor is zero, and where a value leaves its type.
    """
    match expr:
        case p.Literal(value=number):
            return int(number) if isinstance(number, int) else None
        case p.Size(name=name):
            return known.sizes.get(name)
        case p.Extent(tensor=tensor, axis=axis):
            return known.extent(tensor, axis)
        case p.Index(name=name):
            return known.indices.get(name)
        case p.Read(tensor=tensor, subscripts=subscripts):
            return None if subscripts else known.scalars.get(tensor)
        case p.Unary(operand=operand, dtype=dtype):
            value = evaluate(operand, known)
            return None if value is None else _in_type(-value, dtype)
        case p.Binary(op=op, left=left, right=right, dtype=dtype):
            a, b = evaluate(left, known), evaluate(right, known)
            if a is None or b is None or (op in ("/", "%") and not b):
                return None
            if op in SHIFTS:
                return _in_type(shifted(op, a, b, dtype.bits), dtype)
            return _in_type(_EXACT[op](a, b), dtype)
        case p.Compare(op=op, left=left, right=right):
            a, b = evaluate(left, known), evaluate(right, known)
            return None if a is None or b is None else int(COMPARISONS[op](a, b))
        case p.Logical(op=op, operands=operands):
            return _logical(op, operands, known)
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            value = evaluate(condition, known)
            return None if value is None else evaluate(then if value else otherwise, known)
        case p.Convert(operand=operand, dtype=dtype):
            value = evaluate(operand, known)
            if value is None or dtype.is_float:
                return None
            return int(value != 0) if dtype == BOOL else wrap(value, dtype)
        case _:
            return None


def _in_type(value: int, dtype: DType) -> int | None:
    return None if dtype.is_float or not fits(value, dtype) else value


def _logical(op: str, operands: tuple[p.Expr, ...], known: KnownSizes) -> int | None:
    decided = {"&&": 0, "||": 1}.get(op)
    for operand in operands:
        value = evaluate(operand, known)
        if value is None:
            return None
        if op == "!":
            return int(not value)
        if int(value != 0) == decided:
            return decided
    return None if decided is None else 1 - decided


def why_unknown(expr: p.Expr, known: KnownSizes) -> str:
    """Why an expression that should be known has no value, in words."""
    for node in reversed(tuple(p.walk(expr))):
        if evaluate(node, known) is not None:
            continue
        match node:
            case p.Binary(op=("/" | "%"), right=right) if evaluate(right, known) == 0:
                return f"'{node.span.line}' divides by zero"
            case p.Extent(tensor=tensor):
                return f"the shape of {tensor} is not known"
            case p.Size(name=name):
                return f"the size {name} is not known"
            case p.Read(tensor=tensor):
                return f"the value of {tensor} is not known"
            case p.Unary() | p.Binary():
                return f"'{node.span.line}' does not fit {node.dtype}"
    return f"'{expr.span.line}' has no value"


def value_warnings(statement: p.Statement, known: KnownSizes) -> Iterator[p.ProgramWarning]:
    """Warnings of values of sizes alone which the integers that they become do not hold (Y1).

    What the text casts is meant so; a conversion of the language has the place of its operand.
    """
    for node in p.walk(statement.rhs):
        if not isinstance(node, p.Convert) or node.operand.dtype != INT64:
            continue
        if not node.dtype.is_integer or node.span != node.operand.span:
            continue
        value = evaluate(node.operand, known)
        if value is not None and not fits(value, node.dtype):
            text = node.span.line
            yield p.ProgramWarning(
                "Y1",
                f"'{text}' is {value}, which {node.dtype}, the type that it takes here, does not "
                f"hold: it becomes {wrap(value, node.dtype)}",
                span=node.span,
                repair=f"int64({text})",
            )


# --- arguments --------------------------------------------------------------------------------


def known_of_call(
    program: p.Program,
    shapes: Mapping[str, tuple[int, ...]],
    scalars: Mapping[str, int],
    outputs: Mapping[str, tuple[int, ...]],
) -> KnownSizes:
    """What the arguments of a call tell, with the shapes of `outputs` that were passed; raises
    InputError where they contradict the declarations of the parameters."""
    given: dict[str, tuple[int, ...]] = {}
    for name in program.inputs:
        tensor = program.tensors[name]
        if name not in shapes and tensor.rank:
            raise InputError(f"parameter '{name}' is missing", span=tensor.span)
        shape = tuple(map(as_extent, shapes.get(name, ())))
        _check_rank(tensor, shape)
        given[name] = shape
    open_ = dict(_open_sizes(program, outputs))
    static = (n for n in program.inputs if n in program.static_scalars)
    values = {name: _scalar(program.tensors[name], scalars) for name in static}
    known = resolve_sizes(program, KnownSizes(open_, given, values))
    for size in program.open_sizes - known.sizes.keys():
        output = program.sizes[size].extents[0].tensor
        raise InputError(
            f"{program.name}: {size} is the size of the output '{output}' alone, so an array that "
            f"it is written to must be passed",
            rule="R4",
            span=program.tensors[output].span,
            repair=f'outputs={{"{output}": {output}}}',
        )
    return known


def _open_sizes(
    program: p.Program, outputs: Mapping[str, tuple[int, ...]]
) -> Iterator[tuple[str, int]]:
    """The sizes that outputs alone have, by the arrays that are passed for these."""
    for name in program.open_sizes:
        for extent in program.sizes[name].extents:
            if extent.tensor in outputs:
                _check_rank(program.tensors[extent.tensor], outputs[extent.tensor])
                yield name, as_extent(outputs[extent.tensor][extent.axis])
                break


def _check_rank(tensor: p.Tensor, shape: tuple[int, ...]) -> None:
    if len(shape) != tensor.rank:
        what = "parameter" if tensor.role == "input" else "output"
        raise InputError(
            f"{what} '{tensor.name}' has rank {tensor.rank}, "
            f"but the argument has rank {len(shape)}, shape {shape}",
            span=tensor.span,
        )
    if any(n < 0 for n in shape):
        raise InputError(
            f"parameter '{tensor.name}' has the shape {shape}: no size can be negative",
            span=tensor.span,
        )


def _scalar(tensor: p.Tensor, scalars: Mapping[str, int]) -> int:
    if tensor.name not in scalars:
        raise InputError(
            f"the value of parameter '{tensor.name}' is missing: ranges depend on it",
            span=tensor.span,
        )
    value = operator.index(scalars[tensor.name])
    if not fits(value, tensor.dtype):
        raise InputError(
            f"parameter '{tensor.name}' is {value}, which does not fit {tensor.dtype}",
            span=tensor.span,
        )
    return value


# --- settling ---------------------------------------------------------------------------------


def resolve_sizes(program: p.Program, known: KnownSizes) -> KnownSizes:
    """Gives values to the sizes, and shapes to the declared tensors, that follow from the shapes
    known; raises InputError or RangeError where two places disagree (T4)."""
    while True:
        passed = ((n, value) for n, value in known.sizes.items() if n in program.open_sizes)
        sizes = dict(passed) | dict(_size_values(program, known))
        shapes = dict(known.shapes)
        known = KnownSizes(sizes, known.shapes, known.scalars, known.indices)
        for tensor in program.declared:
            if tensor.name not in shapes:
                shape = _declared_shape(tensor, known)
                if shape is not None:
                    check_shape(tensor, shape, tensor.span)
                    shapes[tensor.name] = shape
        if len(shapes) == len(known.shapes):
            break
        known = KnownSizes(sizes, shapes, known.scalars, known.indices)
    for equality in program.equalities:
        _check_equality(program, equality, known)
    return known


def _size_values(program: p.Program, known: KnownSizes) -> Iterator[tuple[str, int]]:
    for size in program.sizes.values():
        first: tuple[p.Extent, int] | None = None
        for extent in size.extents:
            value = known.extent(extent.tensor, extent.axis)
            if value is None:
                continue
            if first is None:
                first = extent, value
                yield size.name, value
            elif first[1] != value:
                raise _disagreement(program, size, first, (extent, value))


def _disagreement(
    program: p.Program, size: p.SizeDef, first: tuple[p.Extent, int], second: tuple[p.Extent, int]
) -> TCError:
    (a, m), (b, n) = first, second
    scope, _, name = size.name.rpartition(".")
    of = f" of {scope.split('#')[0]}" if scope else ""
    error = InputError if {a.tensor, b.tensor} <= set(program.inputs) else RangeError
    return error(
        f"size {name}{of} is {m} in dimension {a.axis} of {a.tensor}, "
        f"but {n} in dimension {b.axis} of {b.tensor}",
        rule=AGREE,
        span=b.span,
        notes=((a.span, f"here {name} is {m}"),) if a.span != b.span else (),
        repair=f"give both the same size, or declare dimension {b.axis} of {b.tensor} "
        "with a size of its own",
    )


def _check_equality(program: p.Program, equality: p.Equality, known: KnownSizes) -> None:
    left, right = evaluate(equality.left, known), evaluate(equality.right, known)
    if left is None or right is None or left == right:
        return
    tensors = {
        n.tensor
        for side in (equality.left, equality.right)
        for n in p.walk(side)
        if isinstance(n, p.Extent)
    }
    error = InputError if tensors <= set(program.inputs) else RangeError
    if isinstance(equality.right, p.Literal):
        cause, repair = f"{equality.reason}, but is {left}", f"pass a tensor of size {right} there"
    else:
        cause, repair = f"{equality.reason}; they are {left} and {right}", "give both one size"
    raise error(cause, rule=AGREE, span=equality.span, repair=repair)


def _declared_shape(tensor: p.Tensor, known: KnownSizes) -> tuple[int, ...] | None:
    if tensor.rank == 0:
        return ()
    if tensor.shape is None:
        return None
    dims = [evaluate(dim, known) for dim in tensor.shape]
    return None if None in dims else tuple(d for d in dims if d is not None)


def check_shape(tensor: p.Tensor, shape: tuple[int, ...], span: Span) -> None:
    """Refuses shapes whose strides or offsets in bytes would not fit int64."""
    if tensor.dtype.bytes * math.prod(max(n, 1) for n in shape) > MAX_OFFSET:
        raise RangeError(
            f"{tensor.name} would have the shape {shape}: more than 2**62 bytes",
            rule="G4",
            span=span,
            repair="declare smaller sizes"
            if tensor.shape is not None
            else "make the ranges of its index variables smaller",
        )
