"""Ranges and shapes as expressions of the sizes: `(H - KH) / 2 + 1`, `min(N, M - K + 1)`.

Expressions are simplified as polynomials: integer combinations of products of *atoms*, which are
sizes, extents, integer scalars, and quotients, minima and the like of other polynomials. Sizes of
inlined defs are written in those of the entry where that is possible.

An expression made here has, for the sizes at hand, the value that inference found; where none is
found, there is none.
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

__all__ = ["Symbols", "bounds_inside", "in_symbols", "least", "to_text"]

Poly: TypeAlias = Mapping[tuple[p.Expr, ...], int]
"""Coefficients by product of atoms; the empty product is the constant. No coefficient is 0."""

_ONE: Poly = {(): 1}
_NOTHING = KnownSizes({}, {}, {})


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


def in_symbols(expr: p.Expr, symbols: Symbols) -> p.Expr:
    """A size expression, simplified: `N - 1 + N` is `2 * N - 1`."""
    return _to_expr(_to_poly(expr, symbols), symbols)


def least(exprs: list[p.Expr], symbols: Symbols) -> p.Expr:
    """The minimum of some expressions, without those that another never exceeds."""
    exprs = list(dict.fromkeys(part for expr in exprs for part in _minimum_of(expr)))
    if len(exprs) == 1:
        return exprs[0]
    kept: list[Poly] = []
    for expr in exprs:
        poly = _to_poly(expr, symbols)
        if not any(_is_at_most(other, poly) for other in kept):
            kept = [other for other in kept if not _is_at_most(poly, other)] + [poly]
    parts = (_to_expr(poly, symbols) for poly in kept)
    return functools.reduce(functools.partial(symbols.binary, "min"), parts)


def _minimum_of(expr: p.Expr) -> tuple[p.Expr, ...]:
    """The expressions of which an expression is the minimum."""
    match expr:
        case p.Binary(op="min", left=left, right=right):
            return (*_minimum_of(left), *_minimum_of(right))
        case _:
            return (expr,)


def bounds_inside(
    subscript: p.Expr,
    variable: str,
    extent: p.Expr,
    ranges: Mapping[str, p.Range],
    symbols: Symbols,
) -> tuple[p.Expr, p.Expr] | None:
    """Begin and end of a variable such that a linear subscript stays inside an extent.

    With subscript = a * variable + rest the end is (extent - 1 - max(rest)) / a + 1, and for a
    falling subscript min(rest) / -a + 1. None where the subscript is not linear or the range of
    another variable has no expression. What they say is only true where such a range exists.
    """
    form = _linear(subscript, symbols)
    if form is None or variable not in form:
        return None
    factor = form.pop(variable)
    rising = _value(factor, symbols)
    if rising == 0:
        return None
    constant = form.pop("", {})
    low = _rest(form, constant, ranges, symbols, largest=False)
    high = _rest(form, constant, ranges, symbols, largest=True)
    if low is None or high is None:
        return None
    room = _add(_add(_to_poly(extent, symbols), _ONE, -1), high, -1)
    below, above = _scale(low, -1), room
    if rising < 0:
        factor = _scale(factor, -1)
        below, above = _scale(room, -1), low
    # rounded up: (below + factor - 1) / factor
    begin = _quotient(_add(below, _add(factor, _ONE, -1)), factor, symbols)
    end = _add(_quotient(above, factor, symbols), _ONE)
    return _to_expr(begin, symbols), _to_expr(end, symbols)


def _rest(
    form: Mapping[str, Poly],
    constant: Poly,
    ranges: Mapping[str, p.Range],
    symbols: Symbols,
    largest: bool,
) -> Poly | None:
    """The largest or smallest value of a linear form over ranges."""
    total = constant
    for name, coefficient in form.items():
        at_end = (_value(coefficient, symbols) > 0) == largest
        bound = ranges[name].symbolic_end if at_end else ranges[name].symbolic_begin
        if bound is None:
            return None
        extreme = _add(_to_poly(bound, symbols), _ONE, -int(at_end))
        total = _add(total, _multiply(coefficient, extreme))
    return total


# --- expressions to polynomials ---------------------------------------------------------------


def _to_poly(expr: p.Expr, symbols: Symbols, resolving: tuple[str, ...] = ()) -> Poly:
    match expr:
        case p.Literal(value=value) if isinstance(value, int):
            return _constant(int(value))
        case p.Size(name=name):
            return _size(expr, name, symbols, resolving)
        case p.Extent(tensor=tensor, axis=axis):
            found = symbols.extent(tensor, axis)
            return {(expr,): 1} if found == expr else _to_poly(found, symbols, resolving)
        case p.Unary(operand=operand):
            return _scale(_to_poly(operand, symbols, resolving), -1)
        case p.Binary(op=op, left=left, right=right):
            a, b = (_to_poly(e, symbols, resolving) for e in (left, right))
            match op:
                case "+" | "-":
                    return _add(a, b, 1 if op == "+" else -1)
                case "*":
                    return _multiply(a, b)
                case "/":
                    return _quotient(a, b, symbols)
            rebuilt = symbols.binary(op, _to_expr(a, symbols), _to_expr(b, symbols))
            number = evaluate(rebuilt, _NOTHING)
            return {(rebuilt,): 1} if number is None else _constant(number)
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
            return _to_poly(dim, symbols, (*resolving, name))
    return {(expr,): 1}


def _linear(expr: p.Expr, symbols: Symbols) -> dict[str, Poly] | None:
    """Coefficients by variable, the rest under ""; None where the expression is not linear."""
    match expr:
        case p.Index(name=name):
            return {name: _ONE}
        case p.Unary(operand=operand):
            return _scaled_form(_linear(operand, symbols), {(): -1})
        case p.Binary(op=("+" | "-") as op, left=left, right=right):
            a, b = _linear(left, symbols), _linear(right, symbols)
            if a is None or b is None:
                return None
            sign = 1 if op == "+" else -1
            return {n: _add(a.get(n, {}), b.get(n, {}), sign) for n in {**a, **b}}
        case p.Binary(op="*", left=left, right=right):
            for factor, operand in ((left, right), (right, left)):
                if not p.index_names(factor):
                    return _scaled_form(_linear(operand, symbols), _to_poly(factor, symbols))
        case p.Convert(operand=operand) if p.index_names(expr):
            return _linear(operand, symbols)
    return None if p.index_names(expr) else {"": _to_poly(expr, symbols)}


def _scaled_form(form: dict[str, Poly] | None, factor: Poly) -> dict[str, Poly] | None:
    return None if form is None else {name: _multiply(q, factor) for name, q in form.items()}


# --- polynomials ------------------------------------------------------------------------------


def _constant(value: int) -> Poly:
    return {(): value} if value else {}


def _is_constant(poly: Poly) -> bool:
    return poly.keys() <= {()}


def _add(left: Poly, right: Poly, sign: int = 1) -> Poly:
    total = dict(left)
    for product, coefficient in right.items():
        total[product] = total.get(product, 0) + sign * coefficient
        if total[product] == 0:
            del total[product]
    return total


def _scale(poly: Poly, factor: int) -> Poly:
    return {product: factor * c for product, c in poly.items()} if factor else {}


def _multiply(left: Poly, right: Poly) -> Poly:
    total: Poly = {}
    for a, m in left.items():
        for b, n in right.items():
            product = tuple(sorted((*a, *b), key=to_text)) if a and b else a or b
            total = _add(total, {product: m * n})
    return total


def _quotient(dividend: Poly, divisor: Poly, symbols: Symbols) -> Poly:
    """The floor of a quotient; what a constant divisor divides is taken out of it, but only where
    a constant remains."""
    number = divisor.get((), 0) if _is_constant(divisor) else 0
    if number > 0:
        exact = {q: c // number for q, c in dividend.items() if q and c % number == 0}
        if len(exact) == len(dividend) - (() in dividend):
            return {**exact, **_constant(dividend.get((), 0) // number)}
    return {(symbols.binary("/", _to_expr(dividend, symbols), _to_expr(divisor, symbols)),): 1}


def _is_at_most(left: Poly, right: Poly) -> bool:
    """Whether left <= right shows from the form: sizes are at least 0, and quotients by one
    divisor are ordered as what they divide."""
    rest = dict(_add(right, left, -1))
    negative = [q[0] for q, c in rest.items() if c == -1 and len(q) == 1]
    for lesser in negative:
        for greater in [q[0] for q, c in rest.items() if c == 1 and len(q) == 1]:
            if _is_quotient_at_most(lesser, greater):
                del rest[(lesser,)], rest[(greater,)]
                break
    return all(c > 0 and all(isinstance(a, p.Size | p.Extent) for a in q) for q, c in rest.items())


def _is_quotient_at_most(left: p.Expr, right: p.Expr) -> bool:
    match left, right:
        case (
            p.Binary(op="/", left=first, right=p.Literal() as divisor),
            p.Binary(op="/", left=second, right=other),
        ) if divisor == other:
            symbols = Symbols({}, {}, _NOTHING, left.span)
            return _is_at_most(_to_poly(first, symbols), _to_poly(second, symbols))
        case _:
            return False


def _value(poly: Poly, symbols: Symbols) -> int:
    if _is_constant(poly):
        return poly.get((), 0)
    return evaluate(_to_expr(poly, symbols), symbols.known) or 0


def _to_expr(poly: Poly, symbols: Symbols) -> p.Expr:
    """A sum: what is added in order of appearance, then what is subtracted, the constant last."""
    added = [t for t in poly.items() if t[0] and t[1] > 0]
    subtracted = [t for t in poly.items() if t[0] and t[1] < 0]
    constant = [t for t in poly.items() if not t[0]]
    is_first = bool(constant) and constant[0][1] > 0 and not added
    terms = constant + subtracted if is_first else added + subtracted + constant
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
