"""Where the walk over a schedule tree stands, and what is touched below that point.

`Digits` is what the loops around fix of one variable of one statement; the box around the
elements that accesses can touch below follows by plain arithmetic, as domains are boxes and
subscripts linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import gcd

from tc.affine.forms import Form, LinearForm, constant_form
from tc.errors import InternalError
from tc.plan import UNROLL, VECTOR
from tc.polyhedral.schedule import Member, count
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
    def step(self) -> int:
        """All of these values are multiples of it apart; 0 where there is one only, and no loop,
        which may run others, of other statements."""
        return gcd(*(d.step for d in self.free if d.end is None or self._count(d) > 1))

    @property
    def counts(self) -> tuple[tuple[int, int], ...]:
        """The step of each free digit that has several values, and how many it has."""
        counts = ((digit.step, self._count(digit)) for digit in self.free)
        return tuple((step, count) for step, count in counts if count > 1)

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


@dataclass(frozen=True, slots=True)
class Box:
    """offset, offset + step, ... in each dimension of a tensor, `size` elements from the first to
    the last."""

    offsets: tuple[LinearForm, ...]
    sizes: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many elements it has in each dimension."""
        pairs = zip(self.sizes, self.steps, strict=True)
        return tuple((size - 1) // (step or 1) + 1 for size, step in pairs)

    def places(self, element: Iterable[LinearForm]) -> tuple[LinearForm, ...]:
        """The subscripts of one element of the box."""
        found = []
        for form, offset, step in zip(element, self.offsets, self.steps, strict=True):
            inside = form - offset
            terms = {name: c // (step or 1) for name, c in inside.terms.items()}
            found.append(Form(inside.constant // (step or 1), terms))
        return tuple(found)


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
    offsets, sizes, steps = [], [], []
    for subscript in access.subscripts:
        if subscript is None:
            return None
        offset = subscript.substituted({v: digits.base for v, digits in position.items()})
        size = 1
        for name, coefficient in subscript.terms.items():
            reach = coefficient * (position[name].span - 1)
            size += abs(reach)
            offset = offset.shifted(min(reach, 0))
        offsets.append(offset)
        sizes.append(size)
        apart = (c * position[name].step for name, c in subscript.terms.items())
        steps.append(gcd(*apart))
    return Box(tuple(offsets), tuple(sizes), tuple(steps))


def _hull(left: Box, right: Box) -> Box | None:
    offsets, sizes, steps = [], [], []
    for axis, (a, n) in enumerate(zip(left.offsets, left.sizes, strict=True)):
        apart = right.offsets[axis] - a
        if apart.terms:
            return None
        low = min(apart.constant, 0)
        offsets.append(a.shifted(low))
        sizes.append(max(n, apart.constant + right.sizes[axis]) - low)
        steps.append(gcd(left.steps[axis], right.steps[axis], apart.constant))
    return Box(tuple(offsets), tuple(sizes), tuple(steps))


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
        even = extent == trips * member.step
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
