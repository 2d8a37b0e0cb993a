"""What a parser holds of an expression that it has read."""

from __future__ import annotations

from typing import NamedTuple

from tc.frontend.ast import Expr


class ParsedExpr(NamedTuple):
    """An expression, its extent with the parentheses around it, and its height as a tree."""

    expr: Expr
    start: int
    end: int
    height: int
