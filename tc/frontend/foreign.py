"""What the operators of other languages mean here, as far as their operands tell it (T4).

`kind_of` guesses no more than the text of a def shows: the types of its parameters, the forms of
its literals, and that sizes and index variables are integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from tc.builtins import lookup
from tc.builtins.operators import COMPARISONS
from tc.dtypes import SPELLINGS
from tc.frontend import ast

NO_BITS = "there are no operators on bits"
_LOGICAL = frozenset(("&&", "||"))
_MAX_TWICE = 40
"""The longest text that a repair writes twice, as in x * x."""


class Meant(NamedTuple):
    """What stands for an operation of another language: `text` to paste for it, or None and
    words."""

    text: str | None
    words: str = ""


class DeclaredNames(NamedTuple):
    """The names of a def whose types the text gives, and those of its other tensors."""

    params: Mapping[str, ast.TensorType]
    written: frozenset[str]

    def sizes(self) -> frozenset[str]:
        """The sizes that the types of the parameters name."""
        types = self.params.values()
        return frozenset(d.text for t in types for d in t.dims or () if isinstance(d, ast.Name))


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


def _kind_of_type(spelling: str) -> str:
    found = SPELLINGS[spelling]
    return "float" if found.is_float else "int" if found.is_integer else "bool"


def _joined(first: str | None, second: str | None) -> str | None:
    if "float" in (first, second):
        return "float"
    if first is None or second is None:
        return None
    return "bool" if first == second == "bool" else "int"


# --- operators --------------------------------------------------------------------------------


def power(
    base: ast.Expr, base_text: str, exponent: ast.Expr, exponent_text: str, names: DeclaredNames
) -> str:
    """A power. Whole powers of what may be an integer are products, which keep its type."""
    plain = _unwrapped(base_text)
    if isinstance(exponent, ast.Number) and kind_of(base, names) != "float":
        count = exponent.value
        if isinstance(count, int) and 2 <= count <= 4 and len(base_text) <= _MAX_TWICE:
            factor = base_text if _is_simple(base, base_text) else f"({plain})"
            return f"({' * '.join([factor] * count)})"
    if isinstance(exponent, ast.Number) and exponent.value == 0.5:
        return f"sqrt({plain})"
    return f"pow({plain}, {_unwrapped(exponent_text)})"


def bits(
    op: str, left: ast.Expr, left_text: str, right: ast.Expr, right_text: str, names: DeclaredNames
) -> Meant:
    """`& | ^ << >>` of two operands."""
    if op in _CONDITIONS and kind_of(left, names) == kind_of(right, names) == "bool":
        return Meant(f"{left_text} {_CONDITIONS[op]} {right_text}")
    operand = left_text if _is_simple(left, left_text) else f"({_unwrapped(left_text)})"
    value = right.value if isinstance(right, ast.Number) else None
    if isinstance(value, int) and kind_of(left, names) != "float":
        if op == "&" and value > 0 and value & (value + 1) == 0:
            return Meant(f"{operand} % {value + 1}")
        if op == ">>" and 0 <= value < 63:
            return Meant(f"{operand} / {2**value}")
        if op == "<<" and 0 <= value < 63:
            return Meant(f"{operand} * {2**value}")
    return Meant(None, _BIT_IDIOMS[op].format(left=operand))


_CONDITIONS = {"&": "&&", "|": "||", "^": "!="}
_BIT_IDIOMS = {
    "&": NO_BITS + ": conditions are joined by '&&', the lowest four bits of an integer are "
    "{left} % 16",
    "|": NO_BITS + ": conditions are joined by '||', and integers without common bits are added",
    "^": "a power is written pow(x, 2), or x * x, which keeps integers; that just one of two "
    "conditions holds is (a > 0) != (b > 0), and of the bits of integers there is no '^'",
    "<<": NO_BITS + ": a << 4 is a * 16, and 1 << k is int(exp2(k))",
    ">>": NO_BITS + ": a >> 4 is a / 16, which rounds down, and a >> k is a / int(exp2(k))",
}


def complement(operand: ast.Expr, text: str, names: DeclaredNames) -> Meant:
    """`~x`."""
    kind = kind_of(operand, names)
    if kind == "bool":
        return Meant(f"!{text if _is_simple(operand, text) else f'({_unwrapped(text)})'}")
    inside = text if _is_simple(operand, text) else f"({_unwrapped(text)})"
    if kind == "int":
        return Meant(f"(-{inside} - 1)")
    return Meant(None, f"{NO_BITS}: a condition is negated by '!', and of an integer it is -x - 1")


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
        return Meant(f"floor({left_text} / {right_text})")
    if kind in ("int", "bool"):
        return Meant(f"{left_text} / {right_text}")
    return Meant(
        None,
        "comments begin with '#'; '/' of integers rounds down already, and of floats a quotient "
        f"is rounded down by floor({left_text} / {right_text})",
    )


def _is_simple(expr: ast.Expr, text: str) -> bool:
    """Whether a text is one operand, whatever stands around it."""
    is_leaf = isinstance(expr, ast.Name | ast.Number | ast.Dim | ast.Apply | ast.Cast)
    return is_leaf or _unwrapped(text) != text


def _unwrapped(text: str) -> str:
    """A text without the parentheses around the whole of it.

    >>> _unwrapped("(a - 1)"), _unwrapped("(a) - (b)")
    ('a - 1', '(a) - (b)')
    """
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for at, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if depth == 0 and at < len(text) - 1:
            return text
    return text[1:-1].strip()
