"""Making kernel expressions: constants folded, neutral operands dropped, decided tests decided.

Each function makes the node that its name says, or a simpler expression of the same value, so
that lowered code reads well. Floating arithmetic is never touched: it would change bits.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from tc.dtypes import BOOL, FLOAT16, INT64, DType, fits
from tc.kernel.ir import (
    Binary,
    Cast,
    Compare,
    Const,
    Expr,
    Logical,
    Select,
    Unary,
    Var,
    children,
)

Interval: TypeAlias = "tuple[int, int]"
"""The least and the greatest value that an integer expression may have."""

Bounds: TypeAlias = "Mapping[str, Interval]"
"""The intervals of variables; others count by their type alone."""

TRUE, FALSE = Const(True, BOOL), Const(False, BOOL)

_EXACT: Mapping[str, Callable[[int, int], int]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}
_RELATION: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def constant(value: float, dtype: DType) -> Const:
    """A constant of a type other than half: integers wrap around, floats are rounded.

    >>> constant(300, DType("uint8", "uint", 8)).value, constant(2, BOOL).value
    (44, True)
    """
    if dtype == BOOL:
        return Const(bool(value), BOOL)
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return Const(float(dtype.numpy.type(value)), dtype)
    wrapped = int(value) % (1 << dtype.bits)
    is_negative = dtype.kind == "int" and wrapped >= 1 << (dtype.bits - 1)
    return Const(wrapped - (1 << dtype.bits) if is_negative else wrapped, dtype)


def integer(value: int) -> Const:
    return Const(value, INT64)


def binary(op: str, left: Expr, right: Expr) -> Expr:
    """`left op right`, on operands of one type.

    >>> i = Var("i", INT64)
    >>> binary("+", binary("+", integer(1), i), integer(-1)) == i
    True
    """
    dtype = left.dtype
    if not dtype.is_integer:
        return Binary(op, left, right, dtype)
    match left, right:
        case Const(value=a), Const(value=b) if op not in "/%" or b != 0:
            return constant(_EXACT[op](int(a), int(b)), dtype)
    match op:
        case "+" | "-":
            return _sum(op, left, right)
        case "*":
            return _product(left, right)
        case "/" if right == Const(1, dtype):
            return left
        case "%" if right == Const(1, dtype):
            return Const(0, dtype)
        case _:
            return Binary(op, left, right, dtype)


def negation(operand: Expr) -> Expr:
    match operand:
        case Const(value=value, dtype=dtype) if dtype.is_integer or not math.isnan(value):
            return constant(-value, dtype)
        case _:
            return Unary("-", operand, operand.dtype)


def cast(operand: Expr, dtype: DType) -> Expr:
    """The operand in another type; a cast to half stays as it is, as it rounds."""
    if operand.dtype == dtype:
        return operand
    match operand:
        case Const(value=value) if dtype != FLOAT16 and _converts(value, dtype):
            exact = operand.dtype.numpy.type(value)
            with np.errstate(over="ignore"):
                return constant(exact.astype(dtype.numpy).item(), dtype)
        case _:
            return Cast(operand, dtype)


def compare(op: str, left: Expr, right: Expr, bounds: Bounds) -> Expr:
    """`left op right`, or the constant that it is for all values within the bounds."""
    match left, right:
        case Const(value=a), Const(value=b):
            return Const(_RELATION[op](a, b), BOOL)
    if not left.dtype.is_integer:
        return Compare(op, left, right)
    (least, most), (low, high) = interval(left, bounds), interval(right, bounds)
    if most < low:
        return Const(op in ("<", "<=", "!="), BOOL)
    if least > high:
        return Const(op in (">", ">=", "!="), BOOL)
    if most <= low and op in ("<=", ">"):
        return Const(op == "<=", BOOL)
    if least >= high and op in (">=", "<"):
        return Const(op == ">=", BOOL)
    return _without_offset(op, left, right, bounds)


def logical_and(left: Expr, right: Expr) -> Expr:
    if FALSE in (left, right):
        return FALSE
    if TRUE in (left, right):
        return right if left == TRUE else left
    return Logical("&&", (left, right))


def logical_or(left: Expr, right: Expr) -> Expr:
    if TRUE in (left, right):
        return TRUE
    if FALSE in (left, right):
        return right if left == FALSE else left
    return Logical("||", (left, right))


def logical_not(operand: Expr) -> Expr:
    match operand:
        case Const(value=value):
            return Const(not value, BOOL)
        case Logical(op="!", operands=(inner,)):
            return inner
        case _:
            return Logical("!", (operand,))


def select(condition: Expr, then: Expr, otherwise: Expr) -> Expr:
    """`condition ? then : otherwise`; `c ? x : false` is `c && x`, and so on."""
    match condition:
        case Const(value=value):
            return then if value else otherwise
    if otherwise == FALSE:
        return logical_and(condition, then)
    if then == TRUE:
        return logical_or(condition, otherwise)
    return Select(condition, then, otherwise, then.dtype)


def interval(expr: Expr, bounds: Bounds) -> Interval:
    """Bounds of an integer expression; those of its type where nothing better is known.

    >>> i = Var("i", INT64)
    >>> interval(binary("-", binary("*", integer(2), i), integer(1)), {"i": (0, 4)})
    (-1, 7)
    """
    info = np.iinfo(expr.dtype.numpy.str)
    whole = int(info.min), int(info.max)
    found = _interval(expr, bounds, whole)
    return found if whole[0] <= found[0] and found[1] <= whole[1] else whole


def _interval(expr: Expr, bounds: Bounds, whole: Interval) -> Interval:
    match expr:
        case Const(value=value):
            return int(value), int(value)
        case Var(name=name):
            return bounds.get(name, whole)
        case Cast(operand=operand) if operand.dtype.is_integer:
            return interval(operand, bounds)
        case Unary(operand=operand):
            low, high = interval(operand, bounds)
            return -high, -low
        case Select(then=then, otherwise=otherwise):
            (a, b), (c, d) = interval(then, bounds), interval(otherwise, bounds)
            return min(a, c), max(b, d)
        case Binary(op=op, left=left, right=right):
            return _interval_of(op, interval(left, bounds), interval(right, bounds), whole)
        case _:
            return whole


def _interval_of(op: str, left: Interval, right: Interval, whole: Interval) -> Interval:
    (a, b), (c, d) = left, right
    match op:
        case "+":
            return a + c, b + d
        case "-":
            return a - d, b - c
        case "*":
            products = (a * c, a * d, b * c, b * d)
            return min(products), max(products)
        case "/" if c > 0:
            return min(a // c, a // d), max(b // c, b // d)
        case "%" if c > 0:
            return (a, b) if a >= 0 and b < c else (0, d - 1)
        case "min":
            return min(a, c), min(b, d)
        case "max":
            return max(a, c), max(b, d)
        case _:
            return whole


def _sum(op: str, left: Expr, right: Expr) -> Expr:
    """Constants go to the right end and join there."""
    dtype = left.dtype
    match left, right:
        case Const(), _ if op == "+":
            return _sum(op, right, left)
        case _, Const(value=0):
            return left
        case Const(value=0), _ if dtype.kind == "int":
            return negation(right)
        case Binary(op="+" | "-" as inner, left=rest, right=Const(value=a)), Const(value=b):
            total = constant((a if inner == "+" else -a) + (b if op == "+" else -b), dtype)
            return binary("+", rest, total)
        case _, Const(value=value) if value < 0 and fits(-value, dtype):
            return Binary("-" if op == "+" else "+", left, Const(-value, dtype), dtype)
        case _:
            return Binary(op, left, right, dtype)


def _product(left: Expr, right: Expr) -> Expr:
    dtype = left.dtype
    for one, other in ((left, right), (right, left)):
        if one == Const(0, dtype):
            return one
        if one == Const(1, dtype):
            return other
    return Binary("*", left, right, dtype)


def _without_offset(op: str, left: Expr, right: Expr, bounds: Bounds) -> Expr:
    """`i + 1 < 3` as `i < 2`, where nothing wraps around; the constant stands on the right."""
    match left, right:
        case Const(), _:
            return _without_offset(_SWAPPED[op], right, left, bounds)
        case Binary(op="+" | "-" as inner, left=rest, right=Const(value=a)), Const(value=b):
            limit = int(b) - int(a) if inner == "+" else int(b) + int(a)
            low, high = interval(rest, bounds)
            moved = (low + int(a), high + int(a)) if inner == "+" else (low - int(a), high - int(a))
            if all(fits(value, left.dtype) for value in (limit, *moved)):
                return _without_offset(op, rest, Const(limit, left.dtype), bounds)
    return Compare(op, left, right)


def _converts(value: float, dtype: DType) -> bool:
    """Whether the conversion of a constant is specified (Y4)."""
    if not dtype.is_integer or isinstance(value, int):
        return True
    return math.isfinite(value) and fits(math.trunc(value), dtype)


def is_simple(expr: Expr) -> bool:
    """Whether it may stand twice in the code without harm."""
    match expr:
        case Const() | Var():
            return True
        case Binary(op="+" | "-", left=Var(), right=Var() | Const()):
            return True
        case _:
            return False


def depth(expr: Expr) -> int:
    """The number of nodes on the longest way down.

    >>> depth(Binary("+", Var("i", INT64), Var("j", INT64), INT64))
    2
    """
    from_below = (depth(child) for child in children(expr))
    return 1 + max(from_below, default=0)
