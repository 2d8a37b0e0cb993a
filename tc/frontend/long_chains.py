"""Long sums, and conditions of many parts, as trees that are not as deep as they are long.

`a + b + c + ...` is a tree as deep as the sum has terms. Where that is too deep, neighbours are
added first, in pairs, and pairs of pairs. Floats alone are grouped so: their sums differ by
roundings, of which a sum in pairs has fewer, while integers of a narrow type would wrap around
before they meet a wider one. `&&` and `||` mean the same in groups.
"""

from __future__ import annotations

from typing import NamedTuple

from tc.frontend.ast import Binary, Expr, Number, children
from tc.frontend.cursor import DeclaredNames, ParsedExpr
from tc.frontend.foreign import kind_of
from tc.frontend.token_cursor import Parsed

_ALIKE = {"+": ("+", "-"), "-": ("+", "-"), "&&": ("&&",), "||": ("||",)}
_FLIPPED = {"+": "-", "-": "+"}


class _Term(NamedTuple):
    """A part of a chain, with the operator before it, and the height of its tree."""

    op: str
    expr: Expr
    height: int


def regrouped(part: ParsedExpr, op: str, names: DeclaredNames) -> ParsedExpr | None:
    """A chain of the operators like `op`, grouped in pairs; None where it may not be grouped."""
    if op not in _ALIKE:
        return None
    terms = _terms(part.expr, op)
    is_sum = op in _FLIPPED
    if is_sum and not all(_is_float(term.expr, names) for term in terms):
        return None
    groups: list[_Term] = []
    for term in terms:
        groups.append(term)
        while len(groups) > 1 and groups[-2].height <= groups[-1].height:
            right, left = groups.pop(), groups.pop()
            groups.append(_pair(left, right))
    while len(groups) > 1:
        right, left = groups.pop(), groups.pop()
        groups.append(_pair(left, right))
    return Parsed(groups[0].expr, part.span, groups[0].height)


def in_a_row(expr: Expr) -> int:
    """How many operations have the result of the one before on their left."""
    count = 0
    while isinstance(expr, Binary):
        count, expr = count + 1, expr.left
    return count


def _terms(expr: Expr, op: str) -> list[_Term]:
    """The parts of a chain in order; the first one of a sum is added."""
    terms: list[_Term] = []
    while isinstance(expr, Binary) and expr.op in _ALIKE[op]:
        terms.append(_Term(expr.op, expr.right, _height(expr.right)))
        expr = expr.left
    first = "+" if op in _FLIPPED else op
    return [_Term(first, expr, _height(expr)), *reversed(terms)]


def _pair(left: _Term, right: _Term) -> _Term:
    """Two neighbours as one; `- a + b` is `- (a - b)`."""
    op = _FLIPPED[right.op] if left.op == "-" else right.op
    expr = Binary(op, left.expr, right.expr, span=left.expr.span.to(right.expr.span))
    return _Term(left.op, expr, 1 + max(left.height, right.height))


def _is_float(term: Expr, names: DeclaredNames) -> bool:
    return isinstance(term, Number) or kind_of(term, names) == "float"


def _height(expr: Expr) -> int:
    return max((1 + _height(part) for part in children(expr)), default=0)
