"""Vectorization: loops marked "vector" as straight-line code, one lane for each iteration.

What depends on the loop variable becomes vectors, the rest stays scalar. Affine subscripts stay
ramps. Conditions that differ between lanes become masks; as vectors are not lazy, so do those of
`?:`, `&&` and `||` around loads. A loop that cannot be treated so becomes an ordinary one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from tc.builtins import identity
from tc.kernel import ir, rebuild
from tc.kernel.folding import is_constant, logical_and, select
from tc.kernel.intervals import Bounds
from tc.kernel.passes.lanes import (
    ActiveLanes,
    Lanes,
    NotVectorizable,
    Supports,
    VectorContext,
    reads,
)
from tc.kernel.walk import accumulates, conjuncts

MAX_LANES = 128
"""Longer loops stay loops: vectors are cut into registers, so they would be straight-line code."""


def vectorize(kernel: ir.Kernel, *, supports: Supports = lambda _: True) -> ir.Kernel:
    """The kernel without loops marked "vector"; `supports` says which calls vectors may make.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import to_text
    >>> i = ir.Var("i", INT64)
    >>> twice = ir.Binary("*", ir.Const(2.0, FLOAT32), ir.Load("a", (i,), FLOAT32), FLOAT32)
    >>> body = (ir.Store("o", (i,), twice),)
    >>> loop = ir.For("i", ir.Const(0, INT64), ir.Const(4, INT64), body, mark="vector")
    >>> buffers = (ir.Buffer("a", FLOAT32, (4,), (1,), "input"),)
    >>> print(to_text(vectorize(ir.Kernel("double", buffers, ((loop,),)))))
    kernel double
      input a: float32[4]
    region
      o[0:4] = float32x4(2.0) * a[0:4]
    """
    context = VectorContext.of(kernel, supports)

    scope = rebuild.Scope(context.assigned)

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        """Of two marked loops the inner one becomes vectors."""
        new = scope.map_inside(stmt, each)
        if isinstance(stmt, ir.For) and isinstance(new, ir.For) and stmt.mark == "vector":
            loop = rebuild.changed(new, mark="")
            return _straight_line(loop, accumulates(stmt), scope.bounds, context)
        return (new,)

    return rebuild.map_regions(kernel, lambda region: scope.map(region, each))


def leave_as_loops(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with loops marked "vector" as plain loops, for processors without vectors: what
    comes next may put several statements into their bodies.

    >>> from tc.dtypes import INT64
    >>> loop = ir.For("i", ir.Const(0, INT64), ir.Const(4, INT64), (), mark="vector")
    >>> leave_as_loops(ir.Kernel("f", (), ((loop,),))).regions[0][0].mark
    ''
    """

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        is_marked = isinstance(stmt, ir.For) and stmt.mark == "vector"
        return (rebuild.changed(stmt, mark="") if is_marked else stmt,)

    return rebuild.map_regions(kernel, lambda region: rebuild.map_each(region, each))


def _straight_line(
    loop: ir.For, is_accumulation: bool, bounds: Bounds, context: VectorContext
) -> list[ir.Stmt]:
    """The loop as vectors, or else as it is."""
    if not (isinstance(loop.begin, ir.Const) and isinstance(loop.end, ir.Const)):
        return [loop]
    begin, extent = int(loop.begin.value), int(loop.end.value - loop.begin.value)
    if extent <= 0 or extent > MAX_LANES:
        return [loop] if extent > 0 else []
    varying: frozenset[str] = frozenset()
    while True:
        lanes = Lanes(context, loop.var, begin, extent, bounds)
        try:
            return _Statements(lanes, varying, is_accumulation).block(
                loop.body, ActiveLanes(None, None, lanes.tail)
            )
        except NotVectorizable:
            return [loop]
        except NotUniform as found:
            varying |= frozenset(found.args)


class NotUniform(Exception):
    """A local of the loop, declared as a scalar, gets different values in the lanes; its name."""


