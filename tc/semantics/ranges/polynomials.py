"""Expressions of sizes as polynomials: integer combinations of products of *atoms*.

Atoms are sizes, extents, integer scalars, and quotients, minima and the like of other polynomials.
Sizes of inlined defs are written in those of the entry where that is possible.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tc.affine.forms import Form
from tc.builtins.operators import MIRRORED
from tc.dtypes import INT64
from tc.semantics import program as p
from tc.semantics.ranges.symbolic_text import to_text
from tc.semantics.size_values import KnownSizes, evaluate
from tc.source import Span

Product: TypeAlias = tuple[p.Expr, ...]
"""Atoms that are multiplied, in the order of their texts."""


class Poly(Form[Product, int]):
    """A polynomial: an affine form of products of atoms, which is a coefficient of forms, too."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return bool(self.constant or self.terms)

    def __mul__(self, other: Poly | int) -> Poly:
        if isinstance(other, int):
            return self.times(other)
        total = Poly(self.constant * other.constant, {})
        for a, m in _summands(self):
            for b, n in _summands(other):
                if a or b:
                    product = tuple(sorted((*a, *b), key=to_text)) if a and b else a or b
                    total += Poly(0, {product: m * n})
        return total

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def remainder(self, by: int) -> Poly:
        """The polynomial without the terms that a number divides."""
        rest = {product: c for product, c in self.terms.items() if c % by}
        return Poly(self.constant if self.constant % by else 0, rest)


def _summands(poly: Poly) -> Iterator[tuple[Product, int]]:
    yield from poly.terms.items()
    if poly.constant:
        yield (), poly.constant


def constant(value: int) -> Poly:
    return Poly(value, {})


def atom(expr: p.Expr) -> Poly:
    """The polynomial that is an expression of its own."""
    return Poly(0, {(expr,): 1})


ONE = constant(1)
NOUGHT = constant(0)
NOTHING = KnownSizes({}, {}, {})


@dataclass(frozen=True, slots=True)
class Symbols:
    """What names stand for: the symbolic shapes known so far, and where sizes come from."""

    shapes: Mapping[str, tuple[p.Expr | None, ...]]
    sizes: Mapping[str, p.SizeDef]
    known: KnownSizes
    span: Span  # that of the expressions made

    def at(self, span: Span) -> Symbols:
        """Symbols with the same names, for expressions of another place in the source."""
        return Symbols(self.shapes, self.sizes, self.known, span)

    def number(self, value: int) -> p.Expr:
        return p.Literal(value, INT64, span=self.span)

    def dimension(self, tensor: str, axis: int) -> p.Expr | None:
        """A dimension of a tensor as an expression of the sizes."""
        shape = self.shapes.get(tensor)
        return None if shape is None else shape[axis]

    def extent(self, tensor: str, axis: int) -> p.Expr:
        """A dimension of a tensor as an expression of the sizes, or as `T.k`."""
        return self.dimension(tensor, axis) or p.Extent(tensor, axis, span=self.span)

    def binary(self, op: str, left: p.Expr, right: p.Expr) -> p.Expr:
        return p.Binary(op, left, right, INT64, span=self.span)


# --- expressions to polynomials ---------------------------------------------------------------


def to_poly(expr: p.Expr, symbols: Symbols, resolving: tuple[str, ...] = ()) -> Poly:
    match expr:
        case p.Literal(value=value) if isinstance(value, int):
            return constant(int(value))
        case p.Size(name=name):
            return _size(expr, name, symbols, resolving)
        case p.Extent(tensor=tensor, axis=axis):
            found = symbols.extent(tensor, axis)
            return atom(expr) if found == expr else to_poly(found, symbols, resolving)
        case p.Unary(operand=operand):
            return to_poly(operand, symbols, resolving) * -1
        case p.Binary(op=op, left=left, right=right):
            a, b = (to_poly(e, symbols, resolving) for e in (left, right))
            match op:
                case "+" | "-":
                    return a.plus(b, 1 if op == "+" else -1)
                case "*":
                    return a * b
                case "/":
                    return quotient(a, b, symbols)
            rebuilt = symbols.binary(op, to_expr(a, symbols), to_expr(b, symbols))
            number = evaluate(rebuilt, NOTHING)
            return atom(rebuilt) if number is None else constant(number)
        case _:
            return atom(expr)


