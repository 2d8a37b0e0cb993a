"""Mapping one block: the point loops of its register tile are sunk below the reductions (Vasilache
et al. 2018, section 5.3), so that accumulators stay in registers; around go loops over tiles,
packed operands, padded inputs and staged outputs; the outermost parallel loops are shared among
threads.
"""

from __future__ import annotations

from collections.abc import Sequence as Several
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from tc.device import LINE, Device
from tc.dtypes import compute_dtype
from tc.errors import InternalError
from tc.options import MappingOptions
from tc.polyhedral.cpu.analysis import Block, Facts, Item, extent
from tc.polyhedral.cpu.block_buffers import BlockBuffers, iterations, vector_dimension
from tc.polyhedral.cpu.register_tiles import RegisterTile
from tc.polyhedral.cpu.strips import strips
from tc.polyhedral.promotion import (
    Reach,
    blocked_tile,
    copies,
    is_needed_later,
    is_rounded_between,
    moves_as_one,
    register_tile,
    touches,
)
from tc.polyhedral.schedule import (
    PARALLEL,
    SERIAL,
    UNROLL,
    VECTOR,
    ArrayTile,
    Band,
    Expansion,
    Leaf,
    Member,
    Node,
    Promotion,
    Sequence,
    count,
    tile,
)
from tc.polyhedral.scop.scop import ScopStatement

SHORT = 9
"""Reductions of so few steps are unrolled over small tiles."""


