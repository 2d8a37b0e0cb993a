"""Reductions whose terms say between which bounds a variable runs: `begin <= j && j < end ? x : 0`,
as ranges are that use other index variables (W2) or data (W3).

Read literally, all values of the variable are gone through for each element. A processor goes
through those between the bounds alone, and where each element has the terms of the one before and
one more, through each term once (X3).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from tc.builtins.operators import MIRRORED
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.selected_sums import conditional_term, is_selected_by_data
from tc.semantics.size_values import KnownSizes

_ORDER = ("<", "<=", ">", ">=")


class Bound(NamedTuple):
    """A comparison `variable op other` that a term other than the identity is conditional on."""

    variable: str
    op: str
    other: p.Expr


def data_bounded(statement: p.Statement) -> frozenset[str]:
    """The reduction variables that data bound from both sides, or only end, where no tensor holds a
    term for each value that they could have: of `x(b,t) where t in 0:n(b)` there are as many.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.source import Source
    >>> text = "def f(int64(M) row, float(E) v) -> (y) {"
    >>> text += " y(r) +=! row(r) <= e && e < row(r + 1) ? v(e) : 0.0 where r in 0:M - 1 }"
    >>> sorted(data_bounded(check(parse(Source(text))).statements[0]))
    ['e']
    """
    of_data = [b for b in _bounds(statement) if _reads(b.other)]
    below = {b.variable for b in of_data if b.op in (">", ">=")}
    return frozenset(
        b.variable
        for b in of_data
        if b.op in ("<", "<=") and (b.variable in below or not _is_held(statement, b))
    )


def _is_held(statement: p.Statement, bound: Bound) -> bool:
    """Whether a tensor has an element for each value of a variable and of those that bound it."""
    rows = {*p.index_names(bound.other)}
    reads = (node for node in p.walk(statement.rhs) if isinstance(node, p.Read))
    names = (set(p.index_names(read)) for read in reads)
    return any(bound.variable in own and rows & own for own in names)


def rows_of_data(statement: p.Statement) -> Mapping[str, frozenset[str]]:
    """The reduction variables of `data_bounded`, each with the variables of the left side for each
    of whose values there are other bounds.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.source import Source
    >>> text = "def f(int64(M) row, float(E) v) -> (y) {"
    >>> text += " y(r) +=! row(r) <= e && e < row(r + 1) ? v(e) : 0.0 where r in 0:M - 1 }"
    >>> {e: sorted(r) for e, r in rows_of_data(check(parse(Source(text))).statements[0]).items()}
    {'e': ['r']}
    """
    rows = {v: frozenset[str]() for v in data_bounded(statement)}
    for bound in _bounds(statement):
        if bound.variable in rows:
            rows[bound.variable] |= {*p.index_names(bound.other)}.intersection(statement.outer)
    return rows


def spread_by_data(statement: p.Statement) -> frozenset[str]:
    """The variables of the left side that data bound from both sides, for each value of what is
    reduced: rows of terms go to rows of elements."""
    of_data = [b for b in _bounds(statement, statement.outer) if _reads(b.other)]
    below = {b.variable for b in of_data if b.op in (">", ">=")}
    return frozenset(b.variable for b in of_data if b.op in ("<", "<=") and b.variable in below)


def prefixes(statement: p.Statement, known: KnownSizes) -> Mapping[str, str]:
    """The variables of a left side of which each value has the terms of the value before, or
    behind, and one more; with the variable that is reduced.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.source import Source
    >>> text = "def f(float(N) x) -> (o) { o(i) +=! j <= i ? x(j) : 0.0 where i in 0:N }"
    >>> prefixes(check(parse(Source(text))).statements[0], KnownSizes({"N": 9}, {}, {}))
    {'i': 'j'}
    """
    if not isinstance(statement.rhs, p.Select):
        return {}
    found: dict[str, str] = {}
    own = [b for b in _bounds(statement) if not _reads(b.other)]
    for bound in own:
        form = linear_form(bound.other, known)
        if form is None or list(form.terms.values()) != [1]:
            continue
        (outer,) = form.terms
        others = [b for b in own if b is not bound and outer in p.index_names(b.other)]
        inside = [test for test in p.conjuncts(statement.rhs.condition) if not _is_bound(test)]
        is_free = outer not in {
            *p.index_names(statement.rhs.then),
            *(name for test in inside for name in p.index_names(test)),
        }
        if outer in statement.outer and is_free and not others:
            found[outer] = bound.variable
    return found


def bounding_variables(statement: p.Statement) -> frozenset[str]:
    """The variables that bounds of reduction variables depend on: along them, sums are of unlike
    lengths."""
    return frozenset(name for b in _bounds(statement) for name in p.index_names(b.other))


def keeps_order(statement: p.Statement, known: KnownSizes) -> bool:
    """Whether a reduction is over rows whose ends data say (X6), or over prefixes (X3), or data say
    where its terms belong (X2): its loops stand by themselves, in the order of its terms."""
    if statement.op == "=" or not statement.reduction:
        return False
    if data_bounded(statement) or spread_by_data(statement) or is_selected_by_data(statement):
        return True
    return bool(prefixes(statement, known))


def _bounds(statement: p.Statement, of: Collection[str] | None = None) -> Iterator[Bound]:
    """The bounds of some variables, of those that are reduced where none are given, by others than
    these, or by data at any other."""
    rhs = conditional_term(statement)
    if rhs is None:
        return
    reduced = set(statement.reduction if of is None else of)
    for test in p.conjuncts(rhs.condition):
        if not isinstance(test, p.Compare) or test.op not in _ORDER:
            continue
        sides = (test.op, test.left, test.right), (MIRRORED[test.op], test.right, test.left)
        for op, one, other in sides:
            if not isinstance(one, p.Index) or one.name not in reduced:
                continue
            used = {one.name} if _reads(other) else reduced
            if used.isdisjoint(p.index_names(other)):
                yield Bound(one.name, op, other)


def _is_bound(test: p.Expr) -> bool:
    is_order = isinstance(test, p.Compare) and test.op in _ORDER
    return is_order and any(isinstance(side, p.Index) for side in p.children(test))


def _reads(expr: p.Expr) -> bool:
    return any(isinstance(node, p.Read) and node.subscripts for node in p.walk(expr))