def _size(expr: p.Expr, name: str, symbols: Symbols, resolving: tuple[str, ...]) -> Poly:
    """A size of an inlined def is written as the dimension that gives its value."""
    definition = symbols.sizes.get(name)
    if "." not in name or definition is None or name in resolving:
        return atom(expr)
    for extent in definition.extents:
        dim = symbols.dimension(extent.tensor, extent.axis)
        if dim is not None and expr not in p.walk(dim):
            return to_poly(dim, symbols, (*resolving, name))
    return atom(expr)


def linear(
    expr: p.Expr, symbols: Symbols, quotients: dict[str, p.Expr] | None = None
) -> Form[str, Poly] | None:
    """The form of an expression whose coefficients are polynomials; None where it is not linear.
    Quotients are variables, too, which `quotients` gets by their texts, where it is given."""
    match expr:
        case p.Index(name=name):
            return Form(NOUGHT, {name: ONE})
        case p.Unary(operand=operand):
            form = linear(operand, symbols, quotients)
            return form and form.times(-1)
        case p.Binary(op=("+" | "-") as op, left=left, right=right):
            a, b = linear(left, symbols, quotients), linear(right, symbols, quotients)
            return a and b and a.plus(b, 1 if op == "+" else -1)
        case p.Binary(op="*", left=left, right=right):
            for factor, operand in ((left, right), (right, left)):
                if not p.index_names(factor):
                    form = linear(operand, symbols, quotients)
                    return form and form.times(to_poly(factor, symbols))
        case p.Binary(op="/", left=left, right=right) if quotients is not None:
            if p.index_names(left) and not p.index_names(right):
                name = to_text(expr)
                quotients[name] = expr
                return Form(NOUGHT, {name: ONE})
        case p.Convert(operand=operand) if p.index_names(expr):
            return linear(operand, symbols, quotients)
    return None if p.index_names(expr) else Form(to_poly(expr, symbols), {})


# --- quotients, and polynomials as expressions -------------------------------------------------


