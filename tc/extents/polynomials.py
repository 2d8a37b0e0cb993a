"""Polynomials over dynamic sizes, their floors and remainders, and the intervals of all of them.

    Polynomial ::= integer combination of products of atoms
    Atom       ::= Dimension | Quotient
    Quotient   ::= Polynomial / Polynomial | Polynomial % Polynomial, rounded down

Of a size that is known to be a multiple of m, the Dimension is the m-th part: floors by divisors of
m are exact then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from tc.affine.forms import Form, assembled
from tc.affine.intervals import Interval, scaled

UNBOUNDED = (-(1 << 200), 1 << 200)
"""The interval of what nothing is known of."""


@dataclass(frozen=True, slots=True)
class Dimension:
    """The size `name` divided by `multiple`, which divides it; `interval` has its values."""

    name: str
    multiple: int
    interval: Interval = field(compare=False)

    @property
    def text(self) -> str:
        return self.name if self.multiple == 1 else f"({self.name} / {self.multiple})"

    def at(self, sizes: Mapping[str, int]) -> int:
        return sizes[self.name] // self.multiple


@dataclass(frozen=True, slots=True)
class Quotient:
    """The quotient (`op` is "/") or the remainder ("%") of two polynomials, rounded down. Two are
    equal where their texts are."""

    op: str = field(compare=False)
    dividend: Polynomial = field(compare=False)
    divisor: Polynomial = field(compare=False)
    interval: Interval = field(compare=False)
    text: str

    def at(self, sizes: Mapping[str, int]) -> int:
        left, right = self.dividend.value(sizes), self.divisor.value(sizes)
        return left // right if self.op == "/" else left % right


Atom: TypeAlias = Dimension | Quotient
Product: TypeAlias = tuple[Atom, ...]
"""Atoms that are multiplied, in the order of their texts."""


class Polynomial(Form[Product, int]):
    """A polynomial over dynamic sizes.

    >>> n = of_dimension("N", (2, 4096))
    >>> print(n * n - quotient(n.shifted(15), constant(16)).times(16))
    N*N - 16*((N + 15) / 16)
    """

    __slots__ = ()

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def __mul__(self, other: Polynomial) -> Polynomial:
        if other.is_constant:
            return self.times(other.constant)
        if self.is_constant:
            return other.times(self.constant)
        total = constant(0)
        for a, m in self.summands():
            for b, n in other.summands():
                if a or b:
                    product = tuple(sorted((*a, *b), key=_text)) if a and b else a or b
                    total = total.plus(Polynomial(0, {product: m * n}))
                else:
                    total = total.shifted(m * n)
        return total

    def summands(self) -> Iterator[tuple[Product, int]]:
        yield from self.terms.items()
        if self.constant:
            yield (), self.constant

    def value(self, sizes: Mapping[str, int]) -> int:
        """The value at the dynamic sizes, by their names."""
        total = self.constant
        for product, coefficient in self.terms.items():
            for atom in product:
                coefficient *= atom.at(sizes)
            total += coefficient
        return total

    def bounds(self) -> Interval:
        """An interval that has all values: that of the terms, or, of c * floor(p / d) where d
        divides c, that of c / d * (p - p % d), in which terms may cancel, or that of the difference
        of two floors."""
        low, high = self._bounds_of_terms()
        for one, other, (least, most) in self._near_floors():
            others: Polynomial = self.without(one)
            others = others.without(other)
            low_rest, high_rest = others._bounds_of_terms()
            low, high = max(low, low_rest + least), min(high, high_rest + most)
        for product, atom, coefficient in self._floors():
            by = atom.divisor.constant
            if atom.divisor.is_constant and by > 0 and coefficient % by == 0:
                rest = division("%", atom.dividend, atom.divisor)
                same: Polynomial = self.without(product)
                same = same + (atom.dividend - rest).times(coefficient // by)
                if len(same.terms) <= len(self.terms):
                    least, most = same._bounds_of_terms()
                    low, high = max(low, least), min(high, most)
        return low, high

    def _floors(self) -> Iterator[tuple[Product, Quotient, int]]:
        """The terms that are a floor, with that and their coefficients."""
        for product, coefficient in self.terms.items():
            match product:
                case (Quotient(op="/") as atom,):
                    yield product, atom, coefficient

    def _near_floors(self) -> Iterator[tuple[Product, Product, Interval]]:
        """Pairs of terms c * floor((p + k) / d) - c * floor(p / d), with their intervals."""
        floors = [*self._floors()]
        for one, a, c in floors:
            for other, b, negative in floors:
                if c <= 0 or negative != -c or a.divisor != b.divisor:
                    continue
                apart, by = a.dividend - b.dividend, a.divisor.constant
                if apart.is_constant and a.divisor.is_constant and by > 0:
                    k = apart.constant
                    yield one, other, (c * (k // by), c * -(-k // by))

    def _bounds_of_terms(self) -> Interval:
        low = high = self.constant
        for product, coefficient in self.terms.items():
            least, most = scaled(_interval_of(product), coefficient)
            low, high = low + least, high + most
        return low, high

    def names(self) -> set[str]:
        """The dynamic sizes that the polynomial depends on."""
        found: set[str] = set()
        for product in self.terms:
            for atom in product:
                if isinstance(atom, Dimension):
                    found.add(atom.name)
                else:
                    found |= atom.dividend.names() | atom.divisor.names()
        return found

    def __str__(self) -> str:
        first = sorted(self.terms.items(), key=lambda term: (term[1] < 0, -len(term[0])))

        def term(product: Product, coefficient: int) -> str:
            text = "*".join(atom.text for atom in product)
            return {1: text, -1: f"-{text}"}.get(coefficient, f"{coefficient}*{text}")

        ordered = Polynomial(self.constant, dict(first))
        return assembled(ordered, term, str, lambda op, left, right: f"{left} {op} {right}")


def _text(atom: Atom) -> str:
    return atom.text


def _interval_of(product: Product) -> Interval:
    low, high = product[0].interval
    for atom in product[1:]:
        least, most = atom.interval
        corners = (low * least, low * most, high * least, high * most)
        low, high = min(corners), max(corners)
    return low, high


def constant(value: int) -> Polynomial:
    return Polynomial(value, {})


def of_dimension(name: str, interval: Interval, multiple: int = 1) -> Polynomial:
    """The polynomial that is a dynamic size, which is a multiple of `multiple` in an interval.

    >>> str(quotient(of_dimension("N", (16, 4096), 16), constant(8)))
    '2*(N / 16)'
    """
    low, high = -(-interval[0] // multiple), interval[1] // multiple
    return Polynomial(0, {(Dimension(name, multiple, (low, high)),): multiple})


def quotient(dividend: Polynomial, divisor: Polynomial) -> Polynomial:
    """The quotient of two polynomials, rounded down; what a constant divides is taken out.

    >>> n = of_dimension("N", (2, 4096))
    >>> str(quotient(n.times(4).shifted(3), constant(4))), str(quotient(n.times(4), n))
    ('N', '4')
    """
    by = divisor.constant if divisor.is_constant else 0
    if by < 0:
        return quotient(dividend.times(-1), constant(-by))
    if by > 0:
        whole = Polynomial(
            dividend.constant // by, {q: c // by for q, c in dividend.terms.items() if c % by == 0}
        )
        rest = Polynomial(
            dividend.constant % by, {q: c for q, c in dividend.terms.items() if c % by}
        )
        shared = math.gcd(by, *rest.terms.values())
        if shared > 1:  # (4 * N + 3) / 8 is N / 2
            rest = Polynomial(
                rest.constant // shared, {q: c // shared for q, c in rest.terms.items()}
            )
        return whole if rest.is_constant else whole + _floor(rest, by // shared)
    exact = _exact(dividend, divisor)
    return division("/", dividend, divisor) if exact is None else constant(exact)


def remainder(dividend: Polynomial, divisor: Polynomial) -> Polynomial:
    """The remainder of the quotient, of the divisor's sign: what is left of the dividend.

    >>> n = of_dimension("N", (2, 4096))
    >>> str(remainder(n.times(4).shifted(7), constant(4))), str(remainder(n, constant(4)))
    ('3', 'N - 4*(N / 4)')
    """
    return dividend - quotient(dividend, divisor) * divisor


def _floor(dividend: Polynomial, by: int) -> Polynomial:
    """The floor of a quotient of which nothing can be taken out, in one form of the two that equal
    ones may have: -(-N / 4) is (N + 3) / 4."""
    leading = max(dividend.terms, key=lambda product: tuple(map(_text, product)))
    if dividend.terms[leading] > 0:
        return division("/", dividend, constant(by))
    return quotient(dividend.times(-1).shifted(by - 1), constant(by)).times(-1)


def _exact(dividend: Polynomial, divisor: Polynomial) -> int | None:
    """How many times the divisor a polynomial is, where it is a constant number of times."""
    if dividend == constant(0):
        return 0
    for product, by in divisor.terms.items():
        number = dividend.terms.get(product, 0) // by
        if number and dividend == divisor.times(number):
            return number
        break
    return None


def division(op: str, dividend: Polynomial, divisor: Polynomial) -> Polynomial:
    """The quotient or the remainder as an atom, of which nothing is taken out."""
    text = f"{_bracketed(dividend)} {op} {_bracketed(divisor)}"
    atom = Quotient(op, dividend, divisor, _interval(op, dividend, divisor), f"({text})")
    return Polynomial(0, {(atom,): 1})


def _bracketed(polynomial: Polynomial) -> str:
    text = str(polynomial)
    match [*polynomial.terms.items()]:
        case [((_,), 1)] if not polynomial.constant:
            return text  # an atom, which has its own
    return f"({text})" if " " in text else text


def _interval(op: str, dividend: Polynomial, divisor: Polynomial) -> Interval:
    (a, b), (c, d) = dividend.bounds(), divisor.bounds()
    if c <= 0:
        return UNBOUNDED
    if op == "/":
        return min(a // c, a // d), max(b // c, b // d)
    return (a, b) if a >= 0 and b < c else (0, d - 1)