@dataclass(frozen=True)
class _Statements:
    """The statements of one loop; the locals in `varying` are vectors whatever they start at."""

    lanes: Lanes
    varying: frozenset[str]
    is_accumulation: bool

    def block(self, stmts: tuple[ir.Stmt, ...], active: ActiveLanes) -> list[ir.Stmt]:
        out: list[ir.Stmt] = []
        for stmt in stmts:
            self.add(stmt, active, out)
        return out

    def add(self, stmt: ir.Stmt, active: ActiveLanes, out: list[ir.Stmt]) -> None:
        match stmt:
            case ir.Let(var=var, value=value):
                new = self.lanes.expr(value, active, out)
                if var in self.varying:
                    new = rebuild.widened(new, self.lanes.count)
                out.append(self.lanes.declare(var, value, new))
            case ir.Set():
                out.append(self.set(stmt, active, out))
            case ir.Store():
                self.store(stmt, active, out)
            case ir.If():
                self.branch(stmt, active, out)
            case ir.For():
                out.append(self.serial_loop(stmt, active, out))
            case ir.Prefetch():
                out.append(rebuild.map_expressions(stmt, lambda i: self.lanes.expr(i, active, out)))
            case ir.Fail():
                if active.guard is not None or not (active.mask is None or active.first):
                    raise NotVectorizable  # perhaps no iteration fails
                out.append(
                    rebuild.map_expressions(
                        stmt, lambda v: self.lanes.first(self.lanes.expr(v, active, out))
                    )
                )
            case ir.Comment():
                out.append(stmt)
            case _ if isinstance(stmt, ir.Grid | ir.OfGrid):
                raise NotVectorizable
            case _:
                raise ir.unknown_node(stmt)

    def set(self, stmt: ir.Set, active: ActiveLanes, out: list[ir.Stmt]) -> ir.Set:
        own = self.lanes.values.get(stmt.var)
        if own is None and self.lanes.count > 1:
            return ir.Set(stmt.var, self.accumulated(stmt.value, active, out))
        value = self.lanes.expr(stmt.value, active, out)
        if not isinstance(own, ir.Var):
            return ir.Set(stmt.var, value)
        if own.dtype.lanes == 1:
            if active.mask is not None or value.dtype.lanes > 1:
                raise NotUniform(stmt.var)
            return ir.Set(own.name, value)
        value = rebuild.widened(value, own.dtype.lanes)
        return ir.Set(own.name, value if active.mask is None else select(active.mask, value, own))

    def store(self, stmt: ir.Store, active: ActiveLanes, out: list[ir.Stmt]) -> None:
        count = self.lanes.count
        indices = tuple(self.lanes.expr(index, active, out) for index in stmt.indices)
        if count > 1 and all(index.dtype.lanes == 1 for index in indices):
            total = self.accumulated(stmt.value, active, out)
            out.append(rebuild.changed(stmt, indices=indices, value=total))
            return
        value = rebuild.widened(self.lanes.expr(stmt.value, active, out), count)
        mask = active.full
        if mask is None or not is_constant(mask, False):
            whole = None if mask is None or is_constant(mask, True) else mask
            out.append(rebuild.changed(stmt, indices=indices, value=value, mask=whole))

    def accumulated(self, value: ir.Expr, active: ActiveLanes, out: list[ir.Stmt]) -> ir.Expr:
        """What all iterations together make of a value `old op term`."""
        if not (self.is_accumulation and isinstance(value, ir.Binary)):
            raise NotVectorizable
        op, dtype, tail = value.op, value.dtype, self.lanes.tail
        terms = rebuild.widened(self.lanes.expr(value.right, active, out), self.lanes.count)
        if tail is not None:
            terms = select(tail, terms, ir.Const(identity(op, dtype), terms.dtype))
        old = self.lanes.expr(value.left, active, out)
        return ir.Binary(op, old, ir.Reduce(op, terms, dtype), dtype)

    def serial_loop(self, loop: ir.For, active: ActiveLanes, out: list[ir.Stmt]) -> ir.For:
        old = loop.begin, loop.end
        if any(map(self.lanes.varies, old)):
            raise NotVectorizable
        begin, end = (self.lanes.expr(bound, active, out) for bound in old)
        self.lanes.declare_loop(loop.var, old, (begin, end))
        body = tuple(self.block(loop.body, active))
        return rebuild.changed(loop, begin=begin, end=end, body=body)

    def branch(self, stmt: ir.If, active: ActiveLanes, out: list[ir.Stmt]) -> None:
        lanes, condition = self.lanes, stmt.condition
        parts = conjuncts(condition)
        varying = [part for part in parts if lanes.varies(part)]
        if varying and len(varying) < len(parts) and not (stmt.otherwise or reads(condition)):
            same = reduce(logical_and, (part for part in parts if not lanes.varies(part)))
            inner: list[ir.Stmt] = []
            self.branch(
                rebuild.changed(stmt, condition=reduce(logical_and, varying)), active, inner
            )
            test = lanes.expr(same, active, out)
            out.append(rebuild.changed(stmt, condition=test, then=tuple(inner)))
            return
        test = lanes.expr(condition, active, out)
        if is_constant(test, True) or is_constant(test, False):
            out += self.block(stmt.then if is_constant(test, True) else stmt.otherwise, active)
            return
        if test.dtype.lanes == 1:  # whatever the condition reads, it is the same in all lanes
            new = rebuild.map_blocks(stmt, lambda block: tuple(self.block(block, active)))
            out.append(rebuild.changed(new, condition=test))
            return
        test = lanes.bound(test, out)
        for stmts, is_then in ((stmt.then, True), (stmt.otherwise, False)):
            if stmts:
                inside = lanes.narrowed(active, condition, test, is_then)
                for each in stmts:
                    self.add(each, inside, out)
