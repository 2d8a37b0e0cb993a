"""Bounds on the values of integer expressions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from tc.affine.intervals import Box, Interval, around, contains, operation, scaled
from tc.builtins import BIT_FUNCTIONS
from tc.dtypes import limits
from tc.extents.sizes import as_integer, is_tracked
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Const,
    Expr,
    Grid,
    Ramp,
    Select,
    Unary,
    Var,
)

Bounds: TypeAlias = Box[str]
"""The intervals of variables; others count by their type alone."""


def loop_interval(begin: Expr, end: Expr, bounds: Bounds) -> Interval:
    """The values of a loop's variable."""
    first, last = interval(begin, bounds)[0], interval(end, bounds)[1] - 1
    if is_tracked(first) or is_tracked(last):
        return first, last  # where the loop does not run, it is all one what it is said to have
    return first, max(first, last)


def launch_intervals(grid: Grid) -> dict[str, Interval]:
    """The values of the numbers of blocks and threads.

    >>> from tc.kernel.ir import LaunchIndex
    >>> launch_intervals(Grid((LaunchIndex("b", 3),), (LaunchIndex("t", 32),), ()))
    {'b': (0, 2), 't': (0, 31)}
    """
    return {index.var: (0, index.count - 1) for index in grid.blocks + grid.threads}


def interval(expr: Expr, bounds: Bounds) -> Interval:
    """Bounds on the value of an integer or bool expression, after wrapping around; those of its
    type where nothing better is known.

    >>> from tc.dtypes import INT64
    >>> i = Var("i", INT64)
    >>> interval(Binary("%", i, Const(4, INT64), INT64), {})
    (0, 3)
    """
    found, everything = _exact(expr, bounds), limits(expr.dtype.scalar)
    return found if found is not None and contains(everything, found) else everything


def is_in_bounds(indices: Iterable[Expr], shape: Sequence[int], bounds: Bounds) -> bool:
    """Whether indices certainly name an element of an array of a shape."""
    places = (interval(index, bounds) for index in indices)
    return all(low >= 0 and high < size for (low, high), size in zip(places, shape, strict=True))


def _exact(expr: Expr, bounds: Bounds) -> Interval | None:
    """Bounds before wrapping around, None where nothing is known."""
    match expr:
        case Const(value=value):
            return as_integer(value), as_integer(value)
        case Var(name=name):
            return bounds.get(name)
        case Cast(operand=operand) if operand.dtype.is_float:
            return None
        case Cast(operand=operand) | Broadcast(operand=operand):
            return interval(operand, bounds)
        case Ramp(base=base, step=step, dtype=dtype):
            (low, high), last = interval(base, bounds), step * (dtype.lanes - 1)
            return low + min(0, last), high + max(0, last)
        case Unary(operand=operand):
            return scaled(interval(operand, bounds), -1)
        case Select(then=then, otherwise=otherwise):
            return around(interval(then, bounds), interval(otherwise, bounds))
        case Call(function=function, dtype=dtype) if function in BIT_FUNCTIONS:
            return 0, dtype.bits
        case Binary(op=op, left=left, right=right):
            return operation(op, interval(left, bounds), interval(right, bounds))
        case _:
            return None
