"""The meaning of programs, element by element (`tc.sac.interpret`).

Comprehensions and with-loops take one instance after the other; no body is computed for a place
that an earlier partition covers, or that has no elements (C11). Memory and time are linear in the
work that the text asks for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from tc.dtypes import BOOL, DTYPES, Array, Type, Weak
from tc.errors import TCError
from tc.sac import ast
from tc.sac.levels.array_functions import combined
from tc.sac.levels.calls import Invocation
from tc.sac.levels.element_types import (
    BOOL_TYPE,
    ElementType,
    WrittenNumber,
    cast,
    check_fit,
    computed_in,
    rounded_to,
)
from tc.sac.levels.expressions import evaluate, execute
from tc.sac.levels.farthest import farthest_generator, show_farthest
from tc.sac.levels.loops import ArrayLoop, ComprehensionValue, FoldLoop, LoopValue
from tc.sac.levels.partitions import Partition, indices, is_empty
from tc.sac.levels.pasting import repaired_by, spread_text
from tc.sac.levels.values import (
    Context,
    Environment,
    Input,
    Level,
    Shape,
    Value,
    blamed,
    elements,
    shown,
)
from tc.source import Edit, Span


@dataclass(frozen=True, slots=True)
class WeakInput:
    """A number, or a list of numbers, of Python's: weak (C25)."""

    array: Array


def results_of(
    module: ast.Module, inputs: Mapping[str, Array | WeakInput], entry: str | None
) -> tuple[tuple[Value, ...], Context]:
    """The results of a program as values by demand, and the context that gathers warnings.

    `inputs` are by the names of the parameters of `entry`, or of the free names of an expression.
    """
    functions = {definition.name.text: definition for definition in module.definitions}
    context = Context(functions, evaluate, execute, compute_loop)
    nowhere = Span(module.source, 0, 0)
    env = Environment({}, context)
    values = {name: input_value(name, given, nowhere, env) for name, given in inputs.items()}
    if module.body is not None:
        behind = execute(module.body.statements, env.bind(values))
        return tuple(evaluate(result, behind) for result in module.body.results), context
    definition = functions[entry] if entry is not None else module.definitions[0]
    parameters = definition.parameters
    args = [values[parameter.name.text] for parameter in parameters]
    spans = [parameter.span for parameter in parameters]
    invocation = Invocation(definition, args, spans, definition.name.span, env, is_entry=True)
    invocation.check()
    return invocation.results, context


def interpret_module(
    module: ast.Module, inputs: Mapping[str, Array | WeakInput], entry: str | None = None
) -> tuple[tuple[Array, ...], Context]:
    """The results of a checked program, in the types of C5, and the context with its warnings."""
    results, context = results_of(module, inputs, entry)
    found = []
    for result in results:
        dtype = result.type.alone
        found.append(rounded_to(elements(result, dtype), dtype))
    return tuple(found), context


def input_value(name: str, given: Array | WeakInput, span: Span, env: Environment) -> Input:
    """An input as a value: an array of its own type, or Python's numbers, which are weak."""
    if isinstance(given, WeakInput):
        return Input(name, given.array, _weak_type(given.array), span, env)
    return Input(name, given, ElementType(DTYPES[str(given.dtype)]), span, env)


def _weak_type(array: Array) -> ElementType:
    if array.dtype == bool:
        return BOOL_TYPE
    if array.dtype.kind == "f":
        return ElementType(Weak.FLOAT)
    numbers = {int(array.min()), int(array.max())} if array.size else set()
    limits = np.iinfo(np.int32)
    is_large = any(not limits.min <= n <= limits.max for n in numbers)
    written = tuple(WrittenNumber(n, None) for n in sorted(numbers))
    return ElementType(Weak.LITERAL, None, written, is_large)


# --- loops ----------------------------------------------------------------------------------------


def compute_loop(loop: Value, at: Mapping[int, int] = MappingProxyType({}), /) -> Array:
    """The elements of a comprehension or a with-loop, in the numpy type that they are computed in;
    of some axes, only those at the indices `at`, and without these axes."""
    if isinstance(loop, FoldLoop):
        total = _fold(loop)
        return np.asarray(total[tuple(at.get(axis, slice(None)) for axis in range(total.ndim))])
    assert isinstance(loop, ComprehensionValue | ArrayLoop)
    shape, dtype = loop.shape, loop.type.dtype
    for found in loop.body_types():
        check_fit(found, dtype)
    kept = tuple(1 if axis in at else n for axis, n in enumerate(shape))
    result = np.zeros(kept, computed_in(dtype))
    covered = np.zeros(kept, np.bool_)
    for part in loop.parts:
        lower, upper = part.range
        room = part.room(shape)
        if is_empty(lower, upper) or 0 in room or not result.size:
            continue
        axes = part.axes(len(shape))
        within = _parts(tuple(axis for axis in range(len(shape)) if axis not in axes), at)
        for index in indices(*_limited(lower, upper, axes, at)):
            place: tuple[Any, ...] = _place(index, axes, len(shape), at)
            free = ~covered[place]
            if not free.any():
                continue
            values = _instance(part, index, room, dtype)[within]
            result[place][free] = values[free]
            covered[place] = True
    if isinstance(loop, ArrayLoop):
        _fill(loop, result, covered, at)
    return result.reshape(tuple(n for axis, n in enumerate(kept) if axis not in at))


