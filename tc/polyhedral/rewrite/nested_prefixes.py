"""Reductions over prefixes in several dimensions, one dimension after the other: the integral image
`o(h,w) +=! x(a,b) where a in 0:h+1, b in 0:w+1` is sums along rows, of which columns are summed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tc.builtins import identity
from tc.polyhedral.rewrite.expressions import conjunction
from tc.polyhedral.rewrite.rewriting import Rewriting
from tc.semantics import program as p
from tc.semantics.bounded_sums import prefixes
from tc.semantics.size_values import KnownSizes


def sum_by_dimensions(shaped: p.ShapedProgram) -> p.ShapedProgram:
    """The program with reductions over several prefixes in steps, each over one; the very same
    where there is none.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "o(h,w) +=! a <= h && b <= w ? x(a,b) : 0.0 where h in 0:H, w in 0:W"
    >>> source = Source(f"def f(float(H,W) x) -> (o) {{ {text} }}")
    >>> shaped = infer_ranges(check(parse(source)), {"x": (5, 6)}, {})
    >>> for statement in sum_by_dimensions(shaped).program.statements: print(statement.text)
    o.p0(a, w) +=! b <= w ? x(a, b) : 0.0
    o(h, w) +=! a <= h ? o.p0(a, w) : 0.0
    """
    rewriting = Rewriting(shaped, "summed")
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)

    def in_steps(old: p.ShapedStatement) -> list[p.ShapedStatement] | None:
        made: list[p.ShapedStatement] = []
        while (step := _step(old, rewriting, known)) is not None:
            made.append(step[0])
            old = step[1]
        return [*made, old] if made else None

    return rewriting.program(in_steps)


def _step(
    old: p.ShapedStatement, rewriting: Rewriting, known: KnownSizes
) -> tuple[p.ShapedStatement, p.ShapedStatement] | None:
    """A statement that sums along one prefix of several, and what is left of the old one."""
    statement, rhs = old.statement, old.statement.rhs
    if old.checked or old.is_empty or not isinstance(rhs, p.Select):
        return None
    found = prefixes(statement, known)
    if len({*found.values()}) < 2:
        return None
    outer, reduced = list(found.items())[-1]
    tests = p.conjuncts(rhs.condition)
    own = [test for test in tests if {outer, reduced} & set(p.index_names(test))]
    rest = [test for test in tests if test not in own]
    if any(not set(p.index_names(test)) <= {outer, reduced} for test in own) or not rest:
        return None
    inside, outside = conjunction(own), conjunction(rest)
    assert inside is not None
    assert outside is not None
    neutral = p.Literal(identity(statement.op, rhs.dtype), rhs.dtype, span=rhs.span)
    part = p.Select(inside, rhs.then, neutral, rhs.dtype, span=rhs.span)
    names = p.index_names(part)
    # The sums lie as what they are of lies: rows are added to rows then.
    read_in = [outer if v == reduced else v for v in p.index_names(rhs.then)]
    kept = [v for v in statement.variables if v in names and v != reduced]
    kept.sort(key=lambda v: read_in.index(v) if v in read_in else -1)
    if any(old.ranges[v].begin < 0 for v in kept):
        return None
    whole = replace(old, ranges={**old.ranges, **_from_0(part, kept, old)})
    made, read = rewriting.store(whole, part, tuple(kept), (reduced,), name="prefix", kind="p")
    left = p.Select(outside, read, neutral, rhs.dtype, span=rhs.span)
    variables = [v for v in statement.variables if v != reduced]
    return made, rewriting.remaining(old, left, variables)


def _from_0(part: p.Expr, kept: Sequence[str], old: p.ShapedStatement) -> dict[str, p.Range]:
    """The ranges of variables that begin a little later, from 0 on, where what they index has such
    elements: their sums are not used, and there is no part of the temporary that is not written."""
    subscripts = [s for n in p.walk(part) if isinstance(n, p.Read) for s in n.subscripts]
    found = {}
    for v in kept:
        own, r = [s for s in subscripts if v in p.index_names(s)], old.ranges[v]
        if 0 < r.begin <= r.extent and own and all(isinstance(s, p.Index) for s in own):
            found[v] = p.Range(0, r.end)
    return found
