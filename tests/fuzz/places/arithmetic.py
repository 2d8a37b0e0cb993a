"""Types, and numbers in them (Y1, Y2, Y4, Y11), the operators of reductions and their identities
(R2), and the choice among several targets (V1), in plain Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from tests.fuzz.places.outcomes import Open

Number: TypeAlias = int | float

NUMPY = {"float": "float32", "double": "float64", "int": "int32", "byte": "uint8"}
BITS = {"uint8": 8, "int32": 32, "int64": 64}
WEAK = ("literal", "index", "real")
"""Types of what has none by itself: integer literals, sizes and index variables, floats (Y1)."""

WHOLE = frozenset({*BITS, "literal", "index"})

COMPARED: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": lambda a, b: a == b, "!=": lambda a, b: a != b, "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b,
}  # fmt: skip
BITWISE = ("&", "|", "^")
SHIFTS = ("<<", ">>")


def numpy_name(spelling: str) -> str:
    """The name of a type, as numpy has it (T3)."""
    return NUMPY.get(spelling, spelling)


def promoted(a: str, b: str, keeps_bool: bool = False) -> str:
    """The type in which two operands meet (Y1, Y2)."""
    if keeps_bool and a == b == "bool":
        return "bool"
    a, b = ("int32" if t == "bool" else t for t in (a, b))
    if a in WEAK and b in WEAK:
        return max(a, b, key=WEAK.index)
    if a in WEAK or b in WEAK:
        weak, strong = (a, b) if a in WEAK else (b, a)
        if weak == "real":
            return strong if strong.startswith("float") else "float32"
        return "int32" if weak == "index" and strong == "uint8" else strong
    order = ("uint8", "int32", "int64", "float32", "float64")
    return max(a, b, key=order.index)


def settled(type: str) -> str:
    """The type of a tensor whose values are of a type."""
    return {"literal": "int32", "index": "int32", "real": "float32"}.get(type, type)


def wrapped(value: Number, type: str) -> Number:
    """The number in a type; what a float type does not hold stays as it is."""
    if type == "bool":
        return int(bool(value))
    if type.startswith("float") or type == "real":
        return float(value)
    value, bits = int(value), BITS.get(type, 64)
    value &= (1 << bits) - 1
    return value - (1 << bits) if type != "uint8" and value >> (bits - 1) else value


def converted(value: Number, type: str) -> Number:
    """A cast: floats become integers by truncation, as far as there is a number for them (Y4)."""
    if isinstance(value, float) and type in BITS and not fits(value, type):
        raise Open("Y4: a float beyond the integers")
    return wrapped(value, type)


def fits(value: float, type: str) -> bool:
    return math.isfinite(value) and least(type) <= int(value) <= largest(type)


def largest(type: str) -> Number:
    if type.startswith("float"):
        return math.inf
    return 1 if type == "bool" else 255 if type == "uint8" else 2 ** (BITS[type] - 1) - 1


def least(type: str) -> Number:
    if type.startswith("float"):
        return -math.inf
    return 0 if type in ("bool", "uint8") else -(2 ** (BITS[type] - 1))


def shifted(op: str, value: int, count: int, bits: int) -> int:
    """A shift of a type with so many bits, before it wraps around (Y11)."""
    if not 0 <= count < bits:
        return -1 if op == ">>" and value < 0 else 0
    return value * (1 << count) if op == "<<" else value // (1 << count)


# --- reductions -------------------------------------------------------------------------------


def identity(op: str, type: str) -> Number:
    """What a reduction starts with (R2)."""
    if op in ("+", "|", "^"):
        return 0
    if op == "*":
        return 1
    if op == "&":
        return 1 if type == "bool" else wrapped(-1, type)
    return largest(type) if op == "min" else least(type)


def combined(op: str, a: Number, b: Number) -> Number:
    if op in ("min", "max"):
        if a != a or b != b:
            return math.nan
        return (min if op == "min" else max)(a, b)
    if op == "+":
        return a + b
    if op == "*":
        return a * b
    x, y = int(a), int(b)
    return x & y if op == "&" else x | y if op == "|" else x ^ y


def chosen(op: str, a: Sequence[Number], b: Sequence[Number]) -> Sequence[Number]:
    """The term that `min=` or `max=` of several targets chooses of two (V1)."""
    if any(x != x for x in (*a[1:], *b[1:])):
        raise Open("V1: a NaN among the values that are carried")
    nan_a, nan_b = a[0] != a[0], b[0] != b[0]
    if nan_a != nan_b:
        return a if nan_a else b
    if not nan_a and a[0] != b[0]:
        return a if (a[0] < b[0]) == (op == "min") else b
    return a if tuple(a[1:]) <= tuple(b[1:]) else b
