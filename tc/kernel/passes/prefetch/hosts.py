"""Hosts of hints: nested loops that compute, among whose statements hints are spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tc.dtypes import INT64
from tc.kernel.analysis.access_sites import range_of
from tc.kernel.folding import binary
from tc.kernel.ir import Binary, Call, Const, Expr, For, If, Set, Stmt, Var, expressions, statements


@dataclass(frozen=True)
class Nest:
    """Nested loops, outermost first, each but the last with the next as its only loop; the last
    has no branches."""

    loops: tuple[For, ...]

    @classmethod
    def of(cls, loop: For) -> Nest | None:
        """That of a loop; None where it is none, or iterations are not known."""
        loops: tuple[For, ...] = ()
        while range_of(loop):
            loops = (*loops, loop)
            nested = [stmt for stmt in loop.body if isinstance(stmt, For | If) and _has_loops(stmt)]
            match nested:
                case []:
                    is_straight = not any(isinstance(stmt, If) for stmt in loop.body)
                    return cls(loops) if is_straight else None
                case [For() as loop]:
                    pass
                case _:
                    return None
        return None

    @property
    def operations(self) -> int:
        """How many on vectors an iteration of the last loop makes."""
        nodes = (expr for stmt in self.loops[-1].body for expr in expressions(stmt))
        return sum(isinstance(e, Binary | Call) and e.dtype.lanes > 1 for e in nodes)

    @property
    def sums(self) -> int:
        """The vectors that an iteration of the last loop adds to something."""
        sets = (stmt for stmt in self.loops[-1].body if isinstance(stmt, Set))
        return sum(stmt.value.dtype.lanes > 1 for stmt in sets)

    @property
    def counts(self) -> list[int]:
        """The iterations of each loop."""
        return [len(range_of(loop)) for loop in self.loops]


def _has_loops(stmt: Stmt) -> bool:
    return any(isinstance(inner, For) for inner in statements((stmt,)))


def iteration_number(loops: Sequence[For]) -> Expr:
    """That of an iteration of nested loops, counted from 0."""
    number: Expr = Const(0, INT64)
    for loop in loops:
        own = binary("-", Var(loop.var, INT64), loop.begin, {})
        number = binary("+", times(number, len(range_of(loop))), own, {})
    return number


def times(expr: Expr, factor: int) -> Expr:
    """A product."""
    return binary("*", expr, Const(factor, INT64), {})
