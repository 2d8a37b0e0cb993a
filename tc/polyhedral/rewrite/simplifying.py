"""Integer expressions over a box of values: which quotients they have, and what is left of these
and of comparisons where the box decides them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from tc.dtypes import BOOL, INT64
from tc.polyhedral.rewrite.rewriting import rewrite
from tc.semantics import program as p
from tc.semantics.affine import IndexRanges, LinearForm, linear_form
from tc.semantics.size_values import KnownSizes, evaluate

_STEPS = {"<": (0,), ">=": (0,), "<=": (1,), ">": (1,), "==": (0, 1), "!=": (0, 1)}
"""From which values of a difference on a comparison has another value."""


def quotients(expr: p.Expr, variable: str, known: KnownSizes) -> Iterator[tuple[LinearForm, int]]:
    """The dividends that move with a variable, and their divisors."""
    for node in p.walk(expr):
        if isinstance(node, p.Binary) and node.op in "/%" and node.dtype == INT64:
            divisor, form = evaluate(node.right, known), linear_form(node.left, known)
            if divisor and divisor > 0 and form and form.plain and form.terms.get(variable):
                yield form, divisor


def first_beyond(factor: int, constant: int) -> int:
    """The first value of a variable from which on factor * variable + constant >= 0 is as it is
    for all greater ones.

    >>> first_beyond(2, -5), first_beyond(-1, 5)
    (3, 6)
    """
    return -(constant // factor) if factor > 0 else constant // -factor + 1


def _compared(expr: p.Expr, variable: str, known: KnownSizes) -> Iterator[tuple[str, LinearForm]]:
    """The comparisons of a variable alone, with the differences of what is compared."""
    for node in p.walk(expr):
        form = difference(node, known) if isinstance(node, p.Compare) else None
        if form is not None and [name for name, c in form.terms.items() if c] == [variable]:
            assert isinstance(node, p.Compare)
            yield node.op, form


def difference(node: p.Compare, known: KnownSizes) -> LinearForm | None:
    """What a comparison compares with 0, where that is linear."""
    if node.left.dtype != INT64:
        return None
    left, right = linear_form(node.left, known), linear_form(node.right, known)
    if left is None or right is None or not (left.plain and right.plain):
        return None
    terms = dict(left.terms)
    for name, c in right.terms.items():
        terms[name] = terms.get(name, 0) - c
    return LinearForm(left.constant - right.constant, terms)


def values_where(
    test: p.Expr, variable: str, values: tuple[int, int], known: KnownSizes
) -> tuple[int, int] | None:
    """The values of a variable, out of a range, for which a test of nothing else holds; None where
    it is no such test, or where these are no range."""
    form = difference(test, known) if isinstance(test, p.Compare) else None
    if form is None or [name for name, c in form.terms.items() if c] != [variable]:
        return None
    assert isinstance(test, p.Compare)
    begin, end = values
    cuts = {begin, end, *(v for v in turning_points(test, variable, known) if begin < v < end)}
    parts = [
        (low, high)
        for low, high in pairwise(sorted(cuts))
        if _comparison(test, known, dict.fromkeys(form.terms, (low, high)))
    ]
    if any(one[1] != other[0] for one, other in pairwise(parts)):
        return None
    return (parts[0][0], parts[-1][1]) if parts else (begin, begin)


def turning_points(expr: p.Expr, variable: str, known: KnownSizes) -> Iterator[int]:
    """The values of a variable from which on comparisons of it alone have another value."""
    for op, form in _compared(expr, variable, known):
        yield from (first_beyond(form.terms[variable], form.constant - s) for s in _STEPS[op])


def simplified(expr: p.Expr, known: KnownSizes, box: IndexRanges) -> p.Expr:
    """An expression over a box of values, without the quotients and comparisons that have one
    value there, but for multiples of the divisor, and without the branches that this decides."""

    def simpler(node: p.Expr) -> p.Expr:
        match node:
            case p.Binary(op=("/" | "%"), dtype=dtype) if dtype == INT64:
                return _quotient(node, known, box)
            case p.Compare():
                value = _comparison(node, known, box)
                return node if value is None else p.Literal(value, BOOL, span=node.span)
            case p.Logical(op="&&" | "||"):
                return _decided(node)
            case p.Select(condition=p.Literal(value=value)):
                return node.then if value else node.otherwise
            case p.Select(then=p.Literal() as then, otherwise=p.Literal() as otherwise):
                return then if repr(then) == repr(otherwise) else node
            case p.Binary(op=("+" | "-" | "*"), dtype=dtype) if dtype == INT64:
                return _folded(node)
            case _:
                return node

    return rewrite(expr, simpler)


def _folded(node: p.Binary) -> p.Expr:
    """A sum or product of constants, or with 0, as one."""
    match node:
        case p.Binary(left=p.Literal(value=a), right=p.Literal(value=b)):
            value = {"+": a + b, "-": a - b, "*": a * b}[node.op]
            return p.Literal(value, INT64, span=node.span)
        case p.Binary(op=("+" | "-"), left=left, right=p.Literal(value=0)):
            return left
        case _:
            return node


def _decided(node: p.Logical) -> p.Expr:
    """A conjunction or disjunction without constants."""
    left, right = node.operands
    for one, other in ((left, right), (right, left)):
        if isinstance(one, p.Literal):
            return other if bool(one.value) == (node.op == "&&") else one
    return node


def _quotient(node: p.Binary, known: KnownSizes, box: IndexRanges) -> p.Expr:
    divisor, form = evaluate(node.right, known), linear_form(node.left, known)
    if not divisor or divisor < 0 or form is None or not form.plain:
        return node
    whole = {name: c for name, c in form.terms.items() if c % divisor == 0}
    rest = LinearForm(form.constant, {n: c for n, c in form.terms.items() if n not in whole})
    low, high = rest.rest("", box)
    if low // divisor != high // divisor:
        return node
    quotient = low // divisor
    if node.op == "%":
        return linear_expression(replace(rest, constant=rest.constant - quotient * divisor), node)
    return linear_expression(
        LinearForm(quotient, {n: c // divisor for n, c in whole.items()}), node
    )


def _comparison(node: p.Compare, known: KnownSizes, box: IndexRanges) -> bool | None:
    """The value that a comparison has all over a box, None where it has both."""
    form = difference(node, known)
    if form is None:
        return None
    low, high = form.rest("", box)
    always: Mapping[str, tuple[bool, bool]] = {
        "<": (high < 0, low >= 0),
        "<=": (high <= 0, low > 0),
        ">": (low > 0, high <= 0),
        ">=": (low >= 0, high < 0),
        "==": (low == high == 0, low > 0 or high < 0),
        "!=": (low > 0 or high < 0, low == high == 0),
    }
    is_true, is_false = always[node.op]
    return True if is_true else False if is_false else None


def linear_expression(form: LinearForm, like: p.Expr) -> p.Expr:
    """A linear form as an expression."""
    span, total = like.span, None
    for name, factor in form.terms.items():
        if not factor:
            continue
        own = factor if total is None else abs(factor)
        term: p.Expr = p.Index(name, span=span)
        if own == -1:
            term = p.Unary("-", term, INT64, span=span)
        elif own != 1:
            term = p.Binary("*", p.Literal(own, INT64, span=span), term, INT64, span=span)
        op = "+" if factor > 0 else "-"
        total = term if total is None else p.Binary(op, total, term, INT64, span=span)
    constant = p.Literal(abs(form.constant), INT64, span=span)
    if total is None:
        return replace(constant, value=form.constant)
    op = "+" if form.constant > 0 else "-"
    return p.Binary(op, total, constant, INT64, span=span) if form.constant else total
