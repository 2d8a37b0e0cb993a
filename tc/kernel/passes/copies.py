"""Copies: loop nests marked "lines" as stores of whole cache lines, those marked "transpose" as
exchanges of lanes in registers.

*Write combining.* Rows that are not a multiple of a line start anywhere in one, so that no vector
along them is a line, and none can go past the caches. Many rows next to each other are mostly whole
lines; the parts of lines at both ends are apart.

*Transposes.* Vectors are loaded along one loop, their elements exchanged by shuffles, and vectors
stored along the other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod

from tc.device import LINE_BYTES
from tc.dtypes import BOOL, INT64, UINT8, DType
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import binary, cast, constant, integer, is_constant, of_form, ramp, times
from tc.kernel.intervals import Bounds
from tc.kernel.passes.lanes import (
    ActiveLanes,
    Lanes,
    NotVectorizable,
    VectorContext,
    both,
    interleaved_lanes,
    power_of_two,
)
from tc.kernel.passes.stores import flat_buffers, flat_index
from tc.kernel.rebuild import (
    LocalNames,
    Scope,
    Stmts,
    changed,
    map_blocks,
    map_regions,
    map_statements,
    widened,
)
from tc.kernel.walk import (
    conjuncts,
    every_statement,
    loaded_in,
    names_in,
    read_names,
    stored_in,
)

_MAX_BLOCKS = 16
"""Larger nests stay loops: they would be too much code."""

_SECTION = 128
"""Bits of a vector in which shuffles of neighbours stay, so that they are one instruction."""


def copy_by_vectors(kernel: ir.Kernel, *, lanes_bits: int) -> ir.Kernel:
    """The kernel without loops marked "lines" or "transpose"; vectors have `lanes_bits` bits at
    most, 0 meaning that there are none."""
    return transpose(combine_writes(kernel, lanes_bits=lanes_bits), lanes_bits=lanes_bits)


# --- write combining --------------------------------------------------------------------------


def combine_writes(kernel: ir.Kernel, *, lanes_bits: int) -> ir.Kernel:
    """The kernel without loops marked "lines"; vectors have `lanes_bits` bits at most, 0 meaning
    that there are none.

    The buffers that such a loop copies between have one dimension then.

    >>> from tc.dtypes import FLOAT64
    >>> from tc.kernel.printer import to_text
    >>> i, j = ir.Var("i", INT64), ir.Var("j", INT64)
    >>> copy = ir.Store("o", (i, j), ir.Load("s", (i, j), FLOAT64))
    >>> inner = ir.For("j", integer(0), integer(30), (copy,))
    >>> nest = ir.For("i", integer(0), integer(7), (inner,), mark="lines")
    >>> buffers = tuple(
    ...     ir.Buffer(name, FLOAT64, (7, 30), (30, 1), role)
    ...     for name, role in (("o", "output"), ("s", "scratch"))
    ... )
    >>> print(to_text(combine_writes(ir.Kernel("l", buffers, ((nest,),)), lanes_bits=512)))
    kernel l
      output o: float64[210]
      scratch s: float64[210]
    region
      let start: int64 = 0
      let end: int64 = start + 210
      let first: int64 = (start + 7) / 8
      let last: int64 = max(first, end / 8)
      for k in start:min(end, first * 8)
        o[k] = s[k - start]
      for line in 0:last - first
        let place: int64 = (first + line) * 8
        o[place:place + 8] = s[place - start:place - start + 8]
      for k_1 in last * 8:end
        o[k_1] = s[k_1 - start]
    """
    copies = _copies(kernel) if lanes_bits else {}
    writer = _Writer(kernel, copies, lanes_bits)
    return flat_buffers(map_regions(kernel, writer.block), writer.flat)


@dataclass(frozen=True)
class _Stretch:
    """The elements of `source` from an offset on become those of `target`, `count` of them."""

    target: str
    start: ir.Expr
    source: str
    begin: ir.Expr
    count: ir.Expr


def _copies(kernel: ir.Kernel) -> dict[int, _Stretch]:
    """The copies of marked loops, by the identities of the loops. Nothing else touches the targets,
    or reads the sources."""
    marked = [s for s in every_statement(kernel) if _is_marked(s)]
    if not marked:
        return {}
    found = {id(loop): _stretch_of(loop, kernel) for loop in marked}
    read: set[str] = set()
    stored: set[str] = set()
    for stmt in _outside(kernel.regions):
        read |= {e.buffer for e in ir.expressions(stmt) if isinstance(e, ir.Load)}
        if isinstance(stmt, ir.Prefetch | ir.Store):
            (stored if isinstance(stmt, ir.Store) else read).add(stmt.buffer)
    for loop in marked:
        if found[id(loop)] is None:
            read |= loaded_in((loop,)) | stored_in((loop,))
    return {
        key: copy
        for key, copy in found.items()
        if copy and copy.target not in read | stored and copy.source not in read
    }


def _is_marked(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.For) and stmt.mark == "lines"


def _outside(blocks: Iterable[Stmts]) -> Iterator[ir.Stmt]:
    """The statements of blocks, and of those in them, that are in no marked loop."""
    for stmt in (stmt for block in blocks for stmt in block if not _is_marked(stmt)):
        yield stmt
        yield from _outside(ir.blocks(stmt))


def _stretch_of(stmt: ir.Stmt, kernel: ir.Kernel) -> _Stretch | None:
    """What a nest copies; None unless that is one stretch of memory on both sides."""
    loops: list[ir.For] = []
    while isinstance(stmt, ir.For) and stmt.begin == integer(0) and len(stmt.body) == 1:
        loops.append(stmt)
        stmt = stmt.body[0]
    sizes = [int(loop.end.value) for loop in loops[1:] if isinstance(loop.end, ir.Const)]
    match stmt:
        case ir.Store(value=ir.Load() as load) if loops and len(sizes) == len(loops) - 1:
            start, begin = (_first_offset(access, loops, sizes, kernel) for access in (stmt, load))
            if start is not None and begin is not None:
                count = binary("*", loops[0].end, integer(prod(sizes)))
                return _Stretch(stmt.buffer, start, load.buffer, begin, count)
    return None


def _first_offset(
    access: ir.Store | ir.Load, loops: Sequence[ir.For], sizes: Sequence[int], kernel: ir.Kernel
) -> ir.Expr | None:
    """The offset of the first element that an access touches, if it goes on one by one."""
    buffer = kernel.buffer(access.buffer)
    dtype, is_plain = buffer.dtype, buffer.strides == ir.row_major(buffer.shape)
    if not is_plain or dtype == BOOL or dtype.is_storage:
        return None
    place = lane_offsets(access.indices, buffer.strides, 1, {})
    first = place.scalars
    for loop, step in zip(loops, ir.row_major((1, *sizes)), strict=True):
        if first.terms.get(variable := ir.Var(loop.var, INT64)) != step:
            return None
        first = first.without(variable)
    names = {loop.var for loop in loops}
    return of_form(first) if all(names.isdisjoint(names_in(t)) for t in first.terms) else None


@dataclass
class _Writer:
    """Writes blocks again; `flat` are the buffers that have one dimension now."""

    kernel: ir.Kernel
    copies: Mapping[int, _Stretch]
    lanes_bits: int

    def __post_init__(self) -> None:
        self.names = LocalNames(self.kernel)
        self.flat = {n for copy in self.copies.values() for n in (copy.target, copy.source)}

    def block(self, block: Stmts) -> Stmts:
        return map_statements(block, self.statement)

    def statement(self, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        match stmt:
            case ir.For() if id(stmt) in self.copies:
                yield from self.whole_lines(self.copies[id(stmt)])
            case ir.For(mark="lines"):
                yield map_blocks(changed(stmt, mark=""), self.block)
            case ir.Store(buffer=name, indices=indices) if name in self.flat:
                strides = self.kernel.buffer(name).strides
                yield changed(stmt, indices=(flat_index(indices, strides),))
            case _:
                yield map_blocks(stmt, self.block)

    def whole_lines(self, copy: _Stretch) -> Iterator[ir.Stmt]:
        element = self.kernel.buffer(copy.target).dtype
        line = LINE_BYTES // element.bytes
        lanes = min(self.lanes_bits // 8, LINE_BYTES) // element.bytes
        start = yield from self.let("start", copy.start)
        end = yield from self.let("end", _sum(start, copy.count))
        first = yield from self.let("first", _over(_sum(start, integer(line - 1)), line))
        last = yield from self.let("last", binary("max", first, _over(end, line)))

        def elements(begin: ir.Expr, stop: ir.Expr) -> ir.For:
            k = ir.Var(self.names.fresh("k"), INT64)
            return ir.For(k.name, begin, stop, (self.moved(copy, start, k, 1),))

        yield elements(start, binary("min", end, times(first, line)))
        number = ir.Var(self.names.fresh("line"), INT64)
        place = ir.Let(self.names.fresh("place"), times(_sum(first, number), line))
        parts = [_sum(ir.Var(place.var, INT64), integer(at)) for at in range(0, line, lanes)]
        body: tuple[ir.Stmt, ...] = (
            place,
            *(self.moved(copy, start, part, lanes) for part in parts),
        )
        yield ir.For(number.name, integer(0), binary("-", last, first), body)
        yield elements(times(last, line), end)

    def let(self, name: str, value: ir.Expr) -> Generator[ir.Stmt, None, ir.Var]:
        new = ir.Let(self.names.fresh(name), value)
        yield new
        return ir.Var(new.var, INT64)

    def moved(self, copy: _Stretch, start: ir.Expr, place: ir.Expr, lanes: int) -> ir.Store:
        """The store of `lanes` elements from an offset of the target on."""
        dtype = self.kernel.buffer(copy.target).dtype
        source = _sum(copy.begin, binary("-", place, start))
        if lanes > 1:
            place, source = ramp(place, 1, lanes), ramp(source, 1, lanes)
            dtype = dtype.vector(lanes)
        return ir.Store(copy.target, (place,), ir.Load(copy.source, (source,), dtype))


def _sum(*terms: ir.Expr) -> ir.Expr:
    return reduce(lambda one, other: binary("+", one, other), terms)


def _over(expr: ir.Expr, divisor: int) -> ir.Expr:
    return binary("/", expr, integer(divisor))


# --- transposes -------------------------------------------------------------------------------


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
    if isinstance(value, ir.Cast) and value.dtype.is_storage:
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
                first, second = interleaved_lanes(self.size, section, 1 << bit)
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
