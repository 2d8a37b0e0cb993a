"""Dividing a sum once, rather than each of its terms.

`m(n) +=! x(n,d) / D` becomes `t(n) +=! x(n,d)` and `m(n) = t(n) / D`. A division takes as long as
ten additions. R5 allows it: the terms of the sum are the magnitudes of the program's times D, and
each is rounded once less. Statements with checks stay.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tc.polyhedral.rewrite.rewriting import Rewriting
from tc.semantics.factors import quotient_of
from tc.semantics.program import ShapedProgram, ShapedStatement


def divide_last(shaped: ShapedProgram) -> ShapedProgram:
    """The program with quotients by what does not depend on the sum taken out of sums.

    The temporaries are named after the target ("m.q0"); the statement that divides keeps its
    name. A program in which nothing is divided is returned as it is.

    Where the sum may overflow though the quotients do not, or is NaN or infinite as written, R5
    leaves the value open, as it does for `factor`.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> source = Source("def f(float(N,D) x) -> (m) { m(n) +=! x(n,d) / D }")
    >>> divided = divide_last(infer_ranges(check(parse(source)), {"x": (10, 20)}, {}))
    >>> [statement.text for statement in divided.program.statements]
    ['m.q0(n) +=! x(n, d)', 'm(n) = m.q0(n) / D']
    """
    rewriting = Rewriting(shaped, "divided")
    return rewriting.program(lambda old: _divided(old, rewriting))


def _divided(old: ShapedStatement, rewriting: Rewriting) -> list[ShapedStatement] | None:
    outer, reduction = old.statement.outer, old.statement.reduction
    quotient = quotient_of(old)
    if quotient is None or prod(old.ranges[v].extent for v in reduction) < 2:
        return None
    total, read = rewriting.store(old, quotient.left, outer, reduction, name="sum", kind="q")
    return [total, rewriting.remaining(old, replace(quotient, left=read), outer)]
