"""What kernels consist of: the questions about statements and expressions that passes ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from math import prod

from tc.extents.sizes import is_tracked
from tc.kernel import ir


def every_statement(kernel: ir.Kernel) -> Iterator[ir.Stmt]:
    """The statements of all regions and all in them, in order."""
    for region in kernel.regions:
        yield from ir.statements(region)


def checks_ranges(region: tuple[ir.Stmt, ...], kernel: ir.Kernel) -> bool:
    """Whether a region checks ranges that data decide (W3), through which later ones go."""
    fails = (stmt for stmt in ir.statements(region) if isinstance(stmt, ir.Fail))
    return any(kernel.sites[stmt.site].kind == "range" for stmt in fails)


def has_non_temporal_stores(kernel: ir.Kernel) -> bool:
    """Whether some store of a kernel is non-temporal."""
    return any(isinstance(stmt, ir.Store) and stmt.non_temporal for stmt in every_statement(kernel))


def has_prefetches(kernel: ir.Kernel) -> bool:
    """Whether a kernel asks for memory ahead of its use."""
    return any(isinstance(stmt, ir.Prefetch) for stmt in every_statement(kernel))


def iterations(loop: ir.For) -> range:
    """The values of a loop's variable; none where they are not known."""
    match loop:
        case ir.For(begin=ir.Const(value=begin), end=ir.Const(value=end)) if not (
            is_tracked(begin) or is_tracked(end)
        ):
            return range(int(begin), int(end))
        case _:
            return range(0)


def is_tracked_end(loop: ir.For) -> bool:
    """Whether a loop goes to a tracked size, and the number of its iterations varies."""
    return isinstance(loop.end, ir.Const) and is_tracked(loop.end.value)


def names_in(expr: ir.Expr) -> set[str]:
    """The variables of an expression."""
    return {node.name for node in ir.walk(expr) if isinstance(node, ir.Var)}


def mentioned(stmts: tuple[ir.Stmt, ...]) -> Iterator[str]:
    """The locals that statements, or those in them, declare, read or set, once for each time."""
    for stmt in ir.statements(stmts):
        if isinstance(stmt, ir.Let):
            yield stmt.var
        yield from assigned_by(stmt)
        yield from (e.name for e in ir.expressions(stmt) if isinstance(e, ir.Var))


def assigned_by(stmt: ir.Stmt) -> tuple[str, ...]:
    """The locals that a statement itself changes."""
    match stmt:
        case ir.Set(var=var):
            return (var,)
        case ir.WarpMultiply(sums=sums):
            return sums
        case _:
            return ()


def assigned_in(stmts: Iterable[ir.Stmt]) -> frozenset[str]:
    """The locals that the statements, or those in them, change."""
    return frozenset(var for s in ir.statements(tuple(stmts)) for var in assigned_by(s))


def assigned(kernel: ir.Kernel) -> frozenset[str]:
    """The locals of a kernel that change."""
    return frozenset(var for s in every_statement(kernel) for var in assigned_by(s))


def declared(stmt: ir.Stmt) -> tuple[str, ...]:
    """The variables that a statement declares."""
    match stmt:
        case ir.For(var=var) | ir.Let(var=var):
            return (var,)
        case ir.Grid(blocks=blocks, threads=threads):
            return tuple(index.var for index in blocks + threads)
        case _:
            return ()


def launched(indices: tuple[ir.LaunchIndex, ...]) -> int:
    """How many blocks a grid has, or threads a block.

    >>> launched((ir.LaunchIndex("ty", 4), ir.LaunchIndex("tx", 32))), launched(())
    (128, 1)
    """
    return prod(index.count for index in indices)


