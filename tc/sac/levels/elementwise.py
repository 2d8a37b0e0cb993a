"""Rows of the operators and functions that work element by element (C7): operators, maths
functions, `min`, `max`, `where`, casts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tc.affine.intervals import COMPARISONS
from tc.builtins import ALIASES, BUILTINS
from tc.builtins.operators import UFUNCS
from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT32, SPELLINGS, Array, DType, Weak
from tc.errors import TCError
from tc.sac.levels.applications import Application, D, F, Row, S, common_rank
from tc.sac.levels.element_types import (
    BOOL_TYPE,
    ElementType,
    cast,
    computed_in,
    folded,
    joined,
    promoted,
)
from tc.sac.levels.pasting import (
    INDEX_NAMES,
    as_operand,
    free_names,
    repaired_by,
    rows_of,
    selected,
    spread_axes,
)
from tc.sac.levels.values import Shape, Value, blamed, elements, shown
from tc.source import Edit

# --- shapes -------------------------------------------------------------------------------------


def conforming_shape(node: Application) -> Shape:
    """The common shape of operands of which each may be a scalar instead (C7)."""
    first: Value | None = None
    for arg in node.args:
        if arg.rank == 0:
            continue
        if first is None:
            first = arg
        elif arg.shape != first.shape:
            raise _differing(node, first, arg)
    return () if first is None else first.shape


def conforming_rank(node: Application) -> int:
    ranks = {arg.rank for arg in node.args} - {0}
    return max(ranks, default=0) if len(ranks) <= 1 else len(conforming_shape(node))


def _differing(node: Application, left: Value, right: Value) -> TCError:
    a, b = left.shape, right.shape
    error = node.fault(
        blamed((left, S), (right, S)),
        "C7",
        f"'{node.row.name}': shapes {shown(a)} and {shown(b)} differ, and neither is a scalar",
    )
    text = _mapped(node)
    if text is not None:
        first, at = node.spans[0], node.span
        if first.start < at.start:  # `a += x`, whose span is that of x
            at, text = first.to(at), f"{first.line} = {text}"
        return repaired_by(error, Edit(at, text))
    if len(a) == len(b) and len(node.args) == 2:
        pairs = list(zip(node.args, node.spans, strict=True))
        for (whole, cut), (part, kept) in (pairs, pairs[::-1]):
            if all(n <= m for n, m in zip(part.shape, whole.shape, strict=True)):
                shorter = f"take(shape({kept.line}), {cut.line})"
                error.idiom = f"{shorter}, the elements that the other operand has a place for"
                error.example = (Edit(cut, shorter),) if node.span.start <= cut.start else ()
    return error


def _mapped(node: Application) -> str | None:
    """The text of a comprehension that has each element of the longer operands meet one of the
    shorter ones, for a repair: over the leading axes, or over all where some have one element."""
    texts = [span.line for span in node.spans]
    shapes = [arg.shape for arg in node.args]
    axes: Sequence[tuple[int | None, ...] | None] | None = rows_of(shapes) or spread_axes(shapes)
    names = free_names(INDEX_NAMES, texts)
    if axes is None:
        return None
    count = 1 + max(axis for taken in axes for axis in taken or () if axis is not None)
    parts = [selected(text, taken, names) for text, taken in zip(texts, axes, strict=True)]
    op = node.row.name
    pattern = ",".join(names[:count])
    if op in _BINARY:
        left, right = map(as_operand, parts)
        return f"{{ [{pattern}] -> {left} {op} {right} }}"
    return f"{{ [{pattern}] -> {op}({', '.join(parts)}) }}"


def spread(value: Value, array: Array, shape: Shape) -> Array:
    """Elements of an operand for each element of a result: a scalar is repeated (C7)."""
    return np.full(shape, array) if value.rank == 0 and shape else array


def _operands(node: Application, target: ElementType) -> list[Array]:
    return [spread(arg, elements(arg, target.dtype), node.shape) for arg in node.args]


def _arithmetic_type(node: Application) -> ElementType:
    left, right = node.args[0].type, node.args[1].type
    return folded(node.row.name, left, right, node.span) or promoted((left, right))


def _arithmetic_value(node: Application) -> Array:
    common = node.type
    if common.constant is not None:
        return constant_elements(node)
    left, right = _operands(node, common)
    op = node.row.name
    if op in ("/", "%") and common.dtype is not Weak.FLOAT and not _is_float(common):
        if not np.all(right):
            zero = tuple(map(int, np.argwhere(right == 0)[0])) if node.args[1].rank else ()
            place = node.args[1].place_of(zero)
            where = f" in element {shown(place)}" if place else ""
            kind = blamed((node.args[1], F))
            raise node.fault(kind, "Y4", f"integer division by zero{where}")
        return np.asarray((np.floor_divide if op == "/" else np.remainder)(left, right))
    with np.errstate(all="ignore"):
        return np.asarray(UFUNCS[op](left, right))


def constant_elements(node: Value) -> Array:
    """The number that literals alone make, as it is computed."""
    return elements(node, node.type.dtype)


def _is_float(found: ElementType) -> bool:
    return isinstance(found.dtype, DType) and found.dtype.is_float


def _comparison_value(node: Application) -> Array:
    op = node.row.name
    types = [arg.type for arg in node.args]
    common = (joined if op in ("==", "!=") else promoted)(types)
    left, right = _operands(node, common)
    return np.asarray(COMPARISONS[op](left, right))


def _logical_value(node: Application) -> Array:
    """`&&` and `||` whose first operand is a scalar leave the second alone where the first decides
    (C10)."""
    op = node.row.name
    first, second = node.args
    if first.rank == 0:
        holds = bool(cast(first.value, BOOL))
        if holds == (op == "||"):
            return np.full(node.shape, holds)
    left = spread(first, cast(first.value, BOOL), node.shape)
    right = spread(second, cast(second.value, BOOL), node.shape)
    return np.asarray((np.logical_and if op == "&&" else np.logical_or)(left, right))


def _logical_shape(node: Application) -> Shape:
    first, second = node.args
    if first.rank == 0:
        try:
            return second.shape
        except TCError:
            if node.env.context.decides(first) == (node.row.name == "||"):
                return ()
            raise
    return conforming_shape(node)


def _not_value(node: Application) -> Array:
    return np.logical_not(cast(node.args[0].value, BOOL))


def _negated_type(node: Application) -> ElementType:
    operand = node.args[0].type
    zero = -0.0 if isinstance(operand.constant, float) else 0  # the negative of 0.0 is -0.0
    minuend = ElementType(operand.dtype, zero)
    return folded("-", minuend, operand, node.span) or promoted((operand,))


def _negated_value(node: Application) -> Array:
    if node.type.constant is not None:
        return constant_elements(node)
    with np.errstate(all="ignore"):
        return np.negative(elements(node.args[0], node.type.dtype))


def _join_type(node: Application) -> ElementType:
    return joined(arg.type for arg in node.args)


def _extremum_value(node: Application) -> Array:
    left, right = _operands(node, node.type)
    with np.errstate(all="ignore"):
        return np.asarray(UFUNCS[node.row.name](left, right))


def _where_type(node: Application) -> ElementType:
    return joined(arg.type for arg in node.args[1:])


def _where_value(node: Application) -> Array:
    test = spread(node.args[0], cast(node.args[0].value, BOOL), node.shape)
    then, otherwise = (
        spread(arg, elements(arg, node.type.dtype), node.shape) for arg in node.args[1:]
    )
    return np.asarray(np.where(test, then, otherwise))


def _maths_type(node: Application) -> ElementType:
    common = promoted(arg.type for arg in node.args)
    if BUILTINS[node.row.name].rule == "keep":
        return ElementType(common.dtype, None, common.adapting, common.is_large)
    if common.is_weak:
        return ElementType(Weak.FLOAT)
    return common if _is_float(common) else ElementType(FLOAT64)


def _maths_value(node: Application) -> Array:
    target = node.type
    operands = _operands(node, target)
    with np.errstate(all="ignore"):
        found = np.asarray(BUILTINS[node.row.name].numpy(*operands))
    return found.astype(computed_in(target.dtype), copy=False)


def cast_value(operand: Value, target: DType) -> Array:
    """The elements of a cast: without a check of literals, and halves are rounded (Y1, Y8)."""
    found = operand.type
    if isinstance(found.constant, int):
        if target.is_integer:
            low, count = (
                (0 if target.kind == "uint" else -(1 << (target.bits - 1))),
                1 << target.bits,
            )
            return np.asarray((found.constant - low) % count + low, target.numpy)
        return cast(np.asarray(float(found.constant)), target)
    array = np.asarray(found.constant) if found.constant is not None else operand.value
    with np.errstate(all="ignore"):
        if target == BOOL:
            return cast(array, target)
        return array.astype(target.numpy).astype(computed_in(target), copy=False)


# --- rows ---------------------------------------------------------------------------------------


def _elementwise(
    name: str,
    arity: int,
    type: Callable[[Application], ElementType],
    value: Callable[[Application], Array],
    shape: Callable[[Application], Shape] = conforming_shape,
) -> Row:
    return Row(
        name,
        arity,
        type,
        conforming_rank if shape is conforming_shape else lambda node: len(shape(node)),
        shape,
        value,
        (F,) * arity,
        (S,) * arity,
        (D,) * arity,
        common_rank,
        is_elementwise=True,
    )


def _cast_row(name: str, target: DType) -> Row:
    return _elementwise(
        name, 1, lambda _: ElementType(target), lambda node: cast_value(node.args[0], target)
    )


_BINARY = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&&", "||")

OPERATORS: Mapping[str, Row] = {
    **{op: _elementwise(op, 2, _arithmetic_type, _arithmetic_value) for op in "+-*/%"},
    **{op: _elementwise(op, 2, lambda _: BOOL_TYPE, _comparison_value) for op in COMPARISONS},
    **{
        op: _elementwise(op, 2, lambda _: BOOL_TYPE, _logical_value, _logical_shape)
        for op in ("&&", "||")
    },
}
"""Binary operators but `++`, which is a row of `FUNCTIONS`."""

NEGATION = _elementwise("-", 1, _negated_type, _negated_value)
NOT = _elementwise("!", 1, lambda _: BOOL_TYPE, _not_value)
CASTS: Mapping[str, Row] = {
    spelling: _cast_row(spelling, dtype) for spelling, dtype in SPELLINGS.items()
}

ELEMENTWISE_FUNCTIONS: Mapping[str, Row] = {
    **{name: _elementwise(name, 2, _join_type, _extremum_value) for name in ("min", "max")},
    "where": _elementwise("where", 3, _where_type, _where_value),
    **{
        name: _elementwise(name, builtin.arity, _maths_type, _maths_value)
        for name, builtin in BUILTINS.items()
    },
    **{
        name: _cast_row(name, dtype)
        for name, dtype in (("tod", FLOAT64), ("tof", FLOAT32), ("toi", INT32))
    },
}
MATHS_ALIASES: Mapping[str, str] = ALIASES
"""CUDA's single-precision spellings of the maths functions (Y5)."""
