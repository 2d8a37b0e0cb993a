"""A plan in the making: actions, and the tree of a part as they have made it so far.

A planner addresses loops by handles, the members that the schedule had at first and those that
`Draft.do` gives back for the loops that an action made. A handle is good whatever other actions do:
the draft finds the loop in its tree, and writes the name that a plan calls it into the action.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import permutations
from typing import TypeAlias, TypeVar

from tc.errors import BackendError
from tc.plan import Action, Bind, Part, Promote, Reorder, Separate, Sink, Tile
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.actions.apply import edit
from tc.polyhedral.actions.loops import LoopName, place_inside
from tc.polyhedral.actions.moves import Move
from tc.polyhedral.footprint import trips_of
from tc.polyhedral.promotion import Footprint
from tc.polyhedral.schedule import Band, Member, Node, leaves, members_below, nests, nodes
from tc.polyhedral.target import PartPlan, Target

T = TypeVar("T")

DraftState: TypeAlias = "tuple[Node, tuple[Action, ...]]"
"""The tree of a draft and its actions, to which it may return."""


MOST_ORDERED = 4
"""Loops that are put in any order where decisions are searched for."""


class Draft:
    """The actions chosen for a part, each done to its tree at once, so that what comes next can be
    asked of the tree as it will be."""

    def __init__(self, node: Node, info: AccessInfo, target: Target) -> None:
        self.tree = node
        self.info = info
        self.target = target
        self.statements = tuple(leaves(node))
        self.actions: tuple[Action, ...] = ()
        self.notes: list[str] = []

    def chosen(self) -> PartPlan:
        """The plan of the part, with the notes that say why it is so."""
        return PartPlan(Part(self.statements, self.actions), tuple(self.notes), self.tree)

    @property
    def state(self) -> DraftState:
        """What `restore` brings back."""
        return self.tree, self.actions

    def restore(self, state: DraftState) -> None:
        """Undoes all actions since the draft had a state."""
        self.tree, self.actions = state

    def attempt(self, move: Callable[[], T], pays: Callable[[T], bool]) -> T | None:
        """Does a move, which is some actions, and keeps it where what the move gives pays. Returns
        what the move gives; None, and the draft is as before, where that does not pay."""
        before = self.state
        found = move()
        if pays(found):
            return found
        self.restore(before)
        return None

    def decide(
        self,
        what: str,
        statements: tuple[str, ...],
        default: T,
        alternatives: Callable[[], Iterable[T]],
    ) -> T:
        """A decision about the loops of some statements, left to the target's decider."""
        decider = self.target.decider
        if not decider.searches:
            return default
        return decider.pick(f"{', '.join(statements)}: {what}", default, alternatives)

    def decide_whether(
        self, what: str, statements: tuple[str, ...], *, default: bool = True
    ) -> bool:
        """Whether something is done: a decision about the loops of some statements."""
        return self.decide(what, statements, default, lambda: (False, True))

    def wants(self, move: Move, statements: tuple[str, ...]) -> bool:
        """Whether a move is done: by default where it pays."""
        return self.decide_whether(move.what, statements, default=move.pays)

    def decide_order(
        self, what: str, loops: Iterable[Member], statements: tuple[str, ...]
    ) -> tuple[Member, ...]:
        """Some loops around statements in the order that was decided, by default as they are; loops
        over tiles stay outside of those in the tiles."""
        named = {self.name(loop, statements): loop for loop in loops}
        if not 1 < len(named) <= MOST_ORDERED:
            return tuple(named.values())
        orders = (", ".join(o) for o in permutations(named) if nests([named[name] for name in o]))
        found = self.decide(what, statements, ", ".join(named), lambda: orders)
        return tuple(named[name] for name in found.split(", "))

    # --- edits ----------------------------------------------------------------------------------

    def do(self, action: Action) -> tuple[Member, ...]:
        """Does an action. Returns handles of the loops that it made, outermost first."""
        found = edit(self.tree, action, self.info, self.target)
        self.tree = found.tree
        self.actions = (*self.actions, action)
        return found.loops

    def tile(
        self, loop: Member, sizes: tuple[int, ...], statements: tuple[str, ...]
    ) -> tuple[Member, ...]:
        """Tiles a loop around some statements. Returns the loop over tiles, and those inside."""
        return self.do(Tile(self.name(loop, statements), sizes))

    def would_tile(
        self, loop: Member, size: int, statements: tuple[str, ...]
    ) -> tuple[Member, ...]:
        """The loops that `tile` would return, of a draft that stays as it is."""
        before = self.state
        loops = self.tile(loop, (size,), statements)
        self.restore(before)
        return loops

    def bind(
        self,
        loops: Iterable[Member],
        role: str,
        statements: tuple[str, ...],
        axis: str | None = None,
        count: int | None = None,
    ) -> tuple[Member, ...]:
        """Gives loops around some statements a role. Returns the loops that have it."""
        names = self.names(loops, statements)
        return tuple(loop for name in names for loop in self.do(Bind(name, role, axis, count)))

    def sink(self, loops: Iterable[Member], statements: tuple[str, ...]) -> None:
        """Makes loops of one band the innermost ones around each of the statements."""
        self.do(Sink(self.names(loops, statements)))

    def separate(
        self, loops: Iterable[Member], statements: tuple[str, ...], own: tuple[str, ...]
    ) -> None:
        """Gives statements of their `own` the innermost loops around some statements."""
        self.do(Separate(self.names(loops, statements), own))

    def order(self, loops: Iterable[Member], statements: tuple[str, ...]) -> None:
        """Puts loops of one nest in this order."""
        found = [self._named(loop, statements) for loop in loops]
        if len(found) > 1 and not self._stands_so(found):
            self.do(Reorder(tuple(map(str, found))))

    def trips(self, loop: Member, statements: tuple[str, ...]) -> int:
        """How many iterations a loop around some statements has."""
        return trips_of(loop, map(self.info.scop.statement, statements))

    def tiled(
        self, loops: Iterable[Member], sizes: Iterable[int], statements: tuple[str, ...]
    ) -> tuple[tuple[Member, ...], tuple[Member, ...]]:
        """Tiles loops of one nest. Returns those over tiles, which now stand around the others, and
        those inside of tiles. A loop of one tile is one of the latter."""
        outer, points = [], []
        for loop, size in zip(loops, sizes, strict=True):
            if size >= self.trips(loop, statements):
                points.append(loop)
            elif size == 1:
                outer.append(loop)
            else:
                first, second = self.tile(loop, (size,), statements)
                outer.append(first)
                points.append(second)
        self.order((*outer, *points), statements)
        return tuple(outer), tuple(points)

    def _stands_so(self, loops: list[LoopName]) -> bool:
        """Whether some band has loops of these names, in this order."""
        for node in nodes(self.tree):
            chain: list[Member] = []
            while isinstance(node, Band):
                chain += node.members
                node = node.child
            places = [next((i for i, m in enumerate(chain) if x.fits(m)), -1) for x in loops]
            if -1 not in places and places == sorted(places):
                return True
        return False

    # --- names, for the plan --------------------------------------------------------------------

    def names(self, loops: Iterable[Member], statements: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.name(loop, statements) for loop in loops)

    def name(self, loop: Member, statements: tuple[str, ...]) -> str:
        """What a plan calls a loop around some statements."""
        return str(self._named(loop, statements))

    def _named(self, loop: Member, statements: tuple[str, ...]) -> LoopName:
        """What to call a loop around some statements: by a variable of one of them where others
        have loops of that name too."""
        plain = LoopName.of(loop)
        own = set(statements)
        for node in nodes(self.tree):
            is_there = isinstance(node, Band) and any(map(plain.fits, node.members))
            if is_there and not own >= set(leaves(node)):
                below = (*statements, *leaves(node))  # some may run once in it
                named = (s for s in below if s in loop.values and loop.values[s].variable)
                return LoopName.of(loop, next(named))
        return plain

    def footprint_in(self, inside: Member | None, statements: tuple[str, ...]) -> Footprint:
        """What statements touch inside of a loop (None: of all loops)."""
        loop = None if inside is None else self._named(inside, statements)
        place = place_inside(self.tree, loop, statements)
        return Footprint(self.info.scop, place.around, members_below(place.node))

    def scope(
        self, inside: Member | None, statements: tuple[str, ...]
    ) -> tuple[str | None, tuple[str, ...]]:
        """What to call a place: a loop, and statements only where they are needed."""
        loop = None if inside is None else self._named(inside, statements)
        try:
            alone = set(leaves(place_inside(self.tree, loop, ()).node)) == set(statements)
        except BackendError:
            alone = False
        return None if loop is None else str(loop), () if alone else statements

    def promote(self, action: Promote, inside: Member | None, statements: tuple[str, ...]) -> bool:
        """Promotes a tensor, as an action says, for some statements inside of a loop. Returns
        whether that can be done."""
        loop, names = self.scope(inside, statements)
        try:
            self.do(replace(action, inside=loop, statements=names))
        except BackendError:
            return False
        return True
