"""Sums whose terms say where they belong, as gradients of gathers are: `I(n) == x ? A(n, d) : 0`.

Read literally, each element compares itself with all terms. Where the condition is in a form that
is recognised, a processor goes through the terms once, and adds each where it belongs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from tc.builtins import identity
from tc.dtypes import DType
from tc.semantics import program as p

MIN_SELECTED_EXTENT = 8
"""The fewest values of a variable of which a condition picks one, where selecting the one pays."""

WARNED_COMPARISONS = 1 << 22
"""Comparisons of one statement from which on a call is warned: they take some milliseconds."""


def conditional_term(statement: p.Statement) -> p.Select | None:
    """The right-hand side of a reduction, if it is a term under a condition, and else what changes
    no result.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.source import Source
    >>> text = "def f(int64(N) x) -> (o) {{ o(i) min=! j < i ? x(j) : {} where i in 0:N }}"
    >>> for other in (2**63 - 1, 2**63 - 2):
    ...     (statement,) = check(parse(Source(text.format(other)))).statements
    ...     print(conditional_term(statement) is not None)
    True
    False
    """
    rhs = statement.rhs
    if statement.op == "=" or not isinstance(rhs, p.Select):
        return None
    if not isinstance(rhs.otherwise, p.Literal):
        return None
    value, neutral = rhs.otherwise.value, identity(statement.op, rhs.dtype)
    if rhs.dtype.is_float:  # of two zeros, one is neutral
        return rhs if repr(float(value)) == repr(float(neutral)) else None
    return rhs if value == neutral else None


def selected_variables(statement: p.Statement) -> Mapping[str, frozenset[str]]:
    """The variables of a left side for which a term of a reduction is the identity but at one
    value, each with the variables that this value depends on.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.source import Source
    >>> text = "def f(float(B,N) a, int(B,N) I) -> (o) {"
    >>> text += " o(b,x) +=! I(b,n) == x ? a(b,n) : 0 where x in 0:9 }"
    >>> found = selected_variables(check(parse(Source(text))).statements[0])
    >>> {name: sorted(of) for name, of in found.items()}
    {'x': ['b', 'n']}
    """
    if statement.op == "=":
        return {}
    found: dict[str, frozenset[str]] = {}
    for one, other in _equalities(statement):
        named = frozenset(p.index_names(other))
        if isinstance(one, p.Index) and one.name in {*statement.outer} - named:
            found.setdefault(one.name, named)
    return found


class Selection(NamedTuple):
    """The value that a term selects of a variable, the test that says so, and the type in which the
    test compares the variable."""

    test: p.Expr
    value: p.Expr
    dtype: DType


def selections(statement: p.Statement) -> Mapping[str, Selection]:
    """What the terms of a reduction select of variables of the left side, each of which occurs in
    one test; values of other types are converted by the tests.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.symbolic_text import to_text
    >>> from tc.source import Source
    >>> text = "def f(float(B,N) a, int(B,N) I) -> (o) {"
    >>> text += " o(b,x) +=! I(b,n) == x ? a(b,n) : 0 where x in 0:9 }"
    >>> found = selections(check(parse(Source(text))).statements[0])
    >>> {name: to_text(each.value) for name, each in found.items()}
    {'x': 'I(b, n)'}
    """
    found: dict[str, Selection] = {}
    selected = selected_variables(statement)
    tests = p.conjuncts(statement.rhs.condition) if isinstance(statement.rhs, p.Select) else []
    for test in tests if selected else ():
        if not isinstance(test, p.Compare) or test.op != "==":
            continue
        for one, other in ((test.left, test.right), (test.right, test.left)):
            own = _converted(one)
            if not isinstance(own, p.Index) or own.name not in selected:
                continue
            if other.dtype.is_integer and own.name not in p.index_names(other):
                found.setdefault(own.name, Selection(test, other, one.dtype))
                break
    return found


def is_selected_by_data(statement: p.Statement) -> bool:
    """Whether data say to which element a term of a reduction belongs."""
    if statement.op == "=":
        return False
    return any(
        isinstance(one, p.Index)
        and one.name in statement.outer
        and any(isinstance(node, p.Read) for node in p.walk(other))
        for one, other in _equalities(statement)
    )


def _equalities(statement: p.Statement) -> Iterator[tuple[p.Expr, p.Expr]]:
    """The sides, in both orders, of the equalities that a term other than the identity is
    conditional on."""
    rhs = conditional_term(statement)
    if rhs is None:
        return
    for test in p.conjuncts(rhs.condition):
        if isinstance(test, p.Compare) and test.op == "==":
            sides = _converted(test.left), _converted(test.right)
            yield from (sides, sides[::-1])


def _converted(expr: p.Expr) -> p.Expr:
    """Without conversions between integers: those that would change a value are seen to later."""
    while isinstance(expr, p.Convert) and expr.dtype.is_integer and expr.operand.dtype.is_integer:
        expr = expr.operand
    return expr


def comparison_warnings(shaped: p.ShapedProgram, *, check: bool) -> Iterator[p.ProgramWarning]:
    """The warnings about sums in which each element compares itself with what data say of each
    term, many times in all, in a form that no processor's code recognises."""
    for each in shaped.statements:
        statement, ranges = each.statement, each.ranges
        if statement.op != "+" or not statement.reduction:
            continue
        compared = {
            name
            for one, other in _equalities(statement)
            if any(isinstance(node, p.Read) for node in p.walk(other))
            for name in p.index_names(one)
            if name in statement.outer and ranges[name].extent >= MIN_SELECTED_EXTENT
        }
        recognised = selected_variables(statement).keys() >= compared
        is_tested = check and bool(each.checked)
        if not compared or (recognised and not is_tested):
            continue
        instances = math.prod(ranges[v].extent for v in statement.variables)
        places = math.prod(ranges[v].extent for v in compared)
        if instances < WARNED_COMPARISONS:
            continue
        why = (
            "its terms have tests of their own, of places or divisors that data decide"
            if recognised
            else "no condition says `I(n) == x` of an index x of the left side"
        )
        yield p.ProgramWarning(
            "D13",
            f"{statement.name}, {statement.text}, compares each of {places:,} places with all"
            f" terms, {instances:,} comparisons in all, {places:,} times as many as there are"
            f" terms: {why}",
            span=statement.span,
            repair="check=False, which leaves out the tests"
            if recognised
            else "a term whose condition is the place alone, or a scatter outside of tc",
        )
