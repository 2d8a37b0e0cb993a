"""Where the walk over a schedule tree stands, and what is touched below that point.

`Digits` is what the loops around fix of one variable of one statement; the box around the
elements that accesses can touch below follows by plain arithmetic, as domains are boxes and
subscripts linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import TypeAlias

from tc.affine.forms import Form, LinearForm, constant_form
from tc.affine.intervals import surely
from tc.errors import InternalError
from tc.plan import UNROLL, VECTOR
from tc.polyhedral.schedule import ArrayTile, Axis, Member, count
from tc.polyhedral.scop.scop import Access, HalfOpen, Scop, ScopStatement


@dataclass(frozen=True, slots=True)
class FreeDigit:
    """The digit (value mod `end`) div `step` of a variable that no loop around fixes; `end` None:
    value div `step`."""

    step: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class Digits:
    """A variable takes the values base + d * step + ... below, for all values of its `free` digits,
    outermost first; those of them in `limits` (half-open), of which there are at most `extent`.

    `exact`: all of them are. `lane`: the last digit is a vector's lanes. `tile` is the base of the
    tile of unrolled iterations and lanes around, if there is one."""

    base: LinearForm
    extent: int
    limits: HalfOpen
    exact: bool
    lane: bool = False
    tile: LinearForm | None = None
    free: tuple[FreeDigit, ...] = (FreeDigit(1),)

    @property
    def span(self) -> int:
        """From the least to the greatest of these values, both counted."""
        return 1 + sum((self._count(digit) - 1) * digit.step for digit in self.free)

    @property
    def digits(self) -> tuple[tuple[int, int], ...]:
        """The step of each free digit that has several values, or is that of a loop, which may run
        others, of other statements; and how many values it has."""
        counts = ((digit, self._count(digit)) for digit in self.free)
        return tuple((d.step, count) for d, count in counts if d.end is None or count > 1)

    @property
    def counts(self) -> tuple[tuple[int, int], ...]:
        """The step of each free digit that has several values, and how many it has."""
        return tuple((step, count) for step, count in self.digits if count > 1)

    def _count(self, digit: FreeDigit) -> int:
        return (self.extent if digit.end is None else digit.end) // -digit.step * -1


def without(
    free: tuple[FreeDigit, ...], step: int, end: int | None
) -> tuple[FreeDigit, ...] | None:
    """Free digits but for (value mod `end`) div `step`, which a loop fixes; None where that is not
    among them.

    >>> without((FreeDigit(1),), 8, 32)
    (FreeDigit(step=32, end=None), FreeDigit(step=1, end=8))
    """
    if step == end:  # it is always 0
        return free
    for place, digit in enumerate(free):
        if digit.step <= step and (digit.end is None or (end or digit.end + 1) <= digit.end):
            above = () if end == digit.end else (FreeDigit(end or 1, digit.end),)
            below = () if step == digit.step else (FreeDigit(digit.step, step),)
            return (*free[:place], *above, *below, *free[place + 1 :])
    return None


Position = Mapping[str, Digits]
"""The digits of each variable of a statement that are fixed."""


Steps: TypeAlias = "tuple[tuple[int, int], ...]"
"""Digits of a set of numbers, each a step and a count: all sums of one of 0, step, ...
(count - 1) * step for each digit. The greatest step comes first, and no digit carries: each step is
at least the span of the digits after it."""


def span(digits: Iterable[tuple[int, int]]) -> int:
    """From the least to the greatest of the sums of digits, both counted.

    >>> span(((64, 2), (1, 4)))
    68
    """
    return 1 + sum(step * (count - 1) for step, count in digits)


def steps_of(digits: Iterable[tuple[int, int]]) -> tuple[Steps, bool]:
    """Digits that do not carry, with the sums of some digits; and whether these are all their sums:
    where they are not, there is one digit. A digit with one value tells that what others touch may
    be its step apart.

    >>> steps_of([(1, 4), (64, 2)]), steps_of([(1, 64), (64, 2)]), steps_of([(1, 3), (2, 5)])
    ((((64, 2), (1, 4)), True), (((1, 128),), True), (((1, 11),), True))
    >>> steps_of([(2, 3), (3, 2)])
    (((1, 8),), False)
    """
    found: list[tuple[int, int]] = []
    every = sorted(digits)
    several = [digit for digit in every if digit[1] > 1]
    apart = gcd(*(step for step, _ in every))
    if not several:
        return ((apart, 1),) if every else (), True
    for step, own in several:
        below, most = found[-1] if found else (step, 0)
        if found and step % below == 0 and step <= below * most:
            found[-1] = below, most + step // below * (own - 1)
        elif step >= span(found):
            found.append((step, own))
        else:
            return _in_one((*several, (apart, 1))), False
    if any(step % found[0][0] for step, own in every if own == 1):
        return _in_one((*several, (apart, 1))), False
    return tuple(reversed(found)), True


def _in_one(digits: Iterable[tuple[int, int]]) -> Steps:
    """One digit that has all sums of some."""
    every = tuple(digits)
    apart = gcd(*(step for step, _ in every))
    return ((apart, (span(every) - 1) // apart + 1),)


def contains(outer: Steps, inner: Steps, shift: int = 0) -> bool:
    """Whether all sums of digits, `shift` more each, are sums of others, and each step a multiple
    of one of theirs; False where no digit by itself tells.

    >>> contains(((64, 2), (1, 4)), ((1, 3),), 65), contains(((64, 2), (1, 4)), ((1, 5),))
    (True, False)
    """
    left = list(inner)
    for step, own in outer:
        above = [digit for digit in left if digit[0] % step == 0]
        left = [digit for digit in left if digit[0] % step]
        most = shift // step + (span(above) - 1) // step
        shift %= step
        if most >= own or span(left) + shift > step:
            return False
    return shift == 0 and not left


@dataclass(frozen=True, slots=True)
class Box:
    """In each dimension of a tensor, offset + n for all sums n of some digits."""

    offsets: tuple[LinearForm, ...]
    digits: tuple[Steps, ...]

    @property
    def sizes(self) -> tuple[int, ...]:
        """From the first to the last element in each dimension, both counted."""
        return tuple(map(span, self.digits))

    @property
    def steps(self) -> tuple[int, ...]:
        """What divides the distances of elements in each dimension: 0 where there is one element,
        and no loop that may run others, of other statements."""
        return tuple(gcd(*(step for step, _ in digits)) for digits in self.digits)

    @property
    def counts(self) -> tuple[int, ...]:
        """How many elements there are from the first to the last in each dimension, in steps."""
        pairs = zip(self.sizes, self.steps, strict=True)
        return tuple((size - 1) // (step or 1) + 1 for size, step in pairs)

    @property
    def held(self) -> tuple[int, ...]:
        """How many elements it has in each dimension."""
        return tuple(prod(count for _, count in digits) for digits in self.digits)

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The axes of a buffer of just its elements: one a digit, at least one a dimension."""
        return tuple(
            Axis(dimension, step, count)
            for dimension, digits in enumerate(self.digits)
            for step, count in digits or ((1, 1),)
        )

    def places(self, element: Iterable[LinearForm]) -> tuple[LinearForm, ...]:
        """The place of one element of the box along each of its axes."""
        left = [form - offset for form, offset in zip(element, self.offsets, strict=True)]
        found = []
        for axis in self.axes:
            form, step = left[axis.dimension], axis.step
            whole = {name: c // step for name, c in form.terms.items() if c % step == 0}
            found.append(Form(form.constant // step, whole))
            left[axis.dimension] = form.plus(found[-1], -step)
        return tuple(found)


def digits_of(tile: ArrayTile) -> tuple[Steps, ...]:
    """The digits of the elements that a tile has room for, in each dimension."""
    dimensions = range(len(tile.sizes))
    own = ([(a.step, a.size) for a in tile.layout if a.dimension == d] for d in dimensions)
    return tuple(steps_of(axes)[0] or ((1, 1),) for axes in own)


def whole(tensor: str, scop: Scop) -> tuple[HalfOpen, ...]:
    """All of a tensor, or of what is gathered."""
    return tuple((0, extent) for extent in scop.shape(tensor))


def start(statement: ScopStatement) -> dict[str, Digits]:
    """The position of a statement outside of all loops."""
    return {
        v: Digits(constant_form(begin), end - begin, (begin, end), exact=True)
        for v, (begin, end) in statement.ranges.items()
    }


def box(accesses: Iterable[tuple[Access, Position]]) -> Box | None:
    """The box around what accesses of one tensor touch; None if it has no fixed size or place.

    The accesses must move together: their offsets differ by constants.
    """
    found: Box | None = None
    for access, position in accesses:
        own = _box(access, position)
        if own is None:
            return None
        found = own if found is None else _hull(found, own)
        if found is None:
            return None
    return found


def _box(access: Access, position: Position) -> Box | None:
    offsets, found = [], []
    for subscript, (begin, end) in zip(access.subscripts, access.bounds, strict=True):
        if subscript is None and access.meets:
            offsets.append(constant_form(begin))
            found.append(steps_of([(1, end - begin)])[0])
            continue
        if subscript is None:
            return None
        offset = subscript.substituted({v: digits.base for v, digits in position.items()})
        for name, coefficient in subscript.terms.items():
            offset = offset.shifted(min(coefficient * (position[name].span - 1), 0))
        offsets.append(offset)
        found.append(taken(subscript, position)[0])
    return Box(tuple(offsets), tuple(found))


def taken(subscript: LinearForm, position: Position) -> tuple[Steps, bool]:
    """The digits of what a subscript takes below a place, from the least on; and whether it takes
    all of their sums."""
    return steps_of(
        (abs(coefficient) * step, count)
        for name, coefficient in subscript.terms.items()
        for step, count in position[name].digits
    )


def _hull(left: Box, right: Box) -> Box | None:
    offsets, found = [], []
    for a, b, one, other in zip(
        left.offsets, right.offsets, left.digits, right.digits, strict=True
    ):
        apart = b - a
        if apart.terms:
            return None
        offsets.append(a.shifted(min(apart.constant, 0)))
        found.append(_joined(one, other, apart.constant))
    return Box(tuple(offsets), tuple(found))


def _joined(one: Steps, other: Steps, apart: int) -> Steps:
    """Digits that have the sums of some, and those of others, which begin later by `apart`."""
    if apart < 0:
        return _joined(other, one, -apart)
    if contains(one, other, apart):
        return one
    if contains(other, one) and apart == 0:
        return other
    size = max(span(one), apart + span(other))
    if len(one) > 1 and [step for step, _ in one] == [step for step, _ in other]:
        counts = [max(n, m) for (_, n), (_, m) in zip(one, other, strict=True)]
        step, last = one[-1][0], max(one[-1][1], apart // one[-1][0] + other[-1][1])
        outer = zip((step for step, _ in one[:-1]), counts, strict=False)
        found, _ = steps_of([*outer, (step, last)])
        if span(found) == size and contains(found, one) and contains(found, other, apart):
            return found
    step = gcd(*(step for step, _ in (*one, *other)), apart)
    return ((step, (size - 1) // (step or 1) + 1),) if step else ()


def repeats(trips: int) -> bool:
    """Whether a loop may have more than one iteration."""
    return not surely(trips, "<=", 1)


def trips_of(member: Member, statements: Iterable[ScopStatement]) -> int:
    """How many iterations a member has that runs statements, from its origin."""
    ends = []
    for statement in statements:
        value = member.values[statement.name]
        end = 1 if value.variable is None else statement.ranges[value.variable][1]
        ends.append(end + value.offset)
    return count(member, max(ends) - member.origin)


def enter(
    position: Position, member: Member, statement: str, loop: LinearForm, trips: int
) -> dict[str, Digits]:
    """The position inside one iteration of a member, which has `trips`, and digit `loop`.

    Tails (a last tile that is not full) are left to the caller: `exact` stays as it was only if
    the digit splits the span evenly.
    """
    value = member.values.get(statement)
    if value is None or value.variable is None:
        return dict(position)
    digits = position[value.variable]
    free = without(digits.free, member.step, member.span)
    if free is None:
        raise InternalError(f"{member} of {statement} is no digit of what is left of it")
    shift = 0
    if free != digits.free == (FreeDigit(1),):  # the first digit
        shift = member.origin - value.offset - digits.limits[0]
    base, extent = digits.base.shifted(shift), digits.extent - shift
    if member.span is None:
        even = surely(extent, "==", trips * member.step)
    else:
        even = all(d.end is not None for d in digits.free) or extent % member.span == 0
    inside = replace(
        digits,
        base=base.plus(loop, member.step),
        extent=extent,
        free=free,
        exact=digits.exact and even and shift == 0,
        lane=member.role == VECTOR,
        tile=(digits.tile or base) if member.role in (UNROLL, VECTOR) else None,
    )
    return {**position, value.variable: inside}


def extent(member: Member, statement: ScopStatement) -> int:
    """How many values of the member a statement has."""
    if member.span is not None:
        return member.span // member.step
    variable = member.values[statement.name].variable
    if variable is None:
        return 1
    begin, end = statement.ranges[variable]
    return end - begin
