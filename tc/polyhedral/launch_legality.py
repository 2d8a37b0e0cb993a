"""Whether each part of a schedule tree may be one launch of blocks and threads.

What touches one element, and writes, may not run in two blocks of a launch, unless all blocks wait
in between, nor in two threads with a private buffer each; between two threads of a block, all
threads of the block must wait. Each pair of accesses is followed from where their ways part, or
around each loop that both share: a barrier may stand after the first access, on its way out,
between the two, or before the second access, on its way in.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from tc.kernel.ir import GRID
from tc.plan import BLOCK, SHARED, THREAD
from tc.polyhedral import schedule
from tc.polyhedral.instance_pairs import InstancePair, compared
from tc.polyhedral.launch_events import AFTER, BEFORE, COMBINED, Event, LaunchEvents, common_steps
from tc.polyhedral.launch_loops import LaunchLoop, Numbered
from tc.polyhedral.legality import Path, Step, instance_label
from tc.polyhedral.races import Occurrence, Race, Races
from tc.polyhedral.schedule import Band, Node, Sequence, Sync
from tc.polyhedral.scop.dependences import Dependence, Dependences
from tc.polyhedral.scop.relations import SINK, SOURCE


def launch_fault(tree: Node, dependences: Dependences) -> str | None:
    """Why a part of a tree may not be run as one launch: a reason with what collides; None where
    each may be. The order of the tree must be legal."""
    faults = (
        fault for part in schedule.in_order(tree) for fault in _Launch(part, dependences).faults()
    )
    return next(faults, None)


def grid_barrier_positions(part: Sequence, dependences: Dependences) -> list[int]:
    """Before which children of a sequence that is one launch all its blocks must wait for each
    other, as late as that: then nothing that two blocks touch is left, but within a child."""
    launch, found = _Launch(part, dependences), list[int]()
    for number in range(1, len(part.children)):
        if launch.meets_in_blocks(found[-1] if found else 0, number):
            found.append(number)
    return found


class _Launch:
    """A part, and what it touches."""

    def __init__(self, part: Node, dependences: Dependences) -> None:
        self.part = part
        self.events = LaunchEvents(part, dependences.scop)
        self.races = Races(self.events)
        own = set(schedule.leaves(part))
        self.dependences = [d for d in dependences.all if d.source in own and d.sink in own]

    def faults(self) -> Iterator[str]:
        yield from self._of_tiles()
        for dependence in self.dependences:
            if not self._all_wait_between(*self._ends(dependence)):
                yield from self._in_blocks(dependence)
            yield from self._in_buffers(dependence)
        for first, second in self._pairs():
            if not self._all_wait_between(first, second):
                yield from self._between_blocks(first, second)
            if self.events.loops.threads > 1:
                yield from self._between_threads(first, second)

    def meets_in_blocks(self, start: int, number: int) -> bool:
        """Whether a child touches in one block what another touches in another, of those that stand
        before it from a place on."""

        def are_there(*events: Event) -> bool:
            first, last = sorted(event.path[0].place for event in events)
            return start <= first < number == last

        faults = itertools.chain(
            *(self._in_blocks(d) for d in self.dependences if are_there(*self._ends(d))),
            *(self._between_blocks(*pair) for pair in self._pairs() if are_there(*pair)),
        )
        return any(faults)

    def _of_tiles(self) -> Iterator[str]:
        """The faults of tiles that threads share and that hold elements of a tile of one thread."""
        for event in self.events.all:
            tile, around = event.tile, event.storage
            if tile is not None and tile.scope == SHARED and around.is_private:
                yield (
                    f"{tile.buffer}, which threads share, holds elements of {around.name}, of "
                    "which each thread has its own"
                )

    # --- blocks, and buffers of threads ---

    def _ends(self, dependence: Dependence) -> tuple[Event, Event]:
        """The source and the sink of a dependence."""
        touch, tensor = self.events.touch, dependence.tensor
        return touch(dependence.source, tensor), touch(dependence.sink, tensor)

    def _all_wait_between(self, first: Event, second: Event) -> bool:
        """Whether all blocks wait for each other between two events."""
        if not isinstance(self.part, Sequence):
            return False
        start, end = sorted(event.path[0].place for event in (first, second))
        between = self.part.children[start:end]
        return any(isinstance(child, Sync) and child.scope == GRID for child in between)

    def _in_blocks(self, dependence: Dependence) -> Iterator[str]:
        """Instances of a dependence in two blocks."""
        yield from self._apart(dependence, BLOCK, (), "two blocks of one launch")

    def _in_buffers(self, dependence: Dependence) -> Iterator[str]:
        """Instances of a dependence in two threads that have a buffer each."""
        source, sink = self._ends(dependence)
        held = source.storage
        if held is sink.storage and held.is_private:
            where = "two threads, each with a buffer of its own"
            yield from self._apart(dependence, THREAD, held.loops, where)

    def _apart(
        self, dependence: Dependence, role: str, alike: tuple[LaunchLoop, ...], where: str
    ) -> Iterator[str]:
        """Instances of a dependence in different blocks or threads, in the same turn of loops."""
        source, sink = self._ends(dependence)
        same = tuple(
            compared("==", loop.turn(SOURCE, source.statement), loop.turn(SINK, sink.statement))
            for loop in alike
        )
        race = self.races.related(dependence.relation, source, sink, role, same)
        if race is not None and race.pair is None:
            yield (
                f"the dependence of {dependence.sink} on {dependence.source} through "
                f"{dependence.tensor} is too complex to be checked"
            )
        elif race is not None:
            yield _told(source, sink, dependence.tensor, race.pair, where)

    def _pairs(self) -> Iterator[tuple[Event, Event]]:
        """Pairs of events at one place, of which at least one writes."""
        for first in self.events.all:
            for second in self.events.all:
                if first.storage is second.storage and (first.writes or second.writes):
                    yield first, second

    def _between_blocks(self, first: Event, second: Event) -> Iterator[str]:
        """A copy and what another block writes."""
        if first.tile is not None or second.tile is not None:
            race = self.races.across_blocks(first, second)
            if race is not None:
                where = "two blocks of one launch"
                yield _told(first, second, first.storage.name, race.pair, where)

    # --- threads of a block ---

    def _between_threads(self, first: Event, second: Event) -> Iterator[str]:
        """What two threads of a block run, the first before the second, with no barrier between."""
        race = self._at_once(first, second)
        for number, step in enumerate(first.path[: common_steps(first, second)]):
            if race is None and isinstance(step.node, Band):
                race = self._in_turn(first, second, number)
        if race is not None:
            where = "two threads of a block with no barrier between"
            yield _told(first, second, first.storage.name, race.pair, where)

    def _at_once(self, first: Event, second: Event) -> Race | None:
        """In the same iteration of all loops around both."""
        depth = common_steps(first, second)
        if depth == len(first.path):  # at one place, where only two threads can be in the way
            return self.races.of(Occurrence(first), Occurrence(first)) if first is second else None
        node, before, after = (
            first.path[depth].node,
            first.path[depth].place,
            second.path[depth].place,
        )
        if before > after:
            return None
        between = schedule.children(node)
        if isinstance(node, Sequence):
            between = between[before + 1 : after]
        elif (before, after) != (BEFORE, AFTER):
            between = ()
        if after == COMBINED and self.events.loops.waits(node):
            return None
        bound = self._bound(first.path[: depth + 1])
        if any(self._waits(child, bound) for child in between):
            return None
        return self._race(first, second, depth, None, next_only=False)

    def _in_turn(self, first: Event, second: Event, number: int) -> Race | None:
        """In two iterations of a loop around both, that of a step of their ways."""
        loop = self._loop(first.path[number])
        if loop.turns == 1:
            return None
        waits = self._repeats(first.path[: number + 1])
        return self._race(first, second, number, loop, next_only=waits)

    def _race(
        self, first: Event, second: Event, number: int, ahead: LaunchLoop | None, *, next_only: bool
    ) -> Race | None:
        """How two events race if there is no barrier on the way out of the first, nor on the way
        into the second, below that step of their ways."""
        out, into = (
            self._alone(first, number, leaving=True),
            self._alone(second, number, leaving=False),
        )
        if out is None or into is None:
            return None
        return self.races.of(out, into, ahead, next_only=next_only)

    def _alone(self, event: Event, number: int, *, leaving: bool) -> Occurrence | None:
        """An event, if no barrier stands on its way out to a step of its path (`leaving`), or on
        the way from there to it."""
        occurrence = Occurrence(event)
        for inner in range(number + 1, len(event.path)):
            way = event.path[: inner + 1]
            node, place = way[-1].node, way[-1].place
            if isinstance(node, Band):
                if self._repeats(way):
                    occurrence = occurrence.at_edge(self._loop(way[-1]))
                continue
            beside = schedule.children(node)
            if isinstance(node, Sequence):
                beside = beside[place + 1 :] if leaving else beside[:place]
            elif (place > BEFORE) if leaving else (place < AFTER):
                beside = ()
            if self.events.loops.waits(node) and (place == COMBINED) != leaving:
                return None
            if any(self._waits(child, self._bound(way)) for child in beside):
                return None
        return occurrence

    # --- barriers ---

    def _loop(self, step: Step) -> LaunchLoop:
        return self.events.loops.of(step.node)[step.place]

    def _bound(self, way: Path) -> frozenset[Numbered]:
        """The axes of blocks to which loops on a way are bound, or nothing below some node is."""
        bound: frozenset[Numbered] = frozenset()
        for step in way:
            bound |= self.events.loops.unbound(step.node, bound)
            if isinstance(step.node, Band):
                bound |= self._loop(step).fixed
        return bound

    def _repeats(self, way: Path) -> bool:
        """Whether each iteration of the loop at the end of a way, which has several, has a
        barrier."""
        band, place = way[-1].node, way[-1].place
        assert isinstance(band, Band)
        loops = self.events.loops.of(band)
        if loops[place].turns == 1 or any(map(self.events.loops.leaves_out, loops[place + 1 :])):
            return False
        bound = self._bound(way).union(*(loop.fixed for loop in loops))
        return self._waits(band.child, bound)

    def _waits(self, node: Node, bound: frozenset[Numbered]) -> bool:
        """Whether all threads wait in a node, in all blocks that come there."""
        if isinstance(node, Sync):
            return True
        loops = self.events.loops.of(node)
        if self.events.loops.unbound(node, bound) or any(map(self.events.loops.leaves_out, loops)):
            return False
        if self.events.loops.waits(node):
            return True
        bound = bound.union(*(loop.fixed for loop in loops))
        return any(self._waits(child, bound) for child in schedule.children(node))


def _told(first: Event, second: Event, what: str, pair: InstancePair | None, where: str) -> str:
    names = [
        _label(event, None if pair is None else pair[side])
        for side, event in ((SOURCE, first), (SINK, second))
    ]
    return f"{' and '.join(names)}, which touch one element of {what}, run in {where}"


def _label(event: Event, instance: Mapping[str, int] | None) -> str:
    """What an event is, in words."""
    if event.tile is not None:
        source, target = event.tile.tensor, event.tile.buffer
        if event.path[-1].place == AFTER:
            source, target = target, source
        return f"the copy of {source} to {target}"
    return event.statement if instance is None else instance_label(event.statement, instance)
