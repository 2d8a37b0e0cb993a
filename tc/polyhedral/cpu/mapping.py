"""Mapping a schedule to a processor: tiles, vectors, promoted buffers, threads.

Each cluster of the schedule is a part of its own: a *block* (see `blocks`), for which there is
`block_mapping`, or a *nest* of blocks: the shared loops stay outside, temporaries become small
buffers, and each block is mapped within.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from tc.device import Device
from tc.options import MappingOptions
from tc.polyhedral.cpu.analysis import Block, Facts, block_of, extent
from tc.polyhedral.cpu.block_buffers import MIN_PARTS
from tc.polyhedral.cpu.block_mapping import BlockMapper
from tc.polyhedral.cpu.register_tiles import choose_tile
from tc.polyhedral.footprint import below
from tc.polyhedral.promotion import Reach, local_tiles
from tc.polyhedral.schedule import (
    PARALLEL,
    ArrayTile,
    Band,
    Member,
    Node,
    Promotion,
    Sequence,
    leaves,
    tile,
)

NEST_ROWS, NEST_WIDTH = 16, 64
"""Iterations of the last shared loop that are given to the blocks of a nest: rows of operands that
they reuse, or, where other loops are shared too, the width of what they compute."""


@dataclass(frozen=True)
class Mapped:
    """The tree with tiles, promotions and roles, and why it is so, a sentence or two a note."""

    tree: Node
    notes: tuple[str, ...]


def map_schedule(
    tree: Node, facts: Facts, device: Device, options: MappingOptions | None = None
) -> Mapped:
    """Maps each part of the outermost sequence of a tree on its own."""
    mapped: list[Node] = []
    notes: list[str] = []
    for part in _grouped(tree, facts):
        mapper = _Mapper(facts, device, options or MappingOptions(), frozenset(leaves(part)))
        node = mapper.cluster(part)
        for shared in mapper.shared:
            node = Promotion((shared,), node)
        mapped.append(node)
        notes += mapper.notes
    whole = Sequence(tuple(mapped)) if isinstance(tree, Sequence) else mapped[0]
    return Mapped(whole, tuple(notes))


@dataclass
class _Mapper:
    """Maps one cluster.

    `inside` are its statements, `shared` tiles to be packed before it, `around` the members of
    the loops around.
    """

    facts: Facts
    device: Device
    options: MappingOptions
    inside: frozenset[str]
    shared: list[ArrayTile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    around: tuple[Member, ...] = ()

    def cluster(self, node: Node) -> Node:
        members, child = _opened(node)
        block = block_of(members, child, self.facts.scop)
        return self._nest(members, child) if block is None else self._block(block, outermost=True)

    def _block(self, block: Block, *, outermost: bool = False) -> Node:
        scop = self.facts.scop
        written = frozenset(scop.statement(n).write.tensor for n in self.inside)
        others = self.inside - {item.statement.name for item in block.items}
        elsewhere = frozenset(a.tensor for n in others for a in scop.statement(n).reads)
        chosen = choose_tile(block, self.facts, self.device, self.options, written, elsewhere)
        mapper = BlockMapper(
            self.facts, self.device, self.options, block, chosen, written, self.around, outermost
        )
        node = mapper.node()
        self.notes.append(mapper.note())
        known = {t.tensor for t in self.shared}
        self.shared += [t for t in mapper.shared if t.tensor not in known]
        return node

    def _nest(self, members: tuple[Member, ...], child: Node) -> Node:
        """Loops around several blocks. The last is tiled, and its points given to the blocks,
        where these reuse operands along it."""
        points: tuple[Member, ...] = ()
        names = ", ".join(dict.fromkeys(leaves(child)))
        loops = ", ".join(m.name for m in members) or "no loops"
        note = f"{names} share {loops}; what one gives to the next stays in the cache."
        if members and self._reuses(members[-1], child):
            size = self._points(members, child)
            outer, point = tile(members[-1], size)
            note += f" {size} iterations of {point.name} at a time, to use operands again."
            members, points = (*members[:-1], outer), (point,)
        self.notes.append(note)
        if not members and isinstance(child, Band):
            inner = self._parts(child.members, child.child, ())
            return Band(child.members, child.permutable, inner)
        shared = self.options.parallel
        roles = tuple(replace(m, role=PARALLEL) if shared else m for m in members)
        inner = self._parts(members, child, points)
        return Band(roles, True, inner) if members else inner

    def _parts(self, members: tuple[Member, ...], child: Node, points: tuple[Member, ...]) -> Node:
        """What is inside of the shared loops, with the temporaries that live there."""
        parts = _grouped(child, self.facts)
        before, self.around = self.around, (*self.around, *members)
        inner: Node = Sequence(tuple(self._part(part, points) for part in parts))
        inside = {n: (*points, *inner_members) for n, inner_members in below(child).items()}
        reach = Reach(self.facts.scop, self.around, inside)
        tiles = tuple(local_tiles(set(leaves(child)), reach, self.facts, self.device.l2 // 2))
        self.around = before
        return Promotion(tiles, inner) if tiles and members else inner

    def _part(self, node: Node, points: tuple[Member, ...]) -> Node:
        members, child = _opened(node)
        names = list(leaves(node))
        own = tuple(m for m in points if all(m.values[n].variable for n in names))
        mixed = tuple(
            m for m in points if m not in own and any(m.values[n].variable for n in names)
        )
        if mixed:  # statements that run along these, and others that run once
            return Band(mixed, True, self._parts(mixed, node, own))
        block = block_of((*own, *members), child, self.facts.scop)
        if block is not None:
            return self._block(block)
        if not members and isinstance(node, Band):  # loops whose iterations depend on each other
            return Band(node.members, node.permutable, self._parts(node.members, node.child, own))
        inner = self._parts(members, child, own)
        return Band(members, True, inner) if members else inner

    def _reuses(self, member: Member, child: Node) -> bool:
        """Whether a reduction below reads what does not move with the member."""
        found = False
        for name in leaves(child):
            statement = self.facts.scop.statement(name)
            variable = member.values[name].variable
            if self.facts.tested(statement):
                return False
            parallel = [v for v in statement.outer if v != variable]
            if statement.accumulates and parallel and statement.reduction:
                for access in statement.reads:
                    free = not self.facts.uses(access, variable)
                    found |= free and any(self.facts.uses(access, v) for v in statement.reduction)
        return found

    def _points(self, members: tuple[Member, ...], child: Node) -> int:
        """How many iterations of the last shared loop are given to the blocks."""
        statements = [self.facts.scop.statement(n) for n in leaves(child)]
        *others, size = (max(extent(m, s) for s in statements) for m in members)
        around = prod(others)
        if others and around >= MIN_PARTS:
            return min(size, NEST_WIDTH)
        rows = NEST_ROWS
        while rows > 4 and around * size // rows < 2 * self.device.threads:
            rows //= 2
        return max(1, min(rows, size))


def _opened(node: Node) -> tuple[tuple[Member, ...], Node]:
    """The leading parallel members of a node, and what is inside of them."""
    if not isinstance(node, Band):
        return (), node
    members = node.members
    parallel = next((i for i, m in enumerate(members) if not m.coincident), len(members))
    rest = members[parallel:]
    return members[:parallel], Band(rest, node.permutable, node.child) if rest else node.child


def _grouped(node: Node, facts: Facts) -> list[Node]:
    """The parts of a node, neighbours that only start, update and finish one tensor joined."""
    groups: list[list[Node]] = []
    targets: list[set[str]] = []
    for part in node.children if isinstance(node, Sequence) else (node,):
        own = {facts.scop.statement(n).write.tensor for n in leaves(part)}
        joined = groups and own == targets[-1] and len(own) == 1
        if joined and block_of((), Sequence((*groups[-1], part)), facts.scop):
            groups[-1].append(part)
        else:
            groups.append([part])
            targets.append(own)
    return [g[0] if len(g) == 1 else Sequence(tuple(g)) for g in groups]
