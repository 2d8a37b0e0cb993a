"""The operators of the language (Y2) and of kernels, on Python's integers and on numpy's arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

BITWISE: Mapping[str, Callable[[Any, Any], Any]] = {
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}
"""On integers of any size, in two's complement, and on bools (Y11)."""

SHIFTS: Mapping[str, Callable[[Any, Any], Any]] = {
    "<<": operator.lshift,
    ">>": operator.rshift,
}
"""Shifts by less than the bits of a type; `shifted` has all of the language (Y11)."""

ON_BITS: Mapping[str, Callable[[Any, Any], Any]] = {**BITWISE, **SHIFTS}

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
    "&": np.bitwise_and,
    "|": np.bitwise_or,
    "^": np.bitwise_xor,
}
"""On arrays; integers are divided by `np.floor_divide`."""


def shifted(op: str, value: int, count: int, bits: int) -> int:
    """`value << count` or `value >> count` of a type with so many bits, before it wraps around: a
    count that is negative, or as many as the bits or more, shifts everything out (Y11).

    >>> shifted("<<", 3, 4, 32), shifted("<<", 3, 32, 32), shifted(">>", -5, -1, 32)
    (48, 0, -1)
    """
    if 0 <= count < bits:
        return int(SHIFTS[op](value, count))
    return -1 if op == ">>" and value < 0 else 0


def shifted_arrays(op: str, value: np.ndarray[Any, Any], count: np.ndarray[Any, Any]) -> Any:
    """The same on arrays of integers, in the type of `value`."""
    bits = 8 * value.dtype.itemsize
    inside = (count >= 0) & (count < bits)
    places = np.where(inside, count, 0).astype(value.dtype)
    if op == "<<":
        return np.where(inside, np.left_shift(value, places), 0).astype(value.dtype)
    rest = np.right_shift(value, np.where(inside, places, bits - 1).astype(value.dtype))
    return rest if value.dtype.kind == "i" else np.where(inside, rest, 0).astype(value.dtype)


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
