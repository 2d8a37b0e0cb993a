"""The operators of the language (Y2) and of kernels, on Python's integers and on numpy's arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

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
"""What a comparison is with its sides swapped."""

NEGATED = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""What a comparison of integers is where it does not hold."""

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

_Interval: TypeAlias = tuple[int, int]


def combined(op: str, left: _Interval, right: _Interval) -> _Interval | None:
    """Bounds on the result of an operation that does not wrap around, None where none are known."""
    (a, b), (c, d) = left, right
    match op:
        case "+":
            return a + c, b + d
        case "-":
            return a - d, b - c
        case "*":
            corners = (a * c, a * d, b * c, b * d)
            return min(corners), max(corners)
        case "/" if c > 0:
            return min(a // c, a // d), max(b // c, b // d)
        case "%" if c > 0:
            return (a, b) if a >= 0 and b < c else (0, d - 1)
        case "min":
            return min(a, c), min(b, d)
        case "max":
            return max(a, c), max(b, d)
        case ">>" if c == d:
            return a >> c, b >> c
        case "&":
            ends = [high for low, high in (left, right) if low >= 0]
            return (0, min(ends)) if ends else None
        case _:
            return None
