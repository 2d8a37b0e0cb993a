"""Expressions of sizes as polynomials: integer combinations of products of *atoms*.

Atoms are sizes, extents, integer scalars, and quotients, minima and the like of other polynomials.
Sizes of inlined defs are written in those of the entry where that is possible.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tc.dtypes import INT64
from tc.semantics import program as p
from tc.semantics.ranges.symbolic_text import to_text
from tc.semantics.size_values import KnownSizes, evaluate
from tc.source import Span

Poly: TypeAlias = Mapping[tuple[p.Expr, ...], int]
"""Coefficients by product of atoms; the empty product is the constant. No coefficient is 0."""

ONE: Poly = {(): 1}
NOTHING = KnownSizes({}, {}, {})


@dataclass(frozen=True, slots=True)
class Symbols:
    """What names stand for: the symbolic shapes known so far, and where sizes come from."""

    shapes: Mapping[str, tuple[p.Expr | None, ...]]
    sizes: Mapping[str, p.SizeDef]
    known: KnownSizes
    span: Span  # that of the expressions made

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
            return {(expr,): 1} if found == expr else to_poly(found, symbols, resolving)
        case p.Unary(operand=operand):
            return scale(to_poly(operand, symbols, resolving), -1)
        case p.Binary(op=op, left=left, right=right):
            a, b = (to_poly(e, symbols, resolving) for e in (left, right))
            match op:
                case "+" | "-":
                    return add(a, b, 1 if op == "+" else -1)
                case "*":
                    return multiply(a, b)
                case "/":
                    return quotient(a, b, symbols)
            rebuilt = symbols.binary(op, to_expr(a, symbols), to_expr(b, symbols))
            number = evaluate(rebuilt, NOTHING)
            return {(rebuilt,): 1} if number is None else constant(number)
        case _:
            return {(expr,): 1}


def _size(expr: p.Expr, name: str, symbols: Symbols, resolving: tuple[str, ...]) -> Poly:
    """A size of an inlined def is written as the dimension that gives its value."""
    definition = symbols.sizes.get(name)
    if "." not in name or definition is None or name in resolving:
        return {(expr,): 1}
    for extent in definition.extents:
        dim = symbols.dimension(extent.tensor, extent.axis)
        if dim is not None and expr not in p.walk(dim):
            return to_poly(dim, symbols, (*resolving, name))
    return {(expr,): 1}


def linear(
    expr: p.Expr, symbols: Symbols, quotients: dict[str, p.Expr] | None = None
) -> dict[str, Poly] | None:
    """Coefficients by variable, the rest under ""; None where the expression is not linear.
    Quotients are variables, too, which `quotients` gets by their texts, where it is given."""
    match expr:
        case p.Index(name=name):
            return {name: ONE}
        case p.Unary(operand=operand):
            return _scaled_form(linear(operand, symbols, quotients), {(): -1})
        case p.Binary(op=("+" | "-") as op, left=left, right=right):
            a, b = linear(left, symbols, quotients), linear(right, symbols, quotients)
            if a is None or b is None:
                return None
            sign = 1 if op == "+" else -1
            return {n: add(a.get(n, {}), b.get(n, {}), sign) for n in {**a, **b}}
        case p.Binary(op="*", left=left, right=right):
            for factor, operand in ((left, right), (right, left)):
                if not p.index_names(factor):
                    form = linear(operand, symbols, quotients)
                    return _scaled_form(form, to_poly(factor, symbols))
        case p.Binary(op="/", left=left, right=right) if quotients is not None:
            if p.index_names(left) and not p.index_names(right):
                name = to_text(expr)
                quotients[name] = expr
                return {name: ONE}
        case p.Convert(operand=operand) if p.index_names(expr):
            return linear(operand, symbols, quotients)
    return None if p.index_names(expr) else {"": to_poly(expr, symbols)}


def _scaled_form(form: dict[str, Poly] | None, factor: Poly) -> dict[str, Poly] | None:
    return None if form is None else {name: multiply(q, factor) for name, q in form.items()}


# --- polynomials ------------------------------------------------------------------------------


def constant(value: int) -> Poly:
    return {(): value} if value else {}


def is_constant(poly: Poly) -> bool:
    return poly.keys() <= {()}


def add(left: Poly, right: Poly, sign: int = 1) -> Poly:
    total = dict(left)
    for product, coefficient in right.items():
        total[product] = total.get(product, 0) + sign * coefficient
        if total[product] == 0:
            del total[product]
    return total


def scale(poly: Poly, factor: int) -> Poly:
    return {product: factor * c for product, c in poly.items()} if factor else {}


def multiply(left: Poly, right: Poly) -> Poly:
    total: Poly = {}
    for a, m in left.items():
        for b, n in right.items():
            product = tuple(sorted((*a, *b), key=to_text)) if a and b else a or b
            total = add(total, {product: m * n})
    return total


def quotient(dividend: Poly, divisor: Poly, symbols: Symbols) -> Poly:
    """The floor of a quotient; what a constant divisor divides is taken out of it, but only where
    a constant remains."""
    if not dividend:
        return {}
    number = divisor.get((), 0) if is_constant(divisor) else 0
    if number > 0:
        exact = {q: c // number for q, c in dividend.items() if q and c % number == 0}
        if len(exact) == len(dividend) - (() in dividend):
            return {**exact, **constant(dividend.get((), 0) // number)}
    whole = _divided(dividend, divisor)
    if whole is not None:
        return whole
    return {(symbols.binary("/", to_expr(dividend, symbols), to_expr(divisor, symbols)),): 1}


def _divided(dividend: Poly, divisor: Poly) -> Poly | None:
    """The quotient where the divisor is an atom above 0 and a factor of all but a -1."""
    match [*divisor.items()]:
        case [((atom,), 1)] if dividend.get((), 0) in (0, -1):
            if all(atom in product for product in dividend if product):
                exact = {_without(q, atom): c for q, c in dividend.items() if q}
                return add(exact, constant(dividend.get((), 0)))
    return None


def _without(product: tuple[p.Expr, ...], atom: p.Expr) -> tuple[p.Expr, ...]:
    place = product.index(atom)
    return product[:place] + product[place + 1 :]


def value_of(poly: Poly, symbols: Symbols) -> int:
    if is_constant(poly):
        return poly.get((), 0)
    return evaluate(to_expr(poly, symbols), symbols.known) or 0


def to_expr(poly: Poly, symbols: Symbols) -> p.Expr:
    """A sum: what is added in order of appearance, then what is subtracted, the constant last."""
    added = [t for t in poly.items() if t[0] and t[1] > 0]
    subtracted = [t for t in poly.items() if t[0] and t[1] < 0]
    number = [t for t in poly.items() if not t[0]]
    is_first = bool(number) and number[0][1] > 0 and not added
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
