"""Bounds on the values of integer expressions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from tc.builtins.operators import combined
from tc.dtypes import INT64, DType
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Cast,
    Const,
    Expr,
    Grid,
    Ramp,
    Select,
    Unary,
    Var,
)

Interval: TypeAlias = tuple[int, int]
"""The least and the greatest value that an integer expression may have."""

Bounds: TypeAlias = Mapping[str, Interval]
"""The intervals of variables; others count by their type alone."""


def type_interval(dtype: DType) -> Interval:
    """All values of an integer type or bool.

    >>> from tc.dtypes import INT8
    >>> type_interval(INT8)
    (-128, 127)
    """
    if dtype.kind == "bool":
        return 0, 1
    info = np.iinfo(dtype.name)
    return int(info.min), int(info.max)


def loop_interval(begin: Expr, end: Expr, bounds: Bounds) -> Interval:
    """The values of a loop's variable."""
    least, greatest = interval(begin, bounds)[0], interval(end, bounds)[1] - 1
    return least, max(least, greatest)


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

    >>> i = Var("i", INT64)
    >>> interval(Binary("%", i, Const(4, INT64), INT64), {})
    (0, 3)
    """
    return within(_exact(expr, bounds), type_interval(expr.dtype))


def never_overflows(expr: Expr, bounds: Bounds) -> bool:
    """Whether an expression of sums, differences and products, and each in it, stays in int64
    when its other terms have wrapped around in their types and these operations do not.

    >>> i = Var("i", INT64)
    >>> never_overflows(Binary("*", i, i, INT64), {"i": (0, 1000)})
    True
    """
    return _unwrapped(expr, bounds) is not None


def within(found: Interval | None, everything: Interval) -> Interval:
    """What was found, where that is something and part of everything."""
    inside = found is not None and everything[0] <= found[0] and found[1] <= everything[1]
    return found if inside and found is not None else everything


def decided_comparison(op: str, left: Interval, right: Interval) -> bool | None:
    """What a comparison of numbers in these intervals is, None where it may be either.

    >>> decided_comparison("<", (0, 4), (5, 9)), decided_comparison("<", (0, 5), (5, 9))
    (True, None)
    """
    (least, most), (low, high) = left, right
    if most < low:
        return op in ("<", "<=", "!=")
    if least > high:
        return op in (">", ">=", "!=")
    if most <= low and op in ("<=", ">"):
        return op == "<="
    if least >= high and op in (">=", "<"):
        return op == ">="
    return None


def _unwrapped(expr: Expr, bounds: Bounds) -> Interval | None:
    if not (isinstance(expr, Binary) and expr.op in ("+", "-", "*")):
        return interval(expr, bounds)
    left, right = _unwrapped(expr.left, bounds), _unwrapped(expr.right, bounds)
    if left is None or right is None:
        return None
    found = combined(expr.op, left, right)
    return found if within(found, type_interval(INT64)) == found else None


def _exact(expr: Expr, bounds: Bounds) -> Interval | None:
    """Bounds before wrapping around, None where nothing is known."""
    match expr:
        case Const(value=value):
            return int(value), int(value)
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
            low, high = interval(operand, bounds)
            return -high, -low
        case Select(then=then, otherwise=otherwise):
            (a, b), (c, d) = interval(then, bounds), interval(otherwise, bounds)
            return min(a, c), max(b, d)
        case Binary(op=op, left=left, right=right):
            return combined(op, interval(left, bounds), interval(right, bounds))
        case _:
            return None
