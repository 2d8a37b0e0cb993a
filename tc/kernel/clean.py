"""What no store needs, taken away: the last of the passes that make straight-line code."""

from __future__ import annotations

from collections.abc import Iterator

from tc.kernel.exact import Exact, exact
from tc.kernel.ir import (
    Comment,
    Const,
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
    children,
    statements,
    unknown_node,
    walk,
)


def clean(kernel: Kernel) -> Kernel:
    """The kernel without locals that nothing reads, and without loops and branches that do
    nothing; branches on the same condition, one after the other, become one.

    >>> from tc.dtypes import INT64
    >>> unused = (Let("x", Const(1, INT64)), Let("y", Var("x", INT64)))
    >>> clean(Kernel("k", (), (unused,))).regions
    ((),)
    """
    needed: set[str] = set()
    reads: dict[str, set[str]] = {}
    for region in kernel.regions:
        _collect(region, needed, reads)
    waiting = list(needed)
    while waiting:
        for name in reads.get(waiting.pop(), ()):
            if name not in needed:
                needed.add(name)
                waiting.append(name)
    assigned = frozenset(
        stmt.var for r in kernel.regions for stmt in statements(r) if isinstance(stmt, Set)
    )
    regions = tuple(_block(region, needed, assigned) for region in kernel.regions)
    return Kernel(kernel.name, kernel.buffers, regions, kernel.sites, kernel.initial)


def _collect(stmts: tuple[Stmt, ...], needed: set[str], reads: dict[str, set[str]]) -> None:
    """Adds the names that hints and statements with an effect read to `needed`, and those that go
    into locals to `reads`."""
    for stmt in stmts:
        match stmt:
            case Let(var=var, value=value) | Set(var=var, value=value):
                _names(value, reads.setdefault(var, set()))
            case Store(indices=indices, value=value, mask=mask):
                for expr in (*indices, value, *(() if mask is None else (mask,))):
                    _names(expr, needed)
            case For(begin=begin, end=end, body=body):
                _names(begin, needed)
                _names(end, needed)
                _collect(body, needed, reads)
            case If(condition=condition, then=then, otherwise=otherwise):
                _names(condition, needed)
                _collect(then, needed, reads)
                _collect(otherwise, needed, reads)
            case Prefetch(indices=values) | Fail(values=values):
                for value in values:
                    _names(value, needed)
            case Comment():
                pass
            case _:
                raise unknown_node(stmt)


def _names(expr: Expr, found: set[str]) -> None:
    if isinstance(expr, Var):
        found.add(expr.name)
    elif not isinstance(expr, Const):
        for child in children(expr):
            _names(child, found)


def _block(stmts: tuple[Stmt, ...], needed: set[str], assigned: frozenset[str]) -> tuple[Stmt, ...]:
    out: list[Stmt] = []
    for stmt in _kept(stmts, needed, assigned):
        if out and isinstance(stmt, If) and (joined := _joined(out[-1], stmt, assigned)):
            out[-1] = joined
        else:
            out.append(stmt)
    return tuple(out)


def _kept(stmts: tuple[Stmt, ...], needed: set[str], assigned: frozenset[str]) -> Iterator[Stmt]:
    for stmt in stmts:
        match stmt:
            case Let(var=var) | Set(var=var):
                if var in needed:
                    yield stmt
            case For(var=var, begin=begin, end=end, parallel=parallel, mark=mark):
                body = _block(stmt.body, needed, assigned)
                if _acts(body):
                    yield For(var, begin, end, body, parallel, mark)
            case If(condition=condition):
                then = _block(stmt.then, needed, assigned)
                otherwise = _block(stmt.otherwise, needed, assigned)
                if _acts(then) or _acts(otherwise):
                    yield If(condition, then, otherwise)
            case _:
                yield stmt


def _joined(before: Stmt, stmt: If, assigned: frozenset[str]) -> If | None:
    """Both in one, where the first does not change the condition, and none has locals, as these
    may have the same names."""
    if not isinstance(before, If) or exact(before.condition) != exact(stmt.condition):
        return None
    blocks = before.then, stmt.then, before.otherwise, stmt.otherwise
    has_locals = any(isinstance(each, Let) for block in blocks for each in block)
    if has_locals or _changes(stmt.condition, assigned):
        return None
    return If(stmt.condition, before.then + stmt.then, before.otherwise + stmt.otherwise)


def _acts(stmts: tuple[Stmt, ...]) -> bool:
    return any(not isinstance(stmt, Comment) for stmt in stmts)


def once(kernel: Kernel) -> Kernel:
    """The kernel without checks that repeat an earlier one of the same block: the first failure
    is recorded, and a later one on the same condition is not."""
    assigned = frozenset(
        stmt.var for r in kernel.regions for stmt in statements(r) if isinstance(stmt, Set)
    )
    regions = tuple(tuple(_once(region, assigned)) for region in kernel.regions)
    return Kernel(kernel.name, kernel.buffers, regions, kernel.sites, kernel.initial)


def _once(stmts: tuple[Stmt, ...], assigned: frozenset[str]) -> Iterator[Stmt]:
    seen: set[Exact] = set()
    for stmt in stmts:
        match stmt:
            case For(var=var, begin=begin, end=end, parallel=parallel, mark=mark):
                yield For(var, begin, end, tuple(_once(stmt.body, assigned)), parallel, mark)
            case If(condition=condition, then=then, otherwise=()) if _fails(then):
                key = exact(condition)
                if key not in seen:
                    yield stmt
                    if not _changes(condition, assigned):
                        seen.add(key)
            case If(condition=condition, then=then, otherwise=otherwise):
                yes, no = (tuple(_once(block, assigned)) for block in (then, otherwise))
                yield If(condition, yes, no)
            case _:
                yield stmt


def _fails(stmts: tuple[Stmt, ...]) -> bool:
    """Whether a block records a failure, and does nothing else."""
    return bool(stmts) and all(isinstance(stmt, Fail) for stmt in stmts)


def _changes(condition: Expr, assigned: frozenset[str]) -> bool:
    """Whether a condition may have another value later in its block."""
    return any(
        isinstance(node, Load) or (isinstance(node, Var) and node.name in assigned)
        for node in walk(condition)
    )
