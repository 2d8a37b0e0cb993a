"""What the tests at run time of a statement depend on (G7)."""

from __future__ import annotations

from collections.abc import Iterator

from tc.polyhedral.scop.scop import Scop, ScopStatement
from tc.semantics.program import Expr, Index, Logical, Read, Select, children, walk

VariableNames = frozenset[str]
NONE: VariableNames = frozenset()


def checked_variables(statement: ScopStatement, scop: Scop) -> VariableNames:
    """The variables on which it depends whether a test is made, and whether it holds: those of
    the subscripts and divisions that may fail, and of the conditions that guard them (Y6).

    Beyond the range of such a variable a test may fail that the text does not make.
    """
    if statement.kind != "update":
        return NONE
    source = scop.shaped.statements[statement.position]
    if not source.checked:
        return NONE

    def tests(expr: Expr, guards: VariableNames) -> Iterator[VariableNames]:
        """What each test below an expression depends on, itself evaluated or not by `guards`."""
        if getattr(expr, "site", -1) in source.checked:
            yield guards.union(*map(_variables, _uncertain(expr, statement, scop)))
        parts = children(expr)
        for place, part in enumerate(parts):
            is_branch = isinstance(expr, Select | Logical) and place > 0
            yield from tests(part, guards | _variables(parts[0]) if is_branch else guards)

    return NONE.union(*tests(source.statement.rhs, NONE))


def _uncertain(expr: Expr, statement: ScopStatement, scop: Scop) -> Iterator[Expr]:
    """The subscripts of a read that may leave its tensor: all but variables whose range is within
    it. Of a division, all."""
    if not isinstance(expr, Read):
        yield expr
        return
    for part, extent in zip(expr.subscripts, scop.shaped.shapes[expr.tensor], strict=True):
        begin, end = statement.ranges[part.name] if isinstance(part, Index) else (-1, extent)
        if begin < 0 or end > extent:
            yield part


def _variables(expr: Expr) -> VariableNames:
    return frozenset(e.name for e in walk(expr) if isinstance(e, Index))
