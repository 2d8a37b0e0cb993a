"""Sums of products beyond the end of their reduction: whether what is added there is 0.

Tiles that threads have filled hold 0 outside of their tensor. Where all factors of a term come from
such tiles and lie outside together, once the reduction has passed its end, the term needs no test.
"""

from __future__ import annotations

from collections.abc import Callable

from tc.plan import SHARED
from tc.polyhedral.codegen.context import EmitScope
from tc.polyhedral.footprint import whole
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.scop import Access, ScopStatement
from tc.semantics import program as p


def adds_nothing(variable: str, statement: ScopStatement, state: EmitScope) -> bool:
    """Whether a statement would add 0 for values of a variable of its reduction past its range."""
    if statement.op != "+" or variable not in statement.reduction:
        return False
    accesses = {a.site: a for a in statement.reads if a.site >= 0}
    accesses |= {a.site: a for a in statement.gathers if state.innermost(a.tensor) is not None}
    rhs = state.kernel.scop.shaped.statements[statement.position].statement.rhs
    return _is_zero(rhs, lambda site: _is_outside(accesses.get(site), variable, statement, state))


def runs_on(member: Member, names: list[str], state: EmitScope) -> bool:
    """Whether a loop may run past the ends of all reductions that it runs."""
    statements = [state.kernel.scop.statement(name) for name in names]
    variables = [member.values[s.name].variable for s in statements]
    return all(
        v is not None and adds_nothing(v, s, state)
        for v, s in zip(variables, statements, strict=True)
    )


def _is_zero(expr: p.Expr, is_outside: Callable[[int], bool]) -> bool:
    """Whether a value is 0 where some reads are."""
    match expr:
        case p.Read(site=site):
            return is_outside(site)
        case p.Binary(op="+" | "-" | "*", left=left, right=right):
            return _is_zero(left, is_outside) and _is_zero(right, is_outside)
        case p.Unary(operand=operand) | p.Convert(operand=operand):
            return _is_zero(operand, is_outside)
        case _:
            return False


def _is_outside(
    access: Access | None, variable: str, statement: ScopStatement, state: EmitScope
) -> bool:
    """Whether a read finds the 0 of a tile that was filled, past the range of a variable."""
    placed = None if access is None else state.innermost(access.tensor)
    if access is None or placed is None or placed.tile.scope != SHARED or not placed.tile.fetch:
        return False
    if placed.tile.copy.fill is not None or state.outside(placed).innermost(access.tensor):
        return False
    end = statement.ranges[variable][1]
    limits = placed.tile.limits or whole(access.tensor, state.kernel.scop)
    for subscript, (_, last) in zip(access.subscripts, limits, strict=True):
        if subscript is not None and set(subscript.terms) == {variable}:
            factor = subscript.terms[variable]
            if factor > 0 and subscript.constant + factor * end >= last:
                return True
    return False
