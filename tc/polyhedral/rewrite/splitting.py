"""Splitting reductions into partial ones: a long reduction to few elements has nothing parallel.

`s +=! X(i,j) * Y(j,i)` becomes `t(i) +=! X(i,j) * Y(j,i)` and `s +=! t(i)`: each t(i) is
independent. The parts are the same for any number of threads, so the bits of the result are too;
R5 allows the order, as it allows any. Statements with checks keep theirs.
"""

from __future__ import annotations

from math import prod

from tc.polyhedral.rewrite.rewriting import Rewriting
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import ShapedProgram, ShapedStatement


def split(shaped: ShapedProgram, thresholds: Thresholds | None = None) -> ShapedProgram:
    """The program with long reductions to few elements split along one variable.

    The temporaries are new, named after the target ("s.p0"); the statement that combines them
    keeps its name. A program in which nothing is split is returned as it is.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> source = Source("def f(float(I,J) X) -> (s) { s +=! X(i,j) }")
    >>> parts = split(infer_ranges(check(parse(source)), {"X": (1000, 1000)}, {}))
    >>> [statement.text for statement in parts.program.statements]
    ['s.p0(i) +=! X(i, j)', 's +=! s.p0(i)']
    """
    rewriting, limits = Rewriting(shaped, "split"), thresholds or Thresholds()
    return rewriting.program(lambda old: _split(old, rewriting, limits))


def _variable(shaped_statement: ShapedStatement, limits: Thresholds) -> str | None:
    """The variable to split along, if that is worthwhile: the first of as many values as give
    enough parts, and parts long enough."""
    statement, ranges = shaped_statement.statement, shaped_statement.ranges
    if statement.op == "=" or shaped_statement.checked or shaped_statement.is_empty:
        return None
    elements = prod(ranges[v].extent for v in statement.outer)
    steps = prod(ranges[v].extent for v in statement.reduction)
    if elements > limits.few or steps < limits.long:
        return None
    # a temporary has its elements from 0, and all must be written
    parts = {v: ranges[v].extent for v in statement.reduction if ranges[v].begin == 0}
    enough = (v for v, n in parts.items() if n >= limits.parts and steps >= limits.left * n)
    return next(enough, None)


def _split(
    old: ShapedStatement, rewriting: Rewriting, limits: Thresholds
) -> list[ShapedStatement] | None:
    variable, statement = _variable(old, limits), old.statement
    if variable is None:
        return None
    outer = (*statement.outer, variable)
    rest = tuple(v for v in statement.reduction if v != variable)
    partial, read = rewriting.store(old, statement.rhs, outer, rest, name="part", kind="p")
    return [partial, rewriting.remaining(old, read, outer)]
