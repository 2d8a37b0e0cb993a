"""What a launch touches, and where: the accesses of statements and the copies of promoted tiles, as
events on the way through a part of a schedule tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import takewhile
from math import prod
from typing import TypeAlias

from tc.affine.forms import LinearForm
from tc.kernel.ir import row_major
from tc.plan import AXES, BLOCK, REGISTER, SCRATCH, SHARED, THREAD
from tc.polyhedral import schedule
from tc.polyhedral.codegen.copies import axis_along, contiguous_along, contiguous_in
from tc.polyhedral.codegen.copying_threads import copied_along, thread_digits
from tc.polyhedral.codegen.thread_sums import combined_axes
from tc.polyhedral.footprint import whole
from tc.polyhedral.launch_loops import LaunchLoop, LaunchLoops, Numbered, is_pinned
from tc.polyhedral.legality import Path, Step
from tc.polyhedral.schedule import (
    ArrayTile,
    Axis,
    Band,
    Expansion,
    Leaf,
    Node,
    Promotion,
    Value,
    own_of_threads,
)
from tc.polyhedral.scop.relations import SOURCE
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement

Steps: TypeAlias = "tuple[tuple[str, int], ...]"

Executing: TypeAlias = "Mapping[Numbered, tuple[LaunchLoop, ...]]"
"""The loops whose iterations are those of the numbers along an axis, outermost first."""

Share: TypeAlias = "tuple[Value, Steps]"
"""The number of a thread as a digit of a value."""

BEFORE, WITHIN, AFTER, COMBINED = 0, 1, 2, 3
"""Places at a node: what is fetched, what lies below, what is written back, or given to other
threads; and, behind the barrier at a node where threads combine accumulators, what they make of
these."""


@dataclass(frozen=True, eq=False, slots=True)
class Storage:
    """Where elements of a tensor lie: in memory, or in a buffer with some loops around it. Threads
    along the axes `replicated` have the same elements in a buffer each."""

    name: str
    scope: str
    loops: tuple[LaunchLoop, ...] = ()
    tile: ArrayTile | None = None
    replicated: frozenset[Numbered] = frozenset()

    @property
    def is_private(self) -> bool:
        """Whether each thread has its own."""
        return self.scope in (REGISTER, SCRATCH)


@dataclass(frozen=True, eq=False, slots=True)
class Event:
    """A statement's access, or the copy of a `tile`, seen from one of the places that it touches.

    The event stands for the instances of `domain`: for a copy, instances of a statement that uses
    the tile, which may be more than the statement has. Along an axis of the launch, the block or
    thread that runs the event has the number of iterations of some of `executing_loops`; or, of
    threads that copy together, the number in `copying_threads`; or any number along the axes
    `free_axes`; along other axes, the number 0. In an exchange of accumulators, each thread that
    writes has a place of its own.
    """

    path: tuple[Step, ...]
    loops: tuple[LaunchLoop, ...]
    storage: Storage
    writes: bool
    domain: ScopStatement
    access: Access
    executing_loops: Executing
    copying_threads: Mapping[Numbered, Share] = field(default_factory=dict)
    free_axes: frozenset[Numbered] = frozenset()
    tile: ArrayTile | None = None
    is_exchange: bool = False

    @property
    def statement(self) -> str:
        return self.domain.name


def _executing(loops: Iterable[LaunchLoop]) -> Executing:
    found: dict[Numbered, tuple[LaunchLoop, ...]] = {}
    for loop in loops:
        if loop.member.axis is not None:
            found[loop.numbered] = (*found.get(loop.numbered, ()), loop)
    return found


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
    """The events of a part that is one launch: `all`, and those at each place of a node."""

    def __init__(self, part: Node, scop: Scop) -> None:
        self.scop, self.loops = scop, LaunchLoops(part, scop)
        self.replicas = self.loops.replicas
        self.all: list[Event] = []
        self.at: dict[tuple[int, int], list[Event]] = {}
        self._written = {scop.statement(name).write.tensor for name in schedule.leaves(part)}
        self._touches: dict[tuple[str, str], Event] = {}
        memory = {
            tensor: Storage(tensor, MEMORY)
            for tensor in (*scop.shaped.program.tensors, *scop.gathers)
        }
        self._walk(part, (), (), memory)

    # --- the walk ---

    def _walk(self, node: Node, path: Path, loops: tuple[LaunchLoop, ...], places: Places) -> None:
        """Adds the events below a node; `places` is where each tensor lies."""
        match node:
            case Leaf(statement=name):
                self._add_leaf(node, path, loops, places)
            case Promotion(tiles=tiles, child=child):
                inside = dict(places)
                for tile in tiles:
                    alike = self.replicas.tiles.get((id(node), tile.tensor), frozenset())
                    replicated = frozenset((THREAD, axis) for axis in alike)
                    held = Storage(tile.buffer, tile.scope, loops, tile, replicated)
                    inside[tile.tensor] = held
                    self._add_copies(node, tile, path, loops, places, inside)
                self._walk(child, (*path, Step(node, WITHIN)), loops, inside)
            case Expansion(statement=name, buffer=buffer, child=child):
                self._add_combination(node, path, loops, places)
                inside = {**places, _accumulators(name): Storage(buffer, REGISTER, loops)}
                self._walk(child, (*path, Step(node, WITHIN)), loops, inside)
            case _:
                own = self.loops.of(node)
                for place, child in enumerate(schedule.children(node)):
                    steps = [Step(node, i) for i in range(len(own))] or [Step(node, place)]
                    self._walk(child, (*path, *steps), (*loops, *own), places)

    def _add(self, event: Event) -> None:
        self.all.append(event)
        last = event.path[-1]
        self.at.setdefault((id(last.node), last.place), []).append(event)

    def touch(self, statement: str, tensor: str) -> Event:
        """How a statement touches a tensor first."""
        return self._touches[statement, tensor]

    def _add_leaf(
        self, leaf: Leaf, path: Path, loops: tuple[LaunchLoop, ...], places: Places
    ) -> None:
        statement = self.scop.statement(leaf.statement)
        executing_loops = _executing(loops)
        alike = frozenset((THREAD, a) for a in self.replicas.leaves.get(leaf.statement, ()))
        place = (*path, Step(leaf, WITHIN))
        added: list[Access] = []
        whole = statement
        if self._runs_beyond(statement, places):
            whole = self.loops.in_full(statement)
        for access in statement.promotable:
            if any(map(access.touches_as, added)):
                continue
            storage, writes = places[access.tensor], not added
            if writes:
                storage = places.get(_accumulators(leaf.statement), storage)
            domain = whole if storage.scope == SHARED else statement
            event = Event(place, loops, storage, writes, domain, access, executing_loops, {}, alike)
            self._touches.setdefault((leaf.statement, access.tensor), event)
            self._add(event)
            added.append(access)

    def _add_combination(
        self, node: Expansion, path: Path, loops: tuple[LaunchLoop, ...], places: Places
    ) -> None:
        """Adds how accumulators are combined with their target, by all threads that have it or by
        the first of those that share the reduction; and, where warps exchange them, what is given
        to others, and what is taken behind the barrier."""
        statement = self.scop.statement(node.statement)
        executing_loops, free_axes = self._of_one_thread(node, loops)
        end, given, outer = Step(node, COMBINED), Step(node, AFTER), places[statement.write.tensor]
        combined = frozenset((THREAD, axis) for axis in combined_axes(node))
        alike = frozenset((THREAD, a) for a in self.replicas.leaves.get(node.statement, ()))
        free = free_axes.difference(combined - outer.replicated) | alike
        update = Event(
            (*path, end), loops, outer, True, statement, statement.write, executing_loops, {}, free
        )
        self._add(update)
        self._touches[node.statement, statement.write.tensor] = update
        if self.loops.waits(node):
            scratch = Storage(f"{node.buffer}_shared", SHARED, loops)
            place = Access(scratch.name, (), ())
            all_of_it = replace(
                update,
                domain=self.loops.in_full(statement),
                access=place,
                storage=scratch,
                free_axes=frozenset(self.loops.axes(THREAD)) | free,
                executing_loops={k: v for k, v in executing_loops.items() if k[0] == BLOCK},
                is_exchange=True,
            )
            self._add(replace(all_of_it, path=(*path, given)))
            self._add(replace(all_of_it, writes=False))

    def _add_copies(
        self,
        node: Promotion,
        tile: ArrayTile,
        path: Path,
        loops: tuple[LaunchLoop, ...],
        places: Places,
        inside: Places,
    ) -> None:
        domain, access = self._moved(node, tile, loops)
        full = self.loops.in_full(self.scop.statement(domain.name))
        executing_loops, free_axes = self._of_one_thread(node, loops)
        copying_threads: Mapping[Numbered, Share] = {}
        if tile.scope == SHARED:
            executing_loops = {
                key: found for key, found in executing_loops.items() if key[0] == BLOCK
            }
            copying_threads = self._shares(tile, loops, domain.name, access, places[tile.tensor])
            several = frozenset(self.loops.axes(THREAD)).difference(copying_threads)
            free_axes = several.union(key for key in free_axes if key[0] == BLOCK)
        if tile.scope == REGISTER:
            own = self._own_loops(domain.name, access, loops, inside[tile.tensor])
            executing_loops = {**executing_loops, **own}
            free_axes = free_axes.difference(own)
        for is_done, at in ((tile.fetch, BEFORE), (tile.write_back, AFTER)):
            if is_done:
                place, writes, outer = (*path, Step(node, at)), at == AFTER, places[tile.tensor]
                event = Event(
                    place,
                    loops,
                    outer,
                    writes,
                    domain,
                    access,
                    executing_loops,
                    copying_threads,
                    free_axes,
                    tile,
                )
                if at == AFTER:  # by the first of the threads that have it all
                    alike = inside[tile.tensor].replicated
                    event = replace(event, free_axes=free_axes - alike)
                self._add(event)
                if tile.scope == SHARED:
                    touched = domain if writes else full  # what is beyond is filled, too
                    buffer = inside[tile.tensor]
                    self._add(replace(event, domain=touched, storage=buffer, writes=not writes))

    def _of_one_thread(
        self, node: Node, loops: tuple[LaunchLoop, ...]
    ) -> tuple[Executing, frozenset[Numbered]]:
        """Whose numbers run what each thread does itself at a node; where loops below it are bound
        to an axis, any along that axis."""
        below = (loop for inner in schedule.nodes(node) for loop in self.loops.of(inner))
        free_axes = {loop.numbered for loop in below if loop.member.axis is not None}
        return _executing(loops), frozenset(free_axes)

    def _own_loops(
        self, name: str, access: Access, loops: tuple[LaunchLoop, ...], held: Storage
    ) -> Executing:
        """The loops below a tile in registers whose threads have elements of their own in it, as an
        access of a statement depends on them."""
        moved = {v for form in access.subscripts if form is not None for v in form.terms}
        own = own_of_threads([loop.member for loop in self.loops.to[name]])
        return {
            loop.numbered: (loop,)
            for loop in self.loops.to[name]
            if loop not in loops
            and loop.member in own
            and loop.trips > 1
            and loop.member.values[name].variable in moved
            and loop.numbered not in held.replicated
        }

    def _runs_beyond(self, statement: ScopStatement, places: Places) -> bool:
        """Whether threads may run instances beyond the range of a statement, and drop what they
        give (`tc.polyhedral.codegen.instances`)."""
        target = places[statement.write.tensor]
        target = places.get(_accumulators(statement.name), target)
        return target.scope != MEMORY and all(
            places[access.tensor].is_private or access.tensor not in self._written
            for access in statement.reads
        )

    # --- what is copied, and by whom ---

    def _moved(
        self, node: Promotion, tile: ArrayTile, loops: tuple[LaunchLoop, ...]
    ) -> tuple[ScopStatement, Access]:
        """A copy as an access of a statement that uses the tile: in each dimension just what it
        touches there, or anything within the limits of the copy."""
        found: list[tuple[tuple[int, int], ScopStatement, Access]] = []
        for name in schedule.leaves(node):
            statement = self.scop.statement(name)
            for access in statement.promotable:
                if access.tensor == tile.tensor:
                    moved = self._as_moved(tile, loops, name, access)
                    pins = sum(is_pinned(loop, name) for loop in loops)
                    beyond = None in moved.subscripts or moved.bounds != access.bounds
                    domain = self.loops.in_full(statement) if beyond else statement
                    found.append(((pins, moved.subscripts.count(None)), domain, moved))
        _, statement, access = min(found, key=lambda candidate: candidate[0])
        return statement, access

    def _as_moved(
        self, tile: ArrayTile, loops: tuple[LaunchLoop, ...], name: str, access: Access
    ) -> Access:
        limits = tile.limits or whole(tile.tensor, self.scop)
        ranges = self.scop.statement(name).ranges
        subscripts: list[LinearForm | None] = []
        seen: set[str] = set()
        for d, subscript in enumerate(access.subscripts):
            terms = {} if subscript is None else dict(subscript.terms)
            terms = {v: c for v, c in terms.items() if ranges[v][1] - ranges[v][0] > 1}
            is_simple = len(terms) <= 1 and not set(terms.values()) - {1, -1}
            held = prod(axis.size for axis in tile.layout if axis.dimension == d)
            is_whole = limits[d] == access.bounds[d]
            is_exact = is_simple and seen.isdisjoint(terms)
            is_exact = is_exact and (bool(terms) or held == 1 or is_whole)
            is_exact = is_exact and all(
                self._is_copied_whole(held, tile.scope, loops, name, variable, is_whole=is_whole)
                for variable in terms
            )
            subscripts.append(subscript if is_exact else None)
            seen.update(terms)
        return replace(access, subscripts=tuple(subscripts), bounds=limits)

    def _is_copied_whole(
        self,
        held: int,
        scope: str,
        loops: tuple[LaunchLoop, ...],
        name: str,
        variable: str,
        *,
        is_whole: bool,
    ) -> bool:
        """Whether the `held` elements along a variable are exactly the elements at its values, in
        iterations that are full; `is_whole`: nothing else is copied."""
        fixed, free = self.loops.split(name, variable, loops, scope)
        if fixed:
            return held == prod(digit.count for digit in free)
        begin, end = self.scop.statement(name).ranges[variable]
        return held == end - begin or is_whole

    def _shares(
        self,
        tile: ArrayTile,
        loops: tuple[LaunchLoop, ...],
        name: str,
        access: Access,
        outer: Storage,
    ) -> Mapping[Numbered, Share]:
        """The numbers of the threads that move the elements of an access, along axes where they
        follow from it (`tc.polyhedral.codegen.copies`)."""
        axes = [(THREAD, axis) for axis in AXES if self.loops.widths.get((THREAD, axis), 1) > 1]
        tensor, program = tile.tensor, self.scop.shaped.program
        dtype = self.scop.dtype(tensor)
        if outer.tile is not None:
            contiguous = contiguous_in(outer.tile)
        elif tensor in (*program.outputs, *program.temporaries):
            contiguous = contiguous_along(row_major(self.scop.shape(tensor)), tile.sizes)
        elif sum(axis.size > 1 for axis in tile.layout) > 1:
            return {}  # others may lie in memory in any order
        else:
            contiguous = -1
        rows = axis_along(tile.layout, contiguous)
        along = copied_along(tile.layout, rows)
        threads = tuple(self.loops.widths[key] for key in axes)
        size = dtype.bytes
        if tile.copy.lanes > 1 or thread_digits(tile.layout, rows, threads, size) is not None:
            return {}  # neighbours by one thread, or digits of the numbers of all threads
        copying_threads: dict[Numbered, Share] = {
            key: (Value(None), ()) for key in axes[len(along) :]
        }
        for key, number in zip(axes, along, strict=False):
            axis = tile.layout[number]
            subscript = access.subscripts[axis.dimension]
            terms = {} if subscript is None else dict(subscript.terms)
            if list(terms.values()) != [1] or any(tile.before):
                continue
            place = self._place_along(axis, tile, loops, name, next(iter(terms)))
            if place is not None:
                value, steps = place
                if axis.size > self.loops.widths[key]:
                    steps = (*steps, ("mod", self.loops.widths[key]))
                copying_threads[key] = value, steps
        return copying_threads

    def _place_along(
        self, axis: Axis, tile: ArrayTile, loops: tuple[LaunchLoop, ...], name: str, variable: str
    ) -> Share | None:
        """The place along an axis of a tile where a value of a variable lies; None where it follows
        from several digits of the variable, or from what other accesses touch."""
        begin, end = self.scop.statement(name).ranges[variable]
        fixed, free = self.loops.split(name, variable, loops, tile.scope)
        steps: Steps = ()
        if not fixed and tile.sizes[axis.dimension] != end - begin:
            return None
        if fixed:
            alike = [d for d in free if (d.step, d.count) == (axis.step, axis.size)]
            if alike:
                digit = alike[0].digit(SOURCE, name)
                return digit.value, digit.steps
            begin, end = self.loops.origin(name, variable), self.loops.origin(name, variable) + 1
            for digits in sorted(free, key=lambda digits: digits.step):
                if digits.step != end - begin:
                    return None
                end = begin + digits.step * digits.count
            steps = (("mod", end - begin),)
        if axis.step > 1:
            steps = (*steps, ("div", axis.step))
        if end - begin > axis.size * axis.step:
            steps = (*steps, ("mod", axis.size))
        return Value(variable, -begin), steps


def _accumulators(statement: str) -> str:
    """What the accumulators of a statement are called among tensors. It may read other elements of
    its target, which are where the target is."""
    return f"the accumulators of {statement}"


def _is_same(a: Step, b: Step) -> bool:
    return a.node is b.node and a.place == b.place
