"""Making kernel expressions: constants folded, neutral operands dropped, decided tests decided.

Each function makes the node that its name says, or a simpler expression of the same value, so
that lowered code reads well. Operands are scalars or vectors, all of one count of lanes; indices
stay ramps where they are. Floating arithmetic is never touched: it would change bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tc.affine import intervals
from tc.affine.forms import Form, assembled
from tc.affine.intervals import COMPARISONS, surely
from tc.builtins.operators import ARITHMETIC, MIRRORED, ON_BITS
from tc.dtypes import BOOL, INT64, DType, fits, limits, wrap
from tc.extents.sizes import as_integer, is_tracked
from tc.kernel import ir
from tc.kernel.intervals import Bounds, interval

TRUE, FALSE = ir.Const(True, BOOL), ir.Const(False, BOOL)

_EXACT = {**ARITHMETIC, **ON_BITS}
_BOUNDED = ("min", "max", "/", "%")


def constant(value: float, dtype: DType) -> ir.Const:
    """A constant of a type that is computed in: integers wrap around, floats are rounded.

    >>> from tc.dtypes import UINT8
    >>> constant(300, UINT8).value, constant(2, BOOL).value
    (44, True)
    """
    if dtype.kind == "bool":
        return ir.Const(bool(value), dtype)
    if dtype.is_float:
        with np.errstate(over="ignore"):
            return ir.Const(float(dtype.numpy.type(value)), dtype)
    return ir.Const(wrap(as_integer(value), dtype), dtype)


def integer(value: int) -> ir.Const:
    return ir.Const(value, INT64)


def binary(op: str, left: ir.Expr, right: ir.Expr, bounds: Bounds | None = None) -> ir.Expr:
    """`left op right`, on operands of one type, or what it is for all values within the bounds.

    >>> i = ir.Var("i", INT64)
    >>> binary("+", binary("+", integer(1), i), integer(-1)) == i
    True
    >>> binary("min", i, integer(9), {"i": (0, 9)}) == i
    True
    """
    dtype = left.dtype
    if not dtype.is_integer:
        return ir.Binary(op, left, right, dtype)
    match left, right:
        case ir.Const(value=a), ir.Const(value=b) if is_tracked(a) or is_tracked(b):
            return _of_tracked(op, left, right)
        case ir.Const(value=a), ir.Const(value=b) if _is_defined(op, int(b), dtype):
            return constant(_EXACT[op](int(a), int(b)), dtype)
    if dtype.lanes > 1:
        folded = _vector_binary(op, left, right, bounds)
        if folded is not None:
            return folded
    if bounds is not None and op in _BOUNDED:
        folded = _bounded(op, left, right, bounds)
        if folded is not None:
            return folded
    match op:
        case "+" | "-":
            return _sum(op, left, right)
        case "*":
            return _product(left, right)
        case "/" if is_number(right, 1):
            return left
        case "%" if is_number(right, 1):
            return ir.Const(0, dtype)
        case "<<" | ">>" | "|" | "^" if right == ir.Const(0, dtype):
            return left
        case _:
            return ir.Binary(op, left, right, dtype)


def plus(expr: ir.Expr, number: int) -> ir.Expr:
    """The sum of an int64 and a number."""
    return binary("+", expr, integer(number), {})


def times(expr: ir.Expr, factor: int) -> ir.Expr:
    """The product of an int64 and a number."""
    return binary("*", expr, integer(factor), {})


def _of_tracked(op: str, left: ir.Const, right: ir.Const) -> ir.Expr:
    """The operation of two constants of which one is a tracked size: what is one at all sizes."""
    one, other = as_integer(left.value), as_integer(right.value)
    match op:
        case "min" | "max" if surely(one, "<=", other) or surely(one, ">=", other):
            return left if surely(one, "<=", other) == (op == "min") else right
        case "+" | "-" | "*":
            return constant(_EXACT[op](one, other), left.dtype)
        case "/" | "%" if surely(other, ">", 0):
            return constant(_EXACT[op](one, other), left.dtype)
        case _:
            return ir.Binary(op, left, right, left.dtype)


def negation(operand: ir.Expr) -> ir.Expr:
    match operand:
        case ir.Const(value=value, dtype=dtype) if dtype.is_integer or not math.isnan(value):
            return constant(-value, dtype)
        case _:
            return ir.Unary("-", operand, operand.dtype)


def cast(operand: ir.Expr, dtype: DType) -> ir.Expr:
    """The operand in another type; a cast to a type of storage stays as it is."""
    if operand.dtype == dtype:
        return operand
    match operand:
        case ir.Broadcast(operand=scalar):
            return broadcast(cast(scalar, dtype.scalar), dtype.lanes)
        case ir.Cast(operand=ir.Bits(dtype=own) as stored) if own == dtype and own.is_storage:
            return stored  # which a cast to float32 and back is, but for the bits of NaN
        case ir.Const(value=value) if is_tracked(value):
            number = as_integer(value)
            held = dtype.is_integer and intervals.contains(limits(dtype.scalar), (number, number))
            return ir.Const(value, dtype) if held else ir.Cast(operand, dtype)
        case ir.Const(value=value) if not dtype.is_storage and _converts(value, dtype):
            exact = operand.dtype.numpy.type(value)
            with np.errstate(over="ignore"):
                return constant(exact.astype(dtype.numpy).item(), dtype)
        case _:
            return ir.Cast(operand, dtype)


def bits_of(value: ir.Expr) -> ir.Expr:
    """What a local can hold of a value: that itself, or the bits of a type of storage.

    >>> from tc.dtypes import FLOAT16
    >>> from tc.kernel.printer import expression_text
    >>> expression_text(bits_of(ir.Load("a", (integer(0),), FLOAT16)))
    'uint16.bits(a[0])'
    """
    if not value.dtype.is_storage:
        return value
    return value.operand if isinstance(value, ir.Bits) else ir.Bits(value, value.dtype.unsigned)


def as_stored(value: ir.Expr, dtype: DType) -> ir.Expr:
    """A float rounded to a type of storage; what had that type is that."""
    if isinstance(value, ir.Cast) and value.operand.dtype == dtype:
        return value.operand
    return ir.Cast(value, dtype)


def reinterpreted(operand: ir.Expr, dtype: DType) -> ir.Expr:
    """The bits of a scalar as a value of another type of the same width, none of storage.

    >>> from tc.dtypes import FLOAT32, UINT32
    >>> hex(reinterpreted(ir.Const(1.0, FLOAT32), UINT32).value)
    '0x3f800000'
    """
    match operand:
        case ir.Const(value=value, dtype=own):
            return constant(own.numpy.type(value).view(dtype.numpy).item(), dtype)
        case ir.Bits(operand=inner) if inner.dtype == dtype:
            return inner
        case _:
            return ir.Bits(operand, dtype)


def of_bits(value: ir.Expr, dtype: DType) -> ir.Expr:
    """The value of which `bits_of` was made, whose type is `dtype`."""
    return ir.Bits(value, dtype) if dtype.is_storage else value


def of_form(form: Form[Any, int]) -> ir.Expr:
    """The int64 expression of a form, whose names are those of loop variables, or expressions.

    >>> from tc.kernel.printer import expression_text
    >>> from tc.affine.forms import Form
    >>> expression_text(of_form(Form(-3, {"i": 2, "j": 1})))
    'i * 2 + j - 3'
    """

    def term(name: str | ir.Expr, coefficient: int) -> ir.Expr:
        operand = ir.Var(name, INT64) if isinstance(name, str) else name
        product = binary("*", operand, integer(abs(coefficient)))
        return product if coefficient > 0 else binary("-", integer(0), product)

    return assembled(form, term, integer, binary)


def broadcast(operand: ir.Expr, lanes: int) -> ir.Expr:
    """The vector of a scalar in all lanes; a type of storage is made of its float32.

    >>> broadcast(integer(1), 4)
    Const(value=1, dtype=DType(name='int64', kind='int', bits=64))
    """
    dtype = operand.dtype.vector(lanes)
    match operand:
        case _ if lanes == 1:
            return operand
        case ir.Const(value=value):
            return ir.Const(value, dtype)
        case ir.Cast(operand=whole) if dtype.is_storage:
            return ir.Cast(broadcast(whole, lanes), dtype)
        case _:
            return ir.Broadcast(operand, dtype)


def ramp(base: ir.Expr, step: int, lanes: int) -> ir.Expr:
    """The vector base, base + step, ..."""
    step = constant(step, INT64).value  # type: ignore[assignment]  # an int
    return (
        ir.Ramp(base, step, INT64.vector(lanes)) if step and lanes > 1 else broadcast(base, lanes)
    )


def splat(expr: ir.Expr) -> ir.Expr | None:
    """The scalar that stands in all lanes of a vector, where the expression shows one."""
    match expr:
        case ir.Const(value=value, dtype=dtype):
            return ir.Const(value, dtype.scalar)
        case ir.Broadcast(operand=operand):
            return operand
        case _:
            return None


def compare(op: str, left: ir.Expr, right: ir.Expr, bounds: Bounds) -> ir.Expr:
    """`left op right`, or the constant that it is for all values within the bounds."""
    dtype = BOOL.vector(left.dtype.lanes)
    match left, right:
        case ir.Const(value=a), ir.Const(value=b) if not (is_tracked(a) or is_tracked(b)):
            return ir.Const(COMPARISONS[op](a, b), dtype)
    one, other = splat(left), splat(right)
    if dtype.lanes > 1 and one is not None and other is not None:
        return broadcast(compare(op, one, other, bounds), dtype.lanes)
    if not left.dtype.is_integer:
        return ir.Compare(op, left, right, dtype)
    found = intervals.compared(op, interval(left, bounds), interval(right, bounds))
    if found is not None:
        return ir.Const(found, dtype)
    return _without_offset(op, left, right, bounds)


def logical_and(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    if any(is_constant(operand, False) for operand in (left, right)):
        return ir.Const(False, left.dtype)
    if is_constant(left, True):
        return right
    return left if is_constant(right, True) else ir.Logical("&&", (left, right), left.dtype)


def logical_or(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    if any(is_constant(operand, True) for operand in (left, right)):
        return ir.Const(True, left.dtype)
    if is_constant(left, False):
        return right
    return left if is_constant(right, False) else ir.Logical("||", (left, right), left.dtype)


def logical_not(operand: ir.Expr) -> ir.Expr:
    match operand:
        case ir.Const(value=value, dtype=dtype):
            return ir.Const(not value, dtype)
        case ir.Logical(op="!", operands=(inner,)):
            return inner
        case _:
            return ir.Logical("!", (operand,), operand.dtype)


def select(condition: ir.Expr, then: ir.Expr, otherwise: ir.Expr) -> ir.Expr:
    """`condition ? then : otherwise`; `c ? x : false` is `c && x`, and so on."""
    match condition:
        case ir.Const(value=value):
            return then if value else otherwise
    if condition.dtype == then.dtype:
        if is_constant(otherwise, False):
            return logical_and(condition, then)
        if is_constant(then, True):
            return logical_or(condition, otherwise)
    return ir.Select(condition, then, otherwise, then.dtype)


def is_constant(expr: ir.Expr, value: bool) -> bool:
    """Whether an expression is this bool in all lanes."""
    return isinstance(expr, ir.Const) and expr.value is value


def is_number(expr: ir.Expr, number: int) -> bool:
    """Whether an expression of integers is a number, at all sizes."""
    return isinstance(expr, ir.Const) and surely(as_integer(expr.value), "==", number)


def _sum(op: str, left: ir.Expr, right: ir.Expr) -> ir.Expr:
    """Constants go to the right end and join there."""
    dtype = left.dtype
    match left, right:
        case ir.Const(), _ if op == "+":
            return _sum(op, right, left)
        case _, ir.Const() if is_number(right, 0):
            return left
        case ir.Const(), _ if dtype.kind == "int" and is_number(left, 0):
            return negation(right)
        case ir.Binary(op="+" | "-" as inner, left=rest, right=ir.Const(value=a)), ir.Const(
            value=b
        ):
            total = constant((a if inner == "+" else -a) + (b if op == "+" else -b), dtype)
            return binary("+", rest, total)
        case _, ir.Const(value=value) if surely(as_integer(value), "<", 0) and fits(-value, dtype):
            return ir.Binary("-" if op == "+" else "+", left, ir.Const(-value, dtype), dtype)
        case _:
            return ir.Binary(op, left, right, dtype)


def _product(left: ir.Expr, right: ir.Expr) -> ir.Expr:
    dtype = left.dtype
    for one, other in ((left, right), (right, left)):
        if is_number(one, 0):
            return one
        if is_number(one, 1):
            return other
    return ir.Binary("*", left, right, dtype)


def _without_offset(op: str, left: ir.Expr, right: ir.Expr, bounds: Bounds) -> ir.Expr:
    """`i + 1 < 3` as `i < 2`, where nothing wraps around; the constant stands on the right."""
    match left, right:
        case ir.Const(), ir.Const():
            pass  # tracked sizes
        case ir.Const(), _:
            return _without_offset(MIRRORED[op], right, left, bounds)
        case ir.Binary(op="+" | "-" as inner, left=rest, right=ir.Const(value=a)), ir.Const(
            value=b
        ):
            limit = as_integer(b) - as_integer(a) if inner == "+" else as_integer(b) + as_integer(a)
            low, high = interval(rest, bounds)
            by = as_integer(a) if inner == "+" else -as_integer(a)
            moved = low + by, high + by
            held = (limit, limit), moved
            if all(intervals.contains(limits(left.dtype), each) for each in held):
                return _without_offset(op, rest, ir.Const(limit, left.dtype), bounds)
    return ir.Compare(op, left, right, BOOL.vector(left.dtype.lanes))


def _bounded(op: str, left: ir.Expr, right: ir.Expr, bounds: Bounds) -> ir.Expr | None:
    """What the intervals of the operands decide; None if nothing."""
    (least, most), (low, high) = interval(left, bounds), interval(right, bounds)
    match op:
        case "min" | "max" if surely(most, "<=", low) or surely(least, ">=", high):
            return left if surely(most, "<=", low) == (op == "min") else right
        case "/" | "%" if surely(least, ">=", 0) and surely(most, "<", low):
            return constant(0, left.dtype) if op == "/" else left
        case _:
            return None


def _vector_binary(op: str, left: ir.Expr, right: ir.Expr, bounds: Bounds | None) -> ir.Expr | None:
    """What stays a ramp, or the same in all lanes; None for anything else."""
    lanes = left.dtype.lanes
    one, other = splat(left), splat(right)
    if one is not None and other is not None:
        return broadcast(binary(op, one, other, bounds), lanes)
    match op, left, right:
        case "+" | "-", ir.Ramp(base=a, step=s), ir.Ramp(base=b, step=t):
            return ramp(binary(op, a, b), s + t if op == "+" else s - t, lanes)
        case "+" | "-", ir.Ramp(base=a, step=s), _ if other is not None:
            return ramp(binary(op, a, other), s, lanes)
        case "+" | "-", _, ir.Ramp(base=b, step=t) if one is not None:
            return ramp(binary(op, one, b), t if op == "+" else -t, lanes)
        case "*", ir.Ramp(base=a, step=s), ir.Const(value=c):
            return ramp(binary("*", a, integer(int(c))), s * int(c), lanes)
        case "*", ir.Const(), ir.Ramp():
            return _vector_binary(op, right, left, bounds)
        case "/" | "%", ir.Ramp(base=a, step=s), ir.Const(value=c) if c > 0:
            return _divided_ramp(op, a, s, int(c), lanes)
        case _:
            return None


def _divided_ramp(op: str, base: ir.Expr, step: int, by: int, lanes: int) -> ir.Expr | None:
    """Where the quotients are a ramp, or all are that of the first lane."""
    if 0 <= step * (lanes - 1) < math.gcd(_power_of_two(base), by):
        part = binary(op, base, integer(by))
        return broadcast(part, lanes) if op == "/" else ramp(part, step, lanes)
    return None


def _power_of_two(expr: ir.Expr) -> int:
    """One that divides an int64 expression, even where it wraps around."""
    match expr:
        case ir.Const(value=value):
            return int(value) & -int(value) or 1 << 62
        case ir.Binary(op="*", left=left, right=right):
            return _power_of_two(left) * _power_of_two(right)
        case ir.Binary(op="+" | "-", left=left, right=right):
            return math.gcd(_power_of_two(left), _power_of_two(right))
        case _:
            return 1


def _is_defined(op: str, right: int, dtype: DType) -> bool:
    if op in ("/", "%"):
        return right != 0
    return op not in ("<<", ">>") or 0 <= right < dtype.bits


def _converts(value: float, dtype: DType) -> bool:
    """Whether the conversion of a constant is specified (Y4)."""
    if not dtype.is_integer or isinstance(value, int):
        return True
    return math.isfinite(value) and fits(math.trunc(value), dtype)


def is_simple(expr: ir.Expr) -> bool:
    """Whether it may stand twice in the code without harm."""
    match expr:
        case ir.Const() | ir.Var():
            return True
        case ir.Binary(op="+" | "-", left=ir.Var(), right=ir.Var() | ir.Const()):
            return True
        case _:
            return False


def depth(expr: ir.Expr) -> int:
    """The number of nodes on the longest way down.

    >>> depth(ir.Binary("+", ir.Var("i", INT64), ir.Var("j", INT64), INT64))
    2
    """
    from_below = (depth(child) for child in ir.children(expr))
    return 1 + max(from_below, default=0)
