"""Sizes that are tracked: numbers with their polynomials, and a list of what was asked of them."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeGuard

from tc.affine.intervals import COMPARISONS, Interval
from tc.builtins.operators import NEGATED
from tc.errors import InternalError
from tc.extents.guards import Guards
from tc.extents.polynomials import (
    Polynomial,
    constant,
    of_dimension,
    quotient,
    remainder,
)

_TRUTH = "!="
_PACKAGE = "tc."
_OWN = ("tc.extents.",)
_FRAMES = 2  # places in the code that a question names


@dataclass(frozen=True, slots=True)
class Range:
    """The sizes that a dynamic size may have: `begin`, `begin + multiple`, ... up to `last`."""

    begin: int
    last: int
    multiple: int = 1

    def __contains__(self, size: int) -> bool:
        return self.begin <= size <= self.last and size % self.multiple == 0


@dataclass(eq=False)
class Questions:
    """What was asked of the tracked sizes of one call, in order: the guards of what is made. With
    `asks_all`, what is right either way is asked, too: for fewer sizes more can be made. Once they
    are `closed`, nothing is noted any more: what then asks shows something, and makes nothing."""

    ranges: Mapping[str, Range]
    asks_all: bool = False
    closed: bool = False
    guards: Guards = field(default_factory=Guards)

    def size(self, name: str, hint: int) -> int:
        """The tracked size of this name, which is `hint` in this call.

        >>> n = Questions({"N": Range(2, 4096)}).size("N", 509)
        >>> (2 * n + 15) // 16 * 16, n >= 2
        (Size(16*((N + 7) / 8)), True)
        """
        own = self.ranges[name]
        polynomial = of_dimension(name, (own.begin, own.last), own.multiple)
        made: int = _made(hint, polynomial, self)
        return made

    def number(self, polynomial: Polynomial, hints: Mapping[str, int]) -> int:
        """The tracked number that a polynomial is at hints."""
        made: int = _made(polynomial.value(hints), polynomial, self)
        return made

    def note(self, polynomial: Polynomial, op: str, holds: bool) -> None:
        if not self.closed:
            self.guards.add(polynomial, op if holds else NEGATED[op], _places())

    def admits(self, sizes: Mapping[str, int]) -> bool:
        """Whether all that was asked has the same answers at other sizes."""
        return all(sizes[name] in own for name, own in self.ranges.items()) and all(
            guard.admits(sizes) for guard in self.guards.values()
        )


def _places() -> tuple[str, ...]:
    """The lines of tc that ask, the innermost first."""
    frame: Any = sys._getframe(1)
    found: list[str] = []
    while frame is not None and len(found) < _FRAMES:
        module = frame.f_globals.get("__name__", "")
        if module.startswith(_PACKAGE) and not module.startswith(_OWN):
            found.append(f"{module}:{frame.f_lineno}")
        frame = frame.f_back
    return tuple(found)


if TYPE_CHECKING:
    _Integer = int
else:
    _Integer = object


class Size(_Integer):
    """A number with the polynomial that it is a value of. It adds and multiplies as an integer;
    what compares it is told how it compares at the hint, and asks (`Questions`), unless it compares
    so at all sizes. `int`, `range` and all that needs an integer *pin* it: they ask whether it is
    the hint. A float takes the hint, as floats are estimates alone.

    It is no integer to Python, so that nothing in Python takes the hint unasked; for mypy it is.
    """

    __slots__ = ("hint", "polynomial", "questions")
    hint: int
    polynomial: Polynomial
    questions: Questions

    def __repr__(self) -> str:
        return f"Size({self.polynomial})"

    def __str__(self) -> str:
        return str(self.polynomial)

    def __format__(self, how: str) -> str:
        return format(str(self), how)

    def __hash__(self) -> int:
        return hash(self.hint)

    def __deepcopy__(self, _: Any) -> Size:
        return self

    # --- arithmetic -------------------------------------------------------------------------

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a + b, lambda p, q: p + q)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a - b, lambda p, q: p - q)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a * b, lambda p, q: p * q)

    def __floordiv__(self, other: Any) -> Any:
        return self._divided(other, lambda a, b: a // b, quotient)

    def __mod__(self, other: Any) -> Any:
        return self._divided(other, lambda a, b: a % b, remainder)

    def __rsub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: b - a, lambda p, q: q - p)

    __radd__, __rmul__ = __add__, __mul__

    def __rfloordiv__(self, other: Any) -> Any:
        return _tracked(other, self.questions) // self

    def __rmod__(self, other: Any) -> Any:
        return _tracked(other, self.questions) % self

    def __pow__(self, exponent: int) -> Any:  # type: ignore[override]  # of two numbers
        product: Any = 1
        for _ in range(exponent):
            product = product * self
        return product

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __neg__(self) -> Any:
        return _made(-self.hint, self.polynomial.times(-1), self.questions)

    def __pos__(self) -> Size:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __truediv__(self, other: Any) -> Any:
        return self.hint / _number(other)

    def __rtruediv__(self, other: Any) -> Any:
        return _number(other) / self.hint

    def __float__(self) -> float:
        return float(self.hint)

    def __lshift__(self, by: int) -> Any:
        return self * (1 << by)

    def __rshift__(self, by: int) -> Any:
        return self // (1 << by)

    def __and__(self, other: Any) -> Any:
        return int(self) & int(other)

    def __or__(self, other: Any) -> Any:
        return int(self) | int(other)

    def __xor__(self, other: Any) -> Any:
        return int(self) ^ int(other)

    def __invert__(self) -> int:
        return ~int(self)

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __rlshift__(self, other: Any) -> Any:
        return int(other) << int(self)

    def __rrshift__(self, other: Any) -> Any:
        return int(other) >> int(self)

    def bit_length(self) -> int:
        return int(self).bit_length()

    def _with(
        self,
        other: Any,
        of_numbers: Callable[[int, int], int],
        of_polynomials: Callable[[Polynomial, Polynomial], Polynomial],
    ) -> Any:
        if isinstance(other, float):
            return of_numbers(self.hint, other)  # type: ignore[arg-type]  # an estimate
        if isinstance(other, Size):
            if other.questions is not self.questions:
                raise InternalError("sizes of two calls meet")
            number, polynomial = other.hint, other.polynomial
        elif isinstance(other, int):
            number, polynomial = other, constant(other)
        else:
            return NotImplemented
        made = of_polynomials(self.polynomial, polynomial)
        return _made(of_numbers(self.hint, number), made, self.questions)

    def _divided(
        self,
        other: Any,
        of_numbers: Callable[[int, int], int],
        of_polynomials: Callable[[Polynomial, Polynomial], Polynomial],
    ) -> Any:
        if isinstance(other, Size) and other == 0:  # which asks
            raise ZeroDivisionError
        return self._with(other, of_numbers, of_polynomials)

    def surely(self, op: str) -> bool:
        """Whether `self op 0` holds at all sizes (`tc.affine.intervals.surely`)."""
        if self.questions.asks_all:
            return bool(self._is(op, 0))
        return self.questions.guards.compared(self.polynomial, op) is True

    def bounds(self) -> Interval:
        """An interval of plain numbers that has the size, whatever the dynamic sizes are."""
        return self.questions.guards.bounds(self.polynomial)

    # --- questions --------------------------------------------------------------------------

    def _is(self, op: str, other: Any) -> Any:
        if isinstance(other, float):
            return COMPARISONS[op](self.hint, other)
        if isinstance(other, Size):
            if other.questions is not self.questions:
                return NotImplemented  # of another call: as different as two objects
            difference, number = self.polynomial - other.polynomial, other.hint
        elif isinstance(other, int):
            difference, number = self.polynomial.shifted(-other), other
        else:
            return NotImplemented
        known = self.questions.guards.compared(difference, op)
        if known is not None:
            return known
        holds = COMPARISONS[op](self.hint, number)
        self.questions.note(difference, op, holds)
        return holds

    def __lt__(self, other: Any) -> Any:
        return self._is("<", other)

    def __le__(self, other: Any) -> Any:
        return self._is("<=", other)

    def __gt__(self, other: Any) -> Any:
        return self._is(">", other)

    def __ge__(self, other: Any) -> Any:
        return self._is(">=", other)

    def __eq__(self, other: object) -> Any:
        return self._is("==", other)

    def __ne__(self, other: object) -> Any:
        return self._is("!=", other)

    def __bool__(self) -> bool:
        return bool(self._is(_TRUTH, 0))

    def __index__(self) -> int:
        self.questions.note(self.polynomial.shifted(-self.hint), "==", True)
        return self.hint

    __int__ = __index__
    __trunc__ = __index__


def _number(value: Any) -> Any:
    return value.hint if type(value) is Size else value


def _made(hint: int, polynomial: Polynomial, questions: Questions) -> Any:
    """A tracked size, or the number that it is at all sizes."""
    if polynomial.is_constant:
        return polynomial.constant
    made = Size.__new__(Size)
    made.hint, made.polynomial, made.questions = hint, polynomial, questions
    return made


def _tracked(number: int, questions: Questions) -> Size:
    made = Size.__new__(Size)
    made.hint, made.polynomial, made.questions = number, constant(number), questions
    return made


# --- the three answers ------------------------------------------------------------------------


def at_hint(value: int) -> int:
    """A number as it is in this call, for what only decides how good the code is, not whether the
    code is right: nothing is asked.

    >>> at_hint(Questions({"N": Range(2, 4096)}).size("N", 509) + 1), at_hint(3)
    (510, 3)
    """
    return value.hint if type(value) is Size else value


def as_integer(value: float) -> int:
    """The integer that a number is; one that is tracked stays so."""
    return value if type(value) is Size else int(value)


def as_extent(value: Any) -> int:
    """The integer that stands for an extent; one that is tracked stays so. TypeError for others."""
    return value if type(value) is Size else operator.index(value)


def is_tracked(value: Any) -> TypeGuard[Size]:
    """Whether a number is a tracked size."""
    return type(value) is Size
