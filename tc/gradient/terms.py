"""Expressions of gradient texts: made, simplified, and printed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from tc.dtypes import FLOAT64, INT64
from tc.semantics import program as p
from tc.semantics.ranges.symbolic_text import to_text
from tc.source import Source, Span

NOWHERE = Span(Source(""), 0, 0)
PAD = "pad"


def number(value: int) -> p.Expr:
    return p.Literal(value, INT64, span=NOWHERE)


ZERO = number(0)


def index(name: str) -> p.Expr:
    return p.Index(name, span=NOWHERE)


def read(tensor: str, subscripts: tuple[p.Expr, ...]) -> p.Read:
    return p.Read(tensor, subscripts, FLOAT64, -1, span=NOWHERE)


def _is(expr: p.Expr, value: int) -> bool:
    return isinstance(expr, p.Literal) and not isinstance(expr.value, bool) and expr.value == value


def negative(expr: p.Expr) -> p.Expr:
    if isinstance(expr, p.Unary):
        return expr.operand
    if isinstance(expr, p.Select):
        return select(expr.condition, negative(expr.then), negative(expr.otherwise))
    if _is(expr, 0):
        return expr
    return p.Unary("-", expr, FLOAT64, span=NOWHERE)


def binary(op: str, left: p.Expr, right: p.Expr) -> p.Expr:
    return p.Binary(op, left, right, INT64, span=NOWHERE)


def product(adjoint: p.Expr, factor: p.Expr) -> p.Expr:
    """A floating product in which conditions stand outermost (D7)."""
    if _is(factor, 1) or _is(adjoint, 0):
        return adjoint
    if _is(factor, 0):
        return ZERO
    if _is(factor, -1):
        return negative(adjoint)
    if isinstance(factor, p.Select) and not is_pad(factor):
        then, otherwise = product(adjoint, factor.then), product(adjoint, factor.otherwise)
        return select(factor.condition, then, otherwise)
    if isinstance(factor, p.Unary):
        return negative(product(adjoint, factor.operand))
    return binary("*", adjoint, factor)


def select(condition: p.Expr, then: p.Expr, otherwise: p.Expr = ZERO) -> p.Expr:
    if _is(then, 0) and _is(otherwise, 0):
        return ZERO
    return p.Select(condition, then, otherwise, FLOAT64, span=NOWHERE)


def compare(op: str, left: p.Expr, right: p.Expr) -> p.Expr:
    return p.Compare(op, left, right, span=NOWHERE)


def conjunction(conditions: list[p.Expr]) -> p.Expr:
    return functools.reduce(
        lambda a, b: p.Logical("&&", (a, b), span=NOWHERE), dict.fromkeys(conditions)
    )


def negation(condition: p.Expr) -> p.Expr:
    return p.Logical("!", (condition,), span=NOWHERE)


def parts(condition: p.Expr) -> list[p.Expr]:
    """The conditions of a conjunction."""
    if isinstance(condition, p.Logical) and condition.op == "&&":
        return [part for operand in condition.operands for part in parts(operand)]
    return [condition]


def bounds(access: p.Read) -> list[p.Expr]:
    """The conditions that keep a read in bounds, as `pad` is checked to (G9)."""
    found = []
    for axis, subscript in enumerate(access.subscripts):
        extent = p.Extent(access.tensor, axis, span=NOWHERE)
        found += [compare("<=", ZERO, subscript), compare("<", subscript, extent)]
    return found


def is_pad(expr: p.Expr) -> bool:
    """Whether a choice is what `pad(then, otherwise)` stands for."""
    if not isinstance(expr, p.Select):
        return False
    reads = [e for e in p.walk(expr.then) if isinstance(e, p.Read)]
    inner = any(isinstance(e, p.Select | p.Logical) for e in p.walk(expr.then))
    wanted = {condition for access in reads for condition in bounds(access)}
    return bool(wanted) and not inner and set(parts(expr.condition)) == wanted


def pad(expr: p.Expr) -> p.Expr:
    return p.Call(PAD, (expr, ZERO), FLOAT64, span=NOWHERE)


def rebuilt(expr: p.Expr, change: Callable[[p.Expr], p.Expr | None]) -> p.Expr:
    """The expression with parts replaced, from the outside in, where `change` gives something."""
    changed = change(expr)
    if changed is not None:
        return changed

    def inside(node: p.Expr) -> p.Expr:
        return rebuilt(node, change)

    match expr:
        case p.Read(subscripts=subscripts):
            return replace(expr, subscripts=tuple(map(inside, subscripts)))
        case p.Unary(operand=operand) | p.Convert(operand=operand):
            return replace(expr, operand=inside(operand))
        case p.Binary(left=left, right=right) | p.Compare(left=left, right=right):
            return replace(expr, left=inside(left), right=inside(right))
        case p.Logical(operands=operands):
            return replace(expr, operands=tuple(map(inside, operands)))
        case p.Select(condition=condition, then=then, otherwise=otherwise):
            return replace(
                expr, condition=inside(condition), then=inside(then), otherwise=inside(otherwise)
            )
        case p.Call(args=args):
            return replace(expr, args=tuple(map(inside, args)))
        case _:
            return expr


def substituted(expr: p.Expr, values: Mapping[str, p.Expr]) -> p.Expr:
    """The expression with other expressions for index variables."""

    def change(node: p.Expr) -> p.Expr | None:
        return values.get(node.name) if isinstance(node, p.Index) else None

    return rebuilt(expr, change)


def text(expr: p.Expr) -> str:
    """The expression as text, in which `pad` stands again where it was written."""

    def change(node: p.Expr) -> p.Expr | None:
        if isinstance(node, p.Select) and is_pad(node):
            return p.Call(PAD, (node.then, rebuilt(node.otherwise, change)), FLOAT64, span=NOWHERE)
        return None

    return to_text(rebuilt(expr, change))
