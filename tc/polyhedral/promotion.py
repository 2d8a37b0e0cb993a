"""Which tiles of tensors are promoted, and how their buffers are laid out.

A reference group is all accesses to one tensor below a node; it is promoted if a box of fixed size
moves with the loops around. Registers hold the targets of a block; packed panels an operand in
the order in which vectors read it; staged tiles an output that is strided along the vector; padded
tiles an input with its padding; local tiles a temporary that no one else sees.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from math import prod

from tc.dtypes import compute_dtype
from tc.polyhedral.cpu.analysis import Block, Facts
from tc.polyhedral.cpu.register_tiles import RegisterTile
from tc.polyhedral.footprint import Box, Position, box, enter, start, values_of
from tc.polyhedral.schedule import ArrayTile, Axis, Member, count
from tc.polyhedral.scop.scop import Access, Interval, Scop, ScopStatement
from tc.polyhedral.scop.zero_fills import subtract
from tc.semantics.affine import LinearForm


@dataclass(frozen=True)
class Reach:
    """`around`: members outside of the node, outermost first; `inside`, by statement: those, or
    digits of those, that run below it. A whole member there is one whose values all occur below, or
    all of a tile around."""

    scop: Scop
    around: tuple[Member, ...]
    inside: Mapping[str, tuple[Member, ...]]

    def box(self, tensor: str, users: Iterable[ScopStatement]) -> Box | None:
        """The box of what statements touch of a tensor; None if it has no fixed size or place."""
        return box(
            (access, self._position(s))
            for s in users
            for access in (s.write, *s.reads)
            if access.tensor == tensor
        )

    def always(self, statement: ScopStatement) -> bool:
        """Whether a statement runs in each iteration of the loops around."""
        for member in self.around:
            value = member.values.get(statement.name)
            if value is None or member.span is not None:
                continue
            begin, end = (0, 1) if value.variable is None else statement.ranges[value.variable]
            shift = value.offset - member.origin
            final = values_of(member, map(self.scop.statement, member.values)) - 1
            if (begin + shift) // member.step > 0:
                return False
            if (end - 1 + shift) // member.step < final // member.step:
                return False
        return True

    def writes_first(
        self, tensor: str, users: Sequence[ScopStatement], touched: tuple[Interval, ...]
    ) -> bool:
        """Whether in each iteration of the loops around, statements write all of `touched` that
        lies in the box, before any reads it. The users are in text order."""
        found = self.box(tensor, users)
        if found is None:
            return False
        needed = tuple(
            (begin, end) if offset.terms else _common((begin, end), offset.constant, size)
            for offset, size, (begin, end) in zip(found.offsets, found.sizes, touched, strict=True)
        )
        left: Iterable[tuple[Interval, ...]] = [needed]
        for s in takewhile(lambda s: not _reads(s, tensor), users):
            if s.write.tensor == tensor and not self._is_pinned(s):
                left = subtract(left, self._written(s, found))
        return not any(all(begin < end for begin, end in piece) for piece in left)

    def _written(self, statement: ScopStatement, whole: Box) -> tuple[Interval, ...]:
        """What of its target a statement writes in each iteration of the loops around: in
        dimensions in which the box moves with these, nothing if it does not write all of that."""
        own = box([(statement.write, self._position(statement))])
        assert own is not None
        written = []
        for d, bounds in enumerate(statement.write.bounds):
            offset, size = own.offsets[d], own.sizes[d]
            if not offset.terms:
                written.append(_common(bounds, offset.constant, size))
            elif (offset, size) == (whole.offsets[d], whole.sizes[d]):
                written.append(bounds)
            else:
                written.append((0, 0))
        return tuple(written)

    def _is_pinned(self, statement: ScopStatement) -> bool:
        """Whether a statement runs in one iteration only of a loop around."""
        return any(
            m.values[statement.name].variable is None and self._iterations(m) > 1
            for m in self.around
            if statement.name in m.values
        )

    def _iterations(self, member: Member) -> int:
        return count(member, values_of(member, map(self.scop.statement, member.values)))

    def _position(self, statement: ScopStatement) -> Position:
        """Where the walk that makes the loops will stand at the node."""
        position = start(statement)
        for member in self.around:
            digit = self._outer_digit(member, statement.name)
            if digit is not None:
                several = self._iterations(digit) > 1
                loop = LinearForm(0, {f"{digit.name}.{digit.step}": 1} if several else {})
                position = enter(position, digit, statement.name, loop, 1 + several)
        return position

    def _outer_digit(self, member: Member, name: str) -> Member | None:
        """What of a member around the node is fixed there; None if nothing is."""
        value = member.values.get(name)
        if value is None or value.variable is None:
            return None
        below = [m for m in self.inside.get(name, ()) if m.values[name].variable == value.variable]
        if any(m.span is None for m in below):
            return member if self._has_tile(member, name) else None
        step = max((member.step, *(m.span for m in below if m.span is not None)))
        if member.span is not None and step >= member.span:
            return None
        return replace(member, step=step)

    def _has_tile(self, member: Member, name: str) -> bool:
        """Whether a member counts tiles, inside of which another runs."""
        variable = member.values[name].variable
        return member.span is None and any(
            m.span == member.step and m.values[name].variable == variable
            for m in self.around
            if name in m.values
        )


def touches(statement: ScopStatement, tensor: str) -> bool:
    return any(a.tensor == tensor for a in (statement.write, *statement.reads))


def is_rounded_between(tensor: str, users: Iterable[ScopStatement], scop: Scop) -> bool:
    """Whether statements of the program give each other values that are rounded on the way (Y8),
    which a buffer in the type of computation would not do."""
    dtype = scop.shaped.program.tensors[tensor].dtype
    return dtype != compute_dtype(dtype) and len({s.position for s in users}) > 1


def _reads(statement: ScopStatement, tensor: str) -> bool:
    return any(a.tensor == tensor for a in statement.reads)


def _common(bounds: Interval, begin: int, size: int) -> Interval:
    return max(bounds[0], begin), min(bounds[1], begin + size)


@dataclass(frozen=True)
class Copies:
    """Which elements of a tile are copied: those within `limits` (as `ArrayTile` has them). They
    are fetched unless the statements within surely write each before it is read."""

    fetch: bool
    limits: tuple[Interval, ...] | None


def copies(tensor: str, some: Iterable[ScopStatement], reach: Reach) -> Copies | None:
    """What must be copied for a tile that some statements use.

    None where a tile would copy what it must not: elements that none of them touches, which others
    may write meanwhile, or that nobody has written yet.
    """
    names = {s.name for s in some}
    users = [s for s in reach.scop.statements if s.name in names]
    bounds = [a.bounds for s in users for a in s.accesses if a.tensor == tensor]
    touched = _hull(bounds)
    if touched not in bounds:
        return None
    shape = reach.scop.shaped.shapes[tensor]
    limits = None if touched == tuple((0, extent) for extent in shape) else touched
    if reach.writes_first(tensor, users, touched):
        return Copies(False, limits)
    return Copies(True, limits) if _is_defined(tensor, touched, users[0], reach.scop) else None


def _hull(bounds: Sequence[tuple[Interval, ...]]) -> tuple[Interval, ...]:
    return tuple(
        (min(begin for begin, _ in axis), max(end for _, end in axis))
        for axis in zip(*bounds, strict=True)
    )


def _is_defined(
    tensor: str, touched: tuple[Interval, ...], first: ScopStatement, scop: Scop
) -> bool:
    """Whether elements hold values before a statement: the caller's, or those of statements before
    it."""
    if tensor in scop.initial:
        return True
    left: Iterable[tuple[Interval, ...]] = [touched]
    for s in takewhile(lambda s: s is not first, scop.statements):
        if s.write.tensor == tensor:
            left = subtract(left, s.write.bounds)
    return not any(True for _ in left)


def is_needed_later(tensor: str, own: Iterable[str], facts: Facts) -> bool:
    """Whether a tensor is an output, or touched by statements other than those named."""
    if facts.scop.shaped.program.tensors[tensor].role == "output":
        return True
    names = set(own)
    return any(touches(s, tensor) for s in facts.scop.statements if s.name not in names)


def moves_as_one(tensor: str, users: Iterable[ScopStatement], around: Iterable[Member]) -> bool:
    """Whether all accesses of a tensor touch the same element in the same iteration."""
    forms = set()
    members = tuple(around)
    for s in users:
        along = {m.values[s.name].variable: m for m in members if s.name in m.values}
        for access in s.accesses:
            if access.tensor != tensor:
                continue
            if any(x is None or not set(x.terms) <= set(along) for x in access.subscripts):
                return False
            forms.add(tuple(_in_members(x, s.name, along) for x in access.subscripts if x))
    return len(forms) == 1


def _in_members(
    form: LinearForm, statement: str, along: Mapping[str | None, Member]
) -> tuple[int, tuple[tuple[str, int], ...]]:
    """A subscript by the values of members rather than by the variables of a statement."""
    shifts = (c * along[v].values[statement].offset for v, c in form.terms.items())
    terms = tuple(sorted((along[v].name, c) for v, c in form.terms.items()))
    return form.constant - sum(shifts), terms


def local_tiles(
    names: set[str], reach: Reach, facts: Facts, most_bytes: int
) -> Iterable[ArrayTile]:
    """Temporaries that only the statements named touch, as small buffers."""
    program = facts.scop.shaped.program
    for tensor in program.temporaries:
        users = [s for s in facts.scop.statements if touches(s, tensor)]
        if not users or any(s.name not in names for s in users):
            continue
        found = reach.box(tensor, users)
        if found is None or is_rounded_between(tensor, users, facts.scop):
            continue
        touched = _hull([a.bounds for s in users for a in s.accesses if a.tensor == tensor])
        if not reach.writes_first(tensor, users, touched):
            continue
        if not all(map(reach.always, users)):
            continue  # what lies beyond a range is computed too: it would read what nobody wrote
        if prod(found.sizes) * max(program.tensors[tensor].dtype.bytes, 4) <= most_bytes:
            layout = tuple(Axis(d, 1, n) for d, n in enumerate(found.sizes))
            name = f"{tensor}_local"
            yield ArrayTile(tensor, name, "scratch", found.sizes, layout, False, False)


def register_tile(
    tensor: str,
    sizes: tuple[int, ...],
    last: int | None,
    lanes: int,
    *,
    copied: Copies,
    keep: bool,
) -> ArrayTile:
    """Accumulators, the dimension `last` innermost, in vectors of `lanes`."""
    order = [d for d in range(len(sizes)) if d != last] + ([] if last is None else [last])
    layout = tuple(Axis(d, 1, sizes[d]) for d in order)
    width = lanes if last is not None else 1
    name = f"{tensor}_acc"
    fetch, limits = copied.fetch, copied.limits
    return ArrayTile(tensor, name, "register", sizes, layout, fetch, keep, width, limits=limits)


def packed_tile(
    access: Access,
    block: Block,
    chosen: RegisterTile,
    *,
    whole: bool,
    steps: Mapping[str, int] | None = None,
) -> ArrayTile:
    """A panel of the vector's width for each step of the reductions, of which `steps` may limit
    some to a part; with `whole`, all panels, the first where the vector's member begins, which may
    be before the statement does."""
    statement = block.main.statement
    width = chosen.lanes * chosen.vectors
    v = block.variable(chosen.vector)
    u = None if chosen.row is None else block.variable(chosen.row)
    reductions = set(statement.reduction)
    before = [0] * len(access.subscripts)
    sizes, outer, inner, panel = [], [], [], 0
    for d, subscript in enumerate(access.subscripts):
        assert subscript is not None
        size = 1
        for name, c in subscript.terms.items():
            begin, end = statement.ranges[name]
            reach = 1
            if name == v:
                reach = width
                if whole:
                    reach = values_of(chosen.vector, (i.statement for i in block.items))
                    value = chosen.vector.values[statement.name]
                    before[d] = begin + value.offset - chosen.vector.origin
            elif whole or name in reductions:
                reach = end - begin if steps is None else steps.get(name, end - begin)
            elif name == u:
                reach = chosen.rows
            size += abs(c) * (reach - 1)
        if v in subscript.terms:
            size = -(-size // width) * width
            panel = d
            outer.append(Axis(d, width, size // width))
        elif reductions & set(subscript.terms):
            inner.append(Axis(d, 1, size))
        else:
            outer.append(Axis(d, 1, size))
        sizes.append(size)
    # the order of the reduction's loops, so that a panel is read from one end to the other
    depth = {m.values[statement.name].variable: i for i, m in enumerate(block.main.reduction)}
    inner.sort(key=lambda a: max(depth.get(n, -1) for n in _terms(access, a.dimension)))
    layout = (*outer, *inner, Axis(panel, 1, width))
    kind = "temporary" if whole else "scratch"
    return ArrayTile(
        access.tensor,
        f"{access.tensor}_packed",
        kind,
        tuple(sizes),
        layout,
        True,
        False,
        chosen.lanes,
        before=tuple(before),
    )


def _terms(access: Access, dimension: int) -> Iterable[str]:
    subscript = access.subscripts[dimension]
    return () if subscript is None else subscript.terms


def blocked_tile(
    access: Access, block: Block, chosen: RegisterTile, sizes: tuple[int, ...]
) -> ArrayTile:
    """A square to be transposed: the vector's dimension innermost."""
    v = block.variable(chosen.vector)
    last = next(d for d in range(len(sizes)) if v in set(_terms(access, d)))
    order = [d for d in range(len(sizes)) if d != last] + [last]
    layout = tuple(Axis(d, 1, sizes[d]) for d in order)
    name = f"{access.tensor}_block"
    return ArrayTile(access.tensor, name, "scratch", sizes, layout, True, False, chosen.lanes)


