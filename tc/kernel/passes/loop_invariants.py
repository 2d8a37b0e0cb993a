"""Loop-invariant code motion: calls that are the same in every iteration, made once, before it.

Compilers do this with plain arithmetic, but cannot with functions that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tc.kernel.analysis.value_numbers import ValueNumbers
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    Set,
    Stmt,
    Store,
    Unary,
    Var,
    statements,
    walk,
)
from tc.kernel.local_names import LocalNames
from tc.kernel.rebuild import (
    Stmts,
    changed,
    map_blocks,
    map_expressions,
    map_operands,
    map_regions,
    map_statements,
)


def hoist_invariant_calls(kernel: Kernel) -> Kernel:
    """The kernel with calls whose operands no iteration changes in locals before their loops.

    Only calls that every iteration makes, of loops that have iterations, are moved: a load in one
    stays in bounds.

    >>> from tc.dtypes import FLOAT32, INT64
    >>> from tc.kernel.ir import Buffer
    >>> from tc.kernel.printer import to_text
    >>> i, x = Var("i", INT64), Load("x", (), FLOAT32)
    >>> store = Store("o", (i,), Call("sqrt", (x,), FLOAT32))
    >>> buffers = Buffer("x", FLOAT32, (), (), "input"), Buffer("o", FLOAT32, (9,), (1,), "output")
    >>> loop = For("i", Const(0, INT64), Const(9, INT64), (store,))
    >>> print(to_text(hoist_invariant_calls(Kernel("roots", buffers, ((loop,),)))))
    kernel roots
      input x: float32[]
      output o: float32[9]
    region
      let sqrt: float32 = sqrt(x[])
      for i in 0:9
        o[i] = sqrt
    """
    names = LocalNames(kernel)
    return map_regions(kernel, lambda region: _block(region, names))


def _block(block: Stmts, names: LocalNames) -> Stmts:
    def each(stmt: Stmt) -> Iterable[Stmt]:
        new = map_blocks(stmt, lambda inner: _block(inner, names))
        if isinstance(new, For) and not new.parallel and _runs(new):
            return _hoisted(new, names)
        return (new,)

    return map_statements(block, each)


def _runs(loop: For) -> bool:
    match loop:
        case For(begin=Const(value=begin), end=Const(value=end)):
            return begin < end
        case _:
            return False


def _hoisted(loop: For, names: LocalNames) -> Iterator[Stmt]:
    inside = tuple(statements(loop.body))
    changing = {loop.var, *(s.var for s in inside if isinstance(s, Let | Set | For))}
    stored = {s.buffer for s in inside if isinstance(s, Store)}
    found: dict[int, tuple[Var, Expr]] = {}
    numbers = ValueNumbers()

    def replaced(expr: Expr) -> Expr:
        if isinstance(expr, Call) and _is_same(expr, changing, stored):
            number = numbers.of(expr)
            if number not in found:
                found[number] = Var(names.fresh(expr.function), expr.dtype), expr
            return found[number][0]
        if not isinstance(expr, Unary | Binary | Compare | Call | Cast | Broadcast):
            return expr  # what is lazy, or memory, stays
        return map_operands(expr, replaced)

    def each(stmt: Stmt) -> Iterable[Stmt]:
        is_straight = isinstance(stmt, Let | Set | Store)
        return (map_expressions(stmt, replaced) if is_straight else stmt,)

    body = map_statements(loop.body, each)
    yield from (Let(var.name, expr) for var, expr in found.values())
    yield changed(loop, body=body)


def _is_same(call: Call, changing: set[str], stored: set[str]) -> bool:
    return not any(
        (isinstance(e, Var) and e.name in changing) or (isinstance(e, Load) and e.buffer in stored)
        for e in walk(call)
    )
