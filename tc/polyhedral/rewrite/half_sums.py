"""Sums and products of halves: accumulated in `float` (Y8).

Such a reduction is computed in float and rounded once, at its end: `o(i) +=! a(i,k)` becomes
`t(i) +=! a(i,k)` and `o(i) = t(i)` with a temporary of floats. So no schedule and no plan can round
an accumulator on the way, wherever it puts one down. Most schedules fuse both statements, and the
temporary is then a register.
"""

from __future__ import annotations

from dataclasses import replace

from tc.polyhedral.rewrite.rewriting import Rewriting
from tc.semantics.program import ShapedProgram, ShapedStatement

ROUNDED = "rounded"
"""Behind the name of a reduction: the statement that rounds its result."""


def accumulate_in_float(shaped: ShapedProgram) -> ShapedProgram:
    """The program with the sums and products of halves computed in temporaries, each named after
    its target ("o.s0"). The reduction keeps its name, and what is to be checked in it. Minima and
    maxima stay: rounding does not change which is the least or the largest.
    """
    rewriting = Rewriting(shaped, "kept")

    def kept(old: ShapedStatement) -> list[ShapedStatement] | None:
        statement = old.statement
        dtype = shaped.program.tensors[statement.target].dtype
        if statement.op not in ("+", "*") or not statement.reduction:
            return None
        if not dtype.is_storage:
            return None
        total, read = rewriting.store(
            old, statement.rhs, statement.outer, statement.reduction, name="sum", kind="s"
        )
        total = replace(_named(total, statement.name), checked=old.checked, walk=old.walk)
        last = rewriting.remaining(old, read, statement.outer)
        return [total, _named(last, f"{statement.name}.{ROUNDED}")]

    return rewriting.program(kept)


def _named(shaped_statement: ShapedStatement, name: str) -> ShapedStatement:
    return replace(shaped_statement, statement=replace(shaped_statement.statement, name=name))
