"""The values that tensors may hold whose elements say where a program reads, writes, or how far it
goes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from tc.dtypes import Array, DType
from tc.semantics import program as p
from tc.semantics.affine import box_of, linear_form
from tc.semantics.size_values import KnownSizes

_VALUE = "the value"  # no name of a variable


@dataclass(frozen=True, slots=True)
class IndexValues:
    """The least and the largest value of an input's integers that leaves no tensor. `ascending`:
    they are ends of ranges (W3), so that none may be less than the one before; `distinct`: they are
    places that no two instances may share (S2)."""

    low: int
    high: int
    ascending: bool = False
    distinct: bool = False

    def joined(self, other: IndexValues) -> IndexValues:
        return IndexValues(
            max(self.low, other.low),
            min(self.high, other.high),
            self.ascending or other.ascending,
            self.distinct or other.distinct,
        )

    def within(self, dtype: DType) -> IndexValues:
        """Those of them that an integer type has."""
        info = np.iinfo(dtype.name)
        return replace(self, low=max(self.low, int(info.min)), high=min(self.high, int(info.max)))

    def drawn(self, shape: tuple[int, ...], dtype: DType, rng: np.random.Generator) -> Array:
        """Such values; ascending ones begin and end with the least and the largest. Where there are
        none, all are the least."""
        held = self.within(dtype)
        low, high, count = held.low, max(held.low, held.high), math.prod(shape)
        if self.distinct and high - low + 1 >= count:
            some = rng.choice(high - low + 1, count, replace=False) + low
            return np.asarray(some.astype(dtype.name)).reshape(shape)
        found: Array = rng.integers(low, high, shape, dtype.name, endpoint=True)
        if self.ascending:
            found = np.sort(found.reshape(-1)).reshape(shape)
            found.reshape(-1)[:1], found.reshape(-1)[-1:] = low, high
        return found


def index_values(shaped: p.ShapedProgram) -> dict[str, IndexValues]:
    """For inputs whose integers are read in subscripts, in places of the left side and in bounds of
    ranges, alone or plus or times what is known, what these may be.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "def f(int(N) I, float(M) x) -> (o) { o(i) = x(2 * I(i) + 1) }"
    >>> found = index_values(infer_ranges(check(parse(Source(text))), {"I": (3,), "x": (9,)}, {}))
    >>> found["I"].low, found["I"].high
    (0, 3)
    """
    found: dict[str, IndexValues] = {}
    for statement in shaped.statements:
        if statement.is_empty:
            continue
        for tensor, values in _values(shaped, statement):
            found[tensor] = found.get(tensor, values).joined(values)
    return found


def _values(shaped: p.ShapedProgram, each: p.ShapedStatement) -> Iterator[tuple[str, IndexValues]]:
    statement = each.statement
    for expr in statement.values:
        for read in _reads(expr):
            for subscript, extent in zip(read.subscripts, shaped.shapes[read.tensor], strict=True):
                yield from _of_expression(shaped, each, subscript, 0, extent)
    distinct = statement.op == "="
    for target in statement.targets:
        for place, extent in zip(statement.subscripts, shaped.shapes[target], strict=True):
            for tensor, values in _of_expression(shaped, each, place, 0, extent):
                yield tensor, replace(values, distinct=distinct)
    for clause in statement.where:
        box = each.ranges[clause.variable]
        for bound in (clause.begin, clause.end):
            for tensor, values in _of_expression(shaped, each, bound, box.begin, box.end + 1):
                yield tensor, replace(values, ascending=True)


def _of_expression(
    shaped: p.ShapedProgram, each: p.ShapedStatement, expr: p.Expr, begin: int, end: int
) -> Iterator[tuple[str, IndexValues]]:
    """What the one input that an expression reads may hold for the expression to lie between two
    numbers."""
    inner = [r for r in _reads(expr) if r.tensor in shaped.program.inputs]
    if len(inner) != 1 or inner[0].tensor in shaped.scalars or begin >= end:
        return
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    form = linear_form(_with_variable(expr, inner[0]), known)
    factor = 0 if form is None else form.terms.get(_VALUE, 0)
    if form is None or not factor:
        return
    low, high = form.without(_VALUE).interval(box_of(each.ranges, each.ranges))
    ends = (begin - low, end - 1 - high)  # factor * value lies between them
    first, last = ends if factor > 0 else (-ends[1], -ends[0])
    step = abs(factor)
    yield inner[0].tensor, IndexValues(-(-first // step), last // step)


def _reads(expr: p.Expr) -> list[p.Read]:
    return [node for node in p.walk(expr) if isinstance(node, p.Read) and node.subscripts]


def _with_variable(expr: p.Expr, read: p.Read) -> p.Expr:
    """An expression with a variable in the place of a read and of the conversions around it."""
    match expr:
        case p.Read() if expr is read:
            return p.Index(_VALUE, span=expr.span)
        case p.Convert(operand=operand) if operand is read:
            return p.Index(_VALUE, span=expr.span)
        case p.Convert(operand=operand):
            return replace(expr, operand=_with_variable(operand, read))
        case p.Unary(operand=operand):
            return replace(expr, operand=_with_variable(operand, read))
        case p.Binary(left=left, right=right):
            left, right = _with_variable(left, read), _with_variable(right, read)
            return replace(expr, left=left, right=right)
        case _:
            return expr
