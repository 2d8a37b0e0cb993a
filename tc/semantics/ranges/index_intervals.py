"""Intervals that contain all values of an integer expression over a box of index values.

They prove non-affine subscripts in bounds (`X(I(i) % N)`, `x(i*j)` on small ranges), divisors
nonzero (Y4), and that no intermediate value wraps around, without which a subscript computed in
int64 need not be the mathematical one.
"""

from __future__ import annotations

from dataclasses import dataclass

from tc.affine import intervals
from tc.affine.intervals import Box
from tc.dtypes import BOOL, DType, limits
from tc.semantics import program as p
from tc.semantics.size_values import KnownSizes, evaluate


@dataclass(frozen=True, slots=True)
class IndexInterval:
    """All integers from `low` to `high`. `clean`: no operation below may wrap around, divide by
    zero, or take a value that only running the program shows to fit."""

    low: int
    high: int
    clean: bool = True

    def within(self, begin: int, end: int) -> bool:
        return begin <= self.low and self.high < end


def interval_of(expr: p.Expr, known: KnownSizes, box: Box[str]) -> IndexInterval:
    """The interval of a bool or integer expression for index values in a nonempty box.

    What a wrapped operation may give is its whole type. Subscripts of reads are not looked at,
    nor are operands of floating type.
    """
    match expr:
        case p.Literal(value=number):
            return IndexInterval(int(number), int(number))
        case p.Index(name=name):
            return IndexInterval(*box[name])
        case p.Size() | p.Extent():
            value = evaluate(expr, known)
            return _anything(expr.dtype) if value is None else IndexInterval(value, value)
        case p.Read(tensor=tensor, subscripts=subscripts, dtype=dtype):
            value = None if subscripts else known.scalars.get(tensor)
            return IndexInterval(*limits(dtype)) if value is None else IndexInterval(value, value)
        case p.Unary(operand=operand, dtype=dtype):
            a = interval_of(operand, known, box)
            return _in_type(-a.high, -a.low, dtype, a.clean)
        case p.Binary(op=op, left=left, right=right, dtype=dtype):
            a, b = interval_of(left, known, box), interval_of(right, known, box)
            found = intervals.operation(op, (a.low, a.high), (b.low, b.high))
            return _in_type(*found, dtype, a.clean and b.clean) if found else _anything(dtype)
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            c = interval_of(condition, known, box)
            a, b = interval_of(then, known, box), interval_of(otherwise, known, box)
            clean = a.clean and b.clean and c.clean
            return IndexInterval(min(a.low, b.low), max(a.high, b.high), clean)
        case p.Compare(left=left, right=right):
            return IndexInterval(0, 1, _are_clean((left, right), known, box))
        case p.Logical(operands=operands):
            return IndexInterval(0, 1, _are_clean(operands, known, box))
        case p.Convert(operand=operand, dtype=dtype) if dtype == BOOL:
            return IndexInterval(0, 1, _are_clean((operand,), known, box))
        case p.Convert(operand=operand, dtype=dtype) if not operand.dtype.is_float:
            a = interval_of(operand, known, box)
            return _in_type(a.low, a.high, dtype, a.clean)
        case p.Call(function="abs", args=(operand,), dtype=dtype):
            a = interval_of(operand, known, box)
            low = 0 if a.low <= 0 <= a.high else min(abs(a.low), abs(a.high))
            return _in_type(low, max(abs(a.low), abs(a.high)), dtype, a.clean)
        case p.Call() | p.Convert():
            return _anything(expr.dtype)


def _are_clean(operands: tuple[p.Expr, ...], known: KnownSizes, box: Box[str]) -> bool:
    return all(o.dtype.is_float or interval_of(o, known, box).clean for o in operands)


def _anything(dtype: DType) -> IndexInterval:
    low, high = limits(dtype)
    return IndexInterval(low, high, False)


def _in_type(low: int, high: int, dtype: DType, clean: bool) -> IndexInterval:
    least, largest = limits(dtype)
    if least <= low and high <= largest:
        return IndexInterval(low, high, clean)
    return IndexInterval(least, largest, False)
