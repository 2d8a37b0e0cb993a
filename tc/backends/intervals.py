"""Bounds on the values of integer expressions, for printers whose language forbids overflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from tc.dtypes import BOOL, INT64, DType
from tc.kernel.ir import Binary, Cast, Const, Expr, For, Select, Unary, Var

Interval: TypeAlias = tuple[int, int]
"""The least and the greatest value."""

Known: TypeAlias = Mapping[str, Interval]
"""What is known of variables; those absent may have any value of their type."""


def type_interval(dtype: DType) -> Interval:
    """All values of an integer type or bool.

    >>> from tc.dtypes import INT8
    >>> type_interval(INT8)
    (-128, 127)
    """
    if dtype == BOOL:
        return 0, 1
    info = np.iinfo(dtype.name)
    return int(info.min), int(info.max)


def loop_interval(loop: For, known: Known) -> Interval:
    """The values of a loop's variable."""
    least, greatest = interval(loop.begin, known)[0], interval(loop.end, known)[1] - 1
    return least, max(least, greatest)


def interval(expr: Expr, known: Known) -> Interval:
    """Bounds on the value of an integer or bool expression, after wrapping around.

    >>> i = Var("i", INT64)
    >>> interval(Binary("%", i, Const(4, INT64), INT64), {})
    (0, 3)
    """
    everything = type_interval(expr.dtype)
    if isinstance(expr, Var):
        return known.get(expr.name, everything)
    if isinstance(expr, Cast) and expr.operand.dtype.is_float:
        return everything
    return within(_exact(expr, known), everything)


def never_overflows(expr: Expr, known: Known) -> bool:
    """Whether an expression of sums, differences and products, and each in it, stays in int64
    when its other terms have wrapped around in their types and these operations do not.

    >>> i = Var("i", INT64)
    >>> never_overflows(Binary("*", i, i, INT64), {"i": (0, 1000)})
    True
    """
    return _unwrapped(expr, known) is not None


def within(found: Interval | None, everything: Interval) -> Interval:
    inside = found is not None and everything[0] <= found[0] and found[1] <= everything[1]
    return found if inside and found is not None else everything


def _unwrapped(expr: Expr, known: Known) -> Interval | None:
    if not (isinstance(expr, Binary) and expr.op in ("+", "-", "*")):
        return interval(expr, known)
    left, right = _unwrapped(expr.left, known), _unwrapped(expr.right, known)
    if left is None or right is None:
        return None
    found = combined(expr.op, left, right)
    return found if within(found, type_interval(INT64)) == found else None


def combined(op: str, left: Interval, right: Interval) -> Interval:
    """Bounds on a sum, difference or product that does not wrap around."""
    match op:
        case "+":
            return left[0] + right[0], left[1] + right[1]
        case "-":
            return left[0] - right[1], left[1] - right[0]
        case _:
            corners = [a * b for a in left for b in right]
            return min(corners), max(corners)


def _exact(expr: Expr, known: Known) -> Interval | None:
    """Bounds before wrapping around, None where nothing is known."""
    match expr:
        case Const(value=value):
            return int(value), int(value)
        case Unary(operand=operand):
            least, greatest = interval(operand, known)
            return -greatest, -least
        case Cast(operand=operand):
            return interval(operand, known)
        case Select(then=then, otherwise=otherwise):
            sides = interval(then, known), interval(otherwise, known)
            return min(s[0] for s in sides), max(s[1] for s in sides)
        case Binary(op="+" | "-" | "*" as op, left=left, right=right):
            return combined(op, interval(left, known), interval(right, known))
        case Binary(op="min" | "max" as op, left=left, right=right):
            a, b = interval(left, known), interval(right, known)
            pick = min if op == "min" else max
            return pick(a[0], b[0]), pick(a[1], b[1])
        case Binary(op="%", right=Const(value=value)) if value > 0:
            return 0, int(value) - 1
        case Binary(op="/", left=left, right=Const(value=value)) if value > 0:
            least, greatest = interval(left, known)
            return least // int(value), greatest // int(value)
        case Binary(op=">>", left=left, right=Const(value=value)):
            least, greatest = interval(left, known)
            return least >> int(value), greatest >> int(value)
        case Binary(op="&", left=left, right=right):
            ends = [high for low, high in (interval(s, known) for s in (left, right)) if low >= 0]
            return (0, min(ends)) if ends else None
        case _:
            return None
