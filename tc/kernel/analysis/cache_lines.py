"""Elements of a buffer, lane by lane and in lines of a cache: what hints at them are made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from tc.dtypes import INT64
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import ramp
from tc.kernel.ir import Broadcast, Const, Expr, Ramp

Indices: TypeAlias = "tuple[Expr, ...]"


def lanes_of(index: Expr) -> tuple[Expr | None, int]:
    """The first lane of an index, if it is known how far from it the others are, and the step
    from each to the next.

    >>> from tc.kernel.ir import Var
    >>> from tc.kernel.printer import expression_text
    >>> first, step = lanes_of(ramp(Var("i", INT64), 2, 4))
    >>> expression_text(first), step
    ('i', 2)
    """
    match index:
        case Ramp(base=base, step=step):
            return base, step
        case Broadcast(operand=operand):
            return operand, 0
        case Const(value=value):
            return Const(int(value), INT64), 0
        case _:
            return (index, 0) if index.dtype.lanes == 1 else (None, 0)


def firsts_of_lines(offsets: Sequence[int], line: int) -> list[int]:
    """Of sorted offsets the first of each line of so many elements, if one starts with the first.

    >>> firsts_of_lines([3, 7, 18, 19, 20, 40], 16)
    [3, 19, 40]
    """
    kept: list[int] = []
    for offset in offsets:
        if not kept or offset >= kept[-1] + line:
            kept.append(offset)
    return kept


def together(places: Sequence[Indices]) -> Iterator[Indices]:
    """Elements in vectors as long as they are equally far from each other in the last index."""
    while places:
        count, step = 1, 0
        while count < len(places):
            distance = _distance(places[count - 1], places[count])
            if distance is None or (count > 1 and distance != step):
                break
            count, step = count + 1, distance
        *rows, last = places[0]
        yield (*rows, ramp(last, step, count)) if count > 1 else places[0]
        places = places[count:]


def _distance(one: Indices, other: Indices) -> int | None:
    """How much greater the last index is, where only that differs."""
    if not one or one[:-1] != other[:-1]:
        return None
    first, second = (lane_offsets((place[-1],), (1,), 1, {}) for place in (one, other))
    return second.constant - first.constant if first.scalars == second.scalars else None
