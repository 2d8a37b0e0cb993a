"""Demanded lanes: vectors of which only the first lanes are of use become shorter ones.

The last vector of a row that is no multiple of it is stored under a mask. Where that never holds
for its second half, neither the accumulator nor what is added to it needs that half; processors
that take wide vectors in several passes are done with it sooner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tc.dtypes import INT64
from tc.kernel import ir, rebuild
from tc.kernel.folding import binary, broadcast, constant, is_constant, ramp
from tc.kernel.walk import every_statement

MIN_VECTOR_BITS = 128
"""Bits that the shortest vectors have."""


def narrow_to_demanded_lanes(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with shorter vectors for locals whose last lanes go nowhere.

    >>> from tc.dtypes import FLOAT32
    >>> from tc.kernel.folding import compare
    >>> from tc.kernel.printer import to_text
    >>> lanes, x16 = ramp(ir.Const(0, INT64), 1, 16), FLOAT32.vector(16)
    >>> mask = compare("<", lanes, broadcast(ir.Const(6, INT64), 16), {})
    >>> load, store = ir.Load("a", (lanes,), x16), ir.Store("o", (lanes,), ir.Var("x", x16), mask)
    >>> buffers = (ir.Buffer("a", FLOAT32, (16,), (1,), "input"),
    ...            ir.Buffer("o", FLOAT32, (6,), (1,), "output"))
    >>> kernel = ir.Kernel("f", buffers, ((ir.Let("x", load), store),))
    >>> print(to_text(narrow_to_demanded_lanes(kernel)))
    kernel f
      input a: float32[16]
      output o: float32[6]
    region
      let x: float32x8 = a[0:8]
      o[0:8 if int64x8.ramp(0, 1) < int64x8(6)] = x
    """
    found = _Uses()
    for stmt in every_statement(kernel):
        found.add(stmt)
    widths = found.widths()

    def narrowed(region: rebuild.Stmts) -> rebuild.Stmts:
        return rebuild.map_each(region, lambda stmt: (_narrowed(stmt, widths),))

    return rebuild.map_regions(kernel, narrowed) if widths else kernel


def lanes_from(expr: ir.Expr, first: int, count: int) -> ir.Expr:
    """`count` lanes of a vector from the first on, all at once; a scalar as it is. Locals can only
    be shortened, and are taken to be.

    >>> from tc.kernel.printer import expression_text
    >>> expression_text(lanes_from(ramp(ir.Const(3, INT64), 2, 8), 4, 4))
    'int64x4.ramp(11, 2)'
    """
    if expr.dtype.lanes == 1:
        return expr
    match expr:
        case ir.Var(name=name, dtype=dtype):
            return ir.Var(name, dtype.scalar.vector(count))
        case ir.Const(value=value, dtype=dtype):
            return constant(value, dtype.scalar.vector(count))
        case ir.Broadcast(operand=operand):
            return broadcast(operand, count)
        case ir.Ramp(base=base, step=step):
            return ramp(binary("+", base, constant(first * step, INT64)), step, count)
    return rebuild.rebuild(
        expr, [lanes_from(operand, first, count) for operand in ir.children(expr)], {}
    )


@dataclass(slots=True)
class _Class:
    """Locals of one width: lane l of one depends on lane l of the others only. The first `needed`
    lanes are of use."""

    names: list[ir.Var]
    needed: int = 0


