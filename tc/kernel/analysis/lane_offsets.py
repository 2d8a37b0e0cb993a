"""Lane offsets of an access: one scalar offset, and how far from it each lane is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tc.dtypes import INT64
from tc.kernel.ir import Binary, Broadcast, Const, Expr, Ramp, Unary, Var
from tc.kernel.walk import is_steady

Lets: TypeAlias = "Mapping[str, Expr]"
"""Locals that keep the value of an expression as long as both are visible."""


@dataclass
class LaneOffsets:
    """The offset of lane l from element (0, ..., 0) is the sum of all terms times their factors,
    `constant` and `distances[l]`: `scalars` are alike in all lanes, `vectors` are not, and not
    known before the kernel runs.
    """

    distances: list[int]
    constant: int = 0
    scalars: dict[Expr, int] = field(default_factory=dict)
    vectors: dict[Expr, int] = field(default_factory=dict)

    def divisor(self, lets: Lets) -> int:
        """A number that divides the offset of lane 0; 0 where that is 0."""
        terms = (factor * divisor(term, lets) for term, factor in self.scalars.items())
        return math.gcd(self.constant + self.distances[0], *terms) if not self.vectors else 1


def lane_offsets(
    indices: Sequence[Expr], strides: Sequence[int], lanes: int, lets: Lets
) -> LaneOffsets:
    """The place of an access to a buffer of these strides.

    >>> i, lanes = Var("i", INT64), INT64.vector(4)
    >>> rows = Binary("+", i, Const(3, INT64), INT64)
    >>> lane_offsets((rows, Ramp(Const(8, INT64), 1, lanes)), (100, 2), 4, {})
    LaneOffsets(distances=[0, 2, 4, 6], constant=316, scalars={Var(name='i', ...): 100}, vectors={})
    """
    place = LaneOffsets([0] * lanes)
    for index, stride in zip(indices, strides, strict=True):
        if stride:
            _add(place, index, stride, lets)
    return place


def remembered(value: Expr, assigned: frozenset[str]) -> bool:
    """Whether a local made with this value may stand for it: nothing in it changes later."""
    return value.dtype.scalar == INT64 and is_steady(value, assigned.__contains__)


def _add(place: LaneOffsets, index: Expr, factor: int, lets: Lets) -> None:
    match index:
        case Const(value=value):
            place.constant += factor * int(value)
        case Binary(op="+" | "-" as op, left=left, right=right):
            _add(place, left, factor, lets)
            _add(place, right, factor if op == "+" else -factor, lets)
        case Binary(op="*", left=left, right=right) if (number := _number(right)) is not None:
            _add(place, left, factor * number, lets)
        case Binary(op="*", left=left, right=right) if (number := _number(left)) is not None:
            _add(place, right, factor * number, lets)
        case Unary(operand=operand):
            _add(place, operand, -factor, lets)
        case Broadcast(operand=operand):
            _add(place, operand, factor, lets)
        case Ramp(base=base, step=step):
            _add(place, base, factor, lets)
            for lane in range(len(place.distances)):
                place.distances[lane] += factor * step * lane
        case Var(name=name) if index.dtype.lanes > 1 and name in lets:
            _add(place, lets[name], factor, lets)
        case _:
            terms = place.scalars if index.dtype.lanes == 1 else place.vectors
            terms[index] = terms.get(index, 0) + factor


def _number(expr: Expr) -> int | None:
    constant = expr.operand if isinstance(expr, Broadcast) else expr
    return int(constant.value) if isinstance(constant, Const) else None


def divisor(expr: Expr, lets: Lets) -> int:
    """A number that divides an int64 scalar; 0 where that is 0.

    >>> i = Var("i", INT64)
    >>> divisor(Binary("+", Binary("*", i, Const(16, INT64), INT64), Const(8, INT64), INT64), {})
    8
    """
    match expr:
        case Const(value=value):
            return abs(int(value))
        case Var(name=name) if name in lets:
            return divisor(lets[name], lets)
        case Binary(op="+" | "-" | "min" | "max", left=left, right=right):
            return math.gcd(divisor(left, lets), divisor(right, lets))
        case Binary(op="*", left=left, right=right):
            return divisor(left, lets) * divisor(right, lets)
        case Unary(operand=operand):
            return divisor(operand, lets)
    return 1
