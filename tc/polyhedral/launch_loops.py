"""The loops of a launch: who runs them, how often, and which digits of variables they fix."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TypeAlias

from tc.plan import AXES, BLOCK, REGISTER, SHARED, THREAD
from tc.polyhedral import schedule
from tc.polyhedral.codegen.launches import launch_sizes, used_of
from tc.polyhedral.codegen.thread_sums import combined_axes, exchange_of, replicas_of
from tc.polyhedral.footprint import trips_of
from tc.polyhedral.instance_pairs import Digit
from tc.polyhedral.schedule import (
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Value,
    own_of_threads,
)
from tc.polyhedral.scop.scop import Scop, ScopStatement

Numbered: TypeAlias = "tuple[str, str]"
"""A role, "block" or "thread", and an axis: what has numbers."""


@dataclass(frozen=True, eq=False, slots=True)
class LaunchLoop:
    """A member of a launch that has `trips` iterations; `is_full`: wherever it is run. Of the
    numbers along its axis, the loops inside of it that are bound to the axis, too, take `inside`
    for each of its iterations, of which `room` have numbers."""

    member: Member
    trips: int
    is_full: bool
    inside: int = 1
    room: int = 1

    @property
    def numbered(self) -> Numbered:
        """Whose numbers run it, if it has an axis."""
        return self.member.role, self.member.axis or ""

    @property
    def fixed(self) -> frozenset[Numbered]:
        """Whose numbers are known in an iteration, if those in the loops around are."""
        return frozenset((self.numbered,) if self.member.axis and self.inside == 1 else ())

    @property
    def width(self) -> int:
        """How many run it at once."""
        if self.member.axis is None:
            return 1
        return used_of(self.member, self.trips)

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


def is_pinned(loop: LaunchLoop, statement: str) -> bool:
    """Whether a statement runs in one of several iterations of a loop."""
    return loop.trips > 1 and loop.member.values[statement].variable is None


@dataclass(frozen=True, slots=True)
class VariableDigit:
    """A digit of a variable, of which it counts `step` each, and has `count` values."""

    step: int
    count: int
    digit: Callable[[int, str], Digit]


class LaunchLoops:
    """The loops of a part that is one launch: those around each statement in `to`; `widths` tells
    how many blocks, and threads of a block, there are along each axis."""

    def __init__(self, part: Node, scop: Scop) -> None:
        self.scop = scop
        self.widths = launch_sizes(part, scop)
        self._loops: dict[int, tuple[LaunchLoop, ...]] = {}
        self._add_loops(part, self.widths)
        self.to = dict(self._to_leaves(part, ()))
        self.replicas = replicas_of(part, scop)
        self._inside: dict[int, frozenset[Numbered]] = {}
        self._full: dict[str, ScopStatement] = {}

    def of(self, node: Node) -> tuple[LaunchLoop, ...]:
        """Those of a band, outermost first; none of another node."""
        return self._loops.get(id(node), ())

    @cached_property
    def threads(self) -> int:
        """Of a block."""
        return prod(width for (role, _), width in self.widths.items() if role == THREAD)

    def axes(self, role: str) -> list[Numbered]:
        """Those along which there are several of a role."""
        return [key for key, width in self.widths.items() if key[0] == role and width > 1]

    def waits(self, node: Node) -> bool:
        """Whether threads combine accumulators at a node through shared memory, so that all threads
        of a block wait there for each other."""
        axes = combined_axes(node) if isinstance(node, Expansion) else frozenset[str]()
        threads = {axis: self.widths.get((THREAD, axis), 1) for axis in AXES}
        return bool(axes) and exchange_of(axes, threads).partials > 1

    def unbound(self, node: Node, bound: Collection[Numbered]) -> frozenset[Numbered]:
        """The axes of blocks to which nothing binds a node, so that number 0 alone runs it."""
        free = frozenset(self.axes(BLOCK)).difference(bound)
        if free and id(node) not in self._inside:
            inside = ((m.role, m.axis or "") for m in schedule.members(node))
            self._inside[id(node)] = frozenset(inside)
        return free.difference(self._inside[id(node)]) if free else free

    def leaves_out(self, loop: LaunchLoop) -> bool:
        """Whether some blocks have no iteration of a loop."""
        return loop.member.role == BLOCK and loop.width < loop.room

    def _add_loops(self, node: Node, left: Mapping[Numbered, int]) -> None:
        """Adds the loops of the bands of a tree, inside of loops that leave so many numbers along
        axes."""
        if isinstance(node, Band):
            statements = [self.scop.statement(name) for name in schedule.leaves(node)]
            inside = dict(launch_sizes(node.child, self.scop))
            loops: list[LaunchLoop] = []
            for member in reversed(node.members):
                trips = trips_of(member, statements)
                loop = LaunchLoop(member, trips, _is_full(member, trips, statements))
                if member.axis is not None:
                    loop = replace(loop, inside=inside.get(loop.numbered, 1))
                    inside[loop.numbered] = loop.inside * loop.width
                loops.insert(0, loop)
            for place, loop in enumerate(loops):
                if loop.member.axis is not None:
                    loops[place] = replace(loop, room=-(-left[loop.numbered] // loop.inside))
                    left = {**left, loop.numbered: loop.inside}
            self._loops[id(node)] = tuple(loops)
        for child in schedule.children(node):
            self._add_loops(child, left)

    def _to_leaves(
        self, node: Node, around: tuple[LaunchLoop, ...]
    ) -> Iterator[tuple[str, tuple[LaunchLoop, ...]]]:
        if isinstance(node, Leaf):
            yield node.statement, around
        for child in schedule.children(node):
            yield from self._to_leaves(child, (*around, *self.of(node)))

    def in_full(self, statement: ScopStatement) -> ScopStatement:
        """A statement with instances in all iterations of its loops, as of what is copied in them,
        and of what is beyond its range."""
        name = statement.name
        if name not in self._full:
            ranges = dict(statement.ranges)
            for loop in self.to[name]:
                variable = loop.member.values[name].variable
                if variable is not None and loop.trips > 1:
                    begin = loop.member.origin - loop.member.values[name].offset
                    end = begin + loop.member.step * loop.trips
                    ranges[variable] = begin, max(end, ranges[variable][1])
            self._full[name] = replace(statement, ranges=ranges)
        return self._full[name]

    def origin(self, name: str, variable: str) -> int:
        """The value of a variable in the first iteration of the loops that run along it."""
        members = (loop.member for loop in self.to[name])
        member = next(m for m in members if m.values[name].variable == variable)
        return member.origin - member.values[name].offset

    def split(
        self, name: str, variable: str, loops: tuple[LaunchLoop, ...], scope: str
    ) -> tuple[list[VariableDigit], list[VariableDigit]]:
        """The digits of a variable that loops around a tile fix, and those that they do not: what
        threads share holds the elements of all of them, and registers those of one thread."""
        own = own_of_threads([loop.member for loop in self.to[name]])
        fixed: list[VariableDigit] = []
        free: list[VariableDigit] = []
        for loop in self.to[name]:
            if loop.member.values[name].variable != variable or loop.trips == 1:
                continue
            step = loop.member.step
            is_fixed = loop in loops and not (scope == SHARED and loop.member.role == THREAD)
            is_fixed = is_fixed or (scope == REGISTER and loop.member in own)
            (fixed if is_fixed else free).append(VariableDigit(step, loop.trips, loop.digit))
        return fixed, free


def _is_full(member: Member, trips: int, statements: list[ScopStatement]) -> bool:
    """Whether a loop has all its iterations wherever it is run."""
    if member.role == BLOCK:
        return trips % used_of(member, trips) == 0
    if member.span is None or member.role == THREAD:
        return True
    for statement in statements:
        value = member.values[statement.name]
        if value.variable is not None:
            end = statement.ranges[value.variable][1] + value.offset - member.origin
            if end % member.span:
                return False
    return True