class _Uses:
    """Which lanes of the locals of a kernel are of use."""

    def __init__(self) -> None:
        self.classes: dict[str, _Class] = {}

    def add(self, stmt: ir.Stmt) -> None:
        whole: Iterable[ir.Expr] = ()
        match stmt:
            case ir.Let(var=var, value=value) | ir.Set(var=var, value=value):
                own = [ir.Var(var, value.dtype)] if value.dtype.lanes > 1 else []
                self._together(*own, *_lane_by_lane(value))
                whole = _at_once(value)
                if own and _is_shuffled(value):
                    self._need(own[0], value.dtype.lanes)
            case ir.Store(indices=indices, value=value, mask=mask):
                found = list(_lane_by_lane(value))
                self._together(*found)
                others = indices if mask is None else (*indices, mask)
                if found:
                    self._need(found[0], _stored(value, others, mask))
                whole = (*_at_once(value), *(e for other in others for e in ir.walk(other)))
            case _:
                whole = ir.expressions(stmt)
        for expr in whole:
            if isinstance(expr, ir.Var) and expr.dtype.lanes > 1:
                self._need(expr, expr.dtype.lanes)

    def widths(self) -> dict[str, int]:
        """The lanes that are left, of locals that lose some."""
        widths: dict[str, int] = {}
        for found in self.classes.values():
            if all(var.dtype.is_float for var in found.names):
                fewest = max(MIN_VECTOR_BITS // var.dtype.scalar.bits for var in found.names)
                width = max(fewest, 1 << (found.needed - 1).bit_length())
                widths |= {v.name: width for v in found.names if width < v.dtype.lanes}
        return widths

    def _together(self, *vars: ir.Var) -> None:
        """Locals that are one class from now on."""
        if not vars:
            return
        whole = self._class(vars[0])
        for var in vars[1:]:
            other = self._class(var)
            if other is not whole:
                whole.names += other.names
                whole.needed = max(whole.needed, other.needed)
                self.classes |= dict.fromkeys((v.name for v in other.names), whole)

    def _need(self, var: ir.Var, lanes: int) -> None:
        found = self._class(var)
        found.needed = max(found.needed, lanes)

    def _class(self, var: ir.Var) -> _Class:
        return self.classes.setdefault(var.name, _Class([var]))


def _lane_by_lane(expr: ir.Expr) -> Iterator[ir.Var]:
    """The vectors on whose lanes those of an expression depend, each on the same one."""
    if isinstance(expr, ir.Var) and expr.dtype.lanes > 1:
        yield expr
    elif expr.dtype.lanes > 1 and not isinstance(expr, ir.Shuffle):
        for operand in ir.children(expr):
            yield from _lane_by_lane(operand)


def _is_shuffled(expr: ir.Expr) -> bool:
    """Whether lanes of an expression come from other lanes."""
    return isinstance(expr, ir.Shuffle) or (
        expr.dtype.lanes > 1 and any(map(_is_shuffled, ir.children(expr)))
    )


def _at_once(expr: ir.Expr) -> Iterator[ir.Expr]:
    """What an expression, or part of it, needs all lanes of."""
    if isinstance(expr, ir.Shuffle) or expr.dtype.lanes == 1:
        yield from ir.walk(expr)
    else:
        for operand in ir.children(expr):
            yield from _at_once(operand)


def _stored(value: ir.Expr, others: Sequence[ir.Expr], mask: ir.Expr | None) -> int:
    """The first lanes of a value that are stored, as far as that is known: halved while the mask
    holds for none of the others. All, where its lanes or those of the places and the mask (the
    `others`) come from elsewhere."""
    lanes = value.dtype.lanes
    if _is_shuffled(value) or any(map(_is_shuffled, others)):
        return lanes
    if mask is None or any(True for other in others for _ in _lane_by_lane(other)):
        return lanes
    while lanes > 1 and is_constant(lanes_from(mask, lanes // 2, lanes // 2), False):
        lanes //= 2
    return lanes


def _narrowed(stmt: ir.Stmt, widths: Mapping[str, int]) -> ir.Stmt:
    match stmt:
        case ir.Let(var=var, value=value) | ir.Set(var=var, value=value) if var in widths:
            return rebuild.map_expressions(stmt, lambda value: lanes_from(value, 0, widths[var]))
        case ir.Store(value=value):
            width = next((widths[v.name] for v in _lane_by_lane(value) if v.name in widths), None)
            if width is None:
                return stmt
            new = rebuild.map_expressions(stmt, lambda expr: lanes_from(expr, 0, width))
            assert isinstance(new, ir.Store)
            is_whole = new.mask is not None and is_constant(new.mask, True)
            return rebuild.changed(new, mask=None) if is_whole else new
    return stmt
