"""Random plans: actions drawn from the tree as those before have made it, most of them possible.

Which is drawn is decided by a `random.Random` alone, so that a plan comes again from its seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tc.errors import BackendError, TCError
from tc.plan import (
    PACKED,
    PARALLEL,
    REGISTER,
    SCRATCH,
    SERIAL,
    UNROLL,
    VECTOR,
    Action,
    Bind,
    Fuse,
    Part,
    Plan,
    Promote,
    Reorder,
    Separate,
    Sink,
    Split,
    Tile,
)
from tc.polyhedral.actions.apply import apply, fault
from tc.polyhedral.actions.loops import name_of
from tc.polyhedral.schedule import Band, Member, Node, leaves, nodes
from tc.polyhedral.schedule import Sequence as NodeSequence
from tests.fuzz.plans.prepared import Prepared

SIZES = (1, 2, 2, 3, 4, 4, 5, 7, 8, 8, 16)
MOST_ACTIONS = 12
TRIES = 8


Maker = Callable[[Node], Sequence[Action]]


class Drawer:
    """Draws for one program."""

    def __init__(self, rng: random.Random, made: Prepared) -> None:
        self.rng, self.made = rng, made
        tree = made.tree
        self.nodes: list[Node] = list(tree.children if isinstance(tree, NodeSequence) else (tree,))

    # --- parts ----------------------------------------------------------------------------------

    def plan(self) -> Plan:
        """Actions from nothing on for most parts; some are left to tc."""
        rng = self.rng
        parts = []
        place = 0
        while place < len(self.nodes):
            several = rng.choice((1, 1, 2, 2, 3, len(self.nodes)))
            group = self.nodes[place : place + several]
            if rng.random() < 0.85:
                parts.append(Part(_names(group), self.actions(place, len(group), ())))
            place += several
        return Plan(tuple(parts))

    def actions(
        self, place: int, several: int, before: tuple[Action, ...], most: int = MOST_ACTIONS
    ) -> tuple[Action, ...]:
        """Actions on some nodes, after others."""
        group = self.nodes[place : place + several]
        node: Node = group[0] if len(group) == 1 else NodeSequence(tuple(group))
        done: list[Action] = []
        try:
            for action in before:
                node = apply(node, action, self.made.info, self.made.target)
        except BackendError:
            return ()
        wanted = self.rng.randint(1, most)
        for _ in range(TRIES * most):
            if len(done) >= wanted:
                break
            for action in self._drawn(node):
                try:
                    after = apply(node, action, self.made.info, self.made.target)
                    wrong = self.rng.random() < 0.9 and self._fault(place, several, after)
                except BackendError:
                    if self.rng.random() < 0.004:
                        return (*done, action)
                    break
                except (TCError, Exception):  # a finding; whoever judges the plan meets it, too
                    return (*done, action)
                if wrong and self.rng.random() < 0.97:
                    break
                done.append(action)
                node = after
        return tuple(done)

    def _fault(self, place: int, several: int, node: Node) -> str | None:
        before, after = self.nodes[:place], self.nodes[place + several :]
        finished = self.made.target.finish(node, self.made.first.dependences)
        children = (*before, finished, *after)
        whole = children[0] if len(children) == 1 else NodeSequence(children)
        return fault(whole, self.made.first.dependences, self.made.target)

    # --- actions --------------------------------------------------------------------------------

    def _makers(self) -> dict[Maker, int]:
        """What draws some actions, and how often."""
        return {
            self._tile: 5,
            self._reorder: 4,
            self._sink: 3,
            self._separate: 2,
            self._fuse: 2,
            self._split: 1,
            self._promote: 6,
            self._bind: 5,
            self._vectors: 5,
            self._lanes_of_sums: 3,
            self._accumulators: 3,
            self._panels: 2,
        }

    def _drawn(self, node: Node) -> Sequence[Action]:
        """Some actions that may be possible in a tree, to be done one after the other."""
        makers = self._makers()
        made: Sequence[Action] = ()
        while not made:
            made = self.rng.choices(list(makers), list(makers.values()))[0](node)
        return made

    def _bands(self, node: Node) -> list[Band]:
        return [n for n in nodes(node) if isinstance(n, Band) and n.members]

    def _loop(self, node: Node) -> str:
        """The name of some loop; rarely of one that is not there."""
        rng, bands = self.rng, self._bands(node)
        if not bands or rng.random() < 0.01:
            return rng.choice(("i", "j div 4", "S0.i", "k mod 8", "x y"))
        band = rng.choice(bands)
        return self._called(rng.choice(band.members), leaves(band))

    def _called(self, member: Member, statements: Iterable[str]) -> str:
        if self.rng.random() < 0.5:
            return name_of(member)
        return name_of(member, self.rng.choice(list(statements)))

    def _sizes(self, member: Member | None = None) -> tuple[int, ...]:
        rng = self.rng
        size = rng.choice(SIZES if rng.random() < 0.97 else (64, 1000))
        if member is not None and member.span is not None and rng.random() < 0.8:
            trips = member.span // member.step
            size = rng.choice([n for n in range(1, trips + 1) if trips % n == 0])
        sizes = [size]
        while rng.random() < 0.25 and len(sizes) < 3:
            least = sizes[-1]
            sizes.append(rng.choice([n for n in range(1, least + 1) if least % n == 0]))
        if rng.random() < 0.02:
            sizes.append(rng.choice(SIZES))
        return tuple(sizes)

    def _tile(self, node: Node) -> Sequence[Action]:
        bands = self._bands(node)
        if not bands:
            return (Tile(self._loop(node), self._sizes()),)
        band = self.rng.choice(bands)
        member = self.rng.choice(band.members)
        return (Tile(self._called(member, leaves(band)), self._sizes(member)),)

    def _reorder(self, node: Node) -> Sequence[Action]:
        chains = []
        for band in self._bands(node):
            chain, inner = list(band.members), band.child
            while isinstance(inner, Band):
                chain += inner.members
                inner = inner.child
            if len(chain) > 1:
                chains.append((chain, list(leaves(band))))
        if not chains:
            return ()
        chain, names = self.rng.choice(chains)
        moved = self.rng.sample(chain, self.rng.randint(2, len(chain)))
        return (Reorder(tuple(self._called(m, names) for m in moved)),)

    def _sink(self, node: Node) -> Sequence[Action]:
        bands = self._bands(node)
        if not bands:
            return ()
        band = self.rng.choice(bands)
        points = [m for m in band.members if m.span is not None]
        own = points if points and self.rng.random() < 0.8 else list(band.members)
        moved = self.rng.sample(own, self.rng.randint(1, min(3, len(own))))
        return (Sink(tuple(self._called(m, leaves(band)) for m in moved)),)

    def _separate(self, node: Node) -> Sequence[Action]:
        found = [b for b in self._bands(node) if isinstance(b.child, NodeSequence)]
        if not found:
            return ()
        band = self.rng.choice(found)
        parts = band.child.children  # type: ignore[union-attr]
        first = self.rng.randrange(len(parts))
        last = self.rng.randint(first, len(parts) - 1)
        number = self.rng.randint(1, len(band.members))
        loops = tuple(self._called(m, leaves(band)) for m in band.members[-number:])
        return (Separate(loops, _names(parts[first : last + 1])),)

    def _fuse(self, node: Node) -> Sequence[Action]:
        found = [n for n in nodes(node) if isinstance(n, NodeSequence)]
        if not found:
            return ()
        parts = self.rng.choice(found).children
        first = self.rng.randrange(len(parts))
        group = parts[first : first + self.rng.choice((2, 2, 3))]
        if len(group) < 2 or not all(isinstance(c, Band) and c.members for c in group):
            return ()
        names = (
            name_of(c.members[0], self.rng.choice(list(leaves(c))))  # type: ignore[union-attr]
            for c in group
        )
        return (Fuse(tuple(names)),)

    def _split(self, node: Node) -> Sequence[Action]:
        scop = self.made.first.scop
        sums = [n for n in leaves(node) if scop.statement(n).accumulates]
        if not sums:
            return ()
        name = self.rng.choice(sums)
        around = around_of(node, name)
        digits = [m for m in around if m.span is not None]
        if not digits and self.rng.random() < 0.95:
            return ()
        chosen = self.rng.sample(digits, self.rng.randint(1, min(2, len(digits)))) if digits else []
        inside = self.rng.choice([None, *around])
        place = None if inside is None else self._called(inside, (name,))
        return (Split(name, tuple(name_of(m, name) for m in chosen), place),)

    def _bind(self, node: Node) -> Sequence[Action]:
        roles = (SERIAL, PARALLEL, PARALLEL, PARALLEL, UNROLL, UNROLL, UNROLL, VECTOR, VECTOR)
        role = self.rng.choice(roles if self.rng.random() < 0.995 else ("block", ""))
        bands = self._bands(node)
        if bands and role == PARALLEL and self.rng.random() < 0.7:
            return (Bind(self._called(bands[0].members[0], leaves(bands[0])), role),)
        return (Bind(self._loop(node), role),)

    # --- several at once, as a person would -----------------------------------------------------

    def _vectors(self, node: Node) -> Sequence[Action]:
        """A loop's points as the lanes of vectors, or straight-line code."""
        whole = [(b, m) for b in self._bands(node) for m in b.members if m.coincident]
        if not whole:
            return ()
        band, member = self.rng.choice(whole)
        if member.span is not None and (member.span // member.step) & 1:
            return ()
        lanes = self.rng.choice((2, 4, 4, 8, 8, 16, 3))
        role = self.rng.choice((VECTOR, VECTOR, VECTOR, UNROLL))
        span = "" if member.span is None else f" mod {member.span}"
        loop = self._called(member, leaves(band))
        stem = loop.partition(" ")[0]
        below = f"{stem} mod {member.step * lanes}"
        below += f" div {member.step}" if member.step > 1 else ""
        sizes = (lanes,)
        if span and member.span is not None and member.span % (member.step * lanes):
            return ()
        return (Tile(loop, sizes), Sink((below,)), Bind(below, role))

    def _lanes_of_sums(self, node: Node) -> Sequence[Action]:
        """A reduction with an accumulator for each point of its tiles."""
        scop = self.made.first.scop
        sums = [n for n in leaves(node) if scop.statement(n).accumulates]
        if not sums:
            return ()
        name = self.rng.choice(sums)
        around = around_of(node, name)
        own = [
            m
            for m in around
            if m.values[name].variable in scop.statement(name).reduction and m.span is None
        ]
        if not own:
            return ()
        member, lanes = self.rng.choice(own), self.rng.choice((2, 4, 8, 8, 16))
        variable = member.values[name].variable
        below = f"{name}.{variable} mod {lanes}"
        loops: tuple[str, ...] = (below,)
        actions: list[Action] = []
        if member.step > 1:
            return ()
        if self.rng.random() < 0.3:
            actions.append(Tile(name_of(member, name), (lanes * 2, lanes)))
            loops = (f"{name}.{variable} mod {2 * lanes} div {lanes}", below)
            actions.append(Bind(loops[0], UNROLL))
        else:
            actions.append(Tile(name_of(member, name), (lanes,)))
        if self.rng.random() < 0.7:
            actions.append(Sink(loops))
        others = [m for m in around if m is not member]
        inside = None if not others else self.rng.choice([None, *others])
        place = None if inside is None else name_of(inside, name)
        actions.append(Split(name, loops, place))
        if self.rng.random() < 0.85:
            actions.append(Bind(below, VECTOR))
        return actions

    def _accumulators(self, node: Node) -> Sequence[Action]:
        """What a statement writes, in registers outside of its last loops."""
        scop = self.made.first.scop
        name = self.rng.choice(list(leaves(node)))
        around = around_of(node, name)
        inside = self.rng.choice([None, *around])
        place = None if inside is None else name_of(inside, name)
        tensor = scop.statement(name).write.tensor
        users = tuple(
            n for n in leaves(node) if any(a.tensor == tensor for a in scop.statement(n).accesses)
        )
        statements = self.rng.choice(((), (name,), users))
        lanes = self.rng.choice((1, 2, 4, 8))
        return (Promote(tensor, REGISTER, place, statements, lanes=lanes),)

    def _panels(self, node: Node) -> Sequence[Action]:
        """An operand in panels, before the part begins or inside of a loop."""
        scop = self.made.first.scop
        name = self.rng.choice(list(leaves(node)))
        reads = [a for a in scop.statement(name).reads if a.subscripts]
        if not reads:
            return ()
        access = self.rng.choice(reads)
        rank = len(access.subscripts)
        d = self.rng.randrange(rank)
        step = self.rng.choice((2, 4, 8, 8, 16, 3))
        axes = ((d, step), *((k, 1) for k in range(rank) if k != d), (d, 1))
        scope = self.rng.choice((PACKED, PACKED, SCRATCH))
        around = around_of(node, name)
        inside = None if scope == PACKED or not around else self.rng.choice([None, *around])
        place = None if inside is None else name_of(inside, name)
        names = self.rng.choice(((), (name,)))
        return (Promote(access.tensor, scope, place, names, axes, self.rng.choice((1, step))),)

    # --- promotions -----------------------------------------------------------------------------

    def _promote(self, node: Node) -> Sequence[Action]:
        rng, scop = self.rng, self.made.first.scop
        bands = self._bands(node)
        inside = self._loop(node) if bands and rng.random() < 0.8 else None
        names = list(leaves(node))
        if bands and inside is not None and rng.random() < 0.8:
            band = rng.choice(bands)
            names = list(leaves(band))
            inside = self._called(rng.choice(band.members), names)
        accesses = [a for n in names for a in scop.statement(n).accesses]
        written = {scop.statement(n).write.tensor for n in names}
        access = rng.choice(accesses)
        rank = len(access.subscripts)
        fitting = (REGISTER, SCRATCH, SCRATCH)
        fitting += () if access.tensor in written and rng.random() < 0.9 else (PACKED,)
        scope = rng.choice(fitting)
        if scope == PACKED and rng.random() < 0.95:
            inside = None
        statements: tuple[str, ...] = ()
        if rng.random() < 0.35:
            first = rng.randrange(len(names))
            statements = tuple(names[first : rng.randint(first, len(names) - 1) + 1])
        return (
            Promote(
                access.tensor,
                scope,
                inside,
                statements,
                self._axes(rank),
                rng.choice((1, 1, 2, 4, 8, 8, 16, 3)),
                rng.choice((1, 1, 1, 4, 8, 3)),
                rng.random() < 0.12,
                rng.random() < 0.12,
            ),
        )

    def _axes(self, rank: int) -> tuple[tuple[int, int], ...]:
        rng = self.rng
        if rng.random() < 0.5 or not rank:
            return () if rng.random() < 0.99 else ((rank, 1),)
        order = rng.sample(range(rank), rank)
        axes = [(d, 1) for d in order]
        while rng.random() < 0.35:
            d = rng.randrange(rank)
            axes.insert(rng.randrange(len(axes) + 1), (d, rng.choice((2, 3, 4, 8, 16))))
        return tuple(axes)


def _names(group: Iterable[Node]) -> tuple[str, ...]:
    return tuple(name for node in group for name in leaves(node))


def around_of(node: Node, statement: str) -> list[Member]:
    """The members around a statement, outermost first."""
    from tc.polyhedral.schedule import members_below

    found: Any = members_below(node)[statement]
    return list(found)
