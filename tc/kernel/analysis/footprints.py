"""Footprints of statements: the elements of a buffer that they touch, as a box of affine spans, and
lane by lane in lines of a cache."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tc.affine.forms import Form
from tc.affine.intervals import scaled
from tc.dtypes import INT64
from tc.extents.sizes import as_integer
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import binary, ramp, times
from tc.kernel.rebuild import Scope, substitute
from tc.kernel.walk import declared, iterations, loads_in, names_in

Indices: TypeAlias = "tuple[ir.Expr, ...]"


@dataclass(frozen=True)
class AffineSpan:
    """The indices that are touched along one dimension: `extent` of them, from `first` on."""

    first: Form[ir.Expr, int]
    extent: int

    def around(self, other: AffineSpan) -> AffineSpan | None:
        """Both; None where they are not a number of indices apart."""
        apart = other.first - self.first
        if apart.terms:
            return None
        low = min(apart.constant, 0)
        high = max(self.extent, apart.constant + other.extent)
        return AffineSpan(self.first.shifted(low), high - low)

    def start(self, values: Mapping[str, ir.Expr]) -> ir.Expr:
        """The first index, at these values of variables."""
        start: ir.Expr = ir.Const(self.first.constant, INT64)
        for term, factor in self.first.terms.items():
            start = binary("+", times(substitute(term, values, {}), factor), start, {})
        return start


@dataclass(frozen=True)
class Rows:
    """So many rows, each an index of a dimension, of `extent` elements in memory."""

    dimension: int
    count: int
    extent: int


@dataclass(frozen=True)
class BufferFootprint:
    """What statements touch of a buffer: a span of each dimension."""

    buffer: ir.Buffer
    spans: Sequence[AffineSpan]

    def is_left_by(self, loop: ir.For) -> bool:
        """Whether the next iteration of a loop touches nothing of it again."""
        begin = iterations(loop).start
        now, then = ({loop.var: ir.Const(value, INT64)} for value in (begin, begin + 1))
        for span in self.spans:
            terms = {t: f for t, f in span.first.terms.items() if loop.var in names_in(t)}
            moving = AffineSpan(Form(0, terms), span.extent)
            match moving.start(now), moving.start(then):
                case ir.Const(value=before), ir.Const(value=after):
                    if abs(after - before) >= span.extent:
                        return True
        return False

    def rows(self, line: int) -> Rows | None:
        """The rows, without gaps as long as a line of `line` bytes; None where they are along
        several dimensions, or their elements not one behind the other."""
        if self.buffer.strides[-1] != 1 or min(self.buffer.strides) < 0:
            return None
        extent = 1
        for number in reversed(range(len(self.spans))):
            count, stride = self.spans[number].extent, self.buffer.strides[number]
            if count == 1:
                continue
            if (stride - extent) * self.buffer.dtype.bytes >= line:
                several = any(span.extent > 1 for span in self.spans[:number])
                return None if several else Rows(number, count, extent)
            extent += (count - 1) * stride
        return Rows(0, 1, extent)

    def lines(self, line: int) -> int:
        """The number of lines of `line` bytes in the rows; 0 where the rows are not known."""
        rows = self.rows(line)
        return rows.count * -(-rows.extent * self.buffer.dtype.bytes // line) if rows else 0

    def is_streams(self, line: int, page: int) -> bool:
        """Whether it has several rows as long as a page: hardware prefetches each by itself."""
        rows = self.rows(line)
        if rows is None or rows.count == 1:
            return False
        return rows.extent * self.buffer.dtype.bytes >= page

    def hint(
        self, shifts: Iterable[tuple[int, ir.Expr]], values: Mapping[str, ir.Expr]
    ) -> ir.Prefetch:
        """The hint at the first element, shifted in some dimensions, at values of variables."""
        place = [span.start(values) for span in self.spans]
        for dimension, shift in shifts:
            place[dimension] = binary("+", place[dimension], shift, {})
        return ir.Prefetch(self.buffer.name, tuple(place))


def footprint(
    buffer: ir.Buffer, stmts: tuple[ir.Stmt, ...], scope: Scope, *, stores: bool = False
) -> BufferFootprint | None:
    """What statements in a scope read of a buffer, or also store to it; None where it is not known,
    or nothing."""
    spans = _Spans(buffer, scope, stores, len(scope.loops)).of(stmts)
    return BufferFootprint(buffer, spans) if spans else None


@dataclass(frozen=True)
class _Spans:
    """The spans of one buffer in the statements of a scope, which `around` loops enclose."""

    buffer: ir.Buffer
    scope: Scope
    stores: bool
    around: int

    def of(self, stmts: tuple[ir.Stmt, ...]) -> list[AffineSpan] | None:
        """None if they are not known; an empty list if the statements do not touch the buffer."""
        found: list[AffineSpan] | None = []
        with self.scope.block():
            for stmt in stmts:
                if isinstance(stmt, ir.For | ir.If):
                    with self.scope.inside(stmt):
                        found = _joined(found, self.of(ir.inner_statements(stmt)))
                else:
                    for name, indices in accesses((stmt,), stores=self.stores):
                        if name == self.buffer.name:
                            found = _joined(found, self.touched(indices))
                self.scope.learn(stmt)
        return found

    def touched(self, indices: Indices) -> list[AffineSpan] | None:
        inner = [loop for loop in self.scope.loops[self.around :] if isinstance(loop, ir.For)]
        outer = {name for loop in self.scope.loops[: self.around] for name in declared(loop)}
        spans = []
        for index, size in zip(indices, self.buffer.shape, strict=True):
            index = self.scope.in_loop_variables(index)
            place = lane_offsets((index,), (1,), index.dtype.lanes, {})
            first = place.scalars
            low, high = min(place.distances), max(place.distances)
            for loop in inner:
                variable, values = ir.Var(loop.var, INT64), iterations(loop)
                factor = first.terms.get(variable, 0)
                if factor and not values:
                    return None
                if factor:
                    first = first.without(variable)
                    least, greatest = scaled((values[0], values[-1]), factor)
                    low, high = low + least, high + greatest
            names = {name for term in first.terms for name in names_in(term)}
            is_loaded = any(isinstance(e, ir.Load) for term in first.terms for e in ir.walk(term))
            if place.vectors.terms or not names <= outer or is_loaded:
                return None
            if not first.terms:  # masks keep to the buffer
                low = max(low, -first.constant)
                high = min(high, size - 1 - first.constant)
            spans.append(AffineSpan(first.shifted(low), high - low + 1))
        return spans


def accesses(stmts: tuple[ir.Stmt, ...], *, stores: bool) -> Iterator[tuple[str, Indices]]:
    """Of each load in statements the buffer and indices; also of stores that are not past the
    caches."""
    for load in loads_in(stmts):
        yield load.buffer, load.indices
    for stmt in ir.statements(stmts) if stores else ():
        if isinstance(stmt, ir.Store) and not stmt.non_temporal:
            yield stmt.buffer, stmt.indices


def _joined(
    one: list[AffineSpan] | None, other: list[AffineSpan] | None
) -> list[AffineSpan] | None:
    """The spans around both; None where one is unknown or they are too different."""
    if not one or not other:
        return None if one is None or other is None else one or other
    found = [a.around(b) for a, b in zip(one, other, strict=True)]
    return None if None in found else [span for span in found if span is not None]


def lanes_of(index: ir.Expr) -> tuple[ir.Expr | None, int]:
    """The first lane of an index, if it is known how far from it the others are, and the step
    from each to the next.

    >>> from tc.kernel.printer import expression_text
    >>> first, step = lanes_of(ramp(ir.Var("i", INT64), 2, 4))
    >>> expression_text(first), step
    ('i', 2)
    """
    match index:
        case ir.Ramp(base=base, step=step):
            return base, step
        case ir.Broadcast(operand=operand):
            return operand, 0
        case ir.Const(value=value):
            return ir.Const(as_integer(value), INT64), 0
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
    apart = second.scalars - first.scalars
    return None if apart.terms else apart.constant