def staged_tile(
    tensor: str, sizes: tuple[int, ...], last: int, lanes: int, *, copied: Copies, keep: bool
) -> ArrayTile:
    """A part of an output with the vector's dimension innermost, transposed on the way out."""
    order = [d for d in range(len(sizes)) if d != last] + [last]
    layout = tuple(Axis(d, 1, sizes[d]) for d in order)
    name = f"{tensor}_tile"
    fetch, limits = copied.fetch, copied.limits
    return ArrayTile(tensor, name, "scratch", sizes, layout, fetch, keep, lanes, limits=limits)


def lines_tile(tensor: str, sizes: tuple[int, ...]) -> ArrayTile:
    """A part of an output as it is in memory, written back in whole lines."""
    layout = tuple(Axis(d, 1, n) for d, n in enumerate(sizes))
    name = f"{tensor}_lines"
    return ArrayTile(tensor, name, "scratch", sizes, layout, False, True, lines=True)


def padded_tile(
    access: Access, sizes: tuple[int, ...], lanes: int, fill: int | float | bool
) -> ArrayTile:
    """A part of an input with what pad puts around it."""
    layout = tuple(Axis(d, 1, n) for d, n in enumerate(sizes))
    name = f"{access.tensor}_padded"
    return ArrayTile(access.tensor, name, "scratch", sizes, layout, True, False, lanes, fill)
