"""Contraction: products that are added to something become one operation, in vectors of floats."""

from __future__ import annotations

from tc.kernel.ir import Binary, Call, Const, Expr, Kernel, Unary, Var
from tc.kernel.rebuild import (
    Stmts,
    map_blocks,
    map_expressions,
    map_operands,
    map_regions,
    map_statements,
)


def contract(kernel: Kernel) -> Kernel:
    """The kernel with sums a * b + c of vectors of floats as fma(a, b, c), and differences alike.

    The product is then not rounded, which R5 allows; all lanes and threads compute alike. Worth it
    only where that is an instruction, and to be run before functions are expanded to formulas
    that rely on how each operation rounds.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.ir import Buffer, Let, Load, Ramp
    >>> from tc.kernel.printer import statement_lines
    >>> dtype = FLOAT32.vector(4)
    >>> a = Load("a", (Ramp(Const(0, INT64), 1, INT64.vector(4)),), dtype)
    >>> sum = Let("s", Binary("+", Binary("*", a, a, dtype), a, dtype))
    >>> buffers = (Buffer("a", FLOAT32, (4,), (1,), "input"),)
    >>> print(*statement_lines(contract(Kernel("k", buffers, ((sum,),))).regions[0][0]))
    let s: float32x4 = fma(a[0:4], a[0:4], a[0:4])
    """
    return map_regions(kernel, _block)


def _block(block: Stmts) -> Stmts:
    return map_statements(block, lambda s: (map_expressions(map_blocks(s, _block), _contracted),))


def _contracted(expr: Expr) -> Expr:
    if isinstance(expr, Const | Var):
        return expr
    result = map_operands(expr, _contracted)
    if not isinstance(result, Binary) or result.op not in ("+", "-"):
        return result
    if result.dtype.lanes == 1 or not result.dtype.is_float:
        return result
    return _fused(result, result.left, result.right) or result


def _fused(expr: Binary, left: Expr, right: Expr) -> Call | None:
    if (found := _factors(right)) is not None:
        first = found[0] if expr.op == "+" else _negative(found[0])
        return Call("fma", (first, found[1], left), expr.dtype)
    if (found := _factors(left)) is not None:
        last = right if expr.op == "+" else _negative(right)
        return Call("fma", (*found, last), expr.dtype)
    return None


def _factors(expr: Expr) -> tuple[Expr, Expr] | None:
    """The factors of a product, or of its negative."""
    match expr:
        case Binary(op="*", left=left, right=right):
            return left, right
        case Unary(operand=Binary(op="*", left=left, right=right)):
            return _negative(left), right
    return None


def _negative(expr: Expr) -> Expr:
    return expr.operand if isinstance(expr, Unary) else Unary("-", expr, expr.dtype)
