"""Tests that decide what is evaluated, in branches and selections; and what is left once known.

A pass that copies a loop asks for which iterations each of the loop's tests is known
(`tc.kernel.analysis.guard_ranges`), and then for the body in which the test is settled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import TypeGuard

from tc.affine.intervals import Interval, around
from tc.builtins import identity
from tc.kernel import ir
from tc.kernel.intervals import loop_interval
from tc.kernel.passes.unroll import unrolled_size
from tc.kernel.rebuild import Scope, Stmts, map_each, map_expressions, map_operands, substitute
from tc.kernel.walk import conjuncts, declared, names_in

REDUCED = ("+", "*", "&", "|", "^")


def is_decided_before(
    test: ir.Compare, loop: ir.For, scope: Scope, inner: AbstractSet[str] = frozenset()
) -> bool:
    """Whether a test depends on nothing that a loop declares, but for variables of inner loops, and
    on no local that a Set changes."""
    local = {name for stmt in ir.statements(loop.body) for name in declared(stmt)}
    return not names_in(test) & (scope.assigned | (local - inner))


def is_loop(stmt: ir.Stmt) -> TypeGuard[ir.For]:
    return isinstance(stmt, ir.For)


def inner_loops(block: Stmts) -> dict[str, Interval]:
    """The variables of the marked loops in a block, whose bounds are constants."""
    found: dict[str, Interval] = {}
    for stmt in filter(is_loop, ir.statements(block)):
        low, high = loop_interval(stmt.begin, stmt.end, {})
        found[stmt.var] = around(found.get(stmt.var, (low, high)), (low, high))
    return found


def deciding_tests(block: Stmts, *, stores: bool = True) -> Iterator[ir.Compare]:
    """The comparisons, in branches and selections of a block, that decide what is evaluated; those
    that decide what is stored only with `stores`."""
    found = (own_tests(stmt, stores=stores) for stmt in ir.statements(block))
    yield from dict.fromkeys(chain.from_iterable(found))


def own_tests(stmt: ir.Stmt, *, stores: bool = True) -> Iterator[ir.Compare]:
    """The comparisons in the condition of a branch, and in the selections of a statement's own
    expressions."""
    conditions: list[ir.Expr] = []
    if isinstance(stmt, ir.If) and (stores or not _stores(stmt)):
        conditions.append(stmt.condition)
    conditions += (e.condition for e in ir.expressions(stmt) if isinstance(e, ir.Select))
    tests = (test for condition in conditions for test in conjuncts(condition))
    return (test for test in tests if isinstance(test, ir.Compare))


def _stores(branch: ir.If) -> bool:
    return any(isinstance(s, ir.Store) for s in ir.statements((*branch.then, *branch.otherwise)))


def settled(block: Stmts, test: ir.Compare, value: ir.Const) -> Stmts:
    """The block where a comparison is known."""

    def replaced(expr: ir.Expr) -> ir.Expr:
        return value if expr == test else map_operands(expr, replaced)

    def each(stmt: ir.Stmt) -> Iterable[ir.Stmt]:
        new = map_expressions(stmt, replaced)
        if isinstance(new, ir.If) and isinstance(new.condition, ir.Const):
            return new.then if new.condition.value else new.otherwise
        if isinstance(new, ir.Set) and isinstance(new.value, ir.Var):
            return () if new.value.name == new.var else (new,)  # the term of a sum was 0
        return (new,)

    return map_each(block, each)


def adds_nothing(block: Stmts, var: str = "", known: Mapping[str, ir.Expr] | None = None) -> bool:
    """Whether a block does nothing but to add 0 to elements, or multiply them by 1; or whether,
    run for several values of a variable, it does that for one of them: then the elements are the
    same ones for all, and it may also take their minimum or maximum with a constant."""
    values = dict(known or {})
    for stmt in block:
        match stmt:
            case ir.Let(var=name, value=value):
                values[name] = substitute(value, values, {})
            case ir.For(body=body):
                if not adds_nothing(body, var, values):
                    return False
            case ir.If(then=then, otherwise=otherwise) if not var:
                if not all(adds_nothing(part, var, values) for part in (then, otherwise)):
                    return False
            case ir.Comment():
                pass
            case ir.Store(
                buffer=name, indices=at, value=ir.Load(buffer=old, indices=same), mask=None
            ) if (name, at) == (old, same):
                pass  # 0 added to an integer is gone
            case ir.Store(
                buffer=name,
                indices=at,
                value=ir.Binary(op=op, left=ir.Load(buffer=old, indices=same), right=term),
                mask=None,
            ) if (name, at) == (old, same):
                moves = var and any(var in names_in(substitute(i, values, {})) for i in at)
                if moves or not _is_neutral(op, substitute(term, values, {}), once=not var):
                    return False
            case _:
                return False
    return True


def _is_neutral(op: str, term: ir.Expr, *, once: bool = False) -> bool:
    """Whether it is all the same how often a constant is added, or whatever else, to a number;
    with `once`, also whether it ever is."""
    match term:
        case ir.Const(value=value, dtype=dtype):
            is_extreme = op in ("min", "max")
            is_neutral = (is_extreme or op in REDUCED) and value == identity(op, dtype)
            return is_neutral or (not once and is_extreme)
        case ir.Select(then=then, otherwise=otherwise):
            return then == otherwise and _is_neutral(op, then, once=once)
        case _:
            return False


def is_plain(stmt: ir.Stmt) -> TypeGuard[ir.For]:
    """Whether a statement is a loop of one thread without a mark."""
    return is_loop(stmt) and not stmt.parallel and not stmt.mark


def copied_size(loop: ir.For) -> int:
    """The statements of a copy of a loop's body, after unrolling."""
    return sum(unrolled_size(stmt, {}) for stmt in loop.body)
