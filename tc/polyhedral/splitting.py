"""Splitting reductions into partial ones: a long reduction to few elements has nothing parallel.

`s +=! X(i,j) * Y(j,i)` becomes `t(i) +=! X(i,j) * Y(j,i)` and `s +=! t(i)`: each t(i) is
independent. The parts are the same for any number of threads, so the bits of the result are too;
R5 allows the order, as it allows any. Statements with checks keep theirs.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import prod

from tc.polyhedral.rewriting import add_statement, unused_sites
from tc.semantics.program import (
    Index,
    Read,
    ShapedProgram,
    ShapedStatement,
    Statement,
    Tensor,
)

FEW = 8
"""Elements of a target up to which there is nothing parallel in it."""

PARTS = 16
"""Partial reductions that must be gained."""

LONG = 1 << 15
"""Steps of a reduction from which it is worth splitting."""


def split(shaped: ShapedProgram) -> ShapedProgram:
    """The program with long reductions to few elements split along one variable.

    The temporaries are new, named after the target ("s.p0"); the statement that combines them
    keeps its name.
    """
    for position in reversed(range(len(shaped.statements))):
        variable = _variable(shaped.statements[position])
        if variable is not None:
            shaped = _split(shaped, position, variable)
    return shaped


def _variable(shaped_statement: ShapedStatement) -> str | None:
    """The variable to split along: the first of at least PARTS values, if it is worthwhile."""
    statement, ranges = shaped_statement.statement, shaped_statement.ranges
    if statement.op == "=" or shaped_statement.checked or shaped_statement.is_empty:
        return None
    elements = prod(ranges[v].extent for v in statement.outer)
    steps = prod(ranges[v].extent for v in statement.reduction)
    if elements > FEW or steps < LONG or len(statement.reduction) < 2:
        return None
    if any(isinstance(s, Index) is False for s in statement.subscripts):
        return None
    fitting = (v for v in statement.reduction if ranges[v].extent >= PARTS and not ranges[v].begin)
    return next(fitting, None)


def _split(shaped: ShapedProgram, position: int, variable: str) -> ShapedProgram:
    old = shaped.statements[position]
    statement, span = old.statement, old.statement.span
    names = (f"{statement.target}.p{number}" for number in count())
    target = next(name for name in names if name not in shaped.program.tensors)
    outer = (*statement.outer, variable)
    rest = tuple(v for v in statement.reduction if v != variable)
    partial = Statement(
        name=f"{statement.name}.part",
        target=target,
        subscripts=tuple(Index(v, span=span) for v in outer),
        outer=outer,
        variables=(*outer, *rest),
        op=statement.op,
        init=True,
        continues="",
        rhs=statement.rhs,
        where=(),
        exists=(),
        span=span,
        variable_spans=statement.variable_spans,
    )
    read = Read(
        target,
        tuple(Index(v, span=span) for v in outer),
        statement.rhs.dtype,
        next(unused_sites(shaped)),
        span=span,
    )
    combined = replace(statement, variables=outer, rhs=read, where=(), exists=())
    tensor = Tensor(target, statement.rhs.dtype, len(outer), "temporary", None, span=span)
    return add_statement(
        shaped,
        position,
        ShapedStatement(partial, old.ranges, frozenset()),
        ShapedStatement(combined, {v: old.ranges[v] for v in outer}, frozenset()),
        tensor,
        tuple(old.ranges[v] for v in outer),
    )
