"""Reductions that read their own target: they see it as it was before them (P1).

`s max= a(r) + s` adds the s of before to each a(r), though s is its accumulator. The old value
gets a place of its own: `t = s` and `s max= a(r) + t`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import prod

from tc.dtypes import FLOAT16
from tc.polyhedral.rewriting import add_statement, rewrite, unused_sites
from tc.semantics.program import (
    Convert,
    Expr,
    Index,
    Read,
    ShapedProgram,
    ShapedStatement,
    Statement,
    Tensor,
    walk,
)


def copy_own_reads(shaped: ShapedProgram) -> ShapedProgram:
    """The program with copies of what reductions read of their targets; the copies are
    temporaries named after the targets ("s.old0")."""
    for position in reversed(range(len(shaped.statements))):
        old = shaped.statements[position]
        steps = prod(old.ranges[v].extent for v in old.statement.reduction)
        reads = any(_is_own(e, old.statement) for e in walk(old.statement.rhs))
        if old.statement.op != "=" and steps > 1 and reads:
            shaped = _copied(shaped, position)
    return shaped


def _is_own(expr: Expr, statement: Statement) -> bool:
    """Whether an expression reads the element that the statement writes."""
    return (
        isinstance(expr, Read)
        and expr.tensor == statement.target
        and expr.subscripts == statement.subscripts
    )


def _copied(shaped: ShapedProgram, position: int) -> ShapedProgram:
    old = shaped.statements[position]
    statement, span = old.statement, old.statement.span
    names = (f"{statement.target}.old{number}" for number in count())
    target = next(name for name in names if name not in shaped.program.tensors)
    dtype = shaped.program.tensors[statement.target].dtype
    subscripts = tuple(Index(v, span=span) for v in statement.outer)
    site = next(unused_sites(shaped))
    value: Expr = Read(statement.target, statement.subscripts, dtype, site, span=span)
    if dtype == FLOAT16:
        value = Convert(value, statement.rhs.dtype, span=span)
    copy = replace(
        statement,
        name=f"{statement.name}.old",
        target=target,
        subscripts=subscripts,
        variables=statement.outer,
        op="=",
        init=False,
        continues="",
        rhs=value,
        where=(),
        exists=(),
    )

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Read) and _is_own(expr, statement):
            return replace(expr, tensor=target, subscripts=subscripts)
        return expr

    changed = replace(statement, rhs=rewrite(statement.rhs, change))
    outer = {v: old.ranges[v] for v in statement.outer}
    tensor = Tensor(target, dtype, len(statement.outer), "temporary", None, span=span)
    return add_statement(
        shaped,
        position,
        ShapedStatement(copy, outer, frozenset()),
        replace(old, statement=changed),
        tensor,
        tuple(outer.values()),
    )
