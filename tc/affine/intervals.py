"""Intervals of integers, and arithmetic on them.

    interval = (least, greatest), both included        box = an interval for each name

A box has no points where an interval of it ends before it begins.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias, TypeVar

MAX_SHIFT = 128
"""The most bits by which bounds are shifted."""

Interval: TypeAlias = tuple[int, int]
"""The least and the greatest value that an integer may have."""

K = TypeVar("K")
Box: TypeAlias = Mapping[K, Interval]
"""The intervals of variables by their names."""


COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def closed(ranges: Mapping[K, tuple[int, int]]) -> dict[K, Interval]:
    """The box of half-open ranges.

    >>> closed({"i": (0, 8), "j": (3, 3)})
    {'i': (0, 7), 'j': (3, 2)}
    """
    return {name: (begin, end - 1) for name, (begin, end) in ranges.items()}


def is_empty(box: Box[K]) -> bool:
    """Whether a box has no points.

    >>> is_empty({"i": (0, 7), "j": (3, 2)}), is_empty({})
    (True, False)
    """
    return any(low > high for low, high in box.values())


def contains(outer: Interval, inner: Interval) -> bool:
    """Whether an interval has all of another.

    >>> contains((0, 9), (3, 9)), contains((0, 9), (-1, 4))
    (True, False)
    """
    return surely(outer[0], "<=", inner[0]) and surely(inner[1], "<=", outer[1])


def around(one: Interval, other: Interval) -> Interval:
    """The least interval that contains two.

    >>> around((0, 3), (5, 9))
    (0, 9)
    """
    return least(one[0], other[0]), greatest(one[1], other[1])


def scaled(interval: Interval, factor: int) -> Interval:
    """The interval of `factor` times a value of an interval.

    >>> scaled((1, 4), -2)
    (-8, -2)
    """
    low, high = factor * interval[0], factor * interval[1]
    return (low, high) if factor >= 0 else (high, low)


def operation(op: str, left: Interval, right: Interval) -> Interval | None:
    """Bounds on the result of an operation that does not wrap around, None where none are known;
    quotients are rounded down.

    >>> operation("*", (-1, 2), (3, 5)), operation("%", (0, 99), (8, 8))
    ((-5, 10), (0, 7))
    """
    (a, b), (c, d) = left, right
    match op:
        case "+":
            return a + c, b + d
        case "-":
            return a - d, b - c
        case "*":
            corners = (a * c, a * d, b * c, b * d)
            return least(*corners), greatest(*corners)
        case "/" if c > 0:
            return least(a // c, a // d), greatest(b // c, b // d)
        case "%" if c > 0:
            return (a, b) if surely(a, ">=", 0) and surely(b, "<", c) else (0, d - 1)
        case "min":
            return least(a, c), either("<", b, d)
        case "max":
            return either(">", a, c), greatest(b, d)
        case _ if any(type(end) is not int for end in (a, b, c, d)):
            return None
        case "&" | "|" | "^":
            return _bitwise(op, left, right)
        case "<<" if c >= 0 and d <= MAX_SHIFT:
            return min(a << c, a << d), max(b << c, b << d)
        case ">>" if c >= 0 and d <= MAX_SHIFT:
            return min(a >> c, a >> d), max(b >> c, b >> d)
        case ">>":  # what is shifted out leaves 0 or -1
            return min(a, 0), max(b, -1 if b < 0 else 0)
        case _:
            return None


def _bitwise(op: str, left: Interval, right: Interval) -> Interval:
    """Bounds on `& | ^` of two integers in two's complement."""
    (a, b), (c, d) = left, right
    bits = max((~v if v < 0 else v).bit_length() for v in (a, b, c, d))
    least, most = -(1 << bits), (1 << bits) - 1
    if op == "&":
        ends = [high for low, high in (left, right) if low >= 0]
        return (0, min(ends)) if ends else (least, max(b, d))
    if op == "|":
        if b < 0 or d < 0:
            return max(low for low, high in (left, right) if high < 0), -1
        return (max(a, c) if a >= 0 and c >= 0 else min(a, c)), most
    signs = {(low < 0, high < 0) for low, high in (left, right)}
    if signs <= {(True, True), (False, False)}:  # both signs are known
        return (least, -1) if len(signs) == 2 else (0, most)
    return least, most


