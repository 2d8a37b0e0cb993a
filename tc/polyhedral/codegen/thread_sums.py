"""Reductions that threads of a block share: whose accumulators are combined, and in what order; and
what each thread then has for itself.

Threads that run the digits of a split reduction (`Expansion`) have accumulators of their own. These
are combined within warps, by exchanges between lanes, then between warps, through shared memory.
A target that lies in registers around is *replicated*: every thread has the element, and does what
is done to it, so that what follows in any thread finds it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from tc.kernel.ir import WARP
from tc.plan import AXES, REGISTER, THREAD
from tc.polyhedral import schedule
from tc.polyhedral.footprint import trips_of
from tc.polyhedral.schedule import Band, Expansion, Leaf, Member, Node, Promotion
from tc.polyhedral.scop.scop import Scop

Axes: TypeAlias = "frozenset[str]"
"""Some of x, y and z, along which threads are numbered."""


def thread_digits(node: Expansion) -> tuple[Member, ...]:
    """The loops below a split that run its digits, each by several threads."""
    split = {(digit.name, digit.step) for digit in node.digits}
    found = schedule.members_below(node)[node.statement]
    return tuple(m for m in found if (m.name, m.step) in split and _is_of_threads(m))


def _is_of_threads(member: Member) -> bool:
    several = member.span is None or member.span > member.step
    return member.role == THREAD and several and member.count != 1


def combined_axes(node: Expansion) -> Axes:
    """The axes along which threads have accumulators of their own, which are combined."""
    return frozenset(digit.axis for digit in thread_digits(node) if digit.axis is not None)


def combines(node: Node) -> bool:
    """Whether threads combine their accumulators at a node: all of a block come there together."""
    return isinstance(node, Expansion) and bool(combined_axes(node))


# --- in what order ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Exchange:
    """How threads that differ along some `axes` alone, a group, combine a value each: within
    `lanes` neighbouring threads of a warp, then the `partials` of these through shared memory, one
    after the other. There are so many `groups` in a block, of `sizes` threads along each axis."""

    axes: Axes
    sizes: Mapping[str, int]
    lanes: int
    partials: int
    groups: int


def exchange_of(axes: Axes, threads: Mapping[str, int]) -> Exchange:
    """The exchange along some axes, where a block has so many threads along each axis. Lanes of a
    warp exchange only where blocks have whole warps.

    >>> found = exchange_of(frozenset("x"), {"x": 256, "y": 2, "z": 1})
    >>> found.lanes, found.partials, found.groups
    (32, 8, 2)
    >>> found = exchange_of(frozenset("y"), {"x": 32, "y": 8, "z": 1})
    >>> found.lanes, found.partials, found.groups
    (1, 8, 32)
    """
    run = 1
    for axis in AXES:
        if axis not in axes and threads[axis] > 1:
            break
        run *= threads[axis]
    every, own = prod(threads.values()), prod(threads[axis] for axis in axes)
    lanes = 1 if every % WARP else min(run & -run, WARP)
    return Exchange(axes, dict(threads), lanes, own // lanes, every // own)


# --- what each thread has -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Replicas:
    """`tiles`: along which axes all threads have the same elements of a tile in registers, by the
    identity of the promotion and the tensor. `leaves`: along which axes all threads run a
    statement, as it writes such elements, though no loop around it is bound to these axes."""

    tiles: Mapping[tuple[int, str], Axes]
    leaves: Mapping[str, Axes]


def replicas_of(part: Node, scop: Scop) -> Replicas:
    """What is replicated in a part: a tile in registers along an axis if threads along the axis use
    it, and each statement that writes it is run by all of them alike, or has accumulators that they
    combine."""
    tiles: defaultdict[tuple[int, str], Axes] = defaultdict(frozenset)
    leaves: defaultdict[str, Axes] = defaultdict(frozenset)
    uses = list(_uses(part, scop))
    while True:
        before = sum(map(len, tiles.values()))
        for use in uses:
            below = (bound | leaves[name] for name, bound in use.bound.items())
            wanted = frozenset[str]().union(*below) - tiles[use.key] - use.around
            for axis in wanted if use.writers else ():
                others = [name for name in use.writers if axis not in use.combined[name]]
                if not any(axis in use.bound[name] for name in others):
                    tiles[use.key] |= {axis}
                    for name in others:
                        leaves[name] |= {axis}
        if sum(map(len, tiles.values())) == before:
            return Replicas(dict(tiles), dict(leaves))


@dataclass(frozen=True, slots=True)
class _Use:
    """A tile, with loops `around` that are bound to some axes of threads, and the statements below
    that touch it: the axes to which loops between are `bound`, and those along which accumulators
    of the statement are `combined` between."""

    key: tuple[int, str]
    around: Axes
    bound: Mapping[str, Axes]
    combined: Mapping[str, Axes]
    writers: tuple[str, ...]


def _uses(node: Node, scop: Scop, around: Axes = frozenset()) -> Iterator[_Use]:
    """The tiles in registers that no other tile of the same tensor is inside of."""
    if isinstance(node, Band):
        around |= _axes_of(node, scop)
    for child in schedule.children(node):
        yield from _uses(child, scop, around)
    if isinstance(node, Promotion):
        inner = [tile.tensor for tile in schedule.tiles(node.child)]
        ways = dict(_ways(node.child, frozenset(), {}, scop))
        for tile in node.tiles:
            if tile.scope != REGISTER or tile.tensor in inner:
                continue
            statements = [s for s in scop.users(tile.tensor) if s.name in ways]
            users = [
                s.name for s in statements if any(a.tensor == tile.tensor for a in s.promotable)
            ]
            yield _Use(
                (id(node), tile.tensor),
                around,
                {name: ways[name][0] for name in users},
                {name: ways[name][1] for name in users},
                tuple(s.name for s in statements if s.write.tensor == tile.tensor),
            )


def _ways(
    node: Node, bound: Axes, combined: Mapping[str, Axes], scop: Scop
) -> Iterator[tuple[str, tuple[Axes, Axes]]]:
    """The statements below a node: the axes to which loops around each are bound, and those along
    which its accumulators are combined."""
    match node:
        case Leaf(statement=name):
            yield name, (bound, combined.get(name, frozenset()))
        case Band():
            bound |= _axes_of(node, scop)
        case Expansion(statement=name):
            combined = {**combined, name: combined_axes(node)}
    for child in schedule.children(node):
        yield from _ways(child, bound, combined, scop)


def _axes_of(band: Band, scop: Scop) -> Axes:
    """The axes of threads to which loops of a band are bound."""
    statements = [scop.statement(name) for name in schedule.leaves(band)]
    return frozenset(
        m.axis
        for m in band.members
        if m.role == THREAD and m.axis is not None and trips_of(m, statements) > 1
    )
