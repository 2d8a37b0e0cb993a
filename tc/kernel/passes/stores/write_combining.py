"""Write combining: loop nests marked "lines" as stores of whole cache lines, the parts of lines at
both ends apart.

Rows that are not a multiple of a line start anywhere in one, so that no vector along them is a
line, and none can go past the caches. Many rows next to each other are mostly whole lines.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from math import prod

from tc.device import LINE
from tc.dtypes import BOOL, FLOAT16, INT64
from tc.kernel import ir
from tc.kernel.analysis.lane_offsets import lane_offsets
from tc.kernel.folding import binary, integer, ramp
from tc.kernel.local_names import LocalNames
from tc.kernel.rebuild import Stmts, changed, map_blocks, map_regions, map_statements, same_or
from tc.kernel.walk import every_statement


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
    flat = (
        replace(b, shape=(prod(b.shape),), strides=(1,)) if b.name in writer.flat else b
        for b in kernel.buffers
    )
    new = map_regions(kernel, writer.block)
    return changed(new, buffers=same_or(kernel.buffers, flat))


# --- what the nests copy ----------------------------------------------------------------------


@dataclass(frozen=True)
class _Copy:
    """The elements of `source` from an offset on become those of `target`, `count` of them."""

    target: str
    start: ir.Expr
    source: str
    begin: ir.Expr
    count: ir.Expr


def _copies(kernel: ir.Kernel) -> dict[int, _Copy]:
    """Those of marked loops, by the identities of the loops. Nothing else touches their targets,
    or reads their sources."""
    marked = [s for s in every_statement(kernel) if _is_marked(s)]
    if not marked:
        return {}
    found = {id(loop): _copy_of(loop, kernel) for loop in marked}
    others = [s for r in kernel.regions for s in _outside(r)]
    loads = (e.buffer for s in others for e in ir.expressions(s) if isinstance(e, ir.Load))
    read = {*loads, *(s.buffer for s in others if isinstance(s, ir.Prefetch))}
    stored = {s.buffer for s in others if isinstance(s, ir.Store)}
    left = {n for loop in marked if not found[id(loop)] for n in _touched(loop)}
    return {
        key: copy
        for key, copy in found.items()
        if copy and copy.target not in read | stored | left and copy.source not in read | left
    }


def _is_marked(stmt: ir.Stmt) -> bool:
    return isinstance(stmt, ir.For) and stmt.mark == "lines"


def _outside(stmts: tuple[ir.Stmt, ...]) -> Iterator[ir.Stmt]:
    """The statements that are in no marked loop; those with bodies without them."""
    for stmt in stmts:
        match stmt:
            case ir.For(body=body):
                if not _is_marked(stmt):
                    yield replace(stmt, body=())
                    yield from _outside(body)
            case ir.If(then=then, otherwise=otherwise):
                yield replace(stmt, then=(), otherwise=())
                yield from _outside((*then, *otherwise))
            case _:
                yield stmt


def _touched(loop: ir.Stmt) -> Iterator[str]:
    for stmt in ir.statements((loop,)):
        if isinstance(stmt, ir.Store):
            yield stmt.buffer
        yield from (e.buffer for e in ir.expressions(stmt) if isinstance(e, ir.Load))


def _copy_of(stmt: ir.Stmt, kernel: ir.Kernel) -> _Copy | None:
    """What a nest copies; None unless that is one stretch of memory on both sides."""
    loops: list[ir.For] = []
    while isinstance(stmt, ir.For) and stmt.begin == integer(0) and len(stmt.body) == 1:
        loops.append(stmt)
        stmt = stmt.body[0]
    sizes = [int(loop.end.value) for loop in loops[1:] if isinstance(loop.end, ir.Const)]
    match stmt:
        case ir.Store(value=ir.Load() as load) if loops and len(sizes) == len(loops) - 1:
            start, begin = (_stretch(access, loops, sizes, kernel) for access in (stmt, load))
            if start is not None and begin is not None:
                count = binary("*", loops[0].end, integer(prod(sizes)))
                return _Copy(stmt.buffer, start, load.buffer, begin, count)
    return None


def _stretch(
    access: ir.Store | ir.Load, loops: Sequence[ir.For], sizes: Sequence[int], kernel: ir.Kernel
) -> ir.Expr | None:
    """The offset of the first element that an access touches, if it goes on one by one."""
    buffer = kernel.buffer(access.buffer)
    if buffer.strides != ir.row_major(buffer.shape) or buffer.dtype in (BOOL, FLOAT16):
        return None
    place = lane_offsets(access.indices, buffer.strides, 1, {})
    terms = dict(place.scalars)
    for loop, step in zip(loops, ir.row_major((1, *sizes)), strict=True):
        if terms.pop(ir.Var(loop.var, INT64), None) != step:
            return None
    names = {loop.var for loop in loops}
    if any(isinstance(e, ir.Var) and e.name in names for term in terms for e in ir.walk(term)):
        return None
    return _sum(integer(place.constant), *(_times(t, factor) for t, factor in terms.items()))


# --- what they become -------------------------------------------------------------------------


@dataclass
class _Writer:
    """Writes blocks again; `flat` are the buffers that have one dimension now."""

    kernel: ir.Kernel
    copies: Mapping[int, _Copy]
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
                steps = (_times(i, s) for i, s in zip(indices, strides, strict=True))
                yield changed(stmt, indices=(_sum(*steps),))
            case _:
                yield map_blocks(stmt, self.block)

    def whole_lines(self, copy: _Copy) -> Iterator[ir.Stmt]:
        element = self.kernel.buffer(copy.target).dtype
        line = LINE // element.bytes
        lanes = min(self.lanes_bits // 8, LINE) // element.bytes
        start = yield from self.let("start", copy.start)
        end = yield from self.let("end", _sum(start, copy.count))
        first = yield from self.let("first", _over(_sum(start, integer(line - 1)), line))
        last = yield from self.let("last", binary("max", first, _over(end, line)))

        def elements(begin: ir.Expr, stop: ir.Expr) -> ir.For:
            k = ir.Var(self.names.fresh("k"), INT64)
            return ir.For(k.name, begin, stop, (self.moved(copy, start, k, 1),))

        yield elements(start, binary("min", end, _times(first, line)))
        number = ir.Var(self.names.fresh("line"), INT64)
        place = ir.Let(self.names.fresh("place"), _times(_sum(first, number), line))
        parts = [_sum(ir.Var(place.var, INT64), integer(at)) for at in range(0, line, lanes)]
        body: tuple[ir.Stmt, ...] = (
            place,
            *(self.moved(copy, start, part, lanes) for part in parts),
        )
        yield ir.For(number.name, integer(0), binary("-", last, first), body)
        yield elements(_times(last, line), end)

    def let(self, name: str, value: ir.Expr) -> Generator[ir.Stmt, None, ir.Var]:
        new = ir.Let(self.names.fresh(name), value)
        yield new
        return ir.Var(new.var, INT64)

    def moved(self, copy: _Copy, start: ir.Expr, place: ir.Expr, lanes: int) -> ir.Store:
        """The store of so many elements from an offset of the target on."""
        dtype = self.kernel.buffer(copy.target).dtype
        source = _sum(copy.begin, binary("-", place, start))
        if lanes > 1:
            place, source = ramp(place, 1, lanes), ramp(source, 1, lanes)
            dtype = dtype.vector(lanes)
        return ir.Store(copy.target, (place,), ir.Load(copy.source, (source,), dtype))


def _sum(*terms: ir.Expr) -> ir.Expr:
    return reduce(lambda one, other: binary("+", one, other), terms)


def _times(expr: ir.Expr, factor: int) -> ir.Expr:
    return binary("*", expr, integer(factor))


def _over(expr: ir.Expr, divisor: int) -> ir.Expr:
    return binary("/", expr, integer(divisor))