def compared(op: str, left: Interval, right: Interval) -> bool | None:
    """What `left op right` is for numbers of two intervals, None where it may be either.

    >>> compared("<", (0, 4), (5, 9)), compared("<", (0, 5), (5, 9)), compared("==", (3, 3), (3, 3))
    (True, None, True)
    """
    (first, last), (low, high) = left, right
    if surely(last, "<", low):
        return op in ("<", "<=", "!=")
    if surely(first, ">", high):
        return op in (">", ">=", "!=")
    if op in ("<=", ">") and surely(last, "<=", low):
        return op == "<="
    if op in (">=", "<") and surely(first, ">=", high):
        return op == ">="
    if surely(first, "==", last) and surely(low, "==", high) and surely(last, "==", low):
        return op == "=="
    return None


# --- ends that are tracked sizes (`tc.extents`) -------------------------------------------------


def surely(left: int, op: str, right: int) -> bool:
    """Whether a comparison holds; of tracked sizes: at all sizes, as far as their intervals show.
    It is for code that is right either way, and asks nothing.

    >>> from tc.extents.sizes import Questions, Range
    >>> n = Questions({"N": Range(2, 4096)}).size("N", 509)
    >>> surely(n, ">", 1), surely(n, ">", 2), surely(4, ">", 2)
    (True, False, True)
    """
    difference: Any = left - right
    if isinstance(difference, int):
        return bool(COMPARISONS[op](difference, 0))
    holds: bool = difference.surely(op)
    return holds


def least(*ends: int) -> int:
    """The least of some numbers; where it is another one at other sizes, a number below all."""
    return _first_of(ends, "<=", 0)


def greatest(*ends: int) -> int:
    """The greatest of some numbers; where it is another one at other sizes, a number above all."""
    return _first_of(ends, ">=", 1)


def minimum(*ends: int) -> int:
    """The least of some numbers. Of tracked sizes it is asked which one that is, unless one surely
    is it.

    >>> from tc.extents.sizes import Questions, Range
    >>> questions = Questions({"N": Range(2, 4096)})
    >>> n = questions.size("N", 509)
    >>> minimum((n + 1) // 2, n // 2), str(minimum(n, 600)), [*questions.guards]
    (Size((N / 2)), 'N', ['N'])
    """
    for end in ends:
        if all(surely(end, "<=", other) for other in ends):
            return end
    return min(ends)


def _first_of(ends: tuple[int, ...], op: str, side: int) -> int:
    first = ends[0]
    for other in ends[1:]:
        if surely(other, op, first):
            first = other
        elif not surely(first, op, other):
            found = [each if type(each) is int else _bounds(each)[side] for each in ends]
            return max(found) if side else min(found)
    return first


def _bounds(size: Any) -> Interval:
    found: Interval = size.bounds()
    return found


def magnitude(interval: Interval) -> int:
    """A plain number that no value of an interval is further from 0 than.

    >>> magnitude((-3, 2))
    3
    """
    low, high = interval
    ends = (
        low if type(low) is int else _bounds(low)[0],
        high if type(high) is int else _bounds(high)[1],
    )
    return max(map(abs, ends))


def either(op: str, *ends: int) -> int:
    """Of numbers that all are bounds the best one: that for which `op` is true beside the others,
    if it surely is, else one that is a plain number."""
    best = ends[0]
    for other in ends[1:]:
        if surely(other, op, best) or (type(other) is int and not surely(best, op, other)):
            best = other
    return best
