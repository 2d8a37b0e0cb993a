"""Typed expressions as text of the language, with as few parentheses as they need."""

from __future__ import annotations

from tc.builtins import name_of_bits
from tc.builtins.operators import bracketed
from tc.frontend.tokens import PRECEDENCE, PREFIX_PRECEDENCE, TERNARY_PRECEDENCE
from tc.semantics import program as p

_TERNARY, _UNARY, _ATOM = TERNARY_PRECEDENCE, PREFIX_PRECEDENCE, PREFIX_PRECEDENCE + 1


def to_text(expr: p.Expr, *, compact: bool = False) -> str:
    """The text of an expression; conversions that the source does not write are left out.

    >>> from tc.dtypes import INT64
    >>> from tc.source import Source, Span
    >>> span = Span(Source(""), 0, 0)
    >>> h, k = p.Size("H", span=span), p.Size("K", span=span)
    >>> half = p.Binary("/", p.Binary("-", h, k, INT64, span=span), k, INT64, span=span)
    >>> to_text(half), to_text(half, compact=True)
    ('(H - K) / K', '(H-K)/K')
    """
    return _text(expr, _TERNARY, "" if compact else " ")


def _text(expr: p.Expr, least: int, gap: str) -> str:
    """The text, in parentheses where the expression binds less than `least`."""

    def inside(node: p.Expr, binding: int = _TERNARY) -> str:
        return _text(node, binding, gap)

    binding = _ATOM
    match expr:
        case p.Literal(value=value):
            text = str(int(value)) if isinstance(value, int) else repr(value)
            binding = _UNARY if text.startswith("-") else _ATOM
        case p.Size(name=name) | p.Index(name=name):
            text = name
        case p.Extent(tensor=tensor, axis=axis):
            text = f"{tensor}.{axis}"
        case p.Read(tensor=tensor, subscripts=subscripts):
            listed = ", ".join(map(inside, subscripts))
            text = f"{tensor}({listed})" if subscripts else tensor
        case p.Unary(op=op, operand=operand):
            text, binding = op + inside(operand, _UNARY), _UNARY
        case p.Binary(op=("min" | "max") as op, left=left, right=right):
            text = f"{op}({inside(left)}, {inside(right)})"
        case p.Binary(op=op, left=left, right=right) | p.Compare(op=op, left=left, right=right):
            binding = PRECEDENCE[op]
            text = f"{inside(left, binding)}{gap}{op}{gap}{inside(right, binding + 1)}"
        case p.Logical(op="!", operands=(operand,)):
            text, binding = "!" + inside(operand, _UNARY), _UNARY
        case p.Logical(op=op, operands=operands):
            binding = PRECEDENCE[op]
            parts = [inside(operands[0], binding), *(inside(o, binding + 1) for o in operands[1:])]
            text = f"{gap}{op}{gap}".join(parts)
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            binding = _TERNARY
            text = f"{inside(condition, _TERNARY + 1)} ? {inside(then)} : {inside(otherwise)}"
        case p.Call(function=function, args=args):
            text = f"{function}({', '.join(map(inside, args))})"
        case p.Convert(operand=operand, dtype=dtype, written=written):
            if not written:
                return _text(operand, least, gap)
            text = f"{dtype}({inside(operand)})"
        case p.Bits(operand=operand, dtype=dtype):
            text = f"{name_of_bits(dtype)}({inside(operand)})"
        case p.Check(tests=tests):
            text = f"check({', '.join(map(inside, tests))})"
    return bracketed((text, binding), least)