def _limited(lower: Shape, upper: Shape, axes: Shape, at: Mapping[int, int]) -> tuple[Shape, Shape]:
    """The part of a range along some axes in which the index along the axes of `at` is theirs."""
    lower = tuple(max(k, at.get(axis, k)) for k, axis in zip(lower, axes, strict=True))
    upper = tuple(min(n, at.get(axis, n - 1) + 1) for n, axis in zip(upper, axes, strict=True))
    return lower, upper


def _place(index: Shape, axes: Shape, rank: int, at: Mapping[int, int]) -> tuple[object, ...]:
    """The elements of the result that an instance covers, as a view."""
    place: list[object] = [slice(None)] * rank
    for axis, k in zip(axes, index, strict=True):
        place[axis] = 0 if axis in at else k
    return (*place, ...)


def _parts(axes: Shape, at: Mapping[int, int]) -> tuple[Any, ...]:
    """Of an array with these axes of the result, the elements that are due, as a view."""
    return (*(slice(at[axis], at[axis] + 1) if axis in at else slice(None) for axis in axes), ...)


def _instance(part: Partition, index: Shape, room: Shape, dtype: Type) -> Array:
    """The elements of the body at an index, which fit the room that is left for them (C13)."""
    body = part.instance(index)
    try:
        return _fitting(part, body, index, room, dtype)
    except TCError as error:
        if error.rule == "C8" and not error.edits:
            repaired_by(error, *farthest_generator(part, error.span))
            show_farthest(part, error)
        raise


def _fitting(part: Partition, body: Value, index: Shape, room: Shape, dtype: Type) -> Array:
    if body.shape != room:
        if part.dots > body.rank:
            raise part.too_many_dots(body.rank)
        raise part.loop.fault(
            blamed((body, Level.S), (part.loop, Level.S)),
            "C13",
            f"the body at {part.index_text} = {shown(index)} has shape {shown(body.shape)}, the "
            f"result has room for {shown(room)}",
            span=part.body.span,
            paste=None if body.rank else spread_text(part.body.span, room),
        )
    return elements(body, dtype)


def _fill(loop: ArrayLoop, result: Array, covered: Array, at: Mapping[int, int]) -> None:
    """Puts the default element, or the array of modarray, where no partition does."""
    if covered.all():
        return
    check_fit(loop.default.type, loop.type.dtype)
    default = elements(loop.default, loop.type.dtype)
    count = result.ndim - default.ndim
    default = default[_parts(tuple(range(count, result.ndim)), at)]
    for index in np.ndindex(*result.shape[:count]):
        place = (*index, ...)
        free = ~covered[place]
        if free.any():
            result[place][free] = default[free]


def _fold(loop: FoldLoop) -> Array:
    """All bodies joined with the neutral element; each index once, from the first partition that
    has it."""
    loop.check_fit()
    total = _in_fold(loop, loop.neutral)
    ranges: list[tuple[Shape, Shape]] = []
    for part in loop.parts:
        lower, upper = part.lower, part.upper
        for index in indices(lower, upper):
            if any(_lies_in(index, box) for box in ranges):
                continue
            total = combined(loop.op, total, _folded_instance(loop, part, index))
        ranges.append((lower, upper))
    return total


def _folded_instance(loop: FoldLoop, part: Partition, index: Shape) -> Array:
    """The elements of the body of a fold at an index, of the shape of the neutral element (C21)."""
    body = part.instance(index)
    if body.shape != loop.shape:
        error = loop.fault(
            blamed((body, Level.S), (loop.neutral, Level.S)),
            "C21",
            f"the body at {part.index_text} = {shown(index)} has shape {shown(body.shape)}, the "
            f"neutral element {shown(loop.shape)}",
            span=part.body.span,
        )
        if not loop.neutral.rank:
            at = loop.neutral_span
            repaired_by(error, Edit(at, spread_text(at, body.shape)))
        raise error
    return _in_fold(loop, body)


def check_instance(loop: LoopValue, part: Partition, index: Shape) -> None:
    """Raises what an instance of a loop raises."""
    if isinstance(loop, FoldLoop):
        _folded_instance(loop, part, index)
    else:
        _instance(part, index, part.room(loop.shape), loop.type.dtype)


def _in_fold(loop: FoldLoop, value: Value) -> Array:
    """Elements as a fold joins them."""
    if loop.op in ("&&", "||"):
        return cast(value.value, BOOL)
    return elements(value, loop.type.dtype)


def _lies_in(index: Shape, box: tuple[Shape, Shape]) -> bool:
    lower, upper = box
    return len(index) == len(lower) and all(
        first <= k < end for first, k, end in zip(lower, index, upper, strict=True)
    )


__all__ = ["Sequence", "TCError", "WeakInput", "interpret_module", "results_of"]
