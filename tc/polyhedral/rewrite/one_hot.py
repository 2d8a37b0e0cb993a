"""Reductions whose terms go where data say: `h(p) +=! I(n) == p ? x(n) : 0`, as terms with places.

`one_hot` finds them; `NumberedTerms` makes the statements that rewrites of them need, which name
terms by their numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from tc.dtypes import INT64, limits
from tc.polyhedral.rewrite.expressions import Expressions
from tc.polyhedral.rewrite.rewriting import Rewriting, unused_name
from tc.semantics import program as p
from tc.semantics.dependent_ranges import substituted
from tc.semantics.selected_sums import Selection, selections


@dataclass(frozen=True)
class OneHot:
    """A reduction whose terms data send to places. `selected` has, for each variable of the left
    side that a term selects, the value that it selects; which `tests` decide, in order, beside
    these, and what else is asked of a term, `rest`. The places depend on the reduction variables
    `terms` and on the variables `batch` of the left side."""

    old: p.ShapedStatement
    selected: Mapping[str, Selection]
    tests: tuple[p.Expr, ...]
    rest: tuple[p.Expr, ...]
    terms: tuple[str, ...]
    batch: tuple[str, ...]

    @property
    def rhs(self) -> p.Select:
        rhs = self.old.statement.rhs
        assert isinstance(rhs, p.Select)
        return rhs

    def count(self, variables: Sequence[str]) -> int:
        return prod(self.old.ranges[v].extent for v in variables)

    @property
    def places(self) -> int:
        return self.count([*self.selected])

    @property
    def comparisons(self) -> int:
        """How many there are, if each element compares itself with each term."""
        return self.count(self.old.statement.variables)

    def bounds(self, variable: str, of: Expressions) -> tuple[p.Expr, p.Expr]:
        """The tests that a term selects a value of a variable."""
        own, key = self.old.ranges[variable], of.converted(self.selected[variable].value, INT64)
        begin, end = of.number(own.begin), of.number(own.end)
        return of.compare("<=", begin, key), of.compare("<", key, end)

    def moved(self, expr: p.Expr, of: Expressions) -> p.Expr:
        """An expression of a term, where the term belongs."""
        for variable, selection in self.selected.items():
            expr = substituted(expr, variable, of.converted(selection.value, INT64))
        return expr

    def conditions(self, of: Expressions) -> list[p.Expr]:
        """What holds of a term that belongs somewhere, in order, where it belongs."""
        tests: list[p.Expr] = []
        for test in (*self.tests, *self.rest):
            variable = next((v for v, s in self.selected.items() if s.test is test), None)
            tests += (test,) if variable is None else self.bounds(variable, of)
        return [self.moved(test, of) for test in tests]


def one_hot(old: p.ShapedStatement) -> OneHot | None:
    """A statement as terms that data send to places; None where it is something else."""
    statement, found = old.statement, selections(old.statement)
    found = {v: each for v, each in found.items() if _fits(each, old.ranges[v])}
    data = [e for each in found.values() for e in p.walk(each.value) if isinstance(e, p.Read)]
    if not found or not data or not isinstance(statement.rhs, p.Select):
        return None
    tests: list[p.Expr] = []
    rest: list[p.Expr] = []
    rows = {*statement.outer}
    for test in p.conjuncts(statement.rhs.condition):
        selection = any(test is each.test for each in found.values())
        of_term = rows.isdisjoint(p.index_names(test)) or _is_of(test, found)
        (tests if not rest and (selection or of_term) else rest).append(test)
    if any(each.test in rest for each in found.values()):
        return None
    values = [*(each.value for each in found.values()), *_others(tests, found)]
    used = {name for value in values for name in p.index_names(value)}
    if used & found.keys():
        return None
    terms = tuple(v for v in statement.reduction if v in used)
    batch = tuple(v for v in statement.outer if v in used)
    if not terms or any(old.ranges[v].begin < 0 for v in batch):
        return None
    return OneHot(old, found, tuple(tests), tuple(rest), terms, batch)


def _is_of(test: p.Expr, found: Mapping[str, Selection]) -> bool:
    """Whether a test asks nothing but what the places depend on."""
    used = {name for each in found.values() for name in p.index_names(each.value)}
    return used.issuperset(p.index_names(test))


def _others(tests: Sequence[p.Expr], found: Mapping[str, Selection]) -> list[p.Expr]:
    return [t for t in tests if not any(t is each.test for each in found.values())]


def _fits(selection: Selection, own: p.Range) -> bool:
    """Whether a variable has its value in the type in which the selection compares it."""
    low, high = limits(selection.dtype)
    return low <= own.begin and own.end - 1 <= high


@dataclass
class NumberedTerms:
    """Makes statements over the terms of a reduction by their numbers in the order of the text."""

    found: OneHot
    rewriting: Rewriting
    made: list[p.ShapedStatement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.old, self.of = self.found.old, Expressions(self.found.old.statement.span)
        self.names: set[str] = set()

    def unused(self, *names: str) -> list[str]:
        """Names of variables, with numbers where they are taken."""
        taken = {*self.old.statement.variables, *self.rewriting.shaped.program.tensors}
        taken |= {*self.rewriting.shaped.program.sizes}
        found: list[str] = []
        for name in names:
            found.append(unused_name(name, {*taken, *found}))
        return found

    def add(
        self,
        name: str,
        rhs: p.Expr,
        over: Mapping[str, int | p.Range],
        *,
        into: str = "",
        shape: Sequence[int] = (),
        place: Sequence[p.Expr] | None = None,
        op: str = "=",
        reduced: tuple[str, ...] = (),
        conditions: tuple[p.Expr, ...] = (),
    ) -> str:
        """A statement for each batch, over more variables with these ranges, or extents from 0 on,
        into a new tensor or one that there is. Returns the tensor."""
        old, batch = self.old, self.found.batch
        if place is None:
            place = [self.of.index(v) for v in over if v not in reduced]
            shape = [_end(values) for v, values in over.items() if v not in reduced]
        if not into:
            lead = tuple(old.ranges[v].end for v in batch)
            target = f"{old.statement.target}.{name}"
            into = self.rewriting.temporary(target, rhs.dtype, (*lead, *shape), self.of.span)
        ranges = {v: old.ranges[v] for v in batch}
        ranges |= {v: n if isinstance(n, p.Range) else p.Range(0, n) for v, n in over.items()}
        whole = (*map(self.of.index, batch), *place)
        name = unused_name(name, self.names)
        self.names.add(name)
        self.made.append(
            self.rewriting.made(
                old, name, into, whole, rhs, ranges, op=op, reduced=reduced, conditions=conditions
            )
        )
        return into

    def at(self, tensor: str, *place: p.Expr) -> p.Expr:
        """An element of a tensor of this batch."""
        whole = (*map(self.of.index, self.found.batch), *place)
        return self.rewriting.read(tensor, whole, self.of.span)

    def term(self, expr: p.Expr, number: p.Expr) -> p.Expr:
        """An expression of the term that has a number in the order of the text."""
        ranges = [self.old.ranges[v] for v in self.found.terms]
        digits = self.of.digits(number, [own.extent for own in ranges])
        for variable, own, digit in zip(self.found.terms, ranges, digits, strict=True):
            expr = substituted(expr, variable, self.of.plus(digit, own.begin))
        return expr


def _end(values: int | p.Range) -> int:
    return values.end if isinstance(values, p.Range) else values
