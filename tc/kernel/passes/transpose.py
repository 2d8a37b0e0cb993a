"""Transposes in registers: for loop nests marked "transpose", vectors are loaded along one loop,
their elements exchanged by shuffles, and vectors stored along the other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tc.dtypes import BOOL, FLOAT16, UINT8, DType
from tc.kernel import ir
from tc.kernel.folding import cast, constant, integer, is_constant
from tc.kernel.intervals import Bounds
from tc.kernel.passes.lanes import (
    ActiveLanes,
    Lanes,
    NotVectorizable,
    VectorContext,
    both,
    power_of_two,
)
from tc.kernel.rebuild import Scope, changed, map_regions, widened
from tc.kernel.walk import conjuncts, every_statement, read_names

_MAX_BLOCKS = 16
"""Larger nests stay loops: they would be too much code."""

_SECTION = 128
"""Bits of a vector in which shuffles of neighbours stay, so that they are one instruction."""


def transpose(kernel: ir.Kernel, *, lanes_bits: int) -> ir.Kernel:
    """The kernel without loops marked "transpose"; vectors have `lanes_bits` bits at most, 0
    meaning that there are none.

    >>> from tc.dtypes import FLOAT64, INT64
    >>> from tc.kernel.printer import to_text
    >>> i, j, two = ir.Var("i", INT64), ir.Var("j", INT64), integer(2)
    >>> nest = ir.For("i", integer(0), two, (
    ...     ir.For("j", integer(0), two, (ir.Store("o", (j, i), ir.Load("a", (i, j), FLOAT64)),)),
    ... ), mark="transpose")
    >>> buffers = tuple(ir.Buffer(n, FLOAT64, (2, 2), (2, 1), r) for n, r in (
    ...     ("a", "input"), ("o", "output")))
    >>> print(to_text(transpose(ir.Kernel("t", buffers, ((nest,),)), lanes_bits=512)))
    kernel t
      input a: float64[2, 2]
      output o: float64[2, 2]
    region
      let row: float64x2 = a[0, 0:2]
      let row_1: float64x2 = a[1, 0:2]
      let t: float64x2 = shuffle(row, row_1, [0, 2])
      let t_1: float64x2 = shuffle(row, row_1, [1, 3])
      o[0, 0:2] = t
      o[1, 0:2] = t_1
    """
    if not any(isinstance(s, ir.For) and s.mark == "transpose" for s in every_statement(kernel)):
        return kernel
    context = VectorContext.of(kernel)
    scope = Scope(context.assigned)

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if isinstance(stmt, ir.For) and stmt.mark == "transpose":
            if new := _transposed(stmt, scope.bounds, context, lanes_bits):
                return new
            stmt = changed(stmt, mark="")
        return (scope.map_inside(stmt, each),)

    return map_regions(kernel, lambda region: scope.map(region, each))


@dataclass(frozen=True)
class _Axis:
    """A loop, or a part of it."""

    var: str
    begin: int
    extent: int


@dataclass(frozen=True)
class _Copy:
    """`dtype` is that of the elements as they are exchanged."""

    outer: _Axis
    inner: _Axis
    conditions: tuple[ir.Expr, ...]
    store: ir.Store
    value: ir.Expr
    dtype: DType


def _transposed(
    loop: ir.For, bounds: Bounds, context: VectorContext, lanes_bits: int
) -> list[ir.Stmt] | None:
    """The nest as vectors; None if it cannot become that."""
    copy = _copy_of(loop)
    if copy is None:
        return None
    size = min(
        lanes_bits // (8 * copy.dtype.bytes),
        power_of_two(max(copy.outer.extent, copy.inner.extent)),
    )
    parts = [_parts(axis, size) for axis in (copy.outer, copy.inner)]
    if size < 2 or len(parts[0]) * len(parts[1]) > _MAX_BLOCKS:
        return None
    for is_swapped in (False, True):
        axes = tuple(reversed(parts)) if is_swapped else tuple(parts)
        try:
            blocks = [
                _Block(copy, down, across, size, bounds, context).run()
                for down in axes[0]
                for across in axes[1]
            ]
        except NotVectorizable:
            continue
        return [stmt for block in blocks for stmt in block]
    return None


def _copy_of(loop: ir.For) -> _Copy | None:
    axes: list[_Axis] = []
    conditions: list[ir.Expr] = []
    stmt: ir.Stmt = loop
    while True:
        match stmt:
            case ir.For(begin=ir.Const(value=first), end=ir.Const(value=last)) if first < last:
                axes.append(_Axis(stmt.var, int(first), int(last - first)))
                body = stmt.body
            case ir.If(condition=condition, otherwise=()):
                conditions += conjuncts(condition)
                body = stmt.then
            case _:
                break
        inner = [each for each in body if not isinstance(each, ir.Comment)]
        if len(inner) != 1:
            return None
        stmt = inner[0]
    if not isinstance(stmt, ir.Store) or len(axes) != 2:
        return None
    read = map(read_names, (stmt.value, *stmt.indices, *conditions))
    if stmt.buffer in set[str]().union(*read):
        return None
    value = stmt.value
    if isinstance(value, ir.Cast) and value.dtype == FLOAT16:
        value = value.operand
    value = cast(value, UINT8) if value.dtype == BOOL else value
    return _Copy(axes[0], axes[1], tuple(conditions), stmt, value, value.dtype)


def _parts(axis: _Axis, size: int) -> list[_Axis]:
    """An axis in parts of the size of a vector."""
    if size < 2:
        return [axis]
    last = axis.begin + axis.extent
    starts = range(axis.begin, last, size)
    return [_Axis(axis.var, start, min(size, last - start)) for start in starts]


@dataclass
class _Block:
    """One transpose: vectors are loaded along `across`, one for each index of `down`."""

    copy: _Copy
    down: _Axis
    across: _Axis
    size: int
    bounds: Bounds
    context: VectorContext
    out: list[ir.Stmt] = field(default_factory=list)
    reads: bool = False

    def run(self) -> list[ir.Stmt]:
        rows = [self.row(k) for k in range(self.down.extent)]
        if not self.reads:
            raise NotVectorizable
        columns = self.exchanged(rows + [None] * (self.size - len(rows)))
        for k in range(self.across.extent):
            self.store(k, columns[k])
        return self.out

    def lanes(self, along: _Axis, other: _Axis, position: int) -> tuple[Lanes, ActiveLanes]:
        """The lanes of one vector, and those that the conditions leave."""
        fixed = other.begin + position
        bounds = {**self.bounds, other.var: (fixed, fixed)}
        lanes = Lanes(self.context, along.var, along.begin, along.extent, bounds, self.size)
        lanes.values[other.var] = integer(fixed)
        active = ActiveLanes(None, None, lanes.tail)
        for condition in self.copy.conditions:
            test = lanes.bound(lanes.expr(condition, active, self.out), self.out)
            active = lanes.narrowed(active, condition, test, True)
        return lanes, active

    def row(self, position: int) -> ir.Expr | None:
        lanes, active = self.lanes(self.across, self.down, position)
        if active.full is not None and is_constant(active.full, False):
            return None
        value = lanes.expr(self.copy.value, active, self.out)
        for node in ir.walk(value):
            if isinstance(node, ir.Load) and node.dtype.lanes > 1:
                self.reads = True
                if not self.is_contiguous(node):
                    raise NotVectorizable
        return self.let("row", value)

    def store(self, position: int, column: ir.Expr) -> None:
        lanes, active = self.lanes(self.down, self.across, position)
        if active.full is not None and is_constant(active.full, False):
            return
        store = self.copy.store
        indices = tuple(lanes.expr(index, active, self.out) for index in store.indices)
        mask = active.full if active.guard is None else both(lanes.tail, active.mask)
        value = cast(column, store.value.dtype.vector(self.size))
        new = ir.Store(store.buffer, indices, value, mask)
        if not self.is_contiguous(new):
            raise NotVectorizable
        self.out.append(new if active.guard is None else ir.If(active.guard, (new,)))

    def let(self, name: str, value: ir.Expr) -> ir.Var:
        new = ir.Let(self.context.names.fresh(name), widened(value, self.size))
        self.out.append(new)
        return ir.Var(new.var, new.dtype)

    def is_contiguous(self, access: ir.Load | ir.Store) -> bool:
        strides = self.context.buffers[access.buffer].strides
        axes = zip(access.indices, strides, strict=True)
        match [(index, stride) for index, stride in axes if index.dtype.lanes > 1]:
            case [(ir.Ramp(step=1), 1)]:
                return True
            case _:
                return False

    # --- the network ------------------------------------------------------------------------

    def exchanged(self, rows: Sequence[ir.Expr | None]) -> list[ir.Expr]:
        """The columns: lane l of column k is lane k of row l; None is a row of anything.

        First neighbours are interleaved within sections, in ever larger groups, then the sections
        of pairs of rows are parted into even and odd ones. With the bits of a row's number and
        those of a lane's, each step moves one bit of the first kind to the second.
        """
        section = min(self.size, _SECTION // (8 * self.copy.dtype.bytes))
        low = section.bit_length() - 1
        for bit in range(self.size.bit_length() - 1):
            if bit < low:
                first, second = _interleaved(self.size, section, 1 << bit)
            else:
                first, second = _parted(self.size, section)
            rows = self.paired(rows, 1 << bit, first, second)
        zero = constant(0, self.copy.dtype.vector(self.size))
        columns = [rows[_with_low_bits_reversed(k, low)] for k in range(self.size)]
        return [zero if column is None else column for column in columns]

    def paired(
        self,
        rows: Sequence[ir.Expr | None],
        distance: int,
        first: tuple[int, ...],
        second: tuple[int, ...],
    ) -> list[ir.Expr | None]:
        out: list[ir.Expr | None] = list(rows)
        for low in range(self.size):
            high = low | distance
            one, other = rows[low], rows[high]
            if high != low and (one is not None or other is not None):
                zero = constant(0, self.copy.dtype.vector(self.size))
                pair = one or zero, other or zero
                for place, order in ((low, first), (high, second)):
                    out[place] = self.let("t", ir.Shuffle(*pair, order, zero.dtype))
        return out


def _interleaved(size: int, section: int, group: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Groups of lanes of two vectors in turn: the first halves of all sections, and the second.

    >>> _interleaved(8, 4, 1)
    ((0, 8, 1, 9, 4, 12, 5, 13), (2, 10, 3, 11, 6, 14, 7, 15))
    """
    halves = []
    for half in range(2):
        lanes: list[int] = []
        for start in range(0, size, section):
            begin = start + half * section // 2
            for g in range(begin, begin + section // 2, group):
                lanes += [*range(g, g + group), *range(size + g, size + g + group)]
        halves.append(tuple(lanes))
    return halves[0], halves[1]


def _parted(size: int, section: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The even sections of two vectors, and the odd ones.

    >>> _parted(8, 2)
    ((0, 1, 4, 5, 8, 9, 12, 13), (2, 3, 6, 7, 10, 11, 14, 15))
    """
    starts = range(0, 2 * size, section)
    even, odd = (
        tuple(lane for start in starts[part::2] for lane in range(start, start + section))
        for part in range(2)
    )
    return even, odd


def _with_low_bits_reversed(number: int, bits: int) -> int:
    """
    >>> [_with_low_bits_reversed(n, 2) for n in range(5)]
    [0, 2, 1, 3, 4]
    """
    low = number & ((1 << bits) - 1)
    reversed_low = sum(1 << (bits - 1 - b) for b in range(bits) if low >> b & 1)
    return number - low + reversed_low
