"""Rows of the functions that cut, join, build and fold arrays (C9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from tc.builtins import identity
from tc.builtins.operators import UFUNCS
from tc.dtypes import BOOL, FLOAT64, INT32, Array, DType, Weak
from tc.errors import TCError
from tc.sac.levels.applications import (
    Application,
    D,
    F,
    N,
    Row,
    S,
    check_sizes,
    common_rank,
    index_vector,
    index_vector_length,
)
from tc.sac.levels.element_types import (
    BOOL_TYPE,
    SIZE_TYPE,
    ElementType,
    cast,
    computed_in,
    joined,
    promoted,
)
from tc.sac.levels.pasting import as_operand, repaired_by, spread_text
from tc.sac.levels.values import (
    Level,
    NeedsIndexValue,
    Shape,
    Value,
    blamed,
    elements,
    shown,
)
from tc.source import Edit, Span

# --- what is known of an array --------------------------------------------------------------------


def _shape_value(node: Application) -> Array:
    return np.array(node.args[0].shape, np.int64)


def _dim_value(node: Application) -> Array:
    return np.array(node.args[0].rank, np.int64)


def _without_literals(node: Application) -> ElementType:
    return ElementType(node.args[0].type.dtype)


def _zero_value(node: Application) -> Array:
    return np.zeros((), computed_in(node.type.dtype))


# --- parts of an array ----------------------------------------------------------------------------


def _array_type(node: Application) -> ElementType:
    return as_array(node.args[-1].type)


def as_array(found: ElementType) -> ElementType:
    """The type of an array of elements of this type: no literal any more, but literals in it."""
    return ElementType(found.dtype, None, found.adapting, found.is_large)


def _array_rank(node: Application) -> int:
    return node.args[-1].rank


def _repaired_by_swap(node: Application, error: TCError) -> TCError:
    """The error of a function that takes sizes and an array, with a repair where they stand the
    other way round, as in `take(v, [2])`."""
    first, second = node.args
    is_vector = second.rank <= 1 and second.type.is_weak and second.type.is_integer
    if is_vector and not error.edits and first.rank and not first.type.is_weak:
        texts = [span.line for span in node.spans]
        repaired_by(error, Edit(node.span, f"{node.row.name}({texts[1]}, {texts[0]})"))
    return error


def _amounts(node: Application) -> Shape:
    """The amounts of `take` and `drop`, which the sizes of the array allow."""
    try:
        return _checked_amounts(node)
    except NeedsIndexValue:
        raise
    except TCError as error:
        raise _repaired_by_swap(node, error) from None


def _checked_amounts(node: Application) -> Shape:
    name = node.row.name
    counts, array = node.args
    amounts = index_vector(counts, "C9", f"the first argument of {name}", node.spans[0])
    shape = array.shape
    if len(amounts) > len(shape):
        raise node.fault(
            blamed((counts, S), (array, S)),
            "C9",
            f"{name}({shown(amounts)}, ...): {len(amounts)} amounts for {len(shape)} axes, shape "
            f"{shown(shape)}",
        )
    for axis, amount in enumerate(amounts):
        if abs(amount) > shape[axis]:
            where = f" along axis {axis}, shape {shown(shape)}" if len(shape) > 1 else ""
            raise node.fault(
                blamed((counts, F), (array, S)),
                "C9",
                f"{name}({shown(amounts)}, ...): {abs(amount)} elements of {shape[axis]}{where}",
            )
    return amounts


def _take_shape(node: Application) -> Shape:
    amounts = _amounts(node)
    return (*(abs(n) for n in amounts), *node.args[1].shape[len(amounts) :])


def _drop_shape(node: Application) -> Shape:
    amounts, shape = _amounts(node), node.args[1].shape
    return (*(n - abs(k) for n, k in zip(shape, amounts, strict=False)), *shape[len(amounts) :])


def taken(amounts: Shape, shape: Shape) -> tuple[slice, ...]:
    """The elements along each axis that `take` keeps."""
    pairs = zip(amounts, shape, strict=False)
    return tuple(slice(0, k) if k >= 0 else slice(n + k, n) for k, n in pairs)


def dropped(amounts: Shape, shape: Shape) -> tuple[slice, ...]:
    """The elements along each axis that `drop` keeps."""
    pairs = zip(amounts, shape, strict=False)
    return tuple(slice(k, n) if k >= 0 else slice(0, n + k) for k, n in pairs)


def _take_value(node: Application) -> Array:
    amounts = _amounts(node)
    return np.asarray(node.args[1].value[taken(amounts, node.args[1].shape)])


def _drop_value(node: Application) -> Array:
    amounts = _amounts(node)
    return np.asarray(node.args[1].value[dropped(amounts, node.args[1].shape)])


def _reversed_shape(node: Application) -> Shape:
    array = node.args[0]
    if not array.rank:
        raise node.fault(
            blamed((array, D)), "C9", "reverse of a scalar, which has no axis to reverse"
        )
    return array.shape


def _reversed_value(node: Application) -> Array:
    _reversed_shape(node)
    return np.asarray(node.args[0].value[::-1])


def _transposed_shape(node: Application) -> Shape:
    return node.args[0].shape[::-1]


def _transposed_value(node: Application) -> Array:
    return np.asarray(node.args[0].value.transpose())


# --- joining and building -------------------------------------------------------------------------


def _joined_type(node: Application) -> ElementType:
    return as_array(joined(arg.type for arg in node.args))


def _concatenated_rank(node: Application) -> int:
    return max(arg.rank for arg in node.args)


def _concatenated_shape(node: Application) -> Shape:
    left, right = node.args
    a, b = left.shape, right.shape
    if not a or not b:
        text = node.spans[1 if a else 0]
        raise node.fault(
            blamed((left, D), (right, D)),
            "C9",
            f"'++' of a scalar: shapes {shown(a)} and {shown(b)}; '[{text.line}]' is a vector of "
            "one element",
            span=text,
            paste=f"[{text.line}]",
        )
    if a[1:] != b[1:]:
        raise node.fault(
            blamed((left, S), (right, S)),
            "C9",
            f"'++' joins along the first axis, but shapes {shown(a)} and {shown(b)} differ in "
            "another one",
            paste=_joined_as_row(node, a, b),
        )
    return (a[0] + b[0], *a[1:])


def _joined_as_row(node: Application, a: Shape, b: Shape) -> str | None:
    """The text of `++` with an operand that is one row of the other one."""
    left, right = (span.line for span in node.spans)
    if a[1:] == b:
        return f"{as_operand(left)} ++ [{right}]"
    return f"[{left}] ++ {as_operand(right)}" if b[1:] == a else None


def _concatenated_value(node: Application) -> Array:
    _concatenated_shape(node)
    return np.concatenate([elements(arg, node.type.dtype) for arg in node.args])


def _reshape_rank(node: Application) -> int:
    return index_vector_length(node.args[0], "C9", "the shape of reshape", node.spans[0])


def _reshape_shape(node: Application) -> Shape:
    sizes = node.args[0]
    try:
        found = index_vector(sizes, "C9", "the shape of reshape", node.spans[0])
        return check_sizes(found, sizes, node.spans[0])
    except NeedsIndexValue:
        raise
    except TCError as error:
        _repair_open_size(node, error)
        raise _repaired_by_swap(node, error) from None


def _repair_open_size(node: Application, error: TCError) -> None:
    """Has the error of a size -1, which elsewhere is what the elements leave over, say how that is
    computed."""
    at, array = node.spans
    if error.rule != "C14" or len(re.findall(r"-\s*1\b", at.line)) != 1 or "-" in array.line:
        return
    sizes = node.args[0].env.context.integers(node.args[0])
    others = -prod(sizes)
    if sizes.count(-1) == 1 and others > 0 and prod(node.args[1].shape) % others == 0:
        count = f"prod(shape({array.line}))" + (f" / {others}" if others > 1 else "")
        repaired_by(error, Edit(at, re.sub(r"-\s*1\b", count, at.line)))


def _reshape_value(node: Application) -> Array:
    sizes, array = node.args
    shape = node.shape
    if prod(shape) != prod(array.shape):
        raise node.fault(
            blamed((sizes, F), (array, S)),
            "C9",
            f"reshape to {shown(shape)}, which has {prod(shape)} elements, of shape "
            f"{shown(array.shape)}, which has {prod(array.shape)}",
        )
    return np.ascontiguousarray(array.value).reshape(shape)


def _genarray_rank(node: Application) -> int:
    length = index_vector_length(node.args[0], "C9", "the shape of genarray", node.spans[0])
    return length + node.args[1].rank


def _genarray_shape(node: Application) -> Shape:
    sizes = node.args[0]
    return (
        *check_sizes(
            index_vector(sizes, "C9", "the shape of genarray", node.spans[0]), sizes, node.spans[0]
        ),
        *node.args[1].shape,
    )


def _genarray_value(node: Application) -> Array:
    element = elements(node.args[1], node.type.dtype)
    count = prod(node.shape[: len(node.shape) - element.ndim])
    return np.tile(element.reshape(-1), count).reshape(node.shape)


def _modarray_type(node: Application) -> ElementType:
    return as_array(joined((node.args[0].type, node.args[2].type)))


def _modarray_value(node: Application) -> Array:
    array, at, new = node.args
    index = index_vector(at, "C8", "the index of modarray", node.spans[1])
    spans = node.spans[:2] if len(index) == 1 else ()
    index = checked_index(node, array, index, (at,), None, spans)
    room = array.shape[len(index) :]
    if new.shape != room:
        raise node.fault(
            blamed((array, S), (at, S), (new, S)),
            "C9",
            f"modarray puts an array of shape {shown(new.shape)} where {shown(index)} leaves room "
            f"for {shown(room)}",
            span=node.spans[2],
            paste=spread_text(node.spans[2], room) if not new.rank else None,
        )
    result: Array = elements(array, node.type.dtype).copy()
    place: tuple[Any, ...] = (*index, ...)
    result[place] = elements(new, node.type.dtype)
    return result


def checked_index(
    node: Value,
    array: Value,
    index: Shape,
    at: Sequence[Value],
    axes: Shape | None = None,
    spans: Sequence[Span] = (),
) -> Shape:
    """An index vector that lies in an array (C8); `axes` are the axes that the index counts along,
    the first ones unless others are given; `spans` are those of the array and of each index."""
    shape = array.shape
    if axes is None:
        axes = tuple(range(len(index)))
        if len(index) > len(shape):
            raise node.fault(
                blamed(*((item, S) for item in at)),
                "C8",
                f"{len(index)} indices for {len(shape)} axes, shape {shown(shape)}",
            )
    for number, (axis, k) in enumerate(zip(axes, index, strict=True)):
        if not 0 <= k < shape[axis]:
            raise node.fault(
                blamed((array, S), *((item, F) for item in at)),
                "C8",
                outside(k, axis, shape),
                paste=_from_end(node, spans, number, axis) if -shape[axis] <= k < 0 else None,
            )
    return index


def outside(k: int, axis: int, shape: Shape) -> str:
    """What is said of an index that leaves an axis of an array (C8)."""
    where = f"axis {axis}, shape {shown(shape)}"
    allowed = f"0..{shape[axis] - 1} of {where}" if shape[axis] else f"{where}: it is empty"
    return f"index {k} is outside {allowed}"


def _from_end(node: Value, spans: Sequence[Span], number: int, axis: int) -> str | None:
    """The selection from the end that a negative number as an index means elsewhere."""
    if len(spans) <= number + 1:
        return None
    array, at, whole = spans[0].text, spans[number + 1], node.span
    back = at.text.replace(" ", "").strip("[]")
    if "\n" in array or not back[1:].isdecimal():
        return None
    start, end = at.start - whole.start, at.end - whole.start
    return f"{whole.text[:start]}shape({array})[{axis}]{back}{whole.text[end:]}"


def _iota_rank(node: Application) -> int:
    bound = node.args[0]
    return (
        1
        if bound.rank == 0
        else 1 + index_vector_length(bound, "C9", "the bound of iota", node.spans[0])
    )


def _iota_shape(node: Application) -> Shape:
    bound = node.args[0]
    sizes = check_sizes(
        index_vector(bound, "C9", "the bound of iota", node.spans[0]), bound, node.spans[0]
    )
    return sizes if bound.rank == 0 else (*sizes, len(sizes))


def _iota_value(node: Application) -> Array:
    shape = node.shape
    if node.args[0].rank == 0:
        return np.arange(shape[0], dtype=np.int64)
    return np.moveaxis(np.indices(shape[:-1], dtype=np.int64), 0, -1)


# --- folds ----------------------------------------------------------------------------------------

FOLDS: Mapping[str, str] = {
    "sum": "+",
    "prod": "*",
    "minval": "min",
    "maxval": "max",
    "any": "||",
    "all": "&&",
}
"""The operator that a fold joins all elements of an array with."""


def fold_type(op: str, types: list[ElementType]) -> ElementType:
    """The type of a fold of values of these types: sums and products of bools count (C5, C21)."""
    if op in ("&&", "||"):
        return BOOL_TYPE
    common = (promoted if op in ("+", "*") else joined)(types)
    return ElementType(common.dtype, None, (), common.is_large)


def neutral_element(op: str, dtype: DType | Weak) -> int | float | bool:
    """What a fold of nothing gives (R2); weak integers have that of int (C9)."""
    if op in ("&&", "||"):
        return op == "&&"
    concrete = dtype
    if isinstance(dtype, Weak):
        concrete = FLOAT64 if dtype is Weak.FLOAT else INT32
    assert isinstance(concrete, DType)
    return identity(op, concrete)


def combined(op: str, left: Array, right: Array) -> Array:
    """Two arrays of one shape and type joined by the operator of a fold."""
    with np.errstate(all="ignore"):
        if op in ("&&", "||"):
            return np.asarray((np.logical_and if op == "&&" else np.logical_or)(left, right))
        return np.asarray(UFUNCS[op](left, right))


def _folded_value(node: Application) -> Array:
    op, array = FOLDS[node.row.name], node.args[0]
    dtype = node.type.dtype
    if op in ("&&", "||"):
        truth = cast(array.value, BOOL)
        return np.asarray(truth.all() if op == "&&" else truth.any())
    terms = elements(array, dtype).reshape(-1)
    if not terms.size:
        return np.asarray(neutral_element(op, dtype), computed_in(dtype))
    with np.errstate(all="ignore"):
        return np.asarray(UFUNCS[op].reduce(terms, dtype=terms.dtype))


# --- rows ---------------------------------------------------------------------------------------


def _row(
    name: str,
    type: Callable[[Application], ElementType],
    rank: Callable[[Application], int],
    shape: Callable[[Application], Shape],
    value: Callable[[Application], Array],
    at_value: tuple[Level, ...],
    at_shape: tuple[Level, ...],
    at_rank: tuple[Level, ...],
    known_rank: Callable[..., int | None] = lambda _: None,
) -> Row:
    return Row(
        name, len(at_value), type, rank, shape, value, at_value, at_shape, at_rank, known_rank
    )


_SCALAR = (lambda _: 0, lambda _: ())

ARRAY_FUNCTIONS: Mapping[str, Row] = {
    row.name: row
    for row in (
        _row(
            "shape", lambda _: SIZE_TYPE, lambda _: 1, lambda node: (node.args[0].rank,),
            _shape_value, (S,), (D,), (N,), lambda _: 1,
        ),
        _row("dim", lambda _: SIZE_TYPE, *_SCALAR, _dim_value, (D,), (N,), (N,), lambda _: 0),
        _row("zero", _without_literals, *_SCALAR, _zero_value, (N,), (N,), (N,), lambda _: 0),
        _row(
            "take", _array_type, _array_rank, _take_shape, _take_value,
            (F, F), (F, S), (N, D), lambda ranks: ranks[1],
        ),
        _row(
            "drop", _array_type, _array_rank, _drop_shape, _drop_value,
            (F, F), (F, S), (N, D), lambda ranks: ranks[1],
        ),
        _row(
            "reverse", _array_type, _array_rank, _reversed_shape, _reversed_value,
            (F,), (S,), (D,), lambda ranks: ranks[0],
        ),
        _row(
            "transpose", _array_type, _array_rank, _transposed_shape, _transposed_value,
            (F,), (S,), (D,), lambda ranks: ranks[0],
        ),
        _row(
            "++", _joined_type, _concatenated_rank, _concatenated_shape, _concatenated_value,
            (F, F), (S, S), (D, D), common_rank,
        ),
        _row(
            "reshape", _array_type, _reshape_rank, _reshape_shape, _reshape_value,
            (F, F), (F, N), (S, N),
        ),
        _row(
            "genarray", _array_type, _genarray_rank, _genarray_shape, _genarray_value,
            (F, F), (F, S), (S, D),
        ),
        _row(
            "modarray", _modarray_type, lambda node: node.args[0].rank,
            lambda node: node.args[0].shape, _modarray_value, (F, F, F), (S, N, N), (D, N, N),
            lambda ranks: ranks[0],
        ),
        _row(
            "iota", lambda _: SIZE_TYPE, _iota_rank, _iota_shape, _iota_value, (F,), (F,), (S,),
            lambda ranks: 1 if ranks[0] == 0 else None,
        ),
        *(
            _row(
                name, lambda node: fold_type(FOLDS[node.row.name], [node.args[0].type]), *_SCALAR,
                _folded_value, (F,), (N,), (N,), lambda _: 0,
            )
            for name in FOLDS
        ),
    )
}  # fmt: skip
"""The functions by name; `++` is the operator."""
