"""What kernels consist of: the questions about statements and expressions that passes ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tc.kernel import ir


def every_statement(kernel: ir.Kernel) -> Iterator[ir.Stmt]:
    """The statements of all regions and all in them, in order."""
    for region in kernel.regions:
        yield from ir.statements(region)


def has_non_temporal_stores(kernel: ir.Kernel) -> bool:
    """Whether some store of a kernel is non-temporal."""
    return any(isinstance(stmt, ir.Store) and stmt.non_temporal for stmt in every_statement(kernel))


def has_prefetches(kernel: ir.Kernel) -> bool:
    """Whether a kernel asks for memory ahead of its use."""
    return any(isinstance(stmt, ir.Prefetch) for stmt in every_statement(kernel))


def iterations(loop: ir.For) -> range:
    """The values of a loop's variable; none where they are not known."""
    match loop:
        case ir.For(begin=ir.Const(value=begin), end=ir.Const(value=end)):
            return range(int(begin), int(end))
        case _:
            return range(0)


def names_in(expr: ir.Expr) -> set[str]:
    """The variables of an expression."""
    return {node.name for node in ir.walk(expr) if isinstance(node, ir.Var)}


def assigned_in(stmts: Iterable[ir.Stmt]) -> frozenset[str]:
    """The locals that a Set among the statements, or in them, changes."""
    return frozenset(s.var for s in ir.statements(tuple(stmts)) if isinstance(s, ir.Set))


def assigned(kernel: ir.Kernel) -> frozenset[str]:
    """The locals of a kernel that a Set changes."""
    return frozenset(s.var for s in every_statement(kernel) if isinstance(s, ir.Set))


def stored_in(stmts: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """The buffers that statements, or those in them, write."""
    return frozenset(s.buffer for s in ir.statements(stmts) if isinstance(s, ir.Store))


def loads_in(stmts: tuple[ir.Stmt, ...]) -> Iterator[ir.Load]:
    """The loads of statements and of those in them."""
    for stmt in ir.statements(stmts):
        yield from (expr for expr in ir.expressions(stmt) if isinstance(expr, ir.Load))


def is_steady(expr: ir.Expr, changing: Callable[[str], bool]) -> bool:
    """Whether an expression has the same value later: it reads no memory, and no local that is
    `changing`."""
    return not any(
        isinstance(node, ir.Load) or (isinstance(node, ir.Var) and changing(node.name))
        for node in ir.walk(expr)
    )
