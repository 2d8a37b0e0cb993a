"""Sums in the order of what they read: a result in another order is a copy of the sums.

`O(d,c) +=! a(k) * B(k,c,d)` reads B once, and walks it along d, which may have few values, or lie
across the result. `O.s0(c,d) +=! a(k) * B(k,c,d)`, `O(d,c) = O.s0(c,d)` walks rows of c and d
together (`coalescing`), and what is copied is a small part of what is read.
"""

from __future__ import annotations

from itertools import pairwise
from math import prod

from tc.extents.sizes import at_hint
from tc.polyhedral.rewrite.rewriting import Rewriting, bare_variables
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import Index, Read, ShapedProgram, ShapedStatement, walk


def sum_in_read_order(shaped: ShapedProgram, limits: Thresholds) -> ShapedProgram:
    """The program with sums of `limits.read_steps` terms or more, each of which reads another
    element of a tensor, in the order of that tensor, where its rows have fewer than
    `limits.read_row` bytes.

    The temporaries are new, named after the target ("O.s0"). A program without such a sum is
    returned as it is.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> source = Source("def f(float(K) a, float(K,C,D) B) -> (O) { O(d,c) +=! a(k) * B(k,c,d) }")
    >>> shaped = infer_ranges(check(parse(source)), {"a": (40,), "B": (40, 9, 5)}, {})
    >>> for s in sum_in_read_order(shaped, Thresholds(read_steps=32, read_row=64)).statements:
    ...     print(s.statement.text)
    O.s0(c, d) +=! a(k) * B(k, c, d)
    O(d, c) = O.s0(c, d)
    """
    rewriting = Rewriting(shaped, "ordered")

    def ordered(old: ShapedStatement) -> list[ShapedStatement] | None:
        order = _read_order(old, limits) if limits.read_steps else None
        if order is None:
            return None
        statement = old.statement
        reduced = statement.reduction
        summed, read = rewriting.store(old, statement.rhs, order, reduced, name="sum", kind="s")
        return [summed, rewriting.remaining(old, read, statement.outer)]

    return rewriting.program(ordered)


def _read_order(old: ShapedStatement, limits: Thresholds) -> tuple[str, ...] | None:
    """The variables of the left side in the order in which a long sum reads a tensor; None where
    the result lies in this order, too, as far as rows and what is next to them go."""
    statement = old.statement
    steps = prod(old.ranges[v].extent for v in statement.reduction)
    if statement.op == "=" or old.checked or old.is_empty or at_hint(steps) < limits.read_steps:
        return None
    if any(r.begin for r in old.ranges.values()):
        return None
    written = [s.name for s in statement.subscripts if isinstance(s, Index)]
    for read in (node for node in walk(statement.rhs) if isinstance(node, Read)):
        found = bare_variables(read.subscripts)
        if found is None or {*found} != {*statement.variables}:
            continue
        order = tuple(v for v in found if v in statement.outer)
        is_row = len(found) > 1 and {*found[-2:]} <= {*order}
        is_short = is_row and old.ranges[found[-1]].extent * read.dtype.bytes < limits.read_row
        if is_short and (found[-2], found[-1]) not in pairwise(written):
            return order
    return None
