"""Splitting reductions into partial ones: a long reduction to few elements has nothing parallel.

`s +=! X(i,j) * Y(j,i)` becomes `t(i) +=! X(i,j) * Y(j,i)` and `s +=! t(i)`: each t(i) is
independent. The parts are the same for any number of threads, so the bits of the result are too;
R5 allows the order, as it allows any. Statements with checks keep theirs. Where no variable has a
number of values that suits, the longest is cut into strips: `s +=! x(i)` becomes
`t(p) +=! x(p * L + i)`, `s +=! t(p)`, and `s += x(i)` for the few that are left.

Where all elements need all of an operand, as in `C(i,j) +=! A(k,i) * B(k,j)`, more of them count as
few: a strip of the operands stays in the cache for all elements.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

from tc.affine.forms import Form
from tc.polyhedral.rewrite.rewriting import REST, Rewriting, unused_name
from tc.polyhedral.rewrite.simplifying import substituted
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import (
    Range,
    Read,
    ShapedProgram,
    ShapedStatement,
    Statement,
    index_names,
    walk,
)

_PARTIAL = "part"


def name_of_partial(statement: str) -> str:
    """What the statement is called whose partial reductions a statement combines.

    >>> name_of_partial("S0")
    'S0.part'
    """
    return f"{statement}.{_PARTIAL}"


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
    >>> row = Source("def f(float(I) x) -> (s) { s +=! x(i) }")
    >>> parts = split(infer_ranges(check(parse(row)), {"x": (100_000,)}, {}))
    >>> [statement.text for statement in parts.program.statements]
    ['s.p0(i_part) +=! x(1536 * i_part + i)', 's +=! s.p0(i_part)', 's += x(i)']
    """
    rewriting, limits = Rewriting(shaped, "split"), thresholds or Thresholds()
    return rewriting.program(lambda old: _split(old, rewriting, limits), partials_first)


def partials_first(statements: list[ShapedStatement]) -> list[ShapedStatement]:
    """The statements with partial reductions before what finishes those in front of them, where
    neither touches what the other writes: neighbours may share loops."""
    names = {s.statement.name for s in statements}
    combined = {name for name in names if name_of_partial(name) in names}
    partial = set(map(name_of_partial, combined))
    order: list[ShapedStatement] = []
    for shaped in statements:
        place, statement = len(order), shaped.statement
        while statement.name in partial and place:
            before = order[place - 1].statement
            is_passed = before.name.removesuffix(f".{REST}") in combined
            if not is_passed or not _are_independent(before, statement):
                break
            place -= 1
        order.insert(place, shaped)
    return order


def _are_independent(one: Statement, other: Statement) -> bool:
    """Whether neither statement touches what the other writes."""
    return not any(
        a.target == b.target
        or any(isinstance(n, Read) and n.tensor == a.target for n in walk(b.rhs))
        for a, b in ((one, other), (other, one))
    )


def _is_long(old: ShapedStatement, limits: Thresholds) -> bool:
    """Whether a reduction is long, and to few elements."""
    most = limits.few if _has_own_reads(old, each=limits.again) else limits.shared
    return _elements(old) <= most and _steps(old) >= limits.long


def _elements(old: ShapedStatement) -> int:
    return prod(old.ranges[v].extent for v in old.statement.outer)


def _has_own_reads(old: ShapedStatement, *, each: bool = False) -> bool:
    """Whether a variable of the left side is in each subscript list that is read: threads that
    share its values among them read nothing twice. A product of matrices has none. With `each`,
    also whether all variables of the left side are in one list, as of a matrix times a vector."""
    reads = [{*index_names(node)} for node in walk(old.statement.rhs) if isinstance(node, Read)]
    outer = {*old.statement.outer}
    return bool(outer.intersection(*reads)) or (each and any(map(outer.issubset, reads)))


def _steps(old: ShapedStatement) -> int:
    return prod(old.ranges[v].extent for v in old.statement.reduction)


def _starting_at_0(old: ShapedStatement) -> dict[str, int]:
    """The reduction variables that begin at 0, as the elements of a temporary do, which must all
    be written, with their numbers of values."""
    ranges = {v: old.ranges[v] for v in old.statement.reduction}
    return {v: r.extent for v, r in ranges.items() if r.begin == 0}


def _variable(old: ShapedStatement, limits: Thresholds) -> str | None:
    """The variable to split along, if that is worthwhile: the first of as many values as give
    enough parts, and parts long enough. Parts of more than a few elements are few."""
    parts = _starting_at_0(old)
    most = _steps(old) // limits.left if _elements(old) <= limits.few else limits.strips
    enough = (v for v, n in parts.items() if limits.parts <= n <= most)
    return next(enough, None)


def _split(
    old: ShapedStatement, rewriting: Rewriting, limits: Thresholds
) -> list[ShapedStatement] | None:
    if old.statement.op == "=" or old.checked or old.is_empty or not _is_long(old, limits):
        return None
    variable = _variable(old, limits)
    if variable is None:
        return _cut(old, rewriting, limits)
    return partials(old, rewriting, _with_part(old, variable))


def _with_part(old: ShapedStatement, variable: str) -> tuple[str, ...]:
    """The variables of partial results along one more variable: where all elements of a part read
    what the part reads, parts are outermost."""
    outer = old.statement.outer
    return (*outer, variable) if _has_own_reads(old) else (variable, *outer)


def partials(
    old: ShapedStatement, rewriting: Rewriting, outer: tuple[str, ...]
) -> list[ShapedStatement]:
    """A reduction to an element for all values of `outer`, variables of the left side and of the
    reduction, and the reduction along the latter."""
    statement = old.statement
    rest = tuple(v for v in statement.reduction if v not in outer)
    partial, read = rewriting.store(old, statement.rhs, outer, rest, name=_PARTIAL, kind="p")
    return [partial, rewriting.remaining(old, read, outer)]


def _cut(
    old: ShapedStatement, rewriting: Rewriting, limits: Thresholds
) -> list[ShapedStatement] | None:
    """A reduction whose longest variable is cut into strips, whose lengths are multiples of
    `limits.strip`, and what is left behind the last of them. Not where a value is rounded when it
    is stored (Y8): what is left would round it again."""
    statement, starting = old.statement, _starting_at_0(old)
    variable = max(starting, key=lambda v: starting[v], default=None)
    is_rounded = rewriting.shaped.program.tensors[statement.target].dtype != statement.rhs.dtype
    if variable is None or is_rounded or variable not in index_names(statement.rhs):
        return None
    extent = starting[variable]
    length = max(extent // limits.strips // limits.strip, 1) * limits.strip
    number = extent // length
    if number < limits.parts:
        return None
    strip = unused_name(
        f"{variable}_part", {*statement.variables, *rewriting.shaped.program.tensors}
    )
    cut = replace(
        old,
        statement=substituted(statement, {variable: Form(0, {strip: length, variable: 1})}),
        ranges={**old.ranges, strip: Range(0, number), variable: Range(0, length)},
    )
    made = partials(cut, rewriting, _with_part(cut, strip))
    if number * length < extent:
        made.append(rewriting.apart(old, {variable: Range(number * length, extent)}))
    return made
