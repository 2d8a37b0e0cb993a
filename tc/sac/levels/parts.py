"""Elements of arrays without the others: what a selection needs, as far as an array tells it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tc.dtypes import Array
from tc.sac.levels.applications import Application
from tc.sac.levels.array_functions import dropped, taken
from tc.sac.levels.calls import Argument, CallValue, Result
from tc.sac.levels.element_types import ElementType, check_fit
from tc.sac.levels.loops import FoldLoop, LoopValue
from tc.sac.levels.selections import Choice, RowOfValues, Selection
from tc.sac.levels.values import Level, Needs, Shape, Value, elements


class PartOf(Value):
    """The elements of an array at indices of some of its axes."""

    def __init__(self, array: Value, at: Mapping[int, int]) -> None:
        super().__init__(array.span, array.env)
        self.array = array
        self.at = at

    @cached_property
    def type(self) -> ElementType:
        return self.array.type

    @cached_property
    def shape(self) -> Shape:
        return tuple(n for axis, n in enumerate(self.array.shape) if axis not in self.at)

    @cached_property
    def value(self) -> Array:
        return part_of(self.array, self.at)

    def needs(self, level: Level) -> Needs:
        return [(self.array, level)]

    def place_of(self, index: Shape) -> Shape:
        rest = iter(index)
        axes = range(self.array.rank)
        return self.array.place_of(tuple(self.at[a] if a in self.at else next(rest) for a in axes))


def part_of(array: Value, at: Mapping[int, int]) -> Array:
    """The elements at indices of some axes, which lie in the array; of a comprehension, those
    alone are computed, each once."""
    if not at or "value" in array.__dict__:
        return _whole(array, at)
    known = array.env.context.parts
    key = array, tuple(sorted(at.items()))
    if key not in known:
        array.env.context.spend()
        known[key] = _computed(array, at)
    return known[key]


def _whole(array: Value, at: Mapping[int, int]) -> Array:
    key: tuple[Any, ...] = tuple(at.get(axis, slice(None)) for axis in range(array.rank))
    return np.asarray(array.value[key])


def _computed(array: Value, at: Mapping[int, int]) -> Array:
    match array:
        case LoopValue() if not isinstance(array, FoldLoop):
            return array.env.context.loops(array, at)
        case CallValue():
            return part_of(array.result, at)
        case Result():
            array.check()
            return elements(PartOf(array.body, at), array.dtype)
        case Argument():
            array.invocation.check_type(array)
            return elements(PartOf(array.given, at), array.dtype)
        case Choice():
            for branch in (array.then, array.otherwise):
                check_fit(branch.type, array.type.dtype)
            return elements(PartOf(array.chosen, at), array.type.dtype)
        case Selection():
            index = dict(zip(array.axes, array.index, strict=True))
            left = [axis for axis in range(array.array.rank) if axis not in index]
            return part_of(array.array, {**index, **{left[axis]: k for axis, k in at.items()}})
        case RowOfValues() if 0 in at:
            _ = array.shape  # rows of one shape
            inner = {axis - 1: k for axis, k in at.items() if axis}
            return elements(PartOf(array.items[at[0]], inner), array.type.dtype)
        case Application():
            return _applied(array, at)
    return _whole(array, at)


def _applied(node: Application, at: Mapping[int, int]) -> Array:
    _ = node.shape  # raises what the operands do not conform in
    name = node.row.name
    if node.row.is_elementwise:
        args = tuple(PartOf(arg, at) if arg.rank else arg for arg in node.args)
        return Application(node.row, args, node.spans, node.span, node.env).value
    if name in ("take", "drop"):
        amounts = np.asarray(node.args[0].value).reshape(-1).tolist()
        array = node.args[1]
        kept = (taken if name == "take" else dropped)(tuple(amounts), array.shape)
        inner = {axis: k + (kept[axis].start if axis < len(kept) else 0) for axis, k in at.items()}
        is_inside = all(axis in at for axis in range(len(kept)))
        return part_of(array, inner) if is_inside else _whole(node, at)
    if name == "transpose":
        last = node.rank - 1
        found = part_of(node.args[0], {last - axis: k for axis, k in at.items()})
        return np.asarray(found.transpose())
    if name == "reverse" and 0 in at:
        size = node.shape[0]
        return part_of(node.args[0], {**at, 0: size - 1 - at[0]})
    if name == "++" and 0 in at:
        left, right = node.args
        first = left.shape[0]
        side, k = (left, at[0]) if at[0] < first else (right, at[0] - first)
        return elements(PartOf(side, {**at, 0: k}), node.type.dtype)
    return _whole(node, at)