@dataclass
class BlockMapper:
    """Builds the tree of one block; `shared` grows with tiles that must be packed before it.

    `written` are the tensors that the cluster writes, `around` the members of the loops around.
    """

    facts: Facts
    device: Device
    options: MappingOptions
    block: Block
    chosen: RegisterTile | None
    written: frozenset[str]
    around: tuple[Member, ...]
    outermost: bool
    shared: list[ArrayTile] = field(default_factory=list)
    points: list[Member] = field(default_factory=list)
    outer: dict[str, Member] = field(default_factory=dict)

    def node(self) -> Node:
        """The mapped tree."""
        self._split()
        tiled = self._reduction_tile()
        if tiled is not None:
            return self._in_steps(*tiled)
        return self._around(self._body(self.block.items))

    def _body(self, items: Several[Item]) -> Node:
        """Items one after the other, their targets in registers."""
        registers = self._registers(items)
        held = {t.tensor for t in registers}
        children = [self._held(item, held) for item in items]
        body: Node = children[0] if len(children) == 1 else Sequence(tuple(children))
        return Promotion(tuple(registers), body) if registers else body

    def note(self) -> str:
        """What was chosen for the block, and why, in words."""
        names = ", ".join(item.statement.name for item in self.block.items)
        chosen = self.chosen
        if chosen is None:
            return f"{names}: plain loops; nothing can be a vector, or the processor has none."
        along = f"{chosen.vector.name}, a reduction" if chosen.reduced else chosen.vector.name
        text = f"{names}: vectors of {chosen.lanes} along {along}"
        if chosen.row is not None and chosen.rows > 1:
            text += f"; a register tile of {chosen.rows} {chosen.row.name} x {chosen.vectors}"
            text += f" vectors, {chosen.rows * chosen.vectors} accumulators."
        else:
            text += f", {chosen.vectors} at a time."
        for access in self._buffers.packs if not chosen.reduced else ():
            text += f" {access.tensor} is packed in the order of the vectors, as it is used again."
        for access in chosen.blocked:
            text += f" {access.tensor} is transposed block by block, in registers."
        for access, fill in self._buffers.pads if not chosen.reduced else ():
            text += (
                f" {access.tensor} is copied with its padding ({fill}), so no loop tests for it."
            )
        tiled = self._reduction_tile()
        if tiled is not None:
            text += (
                f" {tiled[1]} steps of {tiled[0].name} at a time, so that panels stay in the cache."
            )
        return text

    def _split(self) -> None:
        """The point members of the register tile, and the members that are left around them."""
        chosen = self.chosen
        if chosen is None:
            return
        if chosen.row is not None and chosen.rows > 1:
            outer, point = tile(chosen.row, chosen.rows)
            self.outer[chosen.row.name] = outer
            self.points.append(
                replace(point, role=SERIAL if chosen.blocked and not chosen.reduced else UNROLL)
            )
        if not chosen.reduced:
            outer, digits = _vector(chosen.vector, chosen)
            self.outer[chosen.vector.name] = outer
            self.points += digits

    @cached_property
    def _buffers(self) -> BlockBuffers:
        """The buffers of the block; only where a register tile was chosen."""
        if self.chosen is None:
            raise InternalError("a block without a register tile has no buffers")
        return BlockBuffers(
            self.facts,
            self.device,
            self.block,
            self.chosen,
            self.written,
            self._all_around,
            tuple(self.points),
        )

    @property
    def _all_around(self) -> tuple[Member, ...]:
        return (*self.around, *self.block.members)

    # --- the items of the block -----------------------------------------------------------------

    def _held(self, item: Item, held: set[str]) -> Node:
        """An item, its accumulators in registers on their own if they are not for the block."""
        node, statement = self._item(item), item.statement
        tensor = statement.write.tensor
        if tensor in held or not item.reduction:
            return node
        if not moves_as_one(tensor, [statement], self._all_around):
            return node
        own = self._accumulators(tensor, [statement], keep=True)
        return node if own is None else Promotion((own,), node)

    def _item(self, item: Item) -> Node:
        name = item.statement.name
        points = [m for m in self.points if m.values[name].variable is not None]
        vector = self._reduced_vector(item)
        members = list(item.reduction)
        digits: list[Member] = []
        if vector is not None:
            outer, digits = _vector(vector, self._buffers.tile)
            members = [*(m for m in members if m != vector), outer]
        leaf: Node = Leaf(name)
        if points or digits:
            leaf = Band((*points, *digits), True, leaf)
        leaf = self._blocked(item, [*points, *digits], leaf)
        if members:
            leaf = Band(self._unrolled(members, item), True, leaf)
        if digits:
            leaf = Expansion(name, f"{item.statement.write.tensor}_partial", tuple(digits), leaf)
        return leaf

    def _reduced_vector(self, item: Item) -> Member | None:
        """The reduction member of an item that is its vector, where vectors are along
        reductions: that along which most reads are contiguous, and none is irregular."""
        if self.chosen is None or not self.chosen.reduced or not item.reduction:
            return None
        if item is self.block.main:
            return self.chosen.vector
        best, most = None, 0
        for member in item.reduction:
            variable = member.values[item.statement.name].variable
            reads = [a for a in item.statement.reads if a.site >= 0]
            steps = [self.facts.stride(a, variable) for a in reads]
            if None not in steps and variable not in self.facts.tested(item.statement):
                contiguous = steps.count(1)
                if contiguous > most and set(steps) <= {0, 1}:
                    best, most = member, contiguous
        return best

    def _unrolled(self, members: Several[Member], item: Item) -> tuple[Member, ...]:
        """The members, unrolled where they are short and the tile is small."""
        if self.chosen is None:
            return tuple(members)
        steps = [count(m, extent(replace(m, span=None, step=1), item.statement)) for m in members]
        accumulators = prod(m.span // m.step for m in self.points if m.span and m.role == UNROLL)
        if self.chosen.reduced:
            accumulators *= self.chosen.vectors
        if prod(steps) <= SHORT and accumulators * prod(steps) <= 32:
            return tuple(replace(m, role=UNROLL) for m in members)
        return tuple(members)

    def _blocked(self, item: Item, inside: list[Member], node: Node) -> Node:
        """Reads that are transposed block by block."""
        if self.chosen is None or item is not self.block.main:
            return node
        tiles = []
        statement = item.statement
        reach = Reach(
            self.facts.scop, (*self._all_around, *item.reduction), {statement.name: tuple(inside)}
        )
        for access in self.chosen.blocked:
            found = reach.box(access.tensor, [statement])
            if found is not None:
                tiles.append(blocked_tile(access, self.block, self.chosen, found.sizes))
        return Promotion(tuple(tiles), node) if tiles else node

    # --- accumulators ---------------------------------------------------------------------------

    def _registers(self, items: Several[Item]) -> list[ArrayTile]:
        """The targets of items, in registers for all of them."""
        if len(items) == 1 and not items[0].statement.accumulates:
            return []
        tiles = []
        statements = [item.statement for item in items]
        names = [s.name for s in statements]
        for tensor in dict.fromkeys(s.write.tensor for s in statements):
            users = [s for s in statements if touches(s, tensor)]
            if is_rounded_between(tensor, users, self.facts.scop):
                continue
            whole = all(self._is_whole(item) for item in items if item.statement in users)
            if whole and moves_as_one(tensor, users, self._all_around):
                keep = is_needed_later(tensor, names, self.facts)
                found = self._accumulators(tensor, users, keep=keep)
                tiles += [] if found is None else [found]
        return tiles

    def _is_whole(self, item: Item) -> bool:
        """Whether a reduction runs inside of the block, all of it: none of its members, and no
        loop in which the statement has but one value, is outside."""
        own = {m.values[item.statement.name].variable for m in item.reduction}
        fixed = (m.values[item.statement.name] for m in self._all_around)
        return own >= set(item.statement.reduction) and all(v.variable for v in fixed)

    def _accumulators(
        self, tensor: str, users: list[ScopStatement], *, keep: bool
    ) -> ArrayTile | None:
        reach = Reach(
            self.facts.scop, self._all_around, {s.name: tuple(self.points) for s in users}
        )
        found, copied = reach.box(tensor, users), copies(tensor, users, reach)
        if found is None or copied is None:
            return None
        last, lanes, chosen = None, 1, self.chosen
        if chosen is not None:
            lanes = chosen.lanes
            last = None if chosen.reduced else vector_dimension(chosen, tensor, users)
        return register_tile(tensor, found.sizes, last, lanes, copied=copied, keep=keep)

    # --- long reductions ------------------------------------------------------------------------

    def _reduction_tile(self) -> tuple[Member, int] | None:
        """The reduction member to tile, and its steps between loads and stores of accumulators:
        where asked for, and where a panel would not stay in the cache."""
        chosen, main = self.chosen, self.block.main
        if chosen is None or chosen.reduced or chosen.blocked or not main.reduction:
            return None
        dtype = self.facts.scop.shaped.program.tensors[main.statement.write.tensor].dtype
        buffers = self._buffers
        if dtype != compute_dtype(dtype) or buffers.pads or buffers.staged is not None:
            return None
        member = max(main.reduction, key=lambda m: extent(m, main.statement))
        size, wanted = extent(member, main.statement), self.options.reduction_tile
        room = self.device.l2 // 2
        if wanted is None and self.outermost and buffers.panel_bytes > room:
            wanted = max(64, size * (room // 2) // buffers.panel_bytes)
        return (member, wanted) if wanted is not None and wanted < size else None

    def _in_steps(self, member: Member, size: int) -> Node:
        """The block with part of a reduction outside of the loops over rows: what starts the
        targets, the parts one after the other, and what follows."""
        main, buffers = self.block.main, self._buffers
        outer, inner = tile(member, size)
        parts = tuple(inner if m == member else m for m in main.reduction)
        number = self.block.items.index(main)
        members = [self.outer.get(m.name, m) for m in self.block.members]
        v_outer = self.outer[buffers.tile.vector.name]
        used = [m for m in members if m != v_outer and buffers.moves_packs(m)]
        rows = [m for m in members if m != v_outer and m not in used]
        body = self._band(rows, self._held(Item(main.statement, parts), set()))
        if buffers.packs:
            variable = member.values[main.statement.name].variable
            steps = {} if variable is None else {variable: size}
            body = Promotion(buffers.packed(whole=False, steps=steps), body)
        children: list[Node] = [Band((outer,), True, body)]
        for items, place in ((self.block.items[:number], 0), (self.block.items[number + 1 :], 2)):
            if items:
                children.insert(place, self._band(rows, self._body(items)))
        whole: Node = children[0] if len(children) == 1 else Sequence(tuple(children))
        return self._band(self._shared([*used, v_outer]), whole)

    # --- the loops around -----------------------------------------------------------------------

    def _around(self, body: Node) -> Node:
        """Loops over tiles, outermost first, with packing, padding and staging between them."""
        members = [self.outer.get(m.name, m) for m in self.block.members]
        if self.chosen is None or self.chosen.reduced or not self.block.main.reduction:
            if self.chosen is not None and self.chosen.blocked and not self.chosen.reduced:
                return self._in_strips(members, body)
            return self._band(self._shared(self._as_read(members)), body)
        buffers = self._buffers
        v_outer = self.outer[self.chosen.vector.name]
        row = self.chosen.row
        u_outer = None if row is None else self.outer.get(row.name, row)
        others = [m for m in members if m not in (v_outer, u_outer)]
        inner = [] if u_outer is None else [u_outer]
        used = [m for m in others if buffers.moves_packs(m)]
        if u_outer is not None and buffers.moves_packs(u_outer):
            local = False  # a panel serves all rows
        elif self.outermost:
            local = buffers.packs_locally(used, v_outer)
        else:
            local = buffers.packs_inside(self.around, used)
        if not local:
            self.shared += buffers.packed(whole=True)
        node = self._band(inner, body)
        if buffers.staged is not None:
            node = Promotion((buffers.staged,), node)
        if local:
            others = [m for m in others if m not in used]
            others, window = buffers.window(others, inner, shared=False)
            node = buffers.padded(self._band(window, node), inner, window)
            node = self._band(others, node)
            node = Promotion(buffers.packed(whole=False), node)
            return self._band(self._shared([*used, v_outer]), node)
        if buffers.pads:
            inside = [v_outer, *inner]
            others, window = buffers.window(others, inside, shared=True)
            node = buffers.padded(self._band([*window, v_outer], node), inside, window)
            return self._band(self._shared(others), node)
        if buffers.staged is not None:
            return self._band(self._shared([*others, v_outer]), node)
        return self._band(self._shared([*others, v_outer, *inner]), body)

    def _in_strips(self, members: list[Member], body: Node) -> Node:
        """The loops around a transpose block by block."""
        chosen = self.chosen
        if chosen is None or chosen.row is None:
            return self._band(self._shared(members), body)
        row, vector = (self.outer.get(m.name, m) for m in (chosen.row, chosen.vector))
        others = [m for m in members if m not in (row, vector)]
        device, bits = self.device, self.options.vector_bits
        if bits is not None:
            device = replace(device, vector_bits=bits)
        found = strips(self.block, chosen, self.facts, device, row, vector, self.points)
        node = self._band(found.inside, body)
        if found.buffer is not None:
            node = Promotion((found.buffer,), node)
        return self._band(self._shared([*others, *found.around]), node)

    def _as_read(self, members: list[Member]) -> list[Member]:
        """The members of a copy in the order of what it reads, if it reads and writes whole
        lines: these may be written in any order, but those that follow each other are read ahead
        of time."""
        statement, chosen = self.block.main.statement, self.chosen
        reads = [a for a in statement.reads if a.site >= 0]
        if chosen is None or chosen.reduced or len(self.block.items) > 1 or len(reads) != 1:
            return members
        v = self.block.variable(chosen.vector)
        contiguous = all(self.facts.stride(a, v) == 1 for a in (reads[0], statement.write))
        row = self.block.extent(chosen.vector) * self.facts.bits(statement) // 8
        steps = [self.facts.stride(reads[0], self.block.variable(m)) for m in members]
        known = [abs(step) for step in steps if step is not None]
        if not contiguous or row < LINE or len(known) < len(steps):
            return members
        order = sorted(range(len(members)), key=lambda place: -known[place])
        return [members[place] for place in order]

    def _shared(self, members: list[Member]) -> list[Member]:
        """The members, the leading ones for threads where they do not depend on each other."""
        if not self.outermost or not self.options.parallel:
            return members
        parallel: list[Member] = []
        for m in members:
            if not m.coincident or iterations(parallel, self.block) >= 64 * self.device.threads:
                break
            parallel.append(replace(m, role=PARALLEL))
        return [*parallel, *members[len(parallel) :]]

    def _band(self, members: Several[Member], child: Node) -> Node:
        return Band(tuple(members), True, child) if members else child


def _vector(member: Member, chosen: RegisterTile) -> tuple[Member, list[Member]]:
    """A member over tiles of vectors, and the digits inside: vectors, if several, and lanes."""
    outer, inner = tile(member, chosen.lanes * chosen.vectors)
    if chosen.vectors == 1:
        return outer, [replace(inner, role=VECTOR)]
    several, single = tile(inner, chosen.lanes)
    return outer, [replace(several, role=UNROLL), replace(single, role=VECTOR)]
