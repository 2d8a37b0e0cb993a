"""Guards: what polynomials over dynamic sizes must be, so that what was asked has its answers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tc.affine.intervals import Interval, scaled
from tc.affine.intervals import compared as compared_intervals
from tc.extents.polynomials import Polynomial, Quotient


@dataclass(frozen=True, slots=True)
class Guard:
    """`polynomial`, which has no constant and no divisor, is within an interval, and is none of the
    numbers that are `excluded`. `places` are the lines of tc that asked first."""

    polynomial: Polynomial
    interval: Interval
    excluded: frozenset[int] = frozenset()
    places: tuple[str, ...] = ()

    def admits(self, sizes: Mapping[str, int]) -> bool:
        """Whether the polynomial is what it must be at other sizes."""
        value = self.polynomial.value(sizes)
        return self.interval[0] <= value <= self.interval[1] and value not in self.excluded

    @property
    def is_pin(self) -> bool:
        """Whether the guard admits one value alone."""
        return self.interval[0] == self.interval[1]

    def narrowed(self, op: str, number: int) -> Guard:
        """The guard that has `polynomial op number`, too; `op` is one of `<`, `>=` and `!=`.

        >>> from tc.extents.polynomials import of_dimension
        >>> print(Guard(of_dimension("N", (2, 99)), (2, 99)).narrowed("!=", 2).narrowed("<", 50))
        3 <= N <= 49
        """
        low, high = self.interval
        if op == ">=":
            low = max(low, number)
        elif op == "<":
            high = min(high, number - 1)
        excluded = self.excluded | ({number} if op == "!=" else set())
        while low in excluded:
            low += 1
        while high in excluded:
            high -= 1
        kept = frozenset(each for each in excluded if low < each < high)
        return Guard(self.polynomial, (low, high), kept, self.places)

    def __str__(self) -> str:
        return ", ".join(self._texts())

    def _texts(self) -> Iterator[str]:
        (low, high), (least, most) = self.interval, self.polynomial.bounds()
        if low == high:
            yield f"{self.polynomial} == {low}"
        elif low > least and high < most:
            yield f"{low} <= {self.polynomial} <= {high}"
        elif low > least:
            yield f"{self.polynomial} >= {low}"
        elif high < most:
            yield f"{self.polynomial} <= {high}"
        for number in sorted(self.excluded):
            yield f"{self.polynomial} != {number}"


class Guards(dict[str, Guard]):
    """The guards by the texts of their polynomials, in the order in which these came in."""

    def add(self, polynomial: Polynomial, op: str, places: tuple[str, ...]) -> None:
        """Has `polynomial op 0` from now on."""
        for each in ("<=", ">=") if op == "==" else (op,):
            base, order, number = _without_floor(*_solved(polynomial, each))
            guard = self.get(str(base)) or Guard(base, base.bounds(), places=places)
            self[str(base)] = guard.narrowed(order, number)

    def bounds(self, polynomial: Polynomial) -> Interval:
        """An interval that has the polynomial at all sizes that the guards admit."""
        low, high = polynomial.bounds()
        if not self:
            return low, high
        base, factor = _base(polynomial)
        for interval in self._intervals(base):
            least, most = scaled(interval, factor)
            low, high = max(low, least + polynomial.constant), min(high, most + polynomial.constant)
        return low, high

    def _intervals(self, base: Polynomial) -> Iterator[Interval]:
        """That of the guard of a base, and of a floor that of what is divided."""
        guard = self.get(str(base))
        if guard is not None:
            yield guard.interval
        floor = _floor_of(base)
        if floor is not None:
            least, most = self.bounds(floor.dividend)
            by = floor.divisor.constant
            yield least // by, most // by

    def compared(self, polynomial: Polynomial, op: str) -> bool | None:
        """What `polynomial op 0` is at all sizes that the guards admit; None where it may be
        either."""
        if op in ("==", "!=") and polynomial.terms:
            base, factor = _base(polynomial)
            if polynomial.constant % factor:
                return op == "!="  # a number divides all terms but the constant
            guard = self.get(str(base)) if self else None
            if guard is not None and -polynomial.constant // factor in guard.excluded:
                return op == "!="
        return compared_intervals(op, self.bounds(polynomial), (0, 0))


def _base(polynomial: Polynomial) -> tuple[Polynomial, int]:
    """The polynomial without its constant, divided by a number so that the coefficients have no
    common divisor and their sum is positive, or if it is 0, that of the first name; and the
    number."""
    if not polynomial.terms:
        return polynomial, 1
    factor = math.gcd(*polynomial.terms.values())
    first = min(polynomial.terms, key=lambda product: [atom.text for atom in product])
    if (sum(polynomial.terms.values()) or polynomial.terms[first]) < 0:
        factor = -factor
    terms = {product: c // factor for product, c in polynomial.terms.items()}
    return Polynomial(0, terms), factor


def _solved(polynomial: Polynomial, op: str) -> tuple[Polynomial, str, int]:
    """`polynomial op 0` as a comparison of its base with a number, by `<`, `>=` or `!=`: as all are
    integers, 2 * N <= 5 is N < 3."""
    base, factor = _base(polynomial)
    constant = polynomial.constant
    if op == "!=":
        return base, op, -constant // factor
    if op in ("<=", ">"):
        op, constant = ("<" if op == "<=" else ">="), constant - 1
    if factor < 0:
        op, constant, factor = (">=" if op == "<" else "<"), -constant - 1, -factor
    return base, op, -(constant // factor)


def _without_floor(base: Polynomial, op: str, number: int) -> tuple[Polynomial, str, int]:
    """A comparison of a floor as one of what is divided: N / 4 < 3 is N < 12."""
    floor = _floor_of(base)
    if floor is None or op == "!=":
        return base, op, number
    return _without_floor(*_solved(floor.dividend.shifted(-number * floor.divisor.constant), op))


def _floor_of(base: Polynomial) -> Quotient | None:
    """The floor of a quotient by a constant that a base is."""
    match [*base.terms]:
        case [(Quotient(op="/") as floor,)] if floor.divisor.is_constant:
            return floor
    return None
