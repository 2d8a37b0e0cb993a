"""What the operators of other languages mean here, as far as their operands tell it (T4).

`kind_of` guesses no more than the text of a def shows: the types of its parameters, the forms of
its literals, and that sizes and index variables are integers.
"""

from __future__ import annotations

from typing import TypeAlias

from tc.affine.intervals import COMPARISONS
from tc.builtins import lookup
from tc.dtypes import SPELLINGS
from tc.frontend import ast
from tc.frontend.cursor import DeclaredNames, ParsedExpr

_LOGICAL = frozenset(("&&", "||"))
_MAX_REPEATED_CHARACTERS = 40
"""The longest text that a repair writes twice, as in x * x."""

Meant: TypeAlias = tuple[str | None, str | None]
"""What stands for an operation of another language: text to paste for it, or else words."""


# --- kinds ------------------------------------------------------------------------------------


def kind_of(expr: ast.Expr, names: DeclaredNames) -> str | None:
    """ "bool", "int" or "float" where the text tells it, None where it does not."""
    match expr:
        case ast.Number(value=value):
            return "float" if isinstance(value, float) else "int"
        case ast.Dim():
            return "int"
        case ast.Cast(spelling=spelling):
            return _kind_of_type(spelling)
        case ast.Name(text=text):
            if text in names.params:
                return _kind_of_type(names.params[text].spelling)
            return None if text in names.written else "int"
        case ast.Unary(op=op, operand=operand):
            return "bool" if op == "!" else kind_of(operand, names)
        case ast.Binary(op="<<" | ">>"):
            return "int"
        case ast.Binary(op=op, left=left, right=right):
            if op in COMPARISONS or op in _LOGICAL:
                return "bool"
            return _joined(kind_of(left, names), kind_of(right, names))
        case ast.Conditional(then=then, otherwise=otherwise):
            return _joined(kind_of(then, names), kind_of(otherwise, names))
        case ast.Apply(name=name, args=args):
            if name.text in names.params:
                return _kind_of_type(names.params[name.text].spelling)
            builtin = lookup(name.text)
            if name.text in names.written or (builtin is None and name.text not in _KEEPING):
                return None
            if builtin is not None and builtin.rule == "float":
                return "float"
            kinds = [kind_of(arg, names) for arg in args]
            return kinds[0] if len(kinds) == 1 else _joined(*kinds[:2]) if kinds else None


_KEEPING = frozenset(("min", "max", "pad"))


def _kind_of_type(spelling: str) -> str | None:
    found = SPELLINGS.get(spelling)
    if found is None:  # a type variable
        return None
    return "float" if found.is_float else "int" if found.is_integer else "bool"


def _joined(first: str | None, second: str | None) -> str | None:
    if "float" in (first, second):
        return "float"
    if first is None or second is None:
        return None
    return "bool" if first == second == "bool" else "int"


# --- operators --------------------------------------------------------------------------------


def power(base: ParsedExpr, exponent: ParsedExpr, names: DeclaredNames) -> str:
    """The text of a power: `x * x` for a small whole exponent of a base that may be an integer, as
    `pow` would make it a float."""
    short = len(base.span.line) <= _MAX_REPEATED_CHARACTERS and kind_of(base.expr, names) != "float"
    match exponent.expr:
        case ast.Number(value=int() as count) if short and 2 <= count <= 4:
            return f"({' * '.join([_operand(base)] * count)})"
        case ast.Number(value=0.5):
            return f"sqrt({base.expr.span.line})"
    return f"pow({base.expr.span.line}, {exponent.expr.span.line})"


MATRIX_PRODUCTS = {
    (2, 2): ("ij", "ik", "kj"),
    (2, 1): ("i", "ik", "k"),
    (1, 2): ("j", "k", "kj"),
    (1, 1): ("", "k", "k"),
}
"""The indices of a product of matrices, or vectors, and of its factors, by the ranks of these."""


def floor_division(
    left: ast.Expr, left_text: str, right: ast.Expr, right_text: str, names: DeclaredNames
) -> Meant:
    """Python's `//`."""
    kind = _joined(kind_of(left, names), kind_of(right, names))
    if kind == "float":
        return f"floor({left_text} / {right_text})", None
    if kind is not None:
        return f"{left_text} / {right_text}", None
    return (
        None,
        "comments begin with '#'; '/' of integers rounds down already, and of floats a quotient "
        f"is rounded down by floor({left_text} / {right_text})",
    )


def _operand(part: ParsedExpr) -> str:
    """The text of an expression as one operand, in parentheses unless it is a leaf."""
    is_leaf = isinstance(part.expr, ast.Name | ast.Number | ast.Dim | ast.Apply | ast.Cast)
    return part.span.line if is_leaf or part.start < part.expr.span.start else f"({part.span.line})"
