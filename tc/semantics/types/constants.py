"""Expressions of literals alone, folded exactly (Y1)."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import TypeAlias

from tc.builtins.operators import ARITHMETIC
from tc.semantics import program as p

Constants: TypeAlias = MutableMapping[int, int | float | None]
"""Values of nodes by identity."""

MAX_INTEGER_BITS = 256
MAX_DOUBLE = 1.7976931348623157e308


def constant(expr: p.Expr, memo: Constants) -> int | float | None:
    """The value of an expression of literals alone, integers exactly; None for any other.

    Division by zero and results beyond the doubles are left to the program.
    """
    match expr:
        case p.Literal(value=value):
            return value
        case p.Unary() | p.Binary():
            if id(expr) not in memo:
                memo[id(expr)] = _value(expr, memo)
            return memo[id(expr)]
    return None


def integer_literals(expr: p.Expr) -> Iterator[int]:
    """The values of the whole-number constants that a weak expression is made of."""
    memo: Constants = {}
    stack = [expr]
    seen: set[int] = set()
    while stack:
        node = stack.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        value = constant(node, memo)
        if isinstance(value, int):
            yield value
            continue
        match node:
            case p.Select(then=then, otherwise=otherwise):
                stack += [then, otherwise]
            case p.Convert() | p.Read() | p.Compare() | p.Logical():
                pass
            case _:
                stack += p.children(node)


def _value(expr: p.Unary | p.Binary, memo: Constants) -> int | float | None:
    match expr:
        case p.Unary(op=op, operand=operand):
            inner = constant(operand, memo)
            return -inner if inner is not None and op == "-" else inner
        case p.Binary(op=op, left=left, right=right):
            first = constant(left, memo)
            second = None if first is None else constant(right, memo)
            return None if first is None or second is None else _fold(op, first, second)


def _fold(op: str, left: int | float, right: int | float) -> int | float | None:
    if isinstance(left, float) or isinstance(right, float):
        if abs(left) > MAX_DOUBLE or abs(right) > MAX_DOUBLE:
            return None
        left, right = float(left), float(right)
    if op in ("/", "%") and right == 0:
        return None
    result: int | float = (
        left / right if op == "/" and isinstance(left, float) else ARITHMETIC[op](left, right)
    )
    small = (
        result.bit_length() <= MAX_INTEGER_BITS
        if isinstance(result, int)
        else abs(result) < MAX_DOUBLE
    )
    return result if small else None
