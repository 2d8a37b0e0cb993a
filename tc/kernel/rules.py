"""Rules of rewriting, a rule a line: what an expression of one form becomes, both as text.

Names stand for any operand, the same name for equal ones: `rule("c + a * b", "fma(a, b, c)")`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tc.dtypes import DType
from tc.errors import InternalError
from tc.kernel import ir

_OPERATORS: Mapping[type[ast.operator], str] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
}


@dataclass(frozen=True)
class Rule:
    """An expression of the form `pattern` becomes `result`."""

    pattern: ast.expr
    result: ast.expr


def rule(pattern: str, result: str) -> Rule:
    """The rule of two texts."""
    return Rule(_parsed(pattern), _parsed(result))


def rewritten(expr: ir.Expr, rules: Iterable[Rule]) -> ir.Expr:
    """What the first rule makes of an expression whose form is its pattern; the very expression
    where there is no such rule.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.printer import expression_text
    >>> x, y = ir.Var("x", FLOAT32), ir.Var("y", FLOAT32)
    >>> expr = ir.Binary("-", x, ir.Binary("*", y, y, FLOAT32), FLOAT32)
    >>> expression_text(rewritten(expr, [rule("c - a * b", "fma(-a, b, c)")]))
    'fma(-y, y, x)'
    >>> rewritten(expr, [rule("c - a / b", "a")]) is expr
    True
    """
    for each in rules:
        found: dict[str, ir.Expr] = {}
        if _matches(each.pattern, expr, found):
            return _built(each.result, expr.dtype, found)
    return expr


def expression(text: str, dtype: DType, **operands: ir.Expr) -> ir.Expr:
    """The expression of a text on these operands, all of one type."""
    return _built(_parsed(text), dtype, operands)


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _matches(pattern: ast.expr, expr: ir.Expr, found: dict[str, ir.Expr]) -> bool:
    """Whether an expression has a form; `found` gets what the names stand for."""
    match pattern, expr:
        case ast.Name(id=name), _:
            return found.setdefault(name, expr) == expr
        case ast.UnaryOp(op=ast.USub(), operand=inner), ir.Unary(operand=operand):
            return _matches(inner, operand, found)
        case ast.BinOp(left=first, op=op, right=second), ir.Binary(op=own, left=left, right=right):
            same = _OPERATORS[type(op)] == own and _matches(first, left, found)
            return same and _matches(second, right, found)
        case _:
            return False


def _built(form: ast.expr, dtype: DType, operands: Mapping[str, ir.Expr]) -> ir.Expr:
    match form:
        case ast.Name(id=name):
            return operands[name]
        case ast.UnaryOp(op=ast.USub(), operand=inner):
            operand = _built(inner, dtype, operands)
            if isinstance(operand, ir.Unary):
                return operand.operand
            return ir.Unary("-", operand, dtype)
        case ast.BinOp(left=left, op=op, right=right):
            one, other = (_built(side, dtype, operands) for side in (left, right))
            return ir.Binary(_OPERATORS[type(op)], one, other, dtype)
        case ast.Call(func=ast.Name(id=function), args=args):
            return ir.Call(function, tuple(_built(arg, dtype, operands) for arg in args), dtype)
        case _:
            raise InternalError(f"no form of a rule: {ast.unparse(form)}")
