"""Where a block's reads and writes fall in a tensor: views of it wherever that is possible.

A read whose subscripts are sums of index variables times constants is, over a block, a strided
view of the tensor: nothing is copied, whatever the window (`I(c, 2*h + kh)`) or the layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np

from tc.affine.forms import LinearForm
from tc.dtypes import Array
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.reference.instance_blocks import InstanceBlock
from tc.semantics.size_values import KnownSizes

Pick: TypeAlias = Callable[[Array], Array]
"""Takes the elements that a block reads or writes out of an array of a tensor's shape."""


def strided_form(subscript: p.Expr, shaped: p.ShapedProgram) -> LinearForm | None:
    """A subscript as a sum of index variables times constants, or None. Where int64 would wrap
    around, its values lie outside of any tensor, so that it is then evaluated as it stands."""
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    return linear_form(subscript, known, exact=True)


def strided_pick(
    forms: Sequence[LinearForm], shape: Sequence[int], block: InstanceBlock
) -> Pick | None:
    """What a block reads through affine subscripts, as a view with one axis per block variable.

    None where some instance of the block would read outside the tensor.
    """
    box, corners = block.box, []
    first = {variable: low for variable, (low, _) in box.items()}
    for form, extent in zip(forms, shape, strict=True):
        low, high = form.interval(box)
        if low < 0 or high >= extent:
            return None
        corners.append(form.at(first))
    used = {variable for form in forms for variable in form.terms}
    lengths = tuple(
        extent if variable in used else 1
        for variable, extent in zip(block.variables, block.shape, strict=True)
    )
    # only along these are there steps to take: with one value, a factor may be beyond int64
    moving = {v for v, length in zip(block.variables, lengths, strict=True) if length > 1}

    def pick(array: Array) -> Array:
        steps = dict.fromkeys(block.variables, 0)
        for form, stride in zip(forms, array.strides, strict=True):
            for variable, factor in form.terms.items():
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
        form = strided_form(subscript, shaped)
        assert form is not None
        assert list(form.terms.values()) == [1]
        low, high = form.interval(block.box)
        slices.append(slice(low, high + 1))
    place = (*slices, Ellipsis)
    return lambda array: array[place]
