"""Values that outputs hold, in place of products from which they were computed (D17). The
contribution of `O = exp(a - m) / z` to z is `-d_O * exp(a - m) / z / z`, which is `-d_O * O / z`.
An output of a sum holds the sum of the terms in the same way, where all other factors of the
contributions are the same for all terms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from tc.dtypes import FLOAT64
from tc.gradient import terms as e
from tc.gradient.adjoints import Contribution
from tc.gradient.def_text import Comprehension, ExprBounds, index_names_of
from tc.gradient.versions import VersionStep
from tc.semantics import program as p

Factor: TypeAlias = tuple[bool, p.Expr]
"""Whether a factor is a divisor, and the factor."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product of real numbers: its sign, 1 or -1, and its factors in order. `over` alone says
    which product a stored value may stand for: it divides one product by another, and loses no sign
    and no factor.

    >>> from tc.frontend.parser import parse
    >>> from tc.semantics.check.checker import check
    >>> from tc.source import Source
    >>> text = "def f(float x, float z) -> (s, t) { s = -exp(x) / z  t = -(-exp(x) / z) / z }"
    >>> s, t = (Product.of(each.rhs) for each in check(parse(Source(text))).statements)
    >>> s.sign, t.sign, e.text(t.over(s, {}).expr)
    (-1, 1, '-(1.0 / z)')
    """

    sign: int
    factors: tuple[Factor, ...]

    @classmethod
    def of(cls, expr: p.Expr) -> Product:
        sign, factors = _signed_factors(expr)
        return cls(sign, tuple(factors))

    @property
    def expr(self) -> p.Expr:
        """The product as an expression, with its divisors last. A real number is the first factor:
        integers before the first real factor would be multiplied as integers."""
        order = sorted(self.factors, key=lambda f: (f[0], not _is_real(f[1])))
        return replace(self, factors=tuple(order)).in_order

    @property
    def in_order(self) -> p.Expr:
        """The product as an expression, with its factors in the order in which they stand."""
        divides, first = self.factors[0]
        one = p.Literal(1.0, FLOAT64, span=e.NO_SPAN)
        result = e.fraction(one, first) if divides else first
        for divides, factor in self.factors[1:]:
            result = e.fraction(result, factor) if divides else e.binary("*", result, factor)
        return result if self.sign > 0 else e.negative(result)

    def times(self, factors: Iterable[Factor]) -> Product:
        return replace(self, factors=(*self.factors, *factors))

    def over(self, other: Product, bound: dict[str, str]) -> Product | None:
        """This product divided by another; None where this product lacks a factor of the other. The
        other product may be of another statement: `bound` has the names in this product for the
        indices of that statement, and gets one for each index that has no name there."""
        left = list(self.factors)
        for divides, factor in other.factors:
            for place, (here_divides, here) in enumerate(left):
                trial = dict(bound)
                if divides == here_divides and _is_same(factor, here, trial):
                    bound.update(trial)
                    del left[place]
                    break
            else:
                return None
        return Product(self.sign * other.sign, tuple(left))


@dataclass(frozen=True)
class StoredValues:
    """The values that a gradient has without computing them: `steps` are those of the program,
    `held` the versions that are inputs of the gradient."""

    steps: Sequence[VersionStep]
    held: frozenset[str]

    def is_right_side_alone(self, step: VersionStep) -> bool:
        """Whether the version of a step holds just the step's right side, or the sum of that."""
        alone = not any(s is not step and s.version == step.version for s in self.steps)
        kind = step.line.operator == "=" or (step.line.operator == "+" and step.is_anew)
        kind &= step.line.places is None
        return alone and kind and step.covers and step.previous is None

    def of_step(
        self, step: VersionStep, found: Contribution, version: p.Read
    ) -> tuple[Mapping[str, ExprBounds], Contribution] | None:
        """The contribution of a statement to a read, by the value that the statement has stored,
        and the ranges of its variables, which are not those of the statement's sum."""
        line = step.line
        if not self.is_right_side_alone(step) or version.dtype.is_storage or not line.is_box:
            return None
        term = Product.of(line.rhs)
        if len(term.factors) < 2:
            return None
        rest = Product.of(found.adjoint).over(term, {v: v for v in p.index_names(line.rhs)})
        if rest is None:
            return None
        summed = set(line.reduction)
        used = {n for _, factor in rest.factors for n in p.index_names(factor)}
        if summed and (found.conditions or summed & (used | index_names_of(found.read))):
            return None
        return line.outer, replace(found, adjoint=rest.times([(False, version)]).expr)

    def of_others(self, step: VersionStep, adjoint: Product) -> Product | None:
        """The product with a value that some output holds in the place of factors."""
        for other in self.steps:
            if other.version not in self.held or other.line.op != "=":
                continue
            if not self.is_right_side_alone(other) or other.version == step.version:
                continue
            if other.line.places is not None or not other.line.is_box:
                continue
            term = Product.of(other.line.rhs)
            if len(term.factors) < 2 or not any(isinstance(f, p.Call) for _, f in term.factors):
                continue
            bound: dict[str, str] = {}
            rest = adjoint.over(term, bound)
            outer = other.line.indices
            if rest is None or not set(outer) <= set(bound):
                continue
            same = all(step.line.where.get(bound[v]) == other.line.where[v] for v in outer)
            if same and len(set(bound.values())) == len(bound):
                value = e.read(other.version, tuple(e.index(bound[v]) for v in outer))
                return rest.times([(False, value)])
        return None


