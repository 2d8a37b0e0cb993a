"""Recognising what a cluster of a schedule is, before it is mapped.

A *nest* is a band whose statements have, beyond its members, reductions of their own only: a
contraction with what follows it, a pointwise operation, a pooling. A cluster whose statements
have further parallel variables is a *nest* of blocks: softmax, or the layers of a perceptron.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from tc.plan import SERIAL
from tc.polyhedral.facts import Facts
from tc.polyhedral.footprint import extent
from tc.polyhedral.schedule import Band, Leaf, Member, Node, Sequence, count, leaves
from tc.polyhedral.scop.scop import Scop, ScopStatement


@dataclass(frozen=True)
class NestItem:
    """A statement of a nest with the members of its reduction, outermost first."""

    statement: ScopStatement
    reduction: tuple[Member, ...]

    @property
    def instances(self) -> int:
        return prod(end - begin for begin, end in self.statement.ranges.values())


@dataclass(frozen=True)
class ParallelNest:
    """`members` are parallel and shared by all items, which run in order."""

    members: tuple[Member, ...]
    items: tuple[NestItem, ...]

    @cached_property
    def main(self) -> NestItem:
        """The item with the most instances, an update if any."""
        return max(self.items, key=lambda i: (i.instances, i.statement.kind == "update"))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Those of the statements."""
        return tuple(item.statement.name for item in self.items)

    def variable(self, member: Member) -> str | None:
        """The variable of the main statement that the member is."""
        return member.values[self.main.statement.name].variable

    def extent(self, member: Member) -> int:
        """How many values the member has, over all items."""
        return max(extent(member, item.statement) for item in self.items)


def nest_of(members: tuple[Member, ...], child: Node, scop: Scop) -> ParallelNest | None:
    """The nest that a band is, None if it is a nest of blocks."""
    parts = child.children if isinstance(child, Sequence) else (child,)
    items = [_item(part, scop) for part in parts]
    found = [item for item in items if item is not None]
    return ParallelNest(members, tuple(found)) if len(found) == len(items) else None


def _item(node: Node, scop: Scop) -> NestItem | None:
    match node:
        case Leaf(statement=name):
            return NestItem(scop.statement(name), ())
        case Band(members=members, child=Leaf(statement=name)):
            statement = scop.statement(name)
            own = {m.values[name].variable for m in members}
            return NestItem(statement, members) if own <= set(statement.reduction) else None
        case Band(members=members, child=Band() as inner):
            item = _item(inner, scop)
            if item is None:
                return None
            whole = _item(Band(members, True, Leaf(item.statement.name)), scop)
            return None if whole is None else NestItem(item.statement, (*members, *item.reduction))
        case _:
            return None


def opened(node: Node) -> tuple[tuple[Member, ...], Node]:
    """The leading parallel members of a node, and what is inside of them."""
    if not isinstance(node, Band):
        return (), node
    members = node.members
    parallel = next((i for i, m in enumerate(members) if not m.coincident), len(members))
    rest = members[parallel:]
    return members[:parallel], Band(rest, node.permutable, node.child) if rest else node.child


def groups(node: Node, facts: Facts) -> list[Node]:
    """The parts of a node, neighbours that only start, update and finish one tensor joined."""
    found: list[list[Node]] = []
    targets: list[set[str]] = []
    for part in node.children if isinstance(node, Sequence) else (node,):
        own = {facts.scop.statement(n).write.tensor for n in leaves(part)}
        joined = found and own == targets[-1] and len(own) == 1
        if joined and nest_of((), Sequence((*found[-1], part)), facts.scop):
            found[-1].append(part)
        else:
            found.append([part])
            targets.append(own)
    return [g[0] if len(g) == 1 else Sequence(tuple(g)) for g in found]


def is_tested(member: Member, nest: ParallelNest, facts: Facts) -> bool:
    """Whether tests at run time of an item of a nest depend on what a member is there."""
    return any(
        member.values[item.statement.name].variable in facts.tested(item.statement)
        for item in nest.items
        if item.statement.name in member.values
    )


def iterations(members: Iterable[Member], nest: ParallelNest) -> int:
    """How many iterations the loops of some members have together."""
    return prod(count(m, nest.extent(whole_of(m))) for m in members)


def whole_of(member: Member) -> Member:
    """The member that a tile or point member is a digit of."""
    return replace(member, step=1, span=None, role=SERIAL)
