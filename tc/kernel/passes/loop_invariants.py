"""Loop-invariant code motion: calls that are the same in every iteration, made once, before it.

Compilers do this with plain arithmetic, but cannot with functions that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tc.kernel import ir, rebuild
from tc.kernel.analysis.value_numbers import ValueNumbers
from tc.kernel.local_names import LocalNames
from tc.kernel.walk import changed_in, iterations, met_by_threads, read_names


def hoist_invariant_calls(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel with calls whose operands no iteration changes in locals before their loops.

    Only calls that every iteration makes, of loops that have iterations, are moved: a load in one
    stays in bounds.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.printer import to_text
    >>> i, x = ir.Var("i", INT64), ir.Load("x", (), FLOAT32)
    >>> store = ir.Store("o", (i,), ir.Call("sqrt", (x,), FLOAT32))
    >>> output = ir.Buffer("o", FLOAT32, (9,), (1,), "output")
    >>> loop = ir.For("i", ir.Const(0, INT64), ir.Const(9, INT64), (store,))
    >>> print(to_text(hoist_invariant_calls(ir.Kernel("roots", (output,), ((loop,),)))))
    kernel roots
      output o: float32[9]
    region
      let sqrt: float32 = sqrt(x[])
      for i in 0:9
        o[i] = sqrt
    """
    names, met = LocalNames(kernel), met_by_threads(kernel)
    return rebuild.map_regions(kernel, lambda region: _block(region, names, met))


def _block(block: rebuild.Stmts, names: LocalNames, met: frozenset[str]) -> rebuild.Stmts:
    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        new = rebuild.map_blocks(stmt, lambda inner: _block(inner, names, met))
        if isinstance(new, ir.For) and not new.parallel and iterations(new):
            return _hoisted(new, names, met)
        return (new,)

    return rebuild.map_statements(block, each)


def _hoisted(loop: ir.For, names: LocalNames, met: frozenset[str]) -> Iterator[ir.Stmt]:
    inside = tuple(ir.statements(loop.body))
    changing = {loop.var, *(s.var for s in inside if isinstance(s, ir.Let | ir.Set | ir.For))}
    changing |= changed_in(inside, met)
    found: dict[int, tuple[ir.Var, ir.Expr]] = {}
    numbers = ValueNumbers()

    def replaced(expr: ir.Expr) -> ir.Expr:
        if isinstance(expr, ir.Call) and changing.isdisjoint(read_names(expr)):
            number = numbers.of(expr)
            if number not in found:
                found[number] = ir.Var(names.fresh(expr.function), expr.dtype), expr
            return found[number][0]
        if not isinstance(
            expr, ir.Unary | ir.Binary | ir.Compare | ir.Call | ir.Cast | ir.Broadcast
        ):
            return expr  # what is lazy, or memory, stays
        return rebuild.map_operands(expr, replaced)

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        is_straight = isinstance(stmt, ir.Let | ir.Set | ir.Store)
        return (rebuild.map_expressions(stmt, replaced) if is_straight else stmt,)

    body = rebuild.map_statements(loop.body, each)
    yield from (ir.Let(var.name, expr) for var, expr in found.values())
    yield rebuild.changed(loop, body=body)
