"""Where the walk over a schedule tree stands, and what is touched below that point.

`Digits` is what the loops around fix of one variable of one statement; the box around the
elements that accesses can touch below follows by plain arithmetic, as domains are boxes and
subscripts linear.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tc.errors import InternalError
from tc.plan import UNROLL, VECTOR
from tc.polyhedral.linear_forms import add, constant_form, substitute
from tc.polyhedral.schedule import Member, count
from tc.polyhedral.scop.scop import Access, HalfOpen, Scop, ScopStatement
from tc.semantics.affine import LinearForm


@dataclass(frozen=True, slots=True)
class Digits:
    """A variable takes the values base, base + 1, ..., base + span - 1 below, those of them in
    `limits` (half-open). `exact`: all of them are. `lane`: the last digit is a vector's lanes.
    `tile` is the base of the tile of unrolled iterations and lanes around, if there is one."""

    base: LinearForm
    span: int
    limits: HalfOpen
    exact: bool
    lane: bool = False
    tile: LinearForm | None = None


Position = Mapping[str, Digits]
"""What is fixed of each variable of a statement."""


@dataclass(frozen=True, slots=True)
class Box:
    """offset, ..., offset + size - 1 in each dimension of a tensor."""

    offsets: tuple[LinearForm, ...]
    sizes: tuple[int, ...]


def whole(tensor: str, scop: Scop) -> tuple[HalfOpen, ...]:
    """All of a tensor."""
    return tuple((0, extent) for extent in scop.shaped.shapes[tensor])


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
    offsets, sizes = [], []
    for subscript in access.subscripts:
        if subscript is None:
            return None
        offset = substitute(subscript, {v: digits.base for v, digits in position.items()})
        size = 1
        for name, coefficient in subscript.terms.items():
            reach = coefficient * (position[name].span - 1)
            size += abs(reach)
            offset = add(offset, constant_form(min(reach, 0)))
        offsets.append(offset)
        sizes.append(size)
    return Box(tuple(offsets), tuple(sizes))


def _hull(left: Box, right: Box) -> Box | None:
    offsets, sizes = [], []
    for a, n, b, m in zip(left.offsets, left.sizes, right.offsets, right.sizes, strict=True):
        apart = add(b, a, -1)
        if apart.terms:
            return None
        low = min(apart.constant, 0)
        offsets.append(add(a, constant_form(low)))
        sizes.append(max(n, apart.constant + m) - low)
    return Box(tuple(offsets), tuple(sizes))


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
    if member.span is None:
        shift = member.origin - value.offset - digits.limits[0]
        base = add(digits.base, constant_form(shift))
        even = digits.limits[1] - digits.limits[0] == trips * member.step and shift == 0
    else:
        if digits.span != member.span:
            raise InternalError(f"{member} of {statement} splits {digits.span} values")
        base, even = digits.base, digits.span % member.step == 0
    inside = replace(
        digits,
        base=add(base, loop, member.step),
        span=member.step,
        exact=digits.exact and even,
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
