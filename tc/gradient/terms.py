"""Expressions of gradient texts: made, simplified, and printed."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias, TypeGuard

from tc.dtypes import FLOAT32, FLOAT64, INT64
from tc.semantics import program as p
from tc.semantics.ranges import polynomials
from tc.semantics.ranges.polynomials import (
    NOTHING,
    NOUGHT,
    ONE,
    Poly,
    Symbols,
    atom,
    constant,
    decide,
    quotient,
    to_expr,
    to_poly,
)
from tc.semantics.ranges.symbolic_text import to_text
from tc.source import Source, Span

NO_SPAN = Span(Source(""), 0, 0)
PAD = "pad"
SYMBOLS = Symbols({}, {}, NOTHING, NO_SPAN)


def number(value: int) -> p.Expr:
    return p.Literal(value, INT64, span=NO_SPAN)


ZERO = number(0)


def index(name: str) -> p.Expr:
    return p.Index(name, span=NO_SPAN)


def read(tensor: str, subscripts: tuple[p.Expr, ...]) -> p.Read:
    return p.Read(tensor, subscripts, FLOAT64, -1, span=NO_SPAN)


def is_number(expr: p.Expr, value: int) -> bool:
    return isinstance(expr, p.Literal) and not isinstance(expr.value, bool) and expr.value == value


def negative(expr: p.Expr) -> p.Expr:
    if isinstance(expr, p.Unary):
        return expr.operand
    if isinstance(expr, p.Select):
        return select(expr.condition, negative(expr.then), negative(expr.otherwise))
    if is_number(expr, 0):
        return expr
    return p.Unary("-", expr, FLOAT64, span=NO_SPAN)


def binary(op: str, left: p.Expr, right: p.Expr) -> p.Expr:
    return p.Binary(op, left, right, INT64, span=NO_SPAN)


def product(adjoint: p.Expr, factor: p.Expr) -> p.Expr:
    """A floating product in which conditions and signs stand outermost (D7), and other products
    are not in parentheses."""
    if is_number(factor, 1) or is_number(adjoint, 0):
        return adjoint
    if is_number(factor, 0):
        return ZERO
    if is_number(factor, -1):
        return negative(adjoint)
    if isinstance(factor, p.Select) and not is_pad(factor):
        then, otherwise = product(adjoint, factor.then), product(adjoint, factor.otherwise)
        return select(factor.condition, then, otherwise)
    if isinstance(factor, p.Unary):
        return negative(product(adjoint, factor.operand))
    if isinstance(adjoint, p.Unary):
        return negative(product(adjoint.operand, factor))
    match factor:
        case p.Binary(op="*", left=left, right=right, dtype=dtype) if dtype.is_float:
            return product(product(adjoint, left), right)
        case p.Binary(op="/", left=p.Literal(value=1), right=right):
            return fraction(adjoint, right)
    return binary("*", adjoint, factor)


def fraction(adjoint: p.Expr, divisor: p.Expr) -> p.Expr:
    """A floating quotient, with its sign outermost."""
    if is_number(adjoint, 0):
        return ZERO
    if isinstance(adjoint, p.Unary):
        return negative(fraction(adjoint.operand, divisor))
    return binary("/", adjoint, divisor)


def select(condition: p.Expr, then: p.Expr, otherwise: p.Expr = ZERO) -> p.Expr:
    if is_number(then, 0) and is_number(otherwise, 0):
        return ZERO
    return p.Select(condition, then, otherwise, FLOAT64, span=NO_SPAN)


def compare(op: str, left: p.Expr, right: p.Expr) -> p.Expr:
    return p.Compare(op, left, right, span=NO_SPAN)


def conjunction(conditions: list[p.Expr]) -> p.Expr:
    return functools.reduce(
        lambda a, b: p.Logical("&&", (a, b), span=NO_SPAN), dict.fromkeys(conditions)
    )


def negation(condition: p.Expr) -> p.Expr:
    return p.Logical("!", (condition,), span=NO_SPAN)


def bounds(access: p.Read) -> list[p.Expr]:
    """The conditions that keep a read in bounds, as `pad` is checked to (G9)."""
    found = []
    for axis, subscript in enumerate(access.subscripts):
        extent = p.Extent(access.tensor, axis, span=NO_SPAN)
        found += [compare("<=", ZERO, subscript), compare("<", subscript, extent)]
    return found


def is_pad(expr: p.Expr) -> bool:
    """Whether a choice is what `pad(then, otherwise)` stands for."""
    if not isinstance(expr, p.Select):
        return False
    reads = [e for e in p.walk(expr.then) if isinstance(e, p.Read)]
    inner = any(isinstance(e, p.Select | p.Logical) for e in p.walk(expr.then))
    wanted = {condition for access in reads for condition in bounds(access)}
    return bool(wanted) and not inner and set(p.conjuncts(expr.condition)) == wanted


def pad(expr: p.Expr) -> p.Expr:
    return p.Call(PAD, (expr, ZERO), FLOAT64, span=NO_SPAN)


def rebuilt(expr: p.Expr, change: Callable[[p.Expr], p.Expr | None]) -> p.Expr:
    """The expression with parts replaced, from the outside in, where `change` gives something."""
    changed = change(expr)
    if changed is not None:
        return changed
    return p.with_children(expr, tuple(rebuilt(part, change) for part in p.children(expr)))


def with_tensors(expr: p.Expr, names: Mapping[str, str]) -> p.Expr:
    """The expression with other tensors for those that have a name in `names`."""

    def change(node: p.Expr) -> p.Expr | None:
        if not isinstance(node, p.Extent | p.Read) or node.tensor not in names:
            return None
        inside = tuple(rebuilt(subscript, change) for subscript in p.children(node))
        return p.with_children(replace(node, tensor=names[node.tensor]), inside)

    return rebuilt(expr, change)


def substituted(expr: p.Expr, values: Mapping[str, p.Expr]) -> p.Expr:
    """The expression with other expressions for index variables. An index takes the type of its
    neighbours, and an integer of a tensor does not (Y1): where an integer of a tensor stands in the
    place of an index, the conversion is written down."""

    def change(node: p.Expr) -> p.Expr | None:
        match node:
            case p.Index(name=name):
                return values.get(name)
            case p.Convert(written=False, dtype=dtype, operand=inner) if dtype.is_float and (
                inner.dtype.is_float or dtype != FLOAT32
            ):
                operand = rebuilt(inner, change)
                if not _has_own_type(inner) and _has_own_type(operand):
                    return replace(node, operand=operand, written=True)
        return None

    return rebuilt(expr, change)


def _has_own_type(expr: p.Expr) -> bool:
    """Whether an integer has a type of its own, which indices, sizes and literals have not."""
    return any(
        isinstance(node, p.Read) or (isinstance(node, p.Convert) and node.written)
        for node in p.walk(expr)
    )


def at_elements(expr: p.Expr, subscripts: tuple[p.Expr, ...], elements: tuple[str, ...]) -> p.Expr:
    """The expression with the names of elements in the place of equal subscripts."""
    named: dict[p.Expr, p.Expr] = {
        subscript: index(element)
        for subscript, element in zip(subscripts, elements, strict=True)
        if p.index_names(subscript) and isinstance(subscript, p.Binary | p.Read | p.Convert)
    }
    return rebuilt(expr, named.get) if named else expr


def reads_elements(expr: p.Expr) -> bool:
    """Whether an expression has a read that may be out of bounds."""
    return any(isinstance(node, p.Read) and node.subscripts for node in p.walk(expr))


def in_sizes(expr: p.Expr, shapes: Mapping[str, tuple[p.Expr, ...]]) -> p.Expr:
    """The expression with dimensions of tensors as expressions of the sizes."""

    def change(node: p.Expr) -> p.Expr | None:
        return shapes[node.tensor][node.axis] if isinstance(node, p.Extent) else None

    return rebuilt(expr, change)


def in_order(expr: p.Expr, sizes: Mapping[str, p.Expr]) -> p.Expr:
    """The expression with places simplified that were substituted in quotients and remainders,
    where each index in `sizes` is below its size."""

    def change(node: p.Expr) -> p.Expr | None:
        if isinstance(node, p.Binary) and _is_place(node, "+-*/%"):
            return to_expr(_place(node, sizes), SYMBOLS)
        return None

    return rebuilt(expr, change)


def _place(expr: p.Expr, sizes: Mapping[str, p.Expr]) -> Poly:
    match expr:
        case p.Binary(op=("/" | "%"), left=left, right=p.Literal(value=int(by))) if by > 0:
            inside = _place(left, sizes)
            rest = inside.remainder(by)
            is_rest = polynomials.is_at_most(NOUGHT, rest, SYMBOLS, sizes)
            is_rest = is_rest and bool(decide("<", rest, constant(by), SYMBOLS, sizes))
            if is_rest:
                return quotient(inside - rest, constant(by), SYMBOLS) if expr.op == "/" else rest
            if expr.op == "/":
                return quotient(inside, constant(by), SYMBOLS)
            if rest.is_constant:
                return constant(rest.constant % by)
            return atom(replace(expr, left=to_expr(rest, SYMBOLS)))
        case p.Binary(op="+" | "-", left=left, right=right):
            return _place(left, sizes).plus(_place(right, sizes), 1 if expr.op == "+" else -1)
        case p.Binary(op="*", left=left, right=right):
            return _place(left, sizes) * _place(right, sizes)
    return to_poly(expr, SYMBOLS)


def with_pads(expr: p.Expr) -> p.Expr:
    """The expression with a call of `pad` for each choice that stands for `pad`."""

    def change(node: p.Expr) -> p.Expr | None:
        if isinstance(node, p.Select) and is_pad(node):
            return p.Call(PAD, (node.then, rebuilt(node.otherwise, change)), FLOAT64, span=NO_SPAN)
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
            one == other and not one.is_storage
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
    return _total([*_terms(left), *_terms(right)])


Term: TypeAlias = tuple[int, tuple[tuple[str, p.Expr], ...]]
"""A whole number, and what it is multiplied with and divided by, in order."""


def _terms(expr: p.Expr, sign: int = 1) -> Iterator[Term]:
    """The terms of a sum."""
    match expr:
        case p.Binary(op=("+" | "-"), left=left, right=right):
            yield from _terms(left, sign)
            yield from _terms(right, sign if expr.op == "+" else -sign)
        case p.Unary(op="-", operand=operand):
            yield from _terms(operand, -sign)
        case _:
            number_ = sign
            factors: list[tuple[str, p.Expr]] = []
            for op, factor in _factors(expr):
                whole = _whole(factor) if op == "*" else None
                if whole is not None:
                    number_ *= whole
                else:
                    factors.append((op, factor))
            yield number_, tuple(factors)


def _factors(expr: p.Expr) -> Iterator[tuple[str, p.Expr]]:
    if isinstance(expr, p.Binary) and expr.op in "*/":
        yield from _factors(expr.left)
        yield expr.op, expr.right
    else:
        yield "*", expr


def _whole(expr: p.Expr) -> int | None:
    """The value of a literal that is written as a whole number."""
    match expr:
        case p.Literal(value=bool()):
            return None
        case p.Literal(value=int(value)):
            return value
        case p.Literal(value=float(value), span=span) if span.text.isdecimal():
            return int(value)
    return None


def _total(terms: list[Term]) -> p.Expr:
    """The sum of terms; terms with the same factors are added up."""
    numbers: dict[frozenset[tuple[tuple[str, p.Expr], int]], int] = {}
    first: dict[frozenset[tuple[tuple[str, p.Expr], int]], Term] = {}
    for term in terms:
        key = frozenset(Counter(term[1]).items())
        numbers[key] = numbers.get(key, 0) + term[0]
        first.setdefault(key, term)
    total: p.Expr | None = None
    for key, number_ in numbers.items():
        if not number_:
            continue
        value = _multiplied(abs(number_), first[key][1])
        if total is None:
            total = value if number_ > 0 else negative(value)
        else:
            total = binary("+" if number_ > 0 else "-", total, value)
    return ZERO if total is None else total


def _multiplied(number_: int, factors: tuple[tuple[str, p.Expr], ...]) -> p.Expr:
    if number_ != 1 or not factors or factors[0][0] == "/":
        factors = (("*", number(number_)), *factors)
    result = factors[0][1]
    for op, factor in factors[1:]:
        result = binary(op, result, factor)
    return result


def with_signs(expr: p.Expr) -> p.Expr:
    """The expression with the signs of floating products, where they are derived, at the first
    factors. A quotient of integers rounds down, so that its sign stays outside."""

    def change(node: p.Expr) -> p.Expr | None:
        match node:
            case p.Unary(operand=p.Binary(op=("*" | "/")) as operand, span=span) if (
                span is NO_SPAN and _is_floating(operand)
            ):
                return rebuilt(_with_sign(operand), change)
        return None

    return rebuilt(expr, change)


def _with_sign(expr: p.Expr) -> p.Expr:
    match expr:
        case p.Binary(op=("*" | "/"), left=left) if _is_floating(expr):
            return replace(expr, left=_with_sign(left))
        case p.Unary(operand=operand):
            return operand
        case p.Literal(value=int(value)) if value:
            return number(-value)
        case _:
            return p.Unary("-", expr, FLOAT64, span=NO_SPAN)


def _is_floating(expr: p.Expr) -> bool:
    """Whether floats are among the factors of a product. The type of a product that is derived says
    nothing."""
    leaves = (p.Read, p.Literal, p.Convert, p.Call)
    return any(isinstance(node, leaves) and node.dtype.is_float for node in p.walk(expr))


def _is_conditional(expr: p.Expr) -> bool:
    return isinstance(expr, p.Select) or (isinstance(expr, p.Call) and expr.function == PAD)


# --- sizes and places -------------------------------------------------------------------------


def total(left: p.Expr, right: p.Expr) -> p.Expr:
    """The sum of two whole numbers, simplified."""
    return to_expr(to_poly(left, SYMBOLS) + to_poly(right, SYMBOLS), SYMBOLS)


def difference(left: p.Expr, right: p.Expr) -> p.Expr:
    """The difference of two whole numbers, simplified."""
    return to_expr(to_poly(left, SYMBOLS) - to_poly(right, SYMBOLS), SYMBOLS)


def within(begin: p.Expr, value: p.Expr, end: p.Expr, sizes: Mapping[str, p.Expr]) -> list[p.Expr]:
    """The conditions that a value lies in a range. Conditions that always hold, where each index in
    `sizes` is below its size, are left out."""
    return [
        compare(op, left, right)
        for op, left, right in (("<=", begin, value), ("<", value, end))
        if not decide(op, to_poly(left, SYMBOLS), to_poly(right, SYMBOLS), SYMBOLS, sizes)
    ]


def is_at_most(left: p.Expr, right: p.Expr) -> bool:
    """Whether one whole number is shown to be at most another, whatever the sizes."""
    return polynomials.is_at_most(to_poly(left, SYMBOLS), to_poly(right, SYMBOLS), SYMBOLS)


def simplified(condition: p.Expr, sizes: Mapping[str, p.Expr]) -> list[p.Expr]:
    """The condition, if any, that is left of one, where each index in `sizes` is below its size:
    comparisons of places are simplified, and those that always hold left out."""
    if not _is_of_places(condition):
        return [condition]
    left, right = (to_poly(side, SYMBOLS) for side in (condition.left, condition.right))
    if decide(condition.op, left, right, SYMBOLS, sizes):
        return []
    return [compare(condition.op, to_expr(left, SYMBOLS), to_expr(right, SYMBOLS))]


def never_holds(condition: p.Expr, sizes: Mapping[str, p.Expr]) -> bool:
    """Whether a comparison of places is shown never to hold, where each index in `sizes` is below
    its size."""
    if not _is_of_places(condition):
        return False
    left, right = (to_poly(side, SYMBOLS) for side in (condition.left, condition.right))
    return decide(condition.op, left, right, SYMBOLS, sizes) is False


def _is_of_places(condition: p.Expr) -> TypeGuard[p.Compare]:
    return isinstance(condition, p.Compare) and all(map(_is_place, p.children(condition)))


def _is_place(expr: p.Expr, operators: str = "+-*") -> bool:
    """Whether a value is made of indices, sizes and whole numbers."""
    if isinstance(expr, p.Literal):
        return isinstance(expr.value, int) and not isinstance(expr.value, bool)
    if isinstance(expr, p.Index | p.Size):
        return True
    is_sum = isinstance(expr, p.Unary) or (isinstance(expr, p.Binary) and expr.op in operators)
    return is_sum and all(_is_place(child, operators) for child in p.children(expr))


def place(value: p.Expr, size: p.Expr) -> tuple[p.Expr, p.Expr] | None:
    """The range that holds just one place of a dimension, and is empty where the dimension is. None
    where the place may lie before the dimension or after it."""
    number_, room = to_poly(value, SYMBOLS), to_poly(difference(size, value), SYMBOLS)
    after = to_expr(number_ + ONE, SYMBOLS)
    if number_.is_constant and room.is_constant:
        return (value, after) if room.constant > 0 and number_.constant >= 0 else None
    if number_.is_constant and number_.constant >= 0:
        begin = value if is_number(value, 0) else binary("min", value, size)
        return begin, binary("min", after, size)
    if room.is_constant and room.constant > 0:
        end = size if room == ONE else binary("max", after, ZERO)
        return binary("max", value, ZERO), end
    return None
