"""Expressions of gradient texts: made, simplified, and printed."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from tc.dtypes import FLOAT16, FLOAT64, INT64
from tc.semantics import program as p
from tc.semantics.ranges.polynomials import (
    NOTHING,
    ONE,
    Poly,
    Symbols,
    add,
    is_constant,
    to_expr,
    to_poly,
)
from tc.semantics.ranges.symbolic_text import to_text
from tc.source import Source, Span

NOWHERE = Span(Source(""), 0, 0)
PAD = "pad"
SYMBOLS = Symbols({}, {}, NOTHING, NOWHERE)


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


def in_sizes(expr: p.Expr, shapes: Mapping[str, tuple[p.Expr, ...]]) -> p.Expr:
    """The expression with dimensions of tensors as expressions of the sizes."""

    def change(node: p.Expr) -> p.Expr | None:
        return shapes[node.tensor][node.axis] if isinstance(node, p.Extent) else None

    return rebuilt(expr, change)


def with_pads(expr: p.Expr) -> p.Expr:
    """The expression in which `pad` stands again where it was written."""

    def change(node: p.Expr) -> p.Expr | None:
        if isinstance(node, p.Select) and is_pad(node):
            return p.Call(PAD, (node.then, rebuilt(node.otherwise, change)), FLOAT64, span=NOWHERE)
        return None

    return rebuilt(expr, change)


def text(expr: p.Expr) -> str:
    """The expression as text."""
    return to_text(with_pads(expr))


# --- sums ------------------------------------------------------------------------------------


def sum_of(left: p.Expr, right: p.Expr) -> p.Expr | None:
    """The sum of two right sides; None where their conditions are different."""
    match left, right:
        case p.Convert(dtype=one, written=True), p.Convert(dtype=other, written=True) if (
            one == other and one != FLOAT16
        ):
            inner = sum_of(left.operand, right.operand)
            return None if inner is None else replace(left, operand=inner)
        case p.Select(condition=one), p.Select(condition=other) if (
            one == other and left.otherwise == right.otherwise == ZERO
        ):
            inner = sum_of(left.then, right.then)
            return None if inner is None else select(one, inner)
    if any(_is_conditional(side) for side in (left, right)):
        return None
    if left == right:
        return _twice(left)
    if isinstance(right, p.Unary):
        return binary("-", left, right.operand)
    return binary("+", left, right)


def _twice(expr: p.Expr) -> p.Expr:
    match expr:
        case p.Binary(op=("*" | "/"), left=left):
            return replace(expr, left=_twice(left))
        case p.Unary(operand=operand):
            return replace(expr, operand=_twice(operand))
        case _:
            return binary("*", number(2), expr)


def _is_conditional(expr: p.Expr) -> bool:
    return isinstance(expr, p.Select) or (isinstance(expr, p.Call) and expr.function == PAD)


# --- sizes and places -------------------------------------------------------------------------


def total(left: p.Expr, right: p.Expr) -> p.Expr:
    """The sum of two whole numbers, simplified."""
    return to_expr(add(to_poly(left, SYMBOLS), to_poly(right, SYMBOLS)), SYMBOLS)


def difference(left: p.Expr, right: p.Expr) -> p.Expr:
    """The difference of two whole numbers, simplified."""
    return to_expr(add(to_poly(left, SYMBOLS), to_poly(right, SYMBOLS), -1), SYMBOLS)


def within(begin: p.Expr, value: p.Expr, end: p.Expr, sizes: Mapping[str, p.Expr]) -> list[p.Expr]:
    """The conditions that a value lies in a range, without those that always hold, where each
    index in `sizes` is below its size."""
    first, after = compare("<=", begin, value), compare("<", value, end)
    low = add(to_poly(value, SYMBOLS), to_poly(begin, SYMBOLS), -1)
    high = add(add(to_poly(end, SYMBOLS), to_poly(value, SYMBOLS), -1), ONE, -1)
    found = [(first, low), (after, high)]
    return [condition for condition, poly in found if not _is_never_negative(poly, sizes)]


def is_at_most(left: p.Expr, right: p.Expr) -> bool:
    """Whether it shows that one whole number is at most another, whatever the sizes."""
    return _is_never_negative(add(to_poly(right, SYMBOLS), to_poly(left, SYMBOLS), -1), {})


def simplified(condition: p.Expr, sizes: Mapping[str, p.Expr]) -> list[p.Expr]:
    """The condition, if any, that is left of one, where each index in `sizes` is below its size:
    comparisons of places are simplified, and those that always hold left out."""
    if not isinstance(condition, p.Compare) or not all(map(_is_place, p.children(condition))):
        return [condition]
    left, right = (to_poly(side, SYMBOLS) for side in p.children(condition))
    op = condition.op
    room = add(left, right, -1) if op in (">", ">=") else add(right, left, -1)
    if op in ("<", ">"):
        room = add(room, ONE, -1)
    if op in ("<", "<=", ">", ">=") and _is_never_negative(room, sizes):
        return []
    return [compare(op, to_expr(left, SYMBOLS), to_expr(right, SYMBOLS))]


def _is_place(expr: p.Expr) -> bool:
    """Whether a value is made of indices, sizes and whole numbers."""
    if isinstance(expr, p.Literal):
        return isinstance(expr.value, int) and not isinstance(expr.value, bool)
    if isinstance(expr, p.Index | p.Size):
        return True
    is_sum = isinstance(expr, p.Unary) or (isinstance(expr, p.Binary) and expr.op in "+-*")
    return is_sum and all(map(_is_place, p.children(expr)))


def _is_never_negative(poly: Poly, sizes: Mapping[str, p.Expr]) -> bool:
    """Whether it shows that a polynomial is at least 0: it is a sum of what is, or what is left
    of an index below its size, and such a sum."""

    def is_sum(poly: Poly) -> bool:
        return all(
            c > 0 and all(isinstance(a, p.Size | p.Extent) or _is_named(a, sizes) for a in q)
            for q, c in poly.items()
        )

    if is_sum(poly):
        return True
    for name, size in sizes.items():
        if poly.get((index(name),), 0) == -1:
            room = add(add(to_poly(size, SYMBOLS), {(index(name),): 1}, -1), ONE, -1)
            if is_sum(add(poly, room, -1)):
                return True
    return False


def _is_named(atom: p.Expr, sizes: Mapping[str, p.Expr]) -> bool:
    return isinstance(atom, p.Index) and atom.name in sizes


def place(value: p.Expr, size: p.Expr) -> tuple[p.Expr, p.Expr] | None:
    """The range that holds just one place of a dimension, empty where the dimension is; None where
    it does not show on which side of it the place could be."""
    number_, room = to_poly(value, SYMBOLS), to_poly(difference(size, value), SYMBOLS)
    after = to_expr(add(number_, ONE), SYMBOLS)
    if is_constant(number_) and is_constant(room):
        return (value, after) if room.get((), 0) > 0 and number_.get((), 0) >= 0 else None
    if is_constant(number_) and number_.get((), 0) >= 0:
        begin = value if _is(value, 0) else binary("min", value, size)
        return begin, binary("min", after, size)
    if is_constant(room) and room.get((), 0) > 0:
        end = size if room == ONE else binary("max", after, ZERO)
        return binary("max", value, ZERO), end
    return None
