"""Whether an expression is an affine condition by its form (Y9, G2)."""

from __future__ import annotations

from collections.abc import Container

from tc.semantics import program as p
from tc.semantics.resolved import is_use


def is_affine_form(expr: p.Expr, scalars: Container[str]) -> bool:
    """Whether an expression is built as affine conditions are.

    That is from whole literals, index variables, sizes, extents and the integer rank 0 inputs
    `scalars`, with + - * / % min max, `?:`, comparisons, && || ! and integer casts, where one
    factor of a product, and each divisor, is free of index variables.
    """
    return _degree(expr, scalars, {}) is not None


def _degree(expr: p.Expr, scalars: Container[str], memo: dict[int, int | None]) -> int | None:
    """1 where index variables occur, 0 where none does, None where the form is not affine."""
    match expr:
        case p.Index():
            return 1
        case p.Literal(value=int()) | p.Size() | p.Extent():
            return 0
        case p.Read(tensor=tensor):
            return 0 if tensor in scalars else None
        case p.Unary(operand=value) if is_use(expr):
            if id(value) not in memo:
                memo[id(value)] = _degree(value, scalars, memo)
            return memo[id(value)]
        case p.Convert(dtype=dtype) if not dtype.is_integer:
            return None
        case p.Literal() | p.Call() | p.Select(padded=True):
            return None
    degree = 0
    for operand in p.children(expr):
        found = _degree(operand, scalars, memo)
        if found is None:
            return None
        if isinstance(expr, p.Binary) and found and degree and expr.op == "*":
            return None
        degree = max(degree, found)
    if isinstance(expr, p.Binary) and expr.op in ("/", "%") and found:
        return None
    return degree
