"""Whether an expression is an affine condition by its form (Y9, G2)."""

from __future__ import annotations

from collections.abc import Container

from tc.semantics import resolved as r


def is_affine_form(expr: r.Resolved, scalars: Container[str]) -> bool:
    """Whether an expression is built as affine conditions are.

    That is from whole literals, index variables, sizes, extents and the integer rank 0 inputs
    `scalars`, with + - * / % min max, `?:`, comparisons, && || ! and integer casts, where one
    factor of a product, and each divisor, is free of index variables.
    """
    return _degree(expr, scalars, {}) is not None


def _degree(expr: r.Resolved, scalars: Container[str], memo: dict[int, int | None]) -> int | None:
    """1 where index variables occur, 0 where none does, None where the form is not affine."""
    match expr:
        case r.Index():
            return 1
        case r.Number(value=int()) | r.Size() | r.Extent():
            return 0
        case r.Read(tensor=tensor):
            return 0 if tensor in scalars else None
        case r.Cast(dtype=dtype) if not dtype.is_integer:
            return None
        case r.Binary() | r.Compare() | r.Logical() | r.Conditional() | r.Unary() | r.Cast():
            degree = 0
            for operand in r.operands(expr):
                found = _degree(operand, scalars, memo)
                if found is None:
                    return None
                if isinstance(expr, r.Binary) and found and degree and expr.op == "*":
                    return None
                degree = max(degree, found)
            if isinstance(expr, r.Binary) and expr.op in ("/", "%") and found:
                return None
            return degree
        case r.BindingUse(value=value):
            if id(value) not in memo:
                memo[id(value)] = _degree(value, scalars, memo)
            return memo[id(value)]
    return None
