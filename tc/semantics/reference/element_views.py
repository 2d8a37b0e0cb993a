"""Where a block's reads and writes fall in a tensor: views of it wherever that is possible.

A read whose subscripts are sums of index variables times constants is, over a block, a strided
view of the tensor: nothing is copied, whatever the window (`I(c, 2*h + kh)`) or the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tc.dtypes import INT64, Array
from tc.semantics import program as p
from tc.semantics.reference.instance_blocks import InstanceBlock

Pick: TypeAlias = Callable[[Array], Array]
"""Takes what a block reads (or the place that it writes) out of an array of a tensor's shape."""


@dataclass(frozen=True, slots=True)
class StridedSubscript:
    """`constant + sum(factor * variable)`: an affine subscript with its sizes filled in."""

    constant: int
    factors: tuple[tuple[str, int], ...]

    def over(self, block: InstanceBlock) -> tuple[int, int, int]:
        """The value at the block's corner, and its least and greatest value in the block."""
        corner = low = high = self.constant
        for variable, factor in self.factors:
            axis = block.axis(variable)
            start = factor * block.begins[axis]
            swing = factor * (block.shape[axis] - 1)
            corner, low, high = corner + start, low + start, high + start
            low, high = low + min(0, swing), high + max(0, swing)
        return corner, low, high


def strided_subscript(expr: p.Expr, shaped: p.ShapedProgram) -> StridedSubscript | None:
    """A subscript in this form, or None. Where int64 would wrap around, its values lie
    outside of any tensor, so that the subscript is then evaluated as it stands."""
    terms = _linear(expr, shaped)
    if terms is None:
        return None
    factors = tuple((name, factor) for name, factor in terms.items() if name and factor)
    return StridedSubscript(terms.get("", 0), factors)


def _linear(expr: p.Expr, shaped: p.ShapedProgram) -> dict[str, int] | None:
    """Factors by variable, the constant under the empty name."""
    match expr:
        case p.Literal(value=value):
            return {"": int(value)}
        case p.Size(name=name):
            return {"": shaped.sizes[name]}
        case p.Extent(tensor=tensor, axis=axis):
            return {"": shaped.shapes[tensor][axis]}
        case p.Index(name=name):
            return {name: 1}
        case p.Convert(operand=p.Read(tensor=name, subscripts=()), dtype=dtype) if (
            dtype == INT64 and name in shaped.scalars
        ):
            return {"": shaped.scalars[name]}
        case p.Unary(operand=operand):
            terms = _linear(operand, shaped)
            return terms and {name: -factor for name, factor in terms.items()}
        case p.Binary(op="+" | "-" | "*" as op, left=left, right=right):
            return _combine(op, _linear(left, shaped), _linear(right, shaped))
        case _:
            return None


def _combine(
    op: str, left: dict[str, int] | None, right: dict[str, int] | None
) -> dict[str, int] | None:
    if left is None or right is None:
        return None
    if op == "*":
        if any(map(left.get, filter(None, left))):
            left, right = right, left
        if any(map(left.get, filter(None, left))):
            return None
        return {name: left.get("", 0) * factor for name, factor in right.items()}
    sign = -1 if op == "-" else 1
    names = dict.fromkeys((*left, *right))
    return {name: left.get(name, 0) + sign * right.get(name, 0) for name in names}


def strided_pick(
    subscripts: Sequence[StridedSubscript], shape: Sequence[int], block: InstanceBlock
) -> Pick | None:
    """What a block reads through affine subscripts, as a view with one axis per block variable.

    None where some instance of the block would read outside the tensor.
    """
    corners = []
    for subscript, extent in zip(subscripts, shape, strict=True):
        corner, low, high = subscript.over(block)
        if low < 0 or high >= extent:
            return None
        corners.append(corner)
    used = {variable for subscript in subscripts for variable, _ in subscript.factors}
    lengths = tuple(
        extent if variable in used else 1
        for variable, extent in zip(block.variables, block.shape, strict=True)
    )
    # only along these are there steps to take: with one value, a factor may be beyond int64
    moving = {v for v, length in zip(block.variables, lengths, strict=True) if length > 1}

    def pick(array: Array) -> Array:
        steps = dict.fromkeys(block.variables, 0)
        for subscript, stride in zip(subscripts, array.strides, strict=True):
            for variable, factor in subscript.factors:
                if variable in moving:
                    steps[variable] += factor * stride
        place: tuple[Any, ...] = (*(slice(c, c + 1) for c in corners), Ellipsis)
        first = array[place]
        return np.lib.stride_tricks.as_strided(
            first, lengths, tuple(steps.values()), writeable=False
        )

    return pick


def gather_pick(places: Sequence[Array], shape: Sequence[int]) -> Pick:
    """What a block reads at computed places inside the tensor; 0 from a tensor without elements,
    where a read is never used or has already failed."""
    places = tuple(places)

    def pick(array: Array) -> Array:
        if 0 in shape:
            spread = np.broadcast_shapes(*(place.shape for place in places))
            return np.broadcast_to(np.zeros((), array.dtype), spread)
        return np.asarray(array[places])

    return pick


def target_pick(
    subscripts: Sequence[p.Expr], shaped: p.ShapedProgram, block: InstanceBlock
) -> Pick:
    """The place that a block of the left-hand variables writes, as a writable view."""
    slices: list[Any] = []
    for subscript in subscripts:
        form = strided_subscript(subscript, shaped)
        assert form is not None
        assert [factor for _, factor in form.factors] == [1]
        corner, _, high = form.over(block)
        slices.append(slice(corner, high + 1))
    place = (*slices, Ellipsis)
    return lambda array: array[place]
