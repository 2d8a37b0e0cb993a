"""Access sites: where a statement stands, what it touches there, and how much loops do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from tc.dtypes import INT64
from tc.kernel.analysis.lane_offsets import remembered
from tc.kernel.ir import Expr, For, Let, Stmt
from tc.kernel.rebuild import Stmts, map_blocks, map_statements, substitute
from tc.kernel.walk import names_in


@dataclass(frozen=True)
class Enclosing:
    """What a statement stands in: loops, outermost first, what may be written for locals, and
    locals for which nothing may."""

    loops: tuple[For, ...] = ()
    lets: Mapping[str, Expr] = field(default_factory=dict)
    opaque: frozenset[str] = frozenset()

    def inside(self, loop: For) -> Enclosing:
        return replace(self, loops=(*self.loops, loop))

    def after(self, let: Let, assigned: frozenset[str]) -> Enclosing:
        kept = let.var not in assigned and remembered(let.value, assigned)
        if kept and let.value.dtype == INT64:
            value = substitute(let.value, self.lets, {})
            if self.opaque.isdisjoint(names_in(value)):
                return replace(self, lets={**self.lets, let.var: value})
        return replace(self, opaque=self.opaque | {let.var})


def map_loops(
    block: Stmts,
    around: Enclosing,
    assigned: frozenset[str],
    change: Callable[[For, Enclosing], Stmt],
) -> Stmts:
    """The block with its loops changed, also those in branches, by a function that knows what they
    stand in; the loops in them are left to that."""

    def each(stmt: Stmt) -> Iterable[Stmt]:
        nonlocal around
        match stmt:
            case For():
                return (change(stmt, around),)
            case Let():
                around = around.after(stmt, assigned)
                return (stmt,)
        return (map_blocks(stmt, lambda inner: map_loops(inner, around, assigned, change)),)

    return map_statements(block, each)
