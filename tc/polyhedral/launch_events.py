"""What a launch touches, and where: the accesses of statements and the copies of promoted tiles, as
events on the way through a part of a schedule tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile
from math import prod
from typing import TypeAlias

from tc.plan import BLOCK, PACKED, REGISTER, SHARED, THREAD
from tc.polyhedral import schedule
from tc.polyhedral.footprint import trips_of, whole
from tc.polyhedral.instance_pairs import Digit
from tc.polyhedral.legality import Path, Step
from tc.polyhedral.schedule import (
    ArrayTile,
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Promotion,
    Value,
)
from tc.polyhedral.scop.scop import Access, HalfOpen, Scop, ScopStatement

Numbered: TypeAlias = "tuple[str, str | None]"
"""A role, "block" or "thread", and an axis: what has numbers."""

BEFORE, WITHIN, AFTER = 0, 1, 2
"""Places at a node that copies: what is fetched, what lies below, what is written back."""


@dataclass(frozen=True, eq=False, slots=True)
class LaunchLoop:
    """A member of a launch that has `trips` iterations; `is_full`: wherever it is run."""

    member: Member
    trips: int
    is_full: bool

    @property
    def numbered(self) -> Numbered:
        """Whose numbers run it, if it has an axis."""
        return self.member.role, self.member.axis

    @property
    def width(self) -> int:
        """How many run it at once."""
        if self.member.axis is None:
            return 1
        return self.trips if self.member.count is None else min(self.member.count, self.trips)

    @property
    def turns(self) -> int:
        """How often what is inside of it runs, one after the other."""
        return -(-self.trips // self.width)

    def turn(self, side: int, statement: str) -> Digit:
        """The number of the turn in which an instance runs."""
        return self.digit(side, statement, () if self.width == 1 else (("div", self.width),))

    def runner(self, side: int, statement: str) -> Digit:
        """The number of who runs an instance."""
        return self.digit(side, statement, () if self.turns == 1 else (("mod", self.width),))

    def digit(self, side: int, statement: str, then: tuple[tuple[str, int], ...] = ()) -> Digit:
        """The number of an instance's iteration."""
        member = self.member
        value = member.values[statement]
        steps = () if member.span is None else (("mod", member.span),)
        if member.step > 1:
            steps = (*steps, ("div", member.step))
        return Digit(side, Value(value.variable, value.offset - member.origin), (*steps, *then))


@dataclass(frozen=True, eq=False, slots=True)
class Storage:
    """Where elements of a tensor lie: in memory, or in a buffer with some loops around it."""

    tensor: str
    scope: str
    loops: tuple[LaunchLoop, ...] = ()


@dataclass(frozen=True, eq=False, slots=True)
class Event:
    """A statement's access, or the copy of a `tile`, seen from one of the places that it touches.

    `access` None: all of the buffer. `runners` are the loops whose numbers run it, number 0 where
    there is none; along the axes `anyone`, any may.
    """

    path: tuple[Step, ...]
    loops: tuple[LaunchLoop, ...]
    storage: Storage
    writes: bool
    statement: str
    access: Access | None
    runners: Mapping[Numbered, LaunchLoop]
    anyone: frozenset[Numbered] = frozenset()
    tile: ArrayTile | None = None


@dataclass(frozen=True, slots=True)
class VariableDigit:
    """A digit of a variable, of which it counts `step` each, and has `count` values."""

    step: int
    count: int
    digit: Callable[[int, str], Digit]


def common_steps(a: Event, b: Event) -> int:
    """How many steps two events have in common."""
    pairs = zip(a.path, b.path, strict=False)
    return sum(1 for _ in takewhile(lambda steps: _is_same(*steps), pairs))


def common_loops(a: Event, b: Event) -> tuple[LaunchLoop, ...]:
    """The loops around two events."""
    steps = a.path[: common_steps(a, b)]
    return a.loops[: sum(isinstance(step.node, Band) for step in steps)]


MEMORY = "memory"
"""The scope of what is not promoted."""

Places: TypeAlias = "Mapping[str, Storage]"


