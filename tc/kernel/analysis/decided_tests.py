"""Comparisons that decide what statements evaluate, and statements where they are decided."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeGuard

from tc.affine.intervals import Interval
from tc.kernel import ir
from tc.kernel.intervals import loop_interval
from tc.kernel.rebuild import Stmts, map_blocks, map_expressions, map_operands, map_statements
from tc.kernel.walk import conjuncts, names_in


def is_loop(stmt: ir.Stmt) -> TypeGuard[ir.For]:
    return isinstance(stmt, ir.For)


def inner_loops(block: Stmts) -> dict[str, Interval]:
    """The variables of the marked loops in a block, whose bounds are constants."""
    found: dict[str, Interval] = {}
    for stmt in filter(is_loop, ir.statements(block)):
        low, high = loop_interval(stmt.begin, stmt.end, {})
        least, greatest = found.get(stmt.var, (low, high))
        found[stmt.var] = min(least, low), max(greatest, high)
    return found


def varying_tests(block: Stmts, var: str, *, stores: bool = True) -> Iterator[ir.Compare]:
    """The comparisons that decide what is evaluated, and vary with a loop; those that decide what
    is stored only with `stores`."""
    tests = (test for each in conditions(block, stores=stores) for test in conjuncts(each))
    yield from dict.fromkeys(
        test for test in tests if isinstance(test, ir.Compare) and var in names_in(test)
    )


def conditions(block: Stmts, *, stores: bool = True) -> Iterator[ir.Expr]:
    """Those of branches, and of what is selected."""
    for stmt in ir.statements(block):
        if isinstance(stmt, ir.If) and (stores or not _stores(stmt)):
            yield stmt.condition
        yield from (e.condition for e in ir.expressions(stmt) if isinstance(e, ir.Select))


def _stores(branch: ir.If) -> bool:
    return any(isinstance(s, ir.Store) for s in ir.statements((*branch.then, *branch.otherwise)))


def settled(block: Stmts, test: ir.Compare, value: ir.Const) -> Stmts:
    """The block where a comparison is known."""

    def replaced(expr: ir.Expr) -> ir.Expr:
        return value if expr == test else map_operands(expr, replaced)

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        new = map_expressions(map_blocks(stmt, lambda b: map_statements(b, each)), replaced)
        if isinstance(new, ir.If) and isinstance(new.condition, ir.Const):
            return new.then if new.condition.value else new.otherwise
        return (new,)

    return map_statements(block, each)