def _signed_factors(expr: p.Expr, divides: bool = False) -> tuple[int, list[Factor]]:
    """The sign of a product, and its factors in order."""
    match expr:
        case p.Unary(op="-", operand=operand):
            sign, found = _signed_factors(operand, divides)
            return -sign, found
        case p.Binary(op=("*" | "/") as op, left=left, right=right) if _is_real(expr):
            one, first = _signed_factors(left, divides)
            other, second = _signed_factors(right, divides != (op == "/"))
            return one * other, [*first, *second]
    return 1, [(divides, expr)]


def _is_real(expr: p.Expr) -> bool:
    """Whether an expression is computed as a real number whatever it is multiplied with. Numbers,
    sizes, indices and integers are not: a product of these alone is an integer."""
    match expr:
        case p.Read(dtype=dtype) | p.Call(dtype=dtype) | p.Bits(dtype=dtype):
            return dtype.is_float
        case p.Convert(operand=operand, dtype=dtype, written=written):
            return dtype.is_float and (written or _is_real(operand))
        case p.Unary(operand=operand):
            return _is_real(operand)
        case p.Binary(left=left, right=right) | p.Select(then=left, otherwise=right):
            return _is_real(left) or _is_real(right)
    return False


def _is_same(one: p.Expr, other: p.Expr, bound: dict[str, str]) -> bool:
    """Whether two expressions are the same up to the names of indices."""
    match one, other:
        case p.Index(name=name), p.Index(name=here):
            return bound.setdefault(name, here) == here
        case p.Read(tensor=tensor, subscripts=own), p.Read(tensor=same, subscripts=others):
            return tensor == same and all(map(_is_same, own, others, [bound] * len(own)))
        case p.Index() | p.Read(), _:
            return False
    children, others = tuple(p.children(one)), tuple(p.children(other))
    if type(one) is not type(other) or len(children) != len(others):
        return False
    if not children:
        return one == other
    is_alike = _kind(one) == _kind(other)
    return is_alike and all(map(_is_same, children, others, [bound] * len(children)))


def _kind(expr: p.Expr) -> object:
    if isinstance(expr, p.Convert):
        return expr.dtype
    return getattr(expr, "op", getattr(expr, "function", None))


def pulled(
    written: Sequence[Comprehension], cotangent: str, subscripts: tuple[str, ...]
) -> tuple[int, Comprehension, tuple[Factor, ...]] | None:
    """The place of the one sum that makes a cotangent, the sum without the factors that all its
    terms share, and these factors at the given indices; None where several statements make the
    cotangent."""
    places = [i for i, each in enumerate(written) if each.target == cotangent]
    if len(places) != 1 or written[places[0]].op != "+=!":
        return None
    sum_ = written[places[0]]
    if sum_.places is not None or not sum_.is_box:
        return None
    if any(isinstance(n, p.Select | p.Logical) for n in p.walk(sum_.rhs)):
        return None
    if isinstance(sum_.rhs, p.Call | p.Convert):
        return None
    product = Product.of(sum_.rhs)
    own = set(sum_.indices)
    same = [f for f in product.factors if set(p.index_names(f[1])) <= own]
    left = tuple(f for f in product.factors if f not in same)
    if not same or not left:
        return None
    here = {v: e.index(name) for v, name in zip(sum_.indices, subscripts, strict=True)}
    moved = tuple((divides, e.substituted(factor, here)) for divides, factor in same)
    return places[0], replace(sum_, rhs=replace(product, factors=left).expr), moved


def divided_last(rhs: p.Expr, loops: Mapping[str, ExprBounds]) -> p.Expr:
    """The term of a sum in which divisors that are the same for all terms stand at the end, where
    they divide the sum once."""
    if not loops or not isinstance(rhs, p.Unary | p.Binary):
        return rhs
    if any(isinstance(n, p.Select | p.Logical) for n in p.walk(rhs)):
        return rhs
    product = Product.of(rhs)
    found = product.factors
    last = tuple(f for f in found if f[0] and not set(p.index_names(f[1])) & set(loops))
    if not last or found[-len(last) :] == last:
        return rhs
    first = tuple(f for f in found if f not in last)
    if not any(not divides for divides, _ in first):
        return rhs
    return replace(product, factors=(*first, *last)).in_order
