"""Integer expressions over a box of values: which quotients they have, where comparisons, `min`,
`max` and `abs` turn, what is left of them where the box decides them, and statements in which a
variable is a form of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise, product
from math import gcd, lcm

from tc.affine.forms import Form, LinearForm, assembled, decide, split
from tc.affine.intervals import Box
from tc.dtypes import BOOL, INT64
from tc.polyhedral.rewrite.rewriting import rewrite
from tc.semantics import program as p
from tc.semantics.affine import linear_form
from tc.semantics.size_values import KnownSizes, evaluate

_STEPS = {"<": (0,), ">=": (0,), "<=": (1,), ">": (1,), "==": (0, 1), "!=": (0, 1)}
"""From which values of a difference on a comparison has another value."""

MAX_PARTS = 8
"""The most linear forms of which a subscript of `min`, `max` and `abs` may be made."""


def quotients(expr: p.Expr, variable: str, known: KnownSizes) -> Iterator[tuple[LinearForm, int]]:
    """The dividends that move with a variable, and their divisors."""
    for node in p.walk(expr):
        if isinstance(node, p.Binary) and node.op in "/%" and node.dtype == INT64:
            divisor, form = evaluate(node.right, known), linear_form(node.left, known, exact=True)
            if divisor and divisor > 0 and form and form.terms.get(variable):
                yield form, divisor


def period_of(divided: Iterable[tuple[LinearForm, int]], variable: str) -> int:
    """The least number by which a variable must grow for all of its quotients to grow by whole
    numbers; 1 where there are none.

    >>> from tc.affine.forms import Form
    >>> period_of([(Form(0, {"x": 2}), 6), (Form(1, {"x": 1}), 2)], "x")
    6
    """
    return lcm(*(m // gcd(m, form.terms[variable]) for form, m in divided))


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
        if form is not None and list(form.terms) == [variable]:
            assert isinstance(node, p.Compare)
            yield node.op, form


def difference(node: p.Compare, known: KnownSizes) -> LinearForm | None:
    """What a comparison compares with 0, where that is linear."""
    if node.left.dtype != INT64:
        return None
    left = linear_form(node.left, known, exact=True)
    right = linear_form(node.right, known, exact=True)
    return left and right and left - right


def bends(expr: p.Expr, variable: str, known: KnownSizes, box: Box[str]) -> Iterator[int]:
    """The values of a variable at which a `min`, `max` or `abs` in a subscript, all over a box of
    the other variables, begins to take one of its operands, or ceases to."""
    for read in p.walk(expr):
        if isinstance(read, p.Read):
            for form in (f for s in read.subscripts for n in p.walk(s) for f in _turned(n, known)):
                factor = form.terms.get(variable)
                if factor:
                    rest = Form(
                        form.constant, {n: c for n, c in form.terms.items() if n != variable}
                    )
                    yield from (first_beyond(factor, end) for end in {*rest.interval(box)})


def _turned(node: p.Expr, known: KnownSizes) -> Iterator[LinearForm]:
    """The forms whose signs say which operand a `min` or `max` is, or which sign `abs` gives."""
    match node:
        case p.Binary(op=("min" | "max"), left=left, right=right) if node.dtype == INT64:
            for one, other in product(_linear_parts(left, known), _linear_parts(right, known)):
                yield one - other
        case p.Call(function="abs", args=(operand,)) if node.dtype == INT64:
            yield from _linear_parts(operand, known)


def _linear_parts(expr: p.Expr, known: KnownSizes) -> list[LinearForm]:
    """The linear forms one of which an integer expression is at each point; none where there may be
    others, or more than MAX_PARTS."""
    found: list[LinearForm] = []
    match expr:
        case p.Binary(op=("min" | "max"), left=left, right=right):
            parts = _linear_parts(left, known), _linear_parts(right, known)
            found = [*parts[0], *parts[1]] if all(parts) else []
        case p.Call(function="abs", args=(operand,)):
            found = [form.times(sign) for form in _linear_parts(operand, known) for sign in (1, -1)]
        case p.Binary(op=("+" | "-") as op, left=left, right=right):
            pairs = product(_linear_parts(left, known), _linear_parts(right, known))
            found = [one.plus(other, 1 if op == "+" else -1) for one, other in pairs]
        case _:
            form = linear_form(expr, known, exact=True)
            found = [] if form is None else [form]
    return found if expr.dtype == INT64 and len(found) <= MAX_PARTS else []


def values_where(
    test: p.Expr, variable: str, values: tuple[int, int], known: KnownSizes
) -> tuple[int, int] | None:
    """The values of a variable, out of a range, for which a test of nothing else holds; None where
    it is no such test, or where these are no range."""
    form = difference(test, known) if isinstance(test, p.Compare) else None
    if form is None or list(form.terms) != [variable]:
        return None
    assert isinstance(test, p.Compare)
    begin, _ = values
    parts = [
        (low, high)
        for low, high in pairwise(cut(values, turning_points(test, variable, known)))
        if _comparison(test, known, {variable: (low, high - 1)})
    ]
    if any(one[1] != other[0] for one, other in pairwise(parts)):
        return None
    return (parts[0][0], parts[-1][1]) if parts else (begin, begin)


def cut(values: tuple[int, int], at: Iterable[int]) -> list[int]:
    """Where the parts of a range begin that is cut at some values, and where the last one ends.

    >>> cut((0, 9), (4, 2, -1, 9))
    [0, 2, 4, 9]
    """
    begin, end = values
    return sorted({begin, end, *(v for v in at if begin < v < end)})


def turning_points(expr: p.Expr, variable: str, known: KnownSizes) -> Iterator[int]:
    """The values of a variable from which on comparisons of it alone have another value."""
    for op, form in _compared(expr, variable, known):
        yield from (first_beyond(form.terms[variable], form.constant - s) for s in _STEPS[op])


def simplified(expr: p.Expr, known: KnownSizes, box: Box[str]) -> p.Expr:
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
            case p.Binary(op=("min" | "max")) | p.Call(function="abs") if node.dtype == INT64:
                return _straight(node, known, box)
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


def _straight(node: p.Binary | p.Call, known: KnownSizes, box: Box[str]) -> p.Expr:
    """The operand that a `min`, `max` or `abs` is all over a box, with its sign."""
    operands = p.children(node)
    forms = [linear_form(operand, known, exact=True) for operand in operands]
    form, other = forms[0], forms[-1]
    if form is None or other is None:
        return node
    low, high = (form if len(forms) == 1 else form - other).interval(box)
    if low < 0 < high:
        return node
    if isinstance(node, p.Call):
        return operands[0] if low >= 0 else linear_expression(form.times(-1), node)
    return operands[(low >= 0) == (node.op == "min")]


def _decided(node: p.Logical) -> p.Expr:
    """A conjunction or disjunction without constants."""
    left, right = node.operands
    for one, other in ((left, right), (right, left)):
        if isinstance(one, p.Literal):
            return other if bool(one.value) == (node.op == "&&") else one
    return node


def _quotient(node: p.Binary, known: KnownSizes, box: Box[str]) -> p.Expr:
    divisor, form = evaluate(node.right, known), linear_form(node.left, known, exact=True)
    parts = split(form, divisor, box) if form is not None and divisor and divisor > 0 else None
    return node if parts is None else linear_expression(parts["/%".index(node.op)], node)


def _comparison(node: p.Compare, known: KnownSizes, box: Box[str]) -> bool | None:
    """The value that a comparison has all over a box, None where it has both."""
    form = difference(node, known)
    return None if form is None else decide(node.op, form, box)


def linear_expression(form: LinearForm, like: p.Expr) -> p.Expr:
    """A linear form as an expression, with the place of another one."""
    span = like.span

    def number(value: int) -> p.Expr:
        return p.Literal(value, INT64, span=span)

    def term(name: str, coefficient: int) -> p.Expr:
        index = p.Index(name, span=span)
        if coefficient == -1:
            return p.Unary("-", index, INT64, span=span)
        return index if coefficient == 1 else binary("*", number(coefficient), index)

    def binary(op: str, left: p.Expr, right: p.Expr) -> p.Expr:
        return p.Binary(op, left, right, INT64, span=span)

    return assembled(form, term, number, binary)


# --- statements -------------------------------------------------------------------------------


def is_walked(statement: p.Statement, variable: str) -> bool:
    """Whether memory is walked along a variable: it is in the last subscript of an access."""
    reads = (n.subscripts for n in p.walk(statement.rhs) if isinstance(n, p.Read))
    last = (subscripts[-1] for subscripts in (statement.subscripts, *reads) if subscripts)
    return any(variable in p.index_names(subscript) for subscript in last)


def substituted(statement: p.Statement, values: Mapping[str, LinearForm]) -> p.Statement:
    """The statement in which some variables are forms of others, which take their places."""

    def moved(node: p.Expr) -> p.Expr:
        if isinstance(node, p.Index) and node.name in values:
            return linear_expression(values[node.name], node)
        return node

    def renamed(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(new for v in names for new in (values[v].terms if v in values else (v,)))

    return replace(
        statement,
        rhs=rewrite(statement.rhs, moved),
        subscripts=tuple(rewrite(subscript, moved) for subscript in statement.subscripts),
        outer=renamed(statement.outer),
        variables=renamed(statement.variables),
    )
