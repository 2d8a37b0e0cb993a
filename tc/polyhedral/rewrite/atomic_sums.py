"""Reductions of integers whose terms go where data say, for devices whose threads meet in memory.

Sums of integers wrap around, and no order of them, nor of a minimum or of bits, gives another
result: threads update the elements where their terms belong in one step each (X1). Where the places
fit in the memory that a block shares, each of some parts of the terms has a copy of the target:

    t(c, p) = 0
    t(c, I(c * 4096 + i)) += x(c * 4096 + i)        each in one step
    h(p) +=! t(c, p)

Where they do not, or where there is one part alone, threads of all blocks meet in one copy.
"""

from __future__ import annotations

from dataclasses import replace

from tc.polyhedral.rewrite.one_hot import NumberedTerms, OneHot
from tc.polyhedral.rewrite.rewriting import Rewriting
from tc.polyhedral.rewrite.thresholds import AtomicCosts
from tc.semantics import program as p

TERM = "term"
"""What the statement whose terms meet is called, behind the name of the reduction."""

ATOMIC_OPERATORS = ("+", "min", "max", "&", "|", "^")


def may_meet(found: OneHot, costs: AtomicCosts) -> bool:
    """Whether terms may be added to what others have, in one step each: integers of a size for
    which there is such a step, in any order the same; and one term for each instance."""
    old, dtype = found.old, found.rhs.dtype
    is_held = dtype.is_integer and dtype.bits in costs.bits
    is_whole = {*old.statement.reduction} == {*found.terms}
    begins = (old.ranges[v].begin for v in old.statement.outer)
    is_known = old.statement.op in ATOMIC_OPERATORS and all(begin >= 0 for begin in begins)
    return is_held and is_whole and is_known


def meet(found: OneHot, rewriting: Rewriting, costs: AtomicCosts) -> list[p.ShapedStatement]:
    """The statements of a reduction whose terms meet in memory."""
    made = NumberedTerms(found, rewriting)
    of, old, statement, rhs = made.of, found.old, found.old.statement, found.rhs
    c, i = made.unused("c", "i")
    terms, own = found.count(found.terms), [v for v in statement.outer if v not in found.batch]
    parts = costs.parts(terms, found.count(found.batch), found.count(own) * rhs.dtype.bytes)
    length = -(-terms // parts)
    parts = -(-terms // length)

    ends = [old.ranges[v].end for v in own]
    start = of.identity(statement.op, rhs.dtype)
    target = made.add("copy", start, {c: parts, **dict(zip(own, ends, strict=True))})

    number = of.plus_all(of.times(of.index(c), length), of.index(i))
    tests = [made.term(test, number) for test in found.conditions(of)]
    if parts * length > terms:
        tests.insert(0, of.compare("<", number, of.number(terms)))
    others = {v: old.ranges[v] for v in own if v not in found.selected}
    place = [made.term(found.moved(of.index(v), of), number) for v in own]
    made.add(
        TERM,
        made.term(found.moved(rhs.then, of), number),
        {c: parts, i: length, **others},
        into=target,
        place=[of.index(c), *place],
        op=statement.op,
        conditions=tuple(tests),
    )

    variables = (*statement.outer, c)
    whole = replace(
        statement,
        variables=variables,
        rhs=rewriting.again(made.at(target, of.index(c), *map(of.index, own))),
        once=False,
    )
    ranges = {**old.ranges, c: p.Range(0, parts)}
    made.made.append(rewriting.changed(whole, {v: ranges[v] for v in variables}, old))
    return made.made
