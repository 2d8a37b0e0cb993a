"""What kernels consist of: the questions about statements and expressions that passes ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from tc.kernel.ir import (
    Comment,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Prefetch,
    Set,
    Stmt,
    Store,
    Var,
    expressions,
    statements,
    unknown_node,
    walk,
)


def every_statement(kernel: Kernel) -> Iterator[Stmt]:
    """The statements of all regions and all in them, in order."""
    for region in kernel.regions:
        yield from statements(region)


def own_expressions(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions of a statement itself, whole; not those of the blocks in it.

    >>> from tc.dtypes import INT64
    >>> i = Var("i", INT64)
    >>> own_expressions(For("j", i, i, (Store("o", (), i),))) == (i, i)
    True
    """
    match stmt:
        case For(begin=begin, end=end):
            return begin, end
        case If(condition=condition):
            return (condition,)
        case Let(value=value) | Set(value=value):
            return (value,)
        case Store(indices=indices, value=value, mask=mask):
            return (*indices, value) if mask is None else (*indices, value, mask)
        case Prefetch(indices=values) | Fail(values=values):
            return values
        case Comment():
            return ()
        case _:
            raise unknown_node(stmt)


def names_in(expr: Expr) -> set[str]:
    """The variables of an expression."""
    return {node.name for node in walk(expr) if isinstance(node, Var)}


def assigned_in(stmts: Iterable[Stmt]) -> frozenset[str]:
    """The locals that a Set among the statements, or in them, changes."""
    return frozenset(s.var for s in statements(tuple(stmts)) if isinstance(s, Set))


def assigned(kernel: Kernel) -> frozenset[str]:
    """The locals of a kernel that a Set changes."""
    return frozenset(s.var for s in every_statement(kernel) if isinstance(s, Set))


def stored_in(stmts: tuple[Stmt, ...]) -> frozenset[str]:
    """The buffers that statements, or those in them, write."""
    return frozenset(s.buffer for s in statements(stmts) if isinstance(s, Store))


def loads_in(stmts: tuple[Stmt, ...]) -> Iterator[Load]:
    """The loads of statements and of those in them."""
    for stmt in statements(stmts):
        yield from (expr for expr in expressions(stmt) if isinstance(expr, Load))


def is_steady(expr: Expr, changing: Callable[[str], bool]) -> bool:
    """Whether an expression has the same value later: it reads no memory, and no local that is
    `changing`."""
    return not any(
        isinstance(node, Load) or (isinstance(node, Var) and changing(node.name))
        for node in walk(expr)
    )
