"""Sums of products with a factor that is 0 unless remainders are 0, as sums that test these first.

Of `o(y) +=! ((y - k) % 2 == 0 ? x((y - k) / 2) : 0) * w(k)`, a transposed convolution, every other
term is 0 times a weight: for nothing, unless the weight is an infinity or a NaN, which 0 makes NaN.
What such terms add depends on the remainder of y alone: `z(r) +=! (r - k) % 2 == 0 ? 0 : 0 * w(k)`
for r in 0:2. With that as its start, the sum is `o(y) += (y - k) % 2 == 0 ? x((y - k) / 2) * w(k) :
0`, whose residue classes have the terms that are there (`residue_classes`). A sum that goes on from
a statement before it starts from the values of that statement, plus these; and as -0 + 0 is 0, no
term that is 0 counts from there on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import TypeGuard

from tc.affine.forms import Form, LinearForm
from tc.dtypes import INT64
from tc.polyhedral.rewrite.expressions import conjunction
from tc.polyhedral.rewrite.rewriting import Rewriting, unused_name
from tc.polyhedral.rewrite.simplifying import period_of, quotients, substituted
from tc.semantics import program as p
from tc.semantics.factors import factors
from tc.semantics.size_values import KnownSizes, evaluate

LEAST_SHARE = 8
"""How many times as many terms as terms of what is added by those that are 0 a sum has at least."""

_ZEROS = "zeros"


def is_of_zeros(statement: str) -> bool:
    """Whether a statement of that name sums terms that are 0.

    >>> is_of_zeros("S0.zeros")
    True
    """
    return statement.endswith(f".{_ZEROS}")


@dataclass(frozen=True, slots=True)
class SelectedSum:
    """A sum whose terms are 0 where a test at their root fails. It goes on from `start`, which has
    the same variables and ranges and stores no -0, or starts at 0; `before` computes `zeros`, what
    terms that are 0 add, which the start reads."""

    before: tuple[p.ShapedStatement, ...]
    start: p.ShapedStatement | None
    sum: p.ShapedStatement
    zeros: str | None = None


def selected_sum(
    old: p.ShapedStatement,
    start: p.ShapedStatement | None,
    rewriting: Rewriting,
    known: KnownSizes,
) -> SelectedSum | None:
    """A sum, without checks, that starts at 0 or goes on from `start` (`starts_sum`), with its
    tests of remainders at the root; None where it has none."""
    statement = old.statement
    if statement.op != "+" or not (statement.init or start) or not statement.reduction:
        return None
    found = _zero_factor(statement.rhs, known)
    zero = p.Literal(0, statement.rhs.dtype, span=statement.span)
    if found is None:
        if not _is_selected(statement.rhs) or not (start or _tests(statement.rhs, known)):
            return None
        return SelectedSum((), start and _plus(start, zero, old, rewriting), old)
    factor, tests, others = found
    terms = _with_factor(statement.rhs, factor, others)
    root = p.Select(tests, terms, zero, statement.rhs.dtype, span=statement.rhs.span)
    new = replace(old, statement=replace(statement, rhs=root))
    if not statement.rhs.dtype.is_float:  # 0 times an integer is 0
        return SelectedSum((), start, new)
    spoils = _zero_terms(old, factor, tests, rewriting, known)
    if spoils is None:
        return None
    before, read = spoils
    if start is None:
        first = replace(
            statement, name=f"{statement.name}.start", op="=", init=False, continues="", rhs=read
        )
        first = replace(first, variables=statement.outer)
        start = rewriting.changed(first, old.ranges, old)
    else:
        start = _plus(start, read, old, rewriting)
    new = replace(new, statement=replace(new.statement, init=False, continues="written"))
    return SelectedSum((before,), start, new, before.statement.target)


def starts_sum(start: p.ShapedStatement, old: p.ShapedStatement) -> bool:
    """Whether a statement gives all elements that a sum goes on from their values, at the place of
    its indices, and neither tests anything nor reads what it writes."""
    one, other = start.statement, old.statement
    return (
        one.target == other.target
        and (one.op, other.op, other.init) == ("=", "+", False)
        and not (start.checked or start.is_empty or old.checked or old.is_empty)
        and not any(isinstance(n, p.Read) and n.tensor == one.target for n in p.walk(one.rhs))
        and all(_stands_at_indices(each) for each in (one, other))
        and _box(start) == _box(old)
    )


def _box(each: p.ShapedStatement) -> list[tuple[int, int]]:
    return [(each.ranges[v].begin, each.ranges[v].end) for v in each.statement.outer]


def _stands_at_indices(statement: p.Statement) -> bool:
    names = [s.name for s in statement.subscripts if isinstance(s, p.Index)]
    return len(names) == len(statement.subscripts) and tuple(names) == statement.outer


def _plus(
    start: p.ShapedStatement, zero: p.Expr, old: p.ShapedStatement, rewriting: Rewriting
) -> p.ShapedStatement:
    """A start over the variables of its sum, plus a 0, or what terms that are 0 add."""
    pairs = zip(start.statement.outer, old.statement.outer, strict=True)
    own = substituted(start.statement, {one: Form(0, {other: 1}) for one, other in pairs})
    if own.rhs.dtype.is_float:
        own = replace(own, rhs=p.Binary("+", own.rhs, zero, own.rhs.dtype, span=own.span))
    return rewriting.changed(own, old.ranges, start)


def _is_selected(rhs: p.Expr) -> TypeGuard[p.Select]:
    return isinstance(rhs, p.Select) and p.is_zero(rhs.otherwise)


def _tests(rhs: p.Select, known: KnownSizes) -> list[p.Expr]:
    """The tests of remainders by which terms are selected."""
    return [test for test in p.conjuncts(rhs.condition) if _is_periodic(test, known)]


def _zero_factor(rhs: p.Expr, known: KnownSizes) -> tuple[p.Select, p.Expr, p.Expr] | None:
    """A factor that is 0 unless remainders have some values: it, the tests of these, and the factor
    where they hold."""
    for factor in factors(rhs):
        if factor is rhs or not _is_selected(factor):
            continue
        chosen = _tests(factor, known)
        left = conjunction([t for t in p.conjuncts(factor.condition) if t not in chosen])
        condition = conjunction(chosen)
        if condition is not None:
            then = factor.then if left is None else replace(factor, condition=left)
            return factor, condition, then
    return None


def _is_periodic(test: p.Expr, known: KnownSizes) -> bool:
    """Whether a test compares remainders with numbers."""
    if not isinstance(test, p.Compare) or test.left.dtype != INT64:
        return False
    sides = (test.left, test.right)
    remainders = [s for s in sides if isinstance(s, p.Binary) and s.op == "%"]
    return len(remainders) == 1 and all(
        evaluate(side.right if isinstance(side, p.Binary) and side.op == "%" else side, known)
        is not None
        for side in sides
    )


def _with_factor(rhs: p.Expr, factor: p.Expr, new: p.Expr) -> p.Expr:
    """A product with another factor in the place of one."""
    if rhs is factor:
        return new
    if isinstance(rhs, p.Binary) and rhs.op == "*":
        left, right = (_with_factor(side, factor, new) for side in (rhs.left, rhs.right))
        return (
            rhs if left is rhs.left and right is rhs.right else replace(rhs, left=left, right=right)
        )
    return rhs


def _zero_terms(
    old: p.ShapedStatement,
    factor: p.Select,
    tests: p.Expr,
    rewriting: Rewriting,
    known: KnownSizes,
) -> tuple[p.ShapedStatement, p.Expr] | None:
    """A statement that sums the terms that are 0 times other factors, for each remainder of the
    variables of the left-hand side that are tested, and the element of it that a sum starts from;
    None where these are not few beside the sum's own."""
    statement = old.statement
    zero = p.Literal(0, statement.rhs.dtype, span=statement.span)
    product = _with_factor(statement.rhs, factor, zero)
    used, tested = {*p.index_names(product)}, {*p.index_names(tests)}
    ranges, values, outer = dict(old.ranges), dict[str, LinearForm](), list[str]()
    subscripts: list[p.Expr] = []
    taken = {*statement.variables, *rewriting.shaped.program.tensors}
    for variable in statement.outer:
        period = period_of(quotients(tests, variable, known), variable)
        index = p.Index(variable, span=statement.span)
        if variable in tested:
            if variable in used:
                return None
            residue = unused_name(f"{variable}_mod", taken)
            ranges[residue], values[variable] = p.Range(0, period), Form(0, {residue: 1})
            divisor = p.Literal(period, INT64, span=statement.span)
            subscripts.append(p.Binary("%", index, divisor, INT64, span=statement.span))
            outer.append(residue)
        elif variable in used:
            if old.ranges[variable].begin:
                return None
            subscripts.append(index)
            outer.append(variable)
    summed = tuple(v for v in statement.reduction if v in used | tested)
    own = prod(ranges[v].extent for v in (*outer, *summed))
    if not summed or own * LEAST_SHARE > prod(old.ranges[v].extent for v in statement.variables):
        return None
    term = p.Select(tests, zero, product, statement.rhs.dtype, span=statement.rhs.span)
    made = substituted(replace(statement, rhs=term, init=True, continues=""), values)
    placed = replace(old, statement=made, ranges=ranges)
    terms = rewriting.again(made.rhs)
    before, read = rewriting.store(placed, terms, tuple(outer), summed, name=_ZEROS, kind="z")
    return before, replace(read, subscripts=tuple(subscripts))
