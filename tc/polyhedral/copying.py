"""Reductions that read their own target: they see it as it was before them (P1).

`s max= a(r) + s` adds the s of before to each a(r), though s is its accumulator. The old value
gets a place of its own: `t = s` and `s max= a(r) + t`.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tc.dtypes import FLOAT16
from tc.polyhedral.rewriting import Rewriting, rewrite
from tc.semantics.program import (
    Convert,
    Expr,
    Read,
    ShapedProgram,
    ShapedStatement,
    Statement,
    walk,
)


def copy_own_reads(shaped: ShapedProgram) -> ShapedProgram:
    """The program with copies of what reductions read of their targets; the copies are
    temporaries named after the targets ("s.old0")."""
    rewriting = Rewriting(shaped, "copied")
    return rewriting.program(lambda old: _copied(old, rewriting) if _reads_own(old) else None)


def _reads_own(shaped_statement: ShapedStatement) -> bool:
    """Whether a statement is a reduction, of several steps, that reads what it writes."""
    statement, ranges = shaped_statement.statement, shaped_statement.ranges
    steps = prod(ranges[v].extent for v in statement.reduction)
    reads = any(_is_own(e, statement) for e in walk(statement.rhs))
    return steps > 1 and reads


def _is_own(expr: Expr, statement: Statement) -> bool:
    """Whether an expression reads the element that the statement writes."""
    return (
        isinstance(expr, Read)
        and expr.tensor == statement.target
        and expr.subscripts == statement.subscripts
    )


def _copied(old: ShapedStatement, rewriting: Rewriting) -> list[ShapedStatement]:
    statement, span = old.statement, old.statement.span
    dtype = rewriting.shaped.program.tensors[statement.target].dtype
    site = next(rewriting.sites)
    value: Expr = Read(statement.target, statement.subscripts, dtype, site, span=span)
    if dtype == FLOAT16:
        value = Convert(value, statement.rhs.dtype, span=span)
    copy, read = rewriting.store(old, value, statement.outer, name="old", kind="old", dtype=dtype)

    def change(expr: Expr) -> Expr:
        if isinstance(expr, Read) and _is_own(expr, statement):
            return replace(expr, tensor=read.tensor, subscripts=read.subscripts)
        return expr

    changed = replace(statement, rhs=rewrite(statement.rhs, change))
    return [copy, replace(old, statement=changed)]
