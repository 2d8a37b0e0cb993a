"""Calls that are the same in every iteration of a loop, made once before it.

Compilers do this with plain arithmetic, but cannot with functions that they do not know.
"""

from __future__ import annotations

from collections.abc import Iterator

from tc.kernel.exact import Exact, exact
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Set,
    Stmt,
    Store,
    Unary,
    Var,
    children,
    statements,
    walk,
)
from tc.kernel.names import LocalNames
from tc.kernel.rebuild import rebuild, unchanged


def hoist_calls(kernel: Kernel) -> Kernel:
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
    >>> print(to_text(hoist_calls(Kernel("roots", buffers, ((loop,),)))))
    kernel roots
      input x: float32[]
      output o: float32[9]
    region
      let sqrt: float32 = sqrt(x[])
      for i in 0:9
        o[i] = sqrt
    """
    names = LocalNames(kernel)
    regions = tuple(tuple(_block(region, names)) for region in kernel.regions)
    return Kernel(kernel.name, kernel.buffers, regions, kernel.sites, kernel.initial)


def _block(stmts: tuple[Stmt, ...], names: LocalNames) -> Iterator[Stmt]:
    for stmt in stmts:
        match stmt:
            case For(var=var, begin=begin, end=end, parallel=parallel, mark=mark):
                body = tuple(_block(stmt.body, names))
                loop = For(var, begin, end, body, parallel, mark)
                yield from (loop,) if parallel or not _runs(loop) else _hoisted(loop, names)
            case If(condition=condition, then=then, otherwise=otherwise):
                yes, no = (tuple(_block(b, names)) for b in (then, otherwise))
                yield If(condition, yes, no)
            case _:
                yield stmt


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
    found: dict[Exact, Var] = {}

    def replaced(expr: Expr) -> Expr:
        if isinstance(expr, Call) and _is_same(expr, changing, stored):
            key = exact(expr)
            if key not in found:
                found[key] = Var(names.fresh(expr.function), expr.dtype)
            return found[key]
        if not isinstance(expr, Unary | Binary | Compare | Call | Cast | Broadcast):
            return expr  # what is lazy, or memory, stays
        old = children(expr)
        new = [replaced(child) for child in old]
        return expr if unchanged(old, new) else rebuild(expr, new, {})

    body: list[Stmt] = []
    for stmt in loop.body:
        match stmt:
            case Let(var=var, value=value):
                body.append(Let(var, replaced(value)))
            case Set(var=var, value=value):
                body.append(Set(var, replaced(value)))
            case Store(buffer=buffer, indices=indices, value=value, mask=mask):
                body.append(Store(buffer, indices, replaced(value), mask))
            case _:
                body.append(stmt)
    yield from (Let(var.name, expr) for (expr, _), var in found.items())
    yield For(loop.var, loop.begin, loop.end, tuple(body), loop.parallel, loop.mark)


def _is_same(call: Call, changing: set[str], stored: set[str]) -> bool:
    return not any(
        (isinstance(e, Var) and e.name in changing) or (isinstance(e, Load) and e.buffer in stored)
        for e in walk(call)
    )