class LaunchEvents:
    """The events of a part that is one launch; `widths` tells how many blocks, and threads of a
    block, it has along each axis."""

    def __init__(self, part: Node, scop: Scop) -> None:
        self.scop = scop
        self.all: list[Event] = []
        self.widths: dict[Numbered, int] = {}
        self._loops: dict[int, tuple[LaunchLoop, ...]] = {}
        for node in schedule.nodes(part):
            if isinstance(node, Band):
                self._add_loops(node)
        self.loops_to = dict(self._loops_to_leaves(part, ()))
        self.at: dict[tuple[int, int], list[Event]] = {}
        memory = {
            tensor: Storage(tensor, MEMORY)
            for tensor in (*scop.shaped.program.tensors, *scop.gathers)
        }
        self._walk(part, (), (), memory)

    def loops_of(self, node: Node) -> tuple[LaunchLoop, ...]:
        """Those of a band, outermost first; none of another node."""
        return self._loops.get(id(node), ())

    @cached_property
    def threads(self) -> int:
        """Of a block."""
        return prod(width for (role, _), width in self.widths.items() if role == THREAD)

    def axes(self, role: str) -> list[Numbered]:
        """Those along which there are several of a role."""
        return [key for key, width in self.widths.items() if key[0] == role and width > 1]

    def unbound(self, node: Node, bound: Collection[Numbered]) -> frozenset[Numbered]:
        """The axes of blocks to which nothing binds a node, so that number 0 alone runs it."""
        inside = {(m.role, m.axis) for m in schedule.members(node)}
        return frozenset(self.axes(BLOCK)).difference(bound, inside)

    def leaves_out(self, loop: LaunchLoop) -> bool:
        """Whether some blocks have no iteration of a loop."""
        return loop.member.role == BLOCK and loop.width < self.widths[loop.numbered]

    def _add_loops(self, band: Band) -> None:
        statements = [self.scop.statement(name) for name in schedule.leaves(band)]
        loops = []
        for member in band.members:
            trips = trips_of(member, statements)
            loops.append(LaunchLoop(member, trips, _is_full(member, trips, statements)))
        for loop in loops:
            if loop.member.axis is not None:
                width = max(self.widths.get(loop.numbered, 1), loop.width)
                self.widths[loop.numbered] = width
        self._loops[id(band)] = tuple(loops)

    def _loops_to_leaves(
        self, node: Node, around: tuple[LaunchLoop, ...]
    ) -> Iterator[tuple[str, tuple[LaunchLoop, ...]]]:
        if isinstance(node, Leaf):
            yield node.statement, around
        for child in schedule.children(node):
            yield from self._loops_to_leaves(child, (*around, *self.loops_of(node)))

    # --- the walk ---

    def _walk(self, node: Node, path: Path, loops: tuple[LaunchLoop, ...], places: Places) -> None:
        """Adds the events below a node; `places` is where each tensor lies."""
        match node:
            case Leaf(statement=name):
                self._add_leaf(node, path, loops, places)
            case Promotion(tiles=tiles, child=child):
                inside = dict(places)
                for tile in tiles:
                    inside[tile.tensor] = Storage(tile.tensor, tile.scope, loops)
                    if tile.scope != PACKED:
                        self._add_copies(node, tile, path, loops, places, inside)
                self._walk(child, (*path, Step(node, WITHIN)), loops, inside)
            case Expansion(statement=name, child=child):
                target = self.scop.statement(name).write
                runners, anyone = self._of_one_thread(node, loops)
                end, outer = (*path, Step(node, AFTER)), places[target.tensor]
                self._add(Event(end, loops, outer, True, name, target, runners, anyone))
                held = Storage(target.tensor, REGISTER, loops)
                inside = {**places, target.tensor: held}
                self._walk(child, (*path, Step(node, WITHIN)), loops, inside)
            case _:
                own = self.loops_of(node)
                for place, child in enumerate(schedule.children(node)):
                    steps = [Step(node, i) for i in range(len(own))] or [Step(node, place)]
                    self._walk(child, (*path, *steps), (*loops, *own), places)

    def _add(self, event: Event) -> None:
        self.all.append(event)
        last = event.path[-1]
        self.at.setdefault((id(last.node), last.place), []).append(event)

    def _add_leaf(
        self, leaf: Leaf, path: Path, loops: tuple[LaunchLoop, ...], places: Places
    ) -> None:
        statement = self.scop.statement(leaf.statement)
        runners = {loop.numbered: loop for loop in loops if loop.member.axis is not None}
        place = (*path, Step(leaf, WITHIN))
        added: list[Access] = []
        for access in statement.promotable:
            if any(same_access(access, other) for other in added):
                continue
            storage, writes = places[access.tensor], not added
            self._add(Event(place, loops, storage, writes, leaf.statement, access, runners))
            added.append(access)

    def _add_copies(
        self,
        node: Promotion,
        tile: ArrayTile,
        path: Path,
        loops: tuple[LaunchLoop, ...],
        places: Places,
        inside: Places,
    ) -> None:
        runners, anyone = self._of_one_thread(node, loops)
        if tile.scope == SHARED:
            runners = {key: loop for key, loop in runners.items() if key[0] == BLOCK}
            several = self.axes(THREAD) if prod(tile.shape) > 1 else ()
            anyone = frozenset((*several, *(key for key in anyone if key[0] == BLOCK)))
        users = [
            (name, access)
            for name in schedule.leaves(node)
            for access in self.scop.statement(name).promotable
            if access.tensor == tile.tensor
        ]
        moved = self._moved(tile, loops, users)
        for is_done, at in ((tile.fetch, BEFORE), (tile.write_back, AFTER)):
            if not is_done:
                continue
            place = (*path, Step(node, at))
            event = Event(
                place, loops, places[tile.tensor], at == AFTER, "", None, runners, anyone, tile
            )
            for name, access in moved:
                self._add(replace(event, statement=name, access=access))
            if tile.scope == SHARED:
                own = inside[tile.tensor]
                self._add(replace(event, storage=own, writes=at == BEFORE, statement=users[0][0]))

    def _of_one_thread(
        self, node: Node, loops: tuple[LaunchLoop, ...]
    ) -> tuple[Mapping[Numbered, LaunchLoop], frozenset[Numbered]]:
        """Whose numbers run what each thread does itself at a node; where loops below it are bound
        to an axis, any along that axis."""
        runners = {loop.numbered: loop for loop in loops if loop.member.axis is not None}
        below = (loop for inner in schedule.nodes(node) for loop in self.loops_of(inner))
        anyone = {loop.numbered for loop in below if loop.member.axis is not None}
        return runners, frozenset(anyone)

    def _moved(
        self, tile: ArrayTile, loops: tuple[LaunchLoop, ...], users: list[tuple[str, Access]]
    ) -> list[tuple[str, Access]]:
        """What a copy touches: just what one access does, or anything within its limits."""
        limits = tile.limits or whole(tile.tensor, self.scop)
        for name, access in users:
            if self._is_exact(tile, limits, loops, name, access):
                return [(name, access)]
        anything = Access(tile.tensor, (None,) * len(limits), limits)
        return [(name, anything) for name in dict.fromkeys(name for name, _ in users)]

    def _is_exact(
        self,
        tile: ArrayTile,
        limits: tuple[HalfOpen, ...],
        loops: tuple[LaunchLoop, ...],
        name: str,
        access: Access,
    ) -> bool:
        """Whether the elements of a tile are those that an access touches inside of some loops."""
        if any(loop.member.values[name].variable is None and loop.trips > 1 for loop in loops):
            return False
        seen: set[str] = set()
        for d, subscript in enumerate(access.subscripts):
            if subscript is None or limits[d] != access.bounds[d]:
                return False
            terms = {variable: c for variable, c in subscript.terms.items() if c}
            if len(terms) > 1 or not seen.isdisjoint(terms) or set(terms.values()) - {1, -1}:
                return False
            seen.update(terms)
            held = prod(axis.size for axis in tile.layout if axis.dimension == d)
            if held != prod(self._free(name, v, loops, tile.scope) for v in terms):
                return False
        return True

    def _free(self, name: str, variable: str, loops: tuple[LaunchLoop, ...], scope: str) -> int:
        """How many values of a variable a tile inside of some loops holds."""
        fixed, free = self.split(name, variable, loops, scope)
        if fixed:
            return prod(digit.count for digit in free)
        begin, end = self.scop.statement(name).ranges[variable]
        return end - begin

    def split(
        self, name: str, variable: str, loops: tuple[LaunchLoop, ...], scope: str
    ) -> tuple[list[VariableDigit], list[VariableDigit]]:
        """The digits of a variable that loops around a tile fix, and those that they do not: what
        threads share holds the elements of all of them."""
        fixed, free = [], []
        for loop in self.loops_to[name]:
            if loop.member.values[name].variable != variable or loop.trips == 1:
                continue
            step = loop.member.step
            if loop not in loops:
                free.append(VariableDigit(step, loop.trips, loop.digit))
            elif scope == SHARED and loop.member.role == THREAD:
                free.append(VariableDigit(step, loop.width, loop.runner))
                if loop.turns > 1:
                    fixed.append(VariableDigit(step * loop.width, loop.turns, loop.turn))
            else:
                fixed.append(VariableDigit(step, loop.trips, loop.digit))
        return fixed, free


def _is_same(a: Step, b: Step) -> bool:
    return a.node is b.node and a.place == b.place


def same_access(a: Access, b: Access) -> bool:
    """Whether two accesses touch the same element."""
    return a.tensor == b.tensor and a.subscripts == b.subscripts and a.bounds == b.bounds


def _is_full(member: Member, trips: int, statements: list[ScopStatement]) -> bool:
    """Whether a loop has all its iterations wherever it is run."""
    if member.role == BLOCK:
        width = trips if member.count is None else min(member.count, trips)
        return trips % width == 0
    if member.span is None or member.role == THREAD:
        return True
    for statement in statements:
        value = member.values[statement.name]
        if value.variable is not None:
            end = statement.ranges[value.variable][1] + value.offset - member.origin
            if end % member.span:
                return False
    return True