def quotient(dividend: Poly, divisor: Poly, symbols: Symbols) -> Poly:
    """The floor of a quotient; what a constant divisor divides is taken out of it, but only where
    a constant remains."""
    if not dividend:
        return NOUGHT
    number = divisor.constant if divisor.is_constant else 0
    if number > 0 and all(c % number == 0 for c in dividend.terms.values()):
        exact = {q: c // number for q, c in dividend.terms.items()}
        return Poly(dividend.constant // number, exact)
    whole = _divided(dividend, divisor)
    if whole is not None:
        return whole
    return atom(symbols.binary("/", to_expr(dividend, symbols), to_expr(divisor, symbols)))


def _divided(dividend: Poly, divisor: Poly) -> Poly | None:
    """The quotient where the divisor is an atom above 0 and a factor of all but a -1."""
    match [*divisor.terms.items()]:
        case [((factor,), 1)] if not divisor.constant and dividend.constant in (0, -1):
            if all(factor in product for product in dividend.terms):
                exact = {_without(q, factor): c for q, c in dividend.terms.items()}
                number = exact.pop((), 0)
                return Poly(number + dividend.constant, exact)
    return None


def _without(product: tuple[p.Expr, ...], atom: p.Expr) -> tuple[p.Expr, ...]:
    place = product.index(atom)
    return product[:place] + product[place + 1 :]


def value_of(poly: Poly, symbols: Symbols) -> int:
    if poly.is_constant:
        return poly.constant
    return evaluate(to_expr(poly, symbols), symbols.known) or 0


def to_expr(poly: Poly, symbols: Symbols) -> p.Expr:
    """A sum: what is added in order of appearance, then what is subtracted, the constant last."""
    added = [t for t in poly.terms.items() if t[1] > 0]
    subtracted = [t for t in poly.terms.items() if t[1] < 0]
    number: list[tuple[Product, int]] = [((), poly.constant)] if poly.constant else []
    is_first = poly.constant > 0 and not added
    terms = number + subtracted if is_first else added + subtracted + number
    if not terms:
        return symbols.number(0)
    total = _term(*terms[0], symbols)
    for product, coefficient in terms[1:]:
        op = "+" if coefficient > 0 else "-"
        total = symbols.binary(op, total, _term(product, abs(coefficient), symbols))
    return total


def _term(product: tuple[p.Expr, ...], coefficient: int, symbols: Symbols) -> p.Expr:
    if product and coefficient < 0:
        return p.Unary("-", _term(product, -coefficient, symbols), INT64, span=symbols.span)
    numbers = () if product and coefficient == 1 else (symbols.number(coefficient),)
    term: p.Expr = functools.reduce(functools.partial(symbols.binary, "*"), (*numbers, *product))
    return term


# --- what sizes alone decide ------------------------------------------------------------------


def decide(
    op: str, left: Poly, right: Poly, symbols: Symbols, ends: Mapping[str, p.Expr]
) -> bool | None:
    """What `left op right` is for all sizes, and for all values from 0 of the indices that have
    `ends`, each below its end; None where it may be either, or where the forms do not show it."""
    if op in (">", ">="):
        op, left, right = MIRRORED[op], right, left
    after = {"<": (left + ONE, right), "<=": (left, right)}.get(op)
    if after is not None:
        if is_at_most(*after, symbols, ends):
            return True
        return False if is_at_most(right, after[0] - ONE, symbols, ends) else None
    if decide("<", left, right, symbols, ends) or decide("<", right, left, symbols, ends):
        return op == "!="
    return op == "==" if left == right else None


def is_at_most(
    left: Poly, right: Poly, symbols: Symbols, ends: Mapping[str, p.Expr] | None = None
) -> bool:
    """Whether the forms show that left <= right: sizes are at least 0, quotients by one divisor are
    ordered as what they divide, and an index that has an end is at least 0 and below it."""
    rest = right - left
    for lesser in [q for q, c in rest.terms.items() if c == -1 and len(q) == 1]:
        for greater in [q for q, c in rest.terms.items() if c == 1 and len(q) == 1]:
            if _is_quotient_at_most(lesser[0], greater[0], symbols):
                rest = rest.without(lesser).without(greater)
                break
    return is_of_sizes(_least(rest, symbols, ends)) if ends else is_of_sizes(rest)


def is_of_sizes(poly: Poly) -> bool:
    """Whether a polynomial shows that it is at least 0: sizes are, and it has no coefficient below
    0 and no atoms but sizes."""
    return poly.constant >= 0 and all(
        c > 0 and all(isinstance(each, p.Size | p.Extent) for each in product)
        for product, c in poly.terms.items()
    )


def _is_quotient_at_most(left: p.Expr, right: p.Expr, symbols: Symbols) -> bool:
    match left, right:
        case (
            p.Binary(op="/", left=first, right=p.Literal() as divisor),
            p.Binary(op="/", left=second, right=other),
        ) if divisor == other:
            plain = Symbols({}, {}, NOTHING, symbols.span)
            return is_at_most(to_poly(first, plain), to_poly(second, plain), plain)
        case _:
            return False


def _least(poly: Poly, symbols: Symbols, ends: Mapping[str, p.Expr]) -> Poly:
    """A polynomial of sizes that another one is never below: with 0 for the indices with which that
    grows, and the last value of others."""
    least = constant(poly.constant)
    for product, c in poly.terms.items():
        sizes = tuple(a for a in product if isinstance(a, p.Size | p.Extent))
        last = [_last(a, symbols, ends) for a in product if a not in sizes]
        if any(each is None for each in last):
            least += Poly(0, {product: c})  # which shows nothing
        elif c < 0 or not last:
            term = Poly(0, {sizes: c}) if sizes else constant(c)
            for each in last:
                term *= each or NOUGHT
            least += term
    return least


def _last(expr: p.Expr, symbols: Symbols, ends: Mapping[str, p.Expr]) -> Poly | None:
    """The last value of an index, or of a quotient or remainder of one, the first of which is 0."""
    match expr:
        case p.Index(name=name) if name in ends:
            return to_poly(ends[name], symbols) - ONE
        case p.Binary(op="%", right=p.Literal(value=int(value))) if value > 0:
            return constant(value - 1)
        case p.Binary(op="/", left=p.Index(name=name), right=p.Literal(value=int(by))) if by > 0:
            if name in ends:
                return quotient(to_poly(ends[name], symbols) - ONE, constant(by), symbols)
    return None
