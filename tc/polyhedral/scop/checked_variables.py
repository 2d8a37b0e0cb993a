"""What the tests at run time of a statement depend on (G7)."""

from __future__ import annotations

from collections.abc import Container, Iterator

from tc.polyhedral.scop.scop import Scop, ScopStatement
from tc.semantics.program import Expr, Index, Logical, Read, Select, children, walk

VariableNames = frozenset[str]
NONE: VariableNames = frozenset()


def checked_variables(statement: ScopStatement, scop: Scop) -> VariableNames:
    """The variables on which it depends whether a test is made, and whether it holds: those of
    the subscripts and divisions that may fail, and of the conditions that guard them (Y6).

    Beyond the range of such a variable a test may fail that the text does not make.
    """
    return NONE.union(
        *(
            _variables(part)
            for expr, guards in _guarded(statement, scop)
            for part in (*_uncertain(expr, statement, scop), *guards)
        )
    )


def guarding_variables(
    statement: ScopStatement, scop: Scop, tensors: Container[str]
) -> VariableNames:
    """The variables of the conditions that guard what may fail, if they read some tensors.

    Beyond the range of such a variable, a buffer that holds one may have what the tensor never has.
    """
    return NONE.union(
        *(
            _variables(guard)
            for _, guards in _guarded(statement, scop)
            for guard in guards
            if any(isinstance(e, Read) and e.tensor in tensors for e in walk(guard))
        )
    )


def _guarded(statement: ScopStatement, scop: Scop) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
    """The reads and divisions of a statement that may fail, each with the conditions that say
    whether it is evaluated."""
    if statement.kind != "update":
        return
    source = scop.shaped.statements[statement.position]

    def below(expr: Expr, guards: tuple[Expr, ...]) -> Iterator[tuple[Expr, tuple[Expr, ...]]]:
        if getattr(expr, "site", -1) in source.checked:
            yield expr, guards
        parts = children(expr)
        for place, part in enumerate(parts):
            is_branch = isinstance(expr, Select | Logical) and place > 0
            yield from below(part, (*guards, parts[0]) if is_branch else guards)

    if source.checked:
        yield from below(source.statement.rhs, ())


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
