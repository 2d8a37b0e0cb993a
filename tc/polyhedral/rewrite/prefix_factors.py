"""Prefixes as values, and those whose terms have factors, or a divisor, of the element alone.

`o(i) +=! j <= i ? a(i) * x(j) : 0` becomes `t(i) +=! j <= i ? x(j) : 0` and `o(i) = a(i) * t(i)`:
each sum then has the terms of the one before, and one more (X3). So it is with integers, which wrap
around, and form a ring, and with floats where `semantics.factors`, by which the error bound knows
of it, says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tc.builtins.operators import MIRRORED
from tc.polyhedral.rewrite.expressions import Expressions, conjunction
from tc.polyhedral.rewrite.rewriting import Rewriting
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.bounded_sums import prefixes
from tc.semantics.factors import factors_of_prefix, shared_factors
from tc.semantics.size_values import KnownSizes, evaluate


@dataclass(frozen=True)
class Prefix:
    """A reduction of which each value of `outer` has the terms of the variable `reduced` before
    that value and a `shift`, or those from there on (`is_suffix`). `tests` are what else is asked
    of a term, and not certain."""

    old: p.ShapedStatement
    outer: str
    reduced: str
    shift: int
    is_suffix: bool
    tests: tuple[p.Expr, ...]

    @property
    def rhs(self) -> p.Select:
        rhs = self.old.statement.rhs
        assert isinstance(rhs, p.Select)
        return rhs

    def has_terms(self) -> p.Expr | None:
        """Whether an element has terms; None where each has some."""
        terms, values = self.old.ranges[self.reduced], self.old.ranges[self.outer]
        of = Expressions(self.rhs.span)
        edge = of.plus(of.index(self.outer), self.shift)
        if self.is_suffix:
            is_sure = values.end - 1 + self.shift < terms.end
            return None if is_sure else of.compare("<", edge, of.number(terms.end))
        is_sure = terms.begin < values.begin + self.shift
        return None if is_sure else of.compare("<", of.number(terms.begin), edge)


def prefix_of(old: p.ShapedStatement, known: KnownSizes) -> Prefix | None:
    """The prefix of a reduction over one."""
    found = prefixes_of(old, known)
    return found[0] if len(found) == 1 else None


def prefixes_of(old: p.ShapedStatement, known: KnownSizes) -> tuple[Prefix, ...]:
    """The prefixes of a reduction, each in a dimension of its own; nothing where one has another
    form."""
    rhs = old.statement.rhs
    if not isinstance(rhs, p.Select):
        return ()
    found, left = list[Prefix](), p.conjuncts(rhs.condition)
    for outer, reduced in prefixes(old.statement, known).items():
        own = [test for test in left if {outer, reduced} <= {*p.index_names(test)}]
        one = _prefix(old, outer, reduced, own[0], known) if len(own) == 1 else None
        if one is None:
            return ()
        left.remove(own[0])
        found.append(one)
    for each in found:
        terms = old.ranges[each.reduced]
        left = [test for test in left if not _holds(test, each.reduced, terms, known)]
    return tuple(replace(each, tests=tuple(left)) for each in found)


def _prefix(
    old: p.ShapedStatement, outer: str, reduced: str, test: p.Expr, known: KnownSizes
) -> Prefix | None:
    if not isinstance(test, p.Compare):
        return None
    op, one, other = test.op, test.left, test.right
    if not isinstance(one, p.Index) or one.name != reduced:
        op, one, other = MIRRORED[op], other, one
    form = linear_form(other, known)
    if not isinstance(one, p.Index) or one.name != reduced or form is None:
        return None
    if form.terms != {outer: 1} or op not in ("<", "<=", ">", ">="):
        return None
    shift = form.constant + (op in ("<=", ">"))
    return Prefix(old, outer, reduced, shift, op in (">", ">="), ())


def factor_prefixes(shaped: p.ShapedProgram) -> p.ShapedProgram:
    """The program with factors that sums over prefixes share multiplied behind the sums; the very
    same where there are none.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.semantics.ranges.range_inference import infer_ranges
    >>> from tc.source import Source
    >>> text = "o(i) +=! j < i ? a(i) * x(j) : 0 where i in 0:N"
    >>> source = Source(f"def f(int(N) a, int(N) x) -> (o) {{ {text} }}")
    >>> shaped = infer_ranges(check(parse(source)), {"a": (9,), "x": (9,)}, {})
    >>> for statement in factor_prefixes(shaped).program.statements: print(statement.text)
    o.p0(i) +=! j < i ? x(j) : 0
    o(i) = a(i) * o.p0(i)
    """
    rewriting = Rewriting(shaped, "factored")
    known = KnownSizes(shaped.sizes, shaped.shapes, shaped.scalars)
    return rewriting.program(lambda old: _factored(old, known, rewriting))


def _factored(
    old: p.ShapedStatement, known: KnownSizes, rewriting: Rewriting
) -> list[p.ShapedStatement] | None:
    statement, rhs = old.statement, old.statement.rhs
    if old.checked or old.is_empty or statement.op != "+" or not isinstance(rhs, p.Select):
        return None
    if rhs.dtype.is_float and not factors_of_prefix(old):
        return None
    shared = shared_factors(rhs.then, statement.reduction)
    if shared is None:
        return None
    sums = replace(rhs, then=_product(shared.rest))
    found = prefixes_of(replace(old, statement=replace(statement, rhs=sums)), known)
    if len(found) <= len(prefixes(statement, known)) or found[0].tests:
        return None
    outer = tuple(v for v in statement.outer if v in p.index_names(sums))
    if any(old.ranges[v].begin < 0 for v in outer):
        return None
    reduced = statement.reduction
    made, read = rewriting.store(old, sums, outer, reduced, name="prefix", kind="p")
    value = _product([*shared.own, read])
    if shared.divisor is not None:
        value = p.Binary("/", value, shared.divisor, value.dtype, span=rhs.then.span)
    tests = [each.has_terms() for each in found if rhs.dtype.is_float]
    has_terms = conjunction([test for test in tests if test is not None])
    if has_terms is not None:  # 0 times an infinity is no sum of no terms
        value = p.Select(has_terms, value, rhs.otherwise, rhs.dtype, span=rhs.span)
    return [made, rewriting.remaining(old, value, statement.outer)]


def _product(factors: Sequence[p.Expr]) -> p.Expr:
    result, *others = factors
    for factor in others:
        result = p.Binary("*", result, factor, result.dtype, span=result.span)
    return result


def _holds(test: p.Expr, variable: str, values: p.Range, known: KnownSizes) -> bool:
    """Whether a test is that a variable is not before its first value, or behind its last."""
    match test:
        case p.Compare(op="<=", left=least, right=p.Index(name=name)) if name == variable:
            begin = evaluate(least, known)
            return begin is not None and begin <= values.begin
        case p.Compare(op="<", left=p.Index(name=name), right=end) if name == variable:
            last = evaluate(end, known)
            return last is not None and values.end <= last
    return False
