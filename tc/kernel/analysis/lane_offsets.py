"""Lane offsets of an access: one scalar offset, and how far from it each lane is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tc.affine.forms import Form
from tc.extents.sizes import as_integer
from tc.kernel.ir import Binary, Broadcast, Const, Expr, Ramp, Unary, Var

Lets: TypeAlias = "Mapping[str, Expr]"
"""Locals that keep the value of an expression as long as both are visible."""


@dataclass(frozen=True)
class LaneOffsets:
    """The offset of lane l from element (0, ..., 0) is `scalars`, whose terms are alike in all
    lanes, plus `vectors`, whose terms are not and are not known before the kernel runs, plus
    `distances[l]`.
    """

    distances: list[int]
    scalars: Form[Expr, int]
    vectors: Form[Expr, int]

    def divisor(self, lets: Lets) -> int:
        """A number that divides the offset of lane 0; 0 where that is 0."""
        terms = (factor * divisor(term, lets) for term, factor in self.scalars.terms.items())
        first = self.scalars.constant + self.distances[0]
        return 1 if self.vectors.terms else math.gcd(first, *terms)


def lane_offsets(
    indices: Sequence[Expr], strides: Sequence[int], lanes: int, lets: Lets
) -> LaneOffsets:
    """The place of an access to a buffer of these strides.

    >>> from tc.dtypes import INT64
    >>> i, lanes = Var("i", INT64), INT64.vector(4)
    >>> rows = Binary("+", i, Const(3, INT64), INT64)
    >>> place = lane_offsets((rows, Ramp(Const(8, INT64), 1, lanes)), (100, 2), 4, {})
    >>> place.distances, place.scalars
    ([0, 2, 4, 6], Form(constant=316, terms={Var(name='i', ...): 100}))
    """
    sums = _Sums([0] * lanes)
    for index, stride in zip(indices, strides, strict=True):
        if stride:
            sums.add(index, stride, lets)
    scalars, vectors = (
        {term: factor for term, factor in terms.items() if factor}
        for terms in (sums.scalars, sums.vectors)
    )
    return LaneOffsets(sums.distances, Form(sums.constant, scalars), Form(0, vectors))


@dataclass
class _Sums:
    """What indices times their strides add up to."""

    distances: list[int]
    constant: int = 0
    scalars: dict[Expr, int] = field(default_factory=dict)
    vectors: dict[Expr, int] = field(default_factory=dict)

    def add(self, index: Expr, factor: int, lets: Lets) -> None:
        match index:
            case Const(value=value):
                self.constant += factor * as_integer(value)
            case Binary(op="+" | "-" as op, left=left, right=right):
                self.add(left, factor, lets)
                self.add(right, factor if op == "+" else -factor, lets)
            case Binary(op="*", left=left, right=right) if (number := _number(right)) is not None:
                self.add(left, factor * number, lets)
            case Binary(op="*", left=left, right=right) if (number := _number(left)) is not None:
                self.add(right, factor * number, lets)
            case Unary(operand=operand):
                self.add(operand, -factor, lets)
            case Broadcast(operand=operand):
                self.add(operand, factor, lets)
            case Ramp(base=base, step=step):
                self.add(base, factor, lets)
                for lane in range(len(self.distances)):
                    self.distances[lane] += factor * step * lane
            case Var(name=name) if index.dtype.lanes > 1 and name in lets:
                self.add(lets[name], factor, lets)
            case _:
                terms = self.scalars if index.dtype.lanes == 1 else self.vectors
                terms[index] = terms.get(index, 0) + factor


def _number(expr: Expr) -> int | None:
    constant = expr.operand if isinstance(expr, Broadcast) else expr
    return as_integer(constant.value) if isinstance(constant, Const) else None


def divisor(expr: Expr, lets: Lets) -> int:
    """A number that divides an int64 scalar; 0 where that is 0.

    >>> from tc.dtypes import INT64
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