def stored_in(stmts: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """The buffers that statements write, nested statements included."""
    writers = ir.Store | ir.Atomic | ir.CopyAsync
    return frozenset(s.buffer for s in ir.statements(stmts) if isinstance(s, writers))


def loaded_in(stmts: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """The buffers that statements read, nested statements included."""
    copies = (s.source for s in ir.statements(stmts) if isinstance(s, ir.CopyAsync))
    return frozenset(copies) | updated_in(stmts) | {load.buffer for load in loads_in(stmts)}


def updated_in(stmts: tuple[ir.Stmt, ...]) -> frozenset[str]:
    """The buffers in which statements update elements in one step, nested statements included."""
    return frozenset(s.buffer for s in ir.statements(stmts) if isinstance(s, ir.Atomic))


def visible_across_barrier(kernel: ir.Kernel) -> frozenset[str]:
    """The buffers in which a thread may find, behind a Barrier, what another has written."""
    met = ("output", "temporary", "shared")
    return frozenset(buffer.name for buffer in kernel.buffers if buffer.role in met)


def changed_in(stmts: tuple[ir.Stmt, ...], met: frozenset[str]) -> frozenset[str]:
    """The buffers that may have changed behind statements: those that they or ones in them write,
    and all that threads meet in, where there is a Barrier."""
    waits = any(isinstance(stmt, ir.Barrier) for stmt in ir.statements(stmts))
    return stored_in(stmts) | met if waits else stored_in(stmts)


def loads_in(stmts: tuple[ir.Stmt, ...]) -> Iterator[ir.Load]:
    """The loads of statements, nested statements included."""
    for stmt in ir.statements(stmts):
        yield from (expr for expr in ir.expressions(stmt) if isinstance(expr, ir.Load))


def evaluated_once(stmt: ir.Stmt) -> tuple[ir.Expr, ...]:
    """The expressions that a statement evaluates once, whatever the blocks in it do."""
    return ir.own_expressions(stmt) if isinstance(stmt, ir.If | ir.Let | ir.Set | ir.Store) else ()


def always_evaluated(expr: ir.Expr) -> tuple[ir.Expr, ...]:
    """The operands that are evaluated whenever the expression is."""
    match expr:
        case ir.Select(condition=condition, dtype=dtype) if dtype.lanes == 1:
            return (condition,)
        case ir.Logical(operands=(first, _), dtype=dtype) if dtype.lanes == 1:
            return (first,)
        case _:
            return ir.children(expr)


def is_steady(expr: ir.Expr, changing: Callable[[str], bool]) -> bool:
    """Whether an expression has the same value later: it reads no memory, and no local that is
    `changing`."""
    return not any(
        isinstance(node, ir.Load) or (isinstance(node, ir.Var) and changing(node.name))
        for node in ir.walk(expr)
    )


def accumulates(loop: ir.For) -> bool:
    """Whether all that the iterations of a loop share is one accumulation (see `For.mark`).

    >>> from tc.dtypes import INT64
    >>> x, i = ir.Var("x", INT64), ir.Var("i", INT64)
    >>> body = (ir.Set("x", ir.Binary("+", x, i, INT64)),)
    >>> accumulates(ir.For("i", ir.Const(0, INT64), ir.Const(4, INT64), body, mark="vector"))
    True
    """
    match loop.body:
        case (ir.Set(var=name, value=ir.Binary(op=op, left=ir.Var(name=old), right=term)),):
            return op in ir.REDUCTIONS and old == name not in read_names(term)
        case (
            ir.Store(
                buffer=name, indices=at, value=ir.Binary(op=op, left=ir.Load() as sum_, right=term)
            ),
        ):
            same = (sum_.buffer, sum_.indices) == (name, at)
            moves = any(loop.var in read_names(index) for index in at)
            return op in ir.REDUCTIONS and same and not moves and name not in read_names(term)
    return False


def is_small(expr: ir.Expr, nodes: int) -> bool:
    """Whether an expression has at most `nodes` nodes, of which a shared one counts each time."""
    return sum(1 for _ in islice(ir.walk(expr), nodes + 1)) <= nodes


def read_names(expr: ir.Expr) -> set[str]:
    """The variables and buffers that an expression reads; no two have one name."""
    nodes = [e for e in ir.walk(expr) if isinstance(e, ir.Var | ir.Load)]
    return {e.name if isinstance(e, ir.Var) else e.buffer for e in nodes}


def conjuncts(condition: ir.Expr) -> list[ir.Expr]:
    """The operands of nested `&&`, in order.

    >>> from tc.dtypes import BOOL
    >>> from tc.kernel.folding import logical_and
    >>> a, b, c = (ir.Var(name, BOOL) for name in "abc")
    >>> conjuncts(logical_and(a, logical_and(b, c))) == [a, b, c]
    True
    """
    match condition:
        case ir.Logical(op="&&", operands=operands):
            return [part for operand in operands for part in conjuncts(operand)]
        case _:
            return [condition]
