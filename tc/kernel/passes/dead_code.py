"""Dead code elimination: what no store needs, taken away."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from tc.kernel import ir, rebuild
from tc.kernel.passes.value_numbering import ValueNumbers
from tc.kernel.walk import assigned, every_statement, is_steady, loaded_in, mentioned, names_in


def eliminate_dead_code(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel without temporaries and locals that nothing reads, or locals that are set before
    anything reads their first value, and without loops and branches that do nothing; branches on
    the same condition, one after the other, become one, and minima and maxima start with their
    first term.

    >>> from tc.dtypes import INT64
    >>> unused = (ir.Let("x", ir.Const(1, INT64)), ir.Let("y", ir.Var("x", INT64)))
    >>> eliminate_dead_code(ir.Kernel("k", (), (unused,))).regions
    ((),)
    """
    kernel = _without_unread(kernel)
    needed: set[str] = set()
    reads: dict[str, set[str]] = {}
    for stmt in every_statement(kernel):
        found = reads.setdefault(stmt.var, set()) if isinstance(stmt, ir.Let | ir.Set) else needed
        for expr in ir.own_expressions(stmt):
            found |= names_in(expr)
    waiting = list(needed)
    while waiting:
        for name in reads.get(waiting.pop(), ()):
            if name not in needed:
                needed.add(name)
                waiting.append(name)
    changing = assigned(kernel)
    return rebuild.map_regions(kernel, lambda region: _block(region, needed, changing))


def _without_unread(kernel: ir.Kernel) -> ir.Kernel:
    """The kernel without temporaries from which nothing is loaded, as of statements that do nothing
    but check."""
    kept = frozenset[str]().union(*map(loaded_in, kernel.regions))
    kept |= {s.buffer for s in every_statement(kernel) if isinstance(s, ir.Prefetch)}
    unread = {b.name for b in kernel.buffers if b.role == "temporary"} - kept
    if not unread:
        return kernel

    def read(block: rebuild.Stmts) -> rebuild.Stmts:
        return rebuild.map_statements(
            block,
            lambda stmt: (
                ()
                if isinstance(stmt, ir.Store) and stmt.buffer in unread
                else (rebuild.map_blocks(stmt, read),)
            ),
        )

    buffers = tuple(buffer for buffer in kernel.buffers if buffer.name not in unread)
    return replace(rebuild.map_regions(kernel, read), buffers=buffers)


def _block(block: rebuild.Stmts, needed: set[str], changing: frozenset[str]) -> rebuild.Stmts:
    def kept(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        if isinstance(stmt, ir.Let | ir.Set) and stmt.var not in needed:
            return ()
        new = rebuild.map_blocks(stmt, lambda inner: _block(inner, needed, changing))
        return (new,) if _acts(new) else ()

    out: list[ir.Stmt] = []
    for stmt in _without_first_values(rebuild.map_statements(block, kept)):
        if out and isinstance(stmt, ir.If) and (joined := _joined(out[-1], stmt, changing)):
            out[-1] = joined
        else:
            out.append(stmt)
    return rebuild.same_or(block, out)


def _without_first_values(block: rebuild.Stmts) -> rebuild.Stmts:
    """The block whose locals begin where they are first set, if nothing has read them until then:
    a minimum or maximum of floats that starts with an infinity begins with its first term, NaN or
    not.

    >>> from tc.dtypes import INT64
    >>> from tc.kernel.printer import statement_lines
    >>> x, one = ir.Var("x", INT64), ir.Const(1, INT64)
    >>> block = ir.Let("x", ir.Const(0, INT64)), ir.Let("y", one), ir.Set("x", ir.Var("y", INT64))
    >>> for stmt in _without_first_values(block):
    ...     print(*statement_lines(stmt))
    let y: int64 = 1
    let x: int64 = y
    """
    if not any(isinstance(stmt, ir.Set) for stmt in block):
        return block
    first: dict[str, int] = {}
    out: list[ir.Stmt | None] = []
    for stmt in block:
        read = {name for e in ir.own_expressions(stmt) for name in names_in(e)}
        read.update(mentioned(ir.inner_statements(stmt)))
        own = stmt.var if isinstance(stmt, ir.Set) else ""
        for name in (read - {own}) & first.keys():
            del first[name]
        if isinstance(stmt, ir.Set) and stmt.var in first:
            place = first.pop(stmt.var)
            value = stmt.value if stmt.var not in read else _first_term(out[place], stmt.value)
            if value is not None:
                out[place], stmt = None, ir.Let(stmt.var, value)
        if isinstance(stmt, ir.Let):
            first[stmt.var] = len(out)
        out.append(stmt)
    return rebuild.same_or(block, (stmt for stmt in out if stmt is not None))


def _first_term(start: ir.Stmt | None, value: ir.Expr) -> ir.Expr | None:
    """What a local is after a step, if that takes its start, which changes nothing, and one other
    value."""
    match start, value:
        case (
            ir.Let(var=var, value=ir.Const(value=number, dtype=dtype)),
            ir.Binary(op="max" | "min" as op, left=ir.Var(name=name), right=term),
        ) if name == var and dtype.is_float and var not in names_in(term):
            neutral = -math.inf if op == "max" else math.inf
            return term if number == neutral else None
    return None


def _joined(before: ir.Stmt, stmt: ir.If, changing: frozenset[str]) -> ir.If | None:
    """Both in one, where the first does not change the condition, and none has locals, as these
    may have the same names."""
    number = ValueNumbers().of
    if not isinstance(before, ir.If) or number(before.condition) != number(stmt.condition):
        return None
    blocks = before.then, stmt.then, before.otherwise, stmt.otherwise
    has_locals = any(isinstance(each, ir.Let) for block in blocks for each in block)
    if has_locals or not is_steady(stmt.condition, changing.__contains__):
        return None
    return rebuild.changed(
        before, then=before.then + stmt.then, otherwise=before.otherwise + stmt.otherwise
    )


def _acts(stmt: ir.Stmt) -> bool:
    """Whether a statement is no loop or branch that does nothing."""
    inside = ir.inner_statements(stmt)
    return not isinstance(stmt, ir.For | ir.If) or any(
        not isinstance(s, ir.Comment) for s in inside
    )
