"""Mapping one block: the point loops of its register tile are sunk below the reductions (002,
section 5.3), so that accumulators stay in registers; around go loops over tiles, packed operands,
padded inputs and staged outputs; the outermost parallel loops are shared among threads.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Several
from dataclasses import dataclass, field, replace
from math import prod

from tc.device import Device
from tc.dtypes import compute_dtype
from tc.options import MappingOptions
from tc.polyhedral.blocks import Block, Facts, Item, extent
from tc.polyhedral.promotion import (
    Reach,
    blocked_tile,
    is_needed_later,
    is_written_first,
    moves_as_one,
    packed_tile,
    padded_tile,
    register_tile,
    staged_tile,
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
from tc.polyhedral.scop import Access, ScopStatement
from tc.polyhedral.tiles import RegisterTile

MIN_PARTS = 8
"""A parallel loop of fewer iterations is shared unevenly: more loops join it."""

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
        for access in self._packs() if not chosen.reduced else ():
            text += f" {access.tensor} is packed in the order of the vectors, as it is used again."
        for access in chosen.blocked:
            text += f" {access.tensor} is transposed block by block, in registers."
        for access, fill in self._pads() if not chosen.reduced else ():
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
            self.points.append(replace(point, role=SERIAL if chosen.blocked else UNROLL))
        if not chosen.reduced:
            outer, digits = _vector(chosen.vector, chosen)
            self.outer[chosen.vector.name] = outer
            self.points += digits

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
        own = self._accumulators(tensor, [statement], fetch=True, keep=True)
        return node if own is None else Promotion((own,), node)

    def _item(self, item: Item) -> Node:
        name = item.statement.name
        points = [m for m in self.points if m.values[name].variable is not None]
        vector = self._reduced_vector(item)
        members = list(item.reduction)
        digits: list[Member] = []
        if vector is not None:
            assert self.chosen is not None
            outer, digits = _vector(vector, self.chosen)
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
        reach = Reach((*self._all_around, *item.reduction), {statement.name: tuple(inside)})
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
            whole = all(self._is_whole(item) for item in items if item.statement in users)
            if whole and moves_as_one(tensor, users, self._all_around):
                found = self._accumulators(
                    tensor,
                    users,
                    fetch=not is_written_first(tensor, users),
                    keep=is_needed_later(tensor, names, self.facts),
                )
                tiles += [] if found is None else [found]
        return tiles

    def _is_whole(self, item: Item) -> bool:
        """Whether a reduction runs inside of the block, all of it: none of its members, and no
        loop in which the statement has but one value, is outside."""
        own = {m.values[item.statement.name].variable for m in item.reduction}
        fixed = (m.values[item.statement.name] for m in self._all_around)
        return own >= set(item.statement.reduction) and all(v.variable for v in fixed)

    def _accumulators(
        self, tensor: str, users: list[ScopStatement], *, fetch: bool, keep: bool
    ) -> ArrayTile | None:
        reach = Reach(self._all_around, {s.name: tuple(self.points) for s in users})
        found = reach.box(tensor, users)
        if found is None:
            return None
        last = self._vector_dimension(tensor, users)
        lanes = 1 if self.chosen is None else self.chosen.lanes
        return register_tile(tensor, found.sizes, last, lanes, fetch=fetch, keep=keep)

    def _vector_dimension(self, tensor: str, users: Iterable[ScopStatement]) -> int | None:
        """The dimension of a target along the vector."""
        if self.chosen is None or self.chosen.reduced:
            return None
        for s in users:
            variable = self.chosen.vector.values[s.name].variable
            if s.write.tensor == tensor:
                for d, subscript in enumerate(s.write.subscripts):
                    if subscript is not None and variable in subscript.terms:
                        return d
        return None

    # --- long reductions ------------------------------------------------------------------------

    def _reduction_tile(self) -> tuple[Member, int] | None:
        """The reduction member to tile, and its steps between loads and stores of accumulators:
        where asked for, and where a panel would not stay in the cache."""
        chosen, main = self.chosen, self.block.main
        if chosen is None or chosen.reduced or chosen.blocked or not main.reduction:
            return None
        dtype = self.facts.scop.shaped.program.tensors[main.statement.write.tensor].dtype
        if dtype != compute_dtype(dtype) or self._pads() or self._staged() is not None:
            return None
        member = max(main.reduction, key=lambda m: extent(m, main.statement))
        size, wanted = extent(member, main.statement), self.options.reduction_tile
        packs = self._packs()
        if wanted is None and packs and self.outermost:
            bytes_ = self._panel_bytes(packs)
            if bytes_ > self.device.l2 // 2:
                wanted = max(64, size * (self.device.l2 // 4) // bytes_)
        return (member, wanted) if wanted is not None and wanted < size else None

    def _in_steps(self, member: Member, size: int) -> Node:
        """The block with part of a reduction outside of the loops over rows: what starts the
        targets, the parts one after the other, and what follows."""
        assert self.chosen is not None
        main = self.block.main
        outer, inner = tile(member, size)
        parts = tuple(inner if m == member else m for m in main.reduction)
        number = self.block.items.index(main)
        members = [self.outer.get(m.name, m) for m in self.block.members]
        v_outer = self.outer[self.chosen.vector.name]
        packs = self._packs()
        used = [m for m in members if m != v_outer and any(self._moves(a, m) for a in packs)]
        rows = [m for m in members if m != v_outer and m not in used]
        body = self._band(rows, self._held(Item(main.statement, parts), set()))
        if packs:
            variable = member.values[main.statement.name].variable
            steps = {} if variable is None else {variable: size}
            tiles = (
                packed_tile(a, self.block, self.chosen, whole=False, steps=steps) for a in packs
            )
            body = Promotion(tuple(tiles), body)
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
                # blocks next to each other in the target come one after the other
                ends = (self.chosen.row, self.chosen.vector)
                last = [self.outer.get(m.name, m) for m in ends if m is not None]
                members = [*(m for m in members if m not in last), *last]
            return self._band(self._shared(members), body)
        v_outer = self.outer[self.chosen.vector.name]
        row = self.chosen.row
        u_outer = None if row is None else self.outer.get(row.name, row)
        others = [m for m in members if m not in (v_outer, u_outer)]
        inner = [] if u_outer is None else [u_outer]
        packs = self._packs()
        used = [m for m in others if any(self._moves(a, m) for a in packs)]
        local = self._packs_locally(packs, used, v_outer)
        if packs and not local:
            self.shared += [packed_tile(a, self.block, self.chosen, whole=True) for a in packs]
        staged = self._staged()
        node = self._band(inner, body)
        if staged is not None:
            node = Promotion((staged,), node)
        if local:
            node = self._padded(node, inner)
            node = self._band([m for m in others if m not in used], node)
            tiles = (packed_tile(a, self.block, self.chosen, whole=False) for a in packs)
            node = Promotion(tuple(tiles), node)
            return self._band(self._shared([*used, v_outer]), node)
        if self._pads():
            node = self._padded(self._band([v_outer], node), [v_outer, *inner])
            return self._band(self._shared(others), node)
        if staged is not None:
            return self._band(self._shared([*others, v_outer]), node)
        return self._band(self._shared([*others, v_outer, *inner]), body)

    def _shared(self, members: list[Member]) -> list[Member]:
        """The members, the leading ones for threads where they do not depend on each other."""
        if not self.outermost or not self.options.parallel:
            return members
        parallel: list[Member] = []
        for m in members:
            if not m.coincident or self._parts(parallel) >= 64 * self.device.threads:
                break
            parallel.append(replace(m, role=PARALLEL))
        return [*parallel, *members[len(parallel) :]]

    def _parts(self, members: Iterable[Member]) -> int:
        return prod(count(m, self.block.extent(_whole(m))) for m in members)

    def _band(self, members: Several[Member], child: Node) -> Node:
        return Band(tuple(members), True, child) if members else child

    # --- packing --------------------------------------------------------------------------------

    def _packs(self) -> list[Access]:
        """The reads to pack, one a tensor, if all reads of the tensor in the block are alike."""
        assert self.chosen is not None
        found: dict[str, Access] = {}
        for access in self.chosen.packed:
            alike = all(
                a.subscripts == access.subscripts
                for item in self.block.items
                for a in item.statement.reads
                if a.tensor == access.tensor
            )
            if alike and access.tensor not in self.written:
                found.setdefault(access.tensor, access)
        return list(found.values())

    def _moves(self, access: Access, member: Member) -> bool:
        return self.facts.uses(access, self.block.variable(member))

    def _packs_locally(self, packs: list[Access], used: list[Member], v_outer: Member) -> bool:
        """Whether each thread packs what it needs: the loops that the panels depend on are
        outermost, enough of them for all threads, and a panel stays in the cache."""
        if not packs or not self.outermost or self.chosen is None:
            return False
        if any(not self._moves(a, m) for a in packs for m in used):
            return False
        parts = self._parts((*used, v_outer))
        return parts >= MIN_PARTS and self._panel_bytes(packs) <= self.device.l2 * 3 // 4

    def _panel_bytes(self, packs: list[Access]) -> int:
        assert self.chosen is not None
        tiles = [packed_tile(a, self.block, self.chosen, whole=False) for a in packs]
        return sum(prod(t.shape) for t in tiles) * self.facts.bits(self.block.main.statement) // 8

    # --- padded reads and staged writes -----------------------------------------------------------

    def _pads(self) -> list[tuple[Access, int | float | bool]]:
        """The padded reads of the main statement, if all others of the tensor are alike."""
        statement = self.block.main.statement
        return [
            (access, fill)
            for access, fill in self.facts.padded(statement)
            if access.tensor not in self.written
            and all(a == access for a in statement.reads if a.tensor == access.tensor)
            and not any(
                a.tensor == access.tensor
                for item in self.block.items
                if item is not self.block.main
                for a in item.statement.reads
            )
        ]

    def _padded(self, node: Node, inner: list[Member]) -> Node:
        """Padded reads come from a buffer that holds the padding too."""
        main = self.block.main
        statement = main.statement
        inside = [*map(_whole, inner), *(m for m in self.points if _whole(m) not in inner)]
        reach = Reach(self._all_around, {statement.name: (*inside, *main.reduction)})
        tiles = []
        for access, fill in self._pads():
            found = reach.box(access.tensor, [statement])
            size = self.facts.bits(statement) // 8
            if found is not None and prod(found.sizes) * size <= self.device.l2 // 2:
                sizes = self._rounded(access, found.sizes)
                lanes = self.device.lanes(self.facts.bits(statement))
                tiles.append(padded_tile(access, sizes, lanes, fill))
        return Promotion(tuple(tiles), node) if tiles else node

    def _rounded(self, access: Access, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of a box with what the last tiles, which may not be full, read beyond it."""
        assert self.chosen is not None
        result = list(sizes)
        width = self.chosen.vectors * self.chosen.lanes
        for member, step in ((self.chosen.vector, width), (self.chosen.row, self.chosen.rows)):
            if member is None:
                continue
            whole, variable = self.block.extent(member), self.block.variable(member)
            beyond = -(-whole // step) * step - whole
            for d, subscript in enumerate(access.subscripts):
                if subscript is not None and variable is not None:
                    result[d] += beyond * abs(subscript.terms.get(variable, 0))
        return tuple(result)

    def _staged(self) -> ArrayTile | None:
        """A tile of the target where that is strided along the vector: all rows, in which it is
        contiguous, of one panel."""
        assert self.chosen is not None
        main, row = self.block.main.statement, self.chosen.row
        v = self.block.variable(self.chosen.vector)
        if self.facts.stride(main.write, v) == 1 or not main.accumulates or row is None:
            return None
        if self.facts.stride(main.write, self.block.variable(row)) != 1:
            return None
        tensor = main.write.tensor
        statements = [item.statement for item in self.block.items]
        users = [s for s in statements if touches(s, tensor)]
        points = [p for p in self.points if p.name != row.name]
        rows = _whole(row) if row.span is None else row
        reach = Reach(self._all_around, {s.name: (rows, *points) for s in users})
        found, last = reach.box(tensor, users), self._vector_dimension(tensor, users)
        if found is None or last is None or prod(found.sizes) * 4 > self.device.l2 // 4:
            return None
        return staged_tile(
            tensor,
            found.sizes,
            last,
            self.chosen.lanes,
            fetch=not is_written_first(tensor, users),
            keep=is_needed_later(tensor, [s.name for s in statements], self.facts),
        )


def _vector(member: Member, chosen: RegisterTile) -> tuple[Member, list[Member]]:
    """A member over tiles of vectors, and the digits inside: vectors, if several, and lanes."""
    outer, inner = tile(member, chosen.lanes * chosen.vectors)
    if chosen.vectors == 1:
        return outer, [replace(inner, role=VECTOR)]
    several, single = tile(inner, chosen.lanes)
    return outer, [replace(several, role=UNROLL), replace(single, role=VECTOR)]


def _whole(member: Member) -> Member:
    """The member that a tile or point member is a digit of."""
    return replace(member, step=1, span=None, role=SERIAL)
