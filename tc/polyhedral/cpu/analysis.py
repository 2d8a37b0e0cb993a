"""Recognising what a cluster of a schedule is, before it is mapped.

A *nest* is a band whose statements have, beyond its members, reductions of their own only: a
contraction with what follows it, a pointwise operation, a pooling. A cluster whose statements
have further parallel variables is a *nest* of blocks: softmax, or the layers of a perceptron.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TypeAlias

from tc.affine.forms import LinearForm
from tc.plan import SERIAL
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.footprint import extent
from tc.polyhedral.promotion import touches
from tc.polyhedral.rewrite.thresholds import MOST_FUSED
from tc.polyhedral.schedule import (
    Band,
    Leaf,
    Member,
    Node,
    Sequence,
    count,
    in_order,
    leaves,
    sequence_of,
)
from tc.polyhedral.scop.scop import Access, Scop, ScopStatement
from tc.polyhedral.strategies.clusters import is_product


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
    """Items that run one after the other inside of `members`, parallel loops that they share."""

    members: tuple[Member, ...]
    items: tuple[NestItem, ...]
    info: AccessInfo

    @cached_property
    def main(self) -> NestItem:
        """The item with the most instances, an update if any."""
        return max(self.items, key=lambda i: (i.instances, i.statement.kind == "update"))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the statements."""
        return tuple(item.statement.name for item in self.items)

    def variable(self, member: Member) -> str | None:
        """The variable of the main statement along which a member runs."""
        return member.values[self.main.statement.name].variable

    def extent(self, member: Member) -> int:
        """How many values a member of the nest, or of a reduction, has for all items together."""
        statements = (item.statement for item in self.items)
        return max(extent(member, s) for s in statements if s.name in member.values)

    @cached_property
    def element(self) -> int:
        """The bytes of the widest values that the main statement computes with."""
        return self.info.bits(self.main.statement) // 8

    def stride(self, access: Access, member: Member) -> int | None:
        return self.info.stride(access, self.variable(member))

    def uses(self, access: Access, member: Member) -> bool:
        return self.info.uses(access, self.variable(member))

    def reads(self, tensor: str) -> list[Access]:
        return [a for item in self.items for a in item.statement.reads if a.tensor == tensor]

    def users(self, tensor: str) -> list[ScopStatement]:
        return [item.statement for item in self.items if touches(item.statement, tensor)]

    def is_tested(self, member: Member) -> bool:
        """Whether an item is tested at run time in a way that depends on a member."""
        return any(
            member.values[item.statement.name].variable in self.info.tested(item.statement)
            for item in self.items
            if item.statement.name in member.values
        )


Coefficients: TypeAlias = "tuple[tuple[str, int], ...]"
"""Of names, in their order."""

Place: TypeAlias = "tuple[tuple[int, Coefficients, Coefficients] | None, ...]"


def places(
    tensor: str, statements: Iterable[ScopStatement], members: Iterable[Member]
) -> set[Place]:
    """Where some statements touch a tensor in an iteration of loops, by the values of these rather
    than by variables: each statement may count the loops from another value."""
    found: set[Place] = set()
    loops = tuple(members)
    for s in statements:
        along = {m.values[s.name].variable: m for m in loops if s.name in m.values}
        own = (access for access in s.accesses if access.tensor == tensor)
        found |= {tuple(_in_members(x, s.name, along) for x in a.subscripts) for a in own}
    return found


def _in_members(
    form: LinearForm | None, statement: str, along: Mapping[str | None, Member]
) -> tuple[int, Coefficients, Coefficients] | None:
    """A subscript by the values of members, `along` which the variables of its statement run: a
    constant, the coefficients of members, and those of all other variables; None where the
    subscript is not linear."""
    if form is None:
        return None
    own = {v: c for v, c in form.terms.items() if v in along}
    shift = sum(c * along[v].values[statement].offset for v, c in own.items())
    members = tuple(sorted((along[v].name, c) for v, c in own.items()))
    others = tuple(sorted((v, c) for v, c in form.terms.items() if v not in own))
    return form.constant - shift, members, others


def nest_of(members: tuple[Member, ...], child: Node, info: AccessInfo) -> ParallelNest | None:
    """The nest of some members and of what they run; None where that is a nest of blocks."""
    items = [_item(part, info.scop) for part in in_order(child)]
    found = [item for item in items if item is not None]
    return ParallelNest(members, tuple(found), info) if len(found) == len(items) else None


def _item(node: Node, scop: Scop) -> NestItem | None:
    match node:
        case Leaf(statement=name):
            return NestItem(scop.statement(name), ())
        case Band(members=members, child=child) if (item := _item(child, scop)) is not None:
            own = {m.values[item.statement.name].variable for m in members}
            is_reduced = own <= set(item.statement.reduction)
            return replace(item, reduction=(*members, *item.reduction)) if is_reduced else None
        case _:
            return None


def groups(node: Node, info: AccessInfo) -> list[Node]:
    """The parts of a node, neighbours that only start, update and finish one tensor joined, as
    many as may share loops, with one long product among them."""
    found: list[tuple[Node, ...]] = []
    for part in in_order(node):
        if found and _are_one((*found[-1], part), info):
            found[-1] = (*found[-1], part)
        else:
            found.append((part,))
    return list(map(sequence_of, found))


def _are_one(parts: tuple[Node, ...], info: AccessInfo) -> bool:
    """Whether parts that follow each other are one nest, as `groups` has them."""
    statements = [list(map(info.scop.statement, leaves(part))) for part in parts]
    every = [statement for own in statements for statement in own]
    return (
        len({statement.write.tensor for statement in every}) == 1
        and len(every) <= MOST_FUSED
        and sum(any(map(is_product, own)) for own in statements) <= 1
        and nest_of((), Sequence(parts), info) is not None
    )


def iterations(members: Iterable[Member], nest: ParallelNest) -> int:
    """How many iterations the loops of some members have together."""
    return prod(count(m, nest.extent(whole_of(m))) for m in members)


def whole_of(member: Member) -> Member:
    """The member that a tile or point member is a digit of."""
    return replace(member, step=1, span=None, role=SERIAL)
