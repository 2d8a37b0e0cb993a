"""Products that are added to something become one operation, in vectors of floats."""

from __future__ import annotations

from dataclasses import replace

from tc.kernel.ir import (
    Binary,
    Call,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Prefetch,
    Set,
    Stmt,
    Store,
    Unary,
    children,
)
from tc.kernel.rebuild import rebuild, unchanged


def contract(kernel: Kernel) -> Kernel:
    """The kernel with sums a * b + c of vectors of floats as fma(a, b, c), and differences alike.

    The product is then not rounded, which R5 allows; all lanes and threads compute alike. Worth it
    only where that is an instruction, and to be run before functions are expanded to formulas
    that rely on how each operation rounds.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.ir import Buffer, Const, Load, Ramp
    >>> from tc.kernel.printer import statement_lines
    >>> dtype = FLOAT32.vector(4)
    >>> a = Load("a", (Ramp(Const(0, INT64), 1, INT64.vector(4)),), dtype)
    >>> sum = Let("s", Binary("+", Binary("*", a, a, dtype), a, dtype))
    >>> buffers = (Buffer("a", FLOAT32, (4,), (1,), "input"),)
    >>> print(*statement_lines(contract(Kernel("k", buffers, ((sum,),))).regions[0][0]))
    let s: float32x4 = fma(a[0:4], a[0:4], a[0:4])
    """
    return replace(kernel, regions=tuple(map(_block, kernel.regions)))


def _block(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    return tuple(map(_statement, stmts))


def _statement(stmt: Stmt) -> Stmt:
    match stmt:
        case For(body=body):
            return replace(stmt, body=_block(body))
        case If(condition=condition, then=then, otherwise=otherwise):
            return If(_contracted(condition), _block(then), _block(otherwise))
        case Let(value=value) | Set(value=value):
            return replace(stmt, value=_contracted(value))
        case Store(value=value, mask=mask):
            kept = None if mask is None else _contracted(mask)
            return replace(stmt, value=_contracted(value), mask=kept)
        case Prefetch(indices=indices):
            return replace(stmt, indices=tuple(map(_contracted, indices)))
        case Fail(values=values):
            return replace(stmt, values=tuple(map(_contracted, values)))
        case _:
            return stmt


def _contracted(expr: Expr) -> Expr:
    old = children(expr)
    new = [_contracted(operand) for operand in old]
    result: Expr = expr if unchanged(old, new) else rebuild(expr, new, {})
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
