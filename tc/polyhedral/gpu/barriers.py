"""Barriers of a launch: where all threads of a block must wait for each other.

What threads run is a list of items, one after the other: accesses, copies, and loops, each of
which is such a list again. Bands of blocks and threads, promotions and sequences only say who runs
what is in them, and where it lies. A barrier stands before an item that races with one before,
unless there is one in between; as late as that, it serves for as many pairs as it can. In a loop,
another stands at the end, where the first items of the next iteration race with the last ones.
Where all blocks may wait for each other, barriers of the grid come first, between the children of
the part. (Vasilache et al. 2018, arXiv:1802.04730, A.3.)
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile

from tc.kernel.ir import GRID
from tc.polyhedral import schedule
from tc.polyhedral.launch_events import AFTER, BEFORE, COMBINED, WITHIN, LaunchEvents
from tc.polyhedral.launch_legality import grid_barrier_positions
from tc.polyhedral.launch_loops import LaunchLoop, Numbered
from tc.polyhedral.races import Occurrence, Races
from tc.polyhedral.schedule import (
    Band,
    Expansion,
    Leaf,
    Node,
    Promotion,
    Sequence,
    Sync,
    sequence_of,
)
from tc.polyhedral.scop.dependences import Dependences


def place_barriers(part: Node, dependences: Dependences, *, of_grids: bool = False) -> Node:
    """The part of a tree, which is one launch, with the barriers that it needs, and no others;
    those of the grid too, if `of_grids`."""
    plain = without_barriers(part)
    if of_grids and isinstance(plain, Sequence):
        plain = _with_grid_barriers(plain, dependences)
    events = LaunchEvents(plain, dependences.scop)
    if events.loops.threads == 1:
        return plain
    placing = _Placing(Races(events))
    placing.walk(plain, frozenset(), _List())
    return placing.built(plain)


def _with_grid_barriers(part: Sequence, dependences: Dependences) -> Node:
    """The part with barriers where all its blocks must wait for each other."""
    places = grid_barrier_positions(part, dependences)
    return sequence_of(
        node
        for number, child in enumerate(part.children)
        for node in ((Sync(GRID), child) if number in places else (child,))
    )


def without_barriers(node: Node) -> Node:
    """The tree without its barriers."""
    if isinstance(node, Sequence):
        kept = [child for child in node.children if not isinstance(child, Sync)]
        return sequence_of(map(without_barriers, kept))
    return schedule.map_children(node, without_barriers)


@dataclass
class _Open:
    """A node that is walked: whether nothing was met in it yet, or nothing but what never races
    with anything."""

    node: Node
    empty: bool = True
    quiet: bool = True


@dataclass
class _List:
    """What was met so far of a list of items: the events that may run before its first barrier,
    and those that may run after its last; and the nodes that are walked."""

    head: list[Occurrence] = field(default_factory=list)
    tail: list[Occurrence] = field(default_factory=list)
    has_barrier: bool = False
    around: list[_Open] = field(default_factory=list)

    def wait(self) -> None:
        """A barrier."""
        self.tail, self.has_barrier = [], True

    def add(self, item: _List, *, by_all: bool) -> None:
        """An item; some blocks may leave it out, and its barriers."""
        if not self.has_barrier:
            self.head += item.head
        if item.has_barrier and by_all:
            self.wait()
        self.tail += item.tail

    def at_edges(self, loop: LaunchLoop) -> None:
        """What is met of all iterations of a loop, each of which has a barrier."""
        self.head = [occurrence.at_edge(loop) for occurrence in self.head]
        self.tail = [occurrence.at_edge(loop) for occurrence in self.tail]


class _Placing:
    """The walk says where barriers stand: `before` nodes, at the end of the `loops` of bands, and
    of what is below the nodes `last`, which copy. `built` puts them there."""

    def __init__(self, races: Races) -> None:
        self.races = races
        self.events = races.events
        self.before: set[int] = set()
        self.last: set[int] = set()
        self.loops: set[LaunchLoop] = set()

    def walk(self, node: Node, bound: frozenset[Numbered], here: _List) -> None:
        """Adds what a node runs to the list in which it stands. `bound` are axes of blocks to which
        loops around are bound, or nothing is."""
        if isinstance(node, Sync):
            here.wait()
            return
        here.around.append(_Open(node))
        pinned = self.events.loops.unbound(node, bound)
        if pinned and not isinstance(node, Leaf):
            own = _List()
            self._inside(node, bound | pinned, own)
            self._add(own, here, by_all=False)
        else:
            self._inside(node, bound, here)
        here.around.pop()

    def _inside(self, node: Node, bound: frozenset[Numbered], here: _List) -> None:
        match node:
            case Sequence(children=children):
                for child in children:
                    self.walk(child, bound, here)
            case Band():
                self._band(node, 0, bound, here)
            case Promotion() | Expansion():
                self._add(self._touched(node, BEFORE), here)
                self.walk(node.child, bound, here)
                self._add(self._touched(node, AFTER), here, last=node)
                if self.events.loops.waits(node):
                    self._add(_List(has_barrier=True), here)
                self._add(self._touched(node, COMBINED), here, last=node)
            case _:
                self._add(self._touched(node, WITHIN), here)

    def _band(self, band: Band, start: int, bound: frozenset[Numbered], here: _List) -> None:
        """The members of a band from a place on."""
        loops = self.events.loops.of(band)[start:]
        number = next((i for i, loop in enumerate(loops) if self._is_item(loop)), len(loops))
        bound = bound.union(*(loop.fixed for loop in loops[: number + 1]))
        if number == len(loops):
            self.walk(band.child, bound, here)
            return
        loop, inside = loops[number], _List()
        self._band(band, start + number + 1, bound, inside)
        if loop.turns > 1 and self._meet(inside, inside, loop, next_only=inside.has_barrier):
            inside.wait()
            self.loops.add(loop)
        if inside.has_barrier:
            inside.at_edges(loop)
        self._add(inside, here, by_all=not self.events.loops.leaves_out(loop))

    def _is_item(self, loop: LaunchLoop) -> bool:
        return loop.turns > 1 or self.events.loops.leaves_out(loop)

    def _touched(self, node: Node, place: int) -> _List:
        found = [Occurrence(event) for event in self.events.at.get((id(node), place), ())]
        return _List(found, found)

    def _add(
        self, item: _List, here: _List, *, by_all: bool = True, last: Node | None = None
    ) -> None:
        """Adds an item to a list, after a barrier if need be: outside of bands that only say who
        runs what, if nothing stands in the way."""
        if self._meet(here, item):
            here.wait()
            if last is None:
                free = takewhile(lambda around: around.quiet, reversed(here.around))
                *_, first = (o for o in free if o.empty or isinstance(o.node, Band))
                self.before.add(id(first.node))
            else:
                self.last.add(id(last))
        here.add(item, by_all=by_all)
        events = {occurrence.event for occurrence in (*item.head, *item.tail)}
        quiet = not item.has_barrier and all(map(self.races.cannot_race, events))
        for around in here.around:
            around.empty = around.empty and not events and quiet
            around.quiet = around.quiet and quiet

    def _meet(
        self,
        before: _List,
        after: _List,
        ahead: LaunchLoop | None = None,
        *,
        next_only: bool = False,
    ) -> bool:
        """Whether something at the end of a list races with something at the beginning of one."""
        return any(
            self.races.of(first, second, ahead, next_only=next_only) is not None
            for first in before.tail
            for second in after.head
        )

    def built(self, node: Node) -> Node:
        """The node with the barriers in it."""
        match node:
            case Sequence(children=children):
                return sequence_of(part for child in children for part in self._waiting(child))
            case Band():
                return self._split(node, sequence_of(self._waiting(node.child)))
            case Promotion() | Expansion():
                ends = (Sync(),) if id(node) in self.last else ()
                return replace(node, child=sequence_of((*self._waiting(node.child), *ends)))
            case _:
                return node

    def _waiting(self, node: Node) -> tuple[Node, ...]:
        begins = (Sync(),) if id(node) in self.before else ()
        return *begins, self.built(node)

    def _split(self, band: Band, child: Node) -> Node:
        """A band with barriers at the end of some loops."""
        loops, members = self.events.loops.of(band), band.members
        for place in reversed(range(len(members))):
            if loops[place] in self.loops:
                if any(map(self._is_item, loops[place + 1 : len(members)])):
                    child = Band(members[place + 1 :], band.permutable, child)
                    members = members[: place + 1]
                child = sequence_of((child, Sync()))
        return Band(members, band.permutable, child)
