"""The operators of the language (Y2) and of kernels, on Python's integers and on numpy's arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

ARITHMETIC: Mapping[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.floordiv,
    "%": operator.mod,
    "min": min,
    "max": max,
}
"""On integers of any size; `/` and `%` round toward minus infinity (Y4)."""

BITWISE: Mapping[str, Callable[[Any, Any], Any]] = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
}
"""Of kernels alone."""

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The comparison that is equal to another one with the two sides swapped: `a < b` is `b > a`."""

NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The comparison of integers that is true where another one is false."""

UFUNCS: Mapping[str, np.ufunc] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": np.divide,
    "%": np.remainder,  # rounds toward minus infinity, as integer / does (Y4)
    "min": np.minimum,  # NaN where either operand is (Y5)
    "max": np.maximum,
}
"""On arrays; integers are divided by `np.floor_divide`."""

_LOOSEST_FIRST = (
    ("?:",),
    ("||",),
    ("&&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "//", "%"),
)
LEVEL: Mapping[str, int] = {op: level for level, ops in enumerate(_LOOSEST_FIRST) for op in ops}
"""How strongly operators bind, by their names in the language, in kernels and in Python. All texts
that tc prints agree on it: only C has bit operators below comparisons, and gets parentheses there.
"""

UNARY_LEVEL = len(_LOOSEST_FIRST)
ATOM_LEVEL = UNARY_LEVEL + 1
"""The level of what needs no parentheses anywhere, as names and calls."""


def bracketed(printed: tuple[str, int], level: int) -> str:
    """A text with the level of its outermost operator, in parentheses where that binds less than
    `level`.

    >>> bracketed(("a + b", LEVEL["+"]), LEVEL["*"]), bracketed(("a * b", LEVEL["*"]), LEVEL["+"])
    ('(a + b)', 'a * b')
    """
    text, own = printed
    return text if own >= level else f"({text})"
