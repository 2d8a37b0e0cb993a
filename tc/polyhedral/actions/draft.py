"""A plan in the making: actions, and the tree of a part as they have made it so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tc.errors import BackendError
from tc.plan import Action, Part, Promote, Reorder, Tile
from tc.polyhedral.actions.apply import apply
from tc.polyhedral.actions.loops import loop_name, name_of, place_inside
from tc.polyhedral.facts import Facts
from tc.polyhedral.footprint import trips_of
from tc.polyhedral.promotion import Footprint
from tc.polyhedral.schedule import Band, Member, Node, leaves, members_below, nodes, tile
from tc.polyhedral.target import Target

T = TypeVar("T")


def either() -> tuple[bool, bool]:
    """The alternatives of a question."""
    return False, True


class Draft:
    """The actions chosen for a part, each done to its tree at once, so that what comes next can be
    asked of the tree as it will be."""

    def __init__(self, node: Node, facts: Facts, target: Target) -> None:
        self.tree = node
        self.facts = facts
        self.target = target
        self.statements = tuple(leaves(node))
        self.actions: list[Action] = []

    def part(self) -> Part:
        return Part(self.statements, tuple(self.actions))

    def decide(
        self,
        what: str,
        statements: tuple[str, ...],
        default: T,
        alternatives: Callable[[], Iterable[T]],
        text: Callable[[T], str] = str,
    ) -> T:
        """A decision about the loops of some statements, left to the target's decider."""
        decider = self.target.decider
        if not decider.searches:
            return default
        return decider.pick(f"{', '.join(statements)}: {what}", default, alternatives, text)

    def do(self, action: Action) -> None:
        self.tree = apply(self.tree, action, self.facts, self.target)
        self.actions.append(action)

    def order(self, members: Iterable[Member], statements: tuple[str, ...]) -> None:
        """Puts loops of one nest in this order."""
        names = self.names(members, statements)
        if len(names) > 1 and not self._stands_so(names):
            self.do(Reorder(names))

    def trips(self, member: Member, statements: tuple[str, ...]) -> int:
        """How many iterations a loop around some statements has."""
        return trips_of(member, map(self.facts.scop.statement, statements))

    def tiled(
        self, members: Iterable[Member], sizes: Iterable[int], statements: tuple[str, ...]
    ) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
        """Tiles loops of one nest: gives those over tiles, which now stand around the others, and
        those inside of tiles. A loop of one tile is one of the latter."""
        outer, points = [], []
        for member, size in zip(members, sizes, strict=True):
            if size >= self.trips(member, statements):
                points.append(member)
            elif size == 1:
                outer.append(member)
            else:
                self.do(Tile(self.name(member, statements), (size,)))
                first, second = tile(member, size)
                outer.append(first)
                points.append(second)
        self.order((*outer, *points), statements)
        return tuple(outer), tuple(points)

    def _stands_so(self, names: tuple[str, ...]) -> bool:
        """Whether some band has loops of these names, in this order."""
        loops = list(map(loop_name, names))
        for node in nodes(self.tree):
            chain: list[Member] = []
            while isinstance(node, Band):
                chain += node.members
                node = node.child
            places = [next((i for i, m in enumerate(chain) if x.fits(m)), -1) for x in loops]
            if -1 not in places and places == sorted(places):
                return True
        return False

    def names(self, members: Iterable[Member], statements: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.name(member, statements) for member in members)

    def name(self, member: Member, statements: tuple[str, ...]) -> str:
        """What to call a loop around some statements: by a variable of one of them where others
        have loops of that name too."""
        plain = loop_name(name_of(member))
        own = set(statements)
        for node in nodes(self.tree):
            is_there = isinstance(node, Band) and any(map(plain.fits, node.members))
            if is_there and not own >= set(leaves(node)):
                below = (*statements, *leaves(node))  # some may run once in it
                named = (s for s in below if s in member.values and member.values[s].variable)
                return name_of(member, next(named))
        return name_of(member)

    def below(self, inside: Member, statements: tuple[str, ...]) -> Footprint:
        """What statements touch inside of a loop."""
        place = place_inside(self.tree, self.name(inside, statements), statements)
        return Footprint(self.facts.scop, place.around, members_below(place.node))

    def scope(
        self, inside: Member | None, statements: tuple[str, ...]
    ) -> tuple[str | None, tuple[str, ...]]:
        """What to call a place: a loop, and statements only where they are needed."""
        name = None if inside is None else self.name(inside, statements)
        try:
            alone = set(leaves(place_inside(self.tree, name, ()).node)) == set(statements)
        except BackendError:
            alone = False
        return name, () if alone else statements

    def promote(
        self,
        tensor: str,
        scope: str,
        inside: Member | None,
        statements: tuple[str, ...],
        *,
        axes: tuple[tuple[int, int], ...] = (),
        lanes: int = 1,
        align: int = 1,
        padded: bool = False,
        lines: bool = False,
        pitch: int | None = None,
        unroll: bool = False,
    ) -> bool:
        """Promotes a tensor for some statements inside of a loop, if that can be done."""
        loop, names = self.scope(inside, statements)
        try:
            self.do(
                Promote(
                    tensor, scope, loop, names, axes, lanes, align, padded, lines, pitch, unroll
                )
            )
        except BackendError:
            return False
        return True
