"""Affine forms: a constant and a sum of coefficients times names.

    2 * i - x + 5  =  Form(5, {"i": 2, "x": -1})

Names are of any type that can be hashed: index variables, variables of two instances, terms of a
kernel, products of sizes. Coefficients are integers, or polynomials of sizes, and none of them is
0. The names are in the order in which they came in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

from tc.affine.intervals import Box, Interval, compared, scaled, surely


class Coefficient(Protocol):
    """What a form may have as a constant and as coefficients: a ring whose 0 is false."""

    def __add__(self, other: Any, /) -> Any: ...
    def __mul__(self, other: Any, /) -> Any: ...
    def __bool__(self) -> bool: ...


K = TypeVar("K", bound=Hashable)
L = TypeVar("L", bound=Hashable)
C = TypeVar("C", bound=Coefficient)
F = TypeVar("F", bound="Form[Any, Any]")


@dataclass(frozen=True, slots=True)
class Form(Generic[K, C]):
    """`constant` plus the sum of coefficient * name over `terms`.

    >>> i, x = Form(0, {"i": 1}), Form(0, {"x": 1})
    >>> i.times(2) - x + Form(5, {})
    Form(constant=5, terms={'i': 2, 'x': -1})
    """

    constant: C
    terms: Mapping[K, C]

    def plus(self: F, other: F, factor: Any = 1) -> F:
        """This form plus `factor` times another one.

        >>> Form(1, {"i": 2, "j": 1}).plus(Form(3, {"j": 1}), -1)
        Form(constant=-2, terms={'i': 2})
        """
        terms = dict(self.terms)
        for name, coefficient in other.terms.items():
            own = coefficient * factor
            total = terms[name] + own if name in terms else own
            if total:
                terms[name] = total
            else:
                terms.pop(name, None)
        return type(self)(self.constant + other.constant * factor, terms)

    def __add__(self: F, other: F) -> F:
        return self.plus(other)

    def __sub__(self: F, other: F) -> F:
        return self.plus(other, -1)

    def shifted(self: F, by: Any) -> F:
        """This form plus a constant."""
        return type(self)(self.constant + by, self.terms)

    def times(self: F, factor: Any) -> F:
        """This form `factor` times."""
        if not factor:
            return type(self)(self.constant * factor, {})
        return type(self)(self.constant * factor, {n: c * factor for n, c in self.terms.items()})

    def without(self: F, name: Any) -> F:
        """This form where a name is 0."""
        return type(self)(self.constant, {n: c for n, c in self.terms.items() if n != name})

    def renamed(self, name_of: Callable[[K], L]) -> Form[L, C]:
        """This form with other names, which are as different as these."""
        return Form(self.constant, {name_of(n): c for n, c in self.terms.items()})

    def substituted(self, values: Mapping[K, Form[L, C]]) -> Form[L, C]:
        """This form with a form for each of its names.

        >>> values = {"h": Form(0, {"h0": 8}), "x": Form(5, {})}
        >>> Form(1, {"h": 2, "x": 1}).substituted(values)
        Form(constant=6, terms={'h0': 16})
        """
        total: Form[L, C] = Form(self.constant, {})
        for name, coefficient in self.terms.items():
            total = total.plus(values[name], coefficient)
        return total

    def at(self: Form[K, int], values: Mapping[K, int]) -> int:
        """The value of this form at values of its names.

        >>> Form(1, {"i": 2}).at({"i": 4})
        9
        """
        return self.constant + sum(c * values[n] for n, c in self.terms.items())

    def interval(self: Form[K, int], box: Box[K]) -> Interval:
        """The least and the greatest value of this form, its names within a box that has points.

        >>> Form(1, {"i": 2, "x": -1}).interval({"i": (0, 4), "x": (0, 2)})
        (-1, 9)
        """
        low = high = self.constant
        for name, factor in self.terms.items():
            least, greatest = scaled(box[name], factor)
            low, high = low + least, high + greatest
        return low, high


LinearForm: TypeAlias = Form[str, int]
"""A form of index variables, or of loops, with integers as coefficients."""


def variable_form(name: K, factor: int = 1) -> Form[K, int]:
    """The form of one name.

    >>> variable_form("i", 2)
    Form(constant=0, terms={'i': 2})
    """
    return Form(0, {name: factor} if factor else {})


def constant_form(value: int) -> Form[Any, int]:
    """The form of a constant.

    >>> constant_form(3)
    Form(constant=3, terms={})
    """
    return Form(value, {})


def decide(op: str, form: Form[K, int], box: Box[K]) -> bool | None:
    """What `form op 0` is all over a box that has points; None where it is not known, or both.

    >>> i = Form(-8, {"i": 1})
    >>> decide("<", i, {"i": (0, 7)}), decide(">=", i, {"i": (0, 7)}), decide("<", i, {"i": (0, 8)})
    (True, False, None)
    """
    return compared(op, form.interval(box), (0, 0))


def divisor_of(form: Form[K, int]) -> int:
    """The greatest number that divides all coefficients; 0 where there are none.

    >>> divisor_of(Form(3, {"i": 8, "j": -4}))
    4
    """
    return math.gcd(*form.terms.values())


def split(form: Form[K, int], by: int, box: Box[K]) -> tuple[Form[K, int], Form[K, int]] | None:
    """Quotient and remainder of a form by a number above 0, as forms; None where they are not forms
    all over the box.

    >>> split(Form(0, {"p": 32, "l": 1}), 32, {"p": (0, 7), "l": (0, 31)})
    (Form(constant=0, terms={'p': 1}), Form(constant=0, terms={'l': 1}))
    >>> split(Form(35, {"p": 64, "l": -1}), 32, {"p": (0, 7), "l": (0, 3)})
    (Form(constant=1, terms={'p': 2}), Form(constant=3, terms={'l': -1}))
    >>> split(Form(0, {"l": 1}), 32, {"l": (0, 32)})
    """
    rest = Form(form.constant, {n: c for n, c in form.terms.items() if c % by})
    low, high = rest.interval(box)
    if low // by != high // by:
        return None
    whole = Form(low // by, {n: c // by for n, c in form.terms.items() if c % by == 0})
    return whole, Form(rest.constant - low // by * by, rest.terms)


E = TypeVar("E")


def assembled(
    form: Form[K, int],
    term: Callable[[K, int], E],
    number: Callable[[int], E],
    binary: Callable[[str, E, E], E],
) -> E:
    """The sum of the terms of a form in their order, its constant last where it is not 0.

    `term` makes a name times a coefficient, which is below 0 for the first one alone, `number` a
    constant, and `binary` the sum (`+`) or difference (`-`) of two of them.

    >>> assembled(Form(-3, {"i": 2, "j": -1}), "{1}*{0}".format, str, lambda op, a, b: a + op + b)
    '2*i-1*j-3'
    """
    total: E | None = None
    for name, coefficient in form.terms.items():
        if total is None:
            total = term(name, coefficient)
        else:
            total = binary("+" if coefficient > 0 else "-", total, term(name, abs(coefficient)))
    if total is None:
        return number(form.constant)
    constant = form.constant
    if surely(constant, "==", 0):
        return total
    if surely(constant, "<", 0):
        return binary("-", total, number(-constant))
    return binary("+", total, number(constant))


def text_of(form: Form[str, int]) -> str:
    """A form as isl and people read it.

    >>> text_of(Form(3, {"i": 2, "j": -1})), text_of(Form(0, {"k": -1})), text_of(Form(0, {}))
    ('2*i - j + 3', '-k', '0')
    """

    def term(name: str, coefficient: int) -> str:
        return {1: name, -1: f"-{name}"}.get(coefficient, f"{coefficient}*{name}")

    return assembled(form, term, str, lambda op, left, right: f"{left} {op} {right}")
