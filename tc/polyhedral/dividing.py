"""Dividing a sum once, rather than each of its terms.

`m(n) +=! x(n,d) / D` becomes `t(n) +=! x(n,d)` and `m(n) = t(n) / D`. A division takes as long as
ten additions. R5 allows it: the terms of the sum are the magnitudes of the program's times D, and
each is rounded once less. Statements with checks stay.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import count
from math import prod

from tc.polyhedral.rewriting import add_statement, unused_sites
from tc.semantics.program import (
    Binary,
    Expr,
    Index,
    Read,
    ShapedProgram,
    ShapedStatement,
    Statement,
    Tensor,
    walk,
)

STEPS = 16
"""Terms of a sum from which it is worth a statement."""


def divide_last(shaped: ShapedProgram) -> ShapedProgram:
    """The program with quotients by what does not depend on the sum taken out of sums.

    The temporaries are named after the target ("m.q0"); the statement that divides keeps its
    name.
    """
    for position in reversed(range(len(shaped.statements))):
        quotient = _quotient(shaped.statements[position])
        if quotient is not None:
            shaped = _divided(shaped, position, quotient)
    return shaped


def _quotient(shaped_statement: ShapedStatement) -> Binary | None:
    """The term of a sum, if it is a quotient of floats by what is the same for all terms."""
    statement, ranges = shaped_statement.statement, shaped_statement.ranges
    if statement.op != "+" or shaped_statement.checked or shaped_statement.is_empty:
        return None
    if prod(ranges[v].extent for v in statement.reduction) < STEPS:
        return None
    match statement.rhs:
        case Binary(op="/", right=divisor, dtype=dtype) as quotient if dtype.is_float:
            same = not _depends(divisor, statement) and _depends(quotient.left, statement)
            plain = all(isinstance(s, Index) for s in statement.subscripts)
            return quotient if same and plain else None
        case _:
            return None


def _depends(expr: Expr, statement: Statement) -> bool:
    reduction = set(statement.reduction)
    return any(isinstance(e, Index) and e.name in reduction for e in walk(expr))


def _divided(shaped: ShapedProgram, position: int, quotient: Binary) -> ShapedProgram:
    old = shaped.statements[position]
    statement, span = old.statement, old.statement.span
    names = (f"{statement.target}.q{number}" for number in count())
    target = next(name for name in names if name not in shaped.program.tensors)
    total = replace(
        statement,
        name=f"{statement.name}.sum",
        target=target,
        init=True,
        continues="",
        rhs=quotient.left,
        where=(),
        exists=(),
    )
    read = Read(target, statement.subscripts, quotient.dtype, next(unused_sites(shaped)), span=span)
    last = replace(
        statement,
        variables=statement.outer,
        rhs=replace(quotient, left=read),
        where=tuple(c for c in statement.where if c.variable in statement.outer),
        exists=(),
    )
    if statement.init:
        last = replace(last, op="=", init=False, continues="")
    tensor = Tensor(target, quotient.dtype, len(statement.outer), "temporary", None, span=span)
    outer = {v: old.ranges[v] for v in statement.outer}
    return add_statement(
        shaped,
        position,
        ShapedStatement(total, old.ranges, frozenset()),
        ShapedStatement(last, outer, frozenset()),
        tensor,
        tuple(outer.values()),
    )
