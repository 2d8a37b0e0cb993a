"""The buffers of a block that is tiled: operands packed in the order of its vectors, inputs with
their padding, targets that are strided along the vectors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapreplace
from math import prod

from tc.device import Device
from tc.polyhedral.cpu.analysis import Block, Facts
from tc.polyhedral.cpu.register_tiles import RegisterTile
from tc.polyhedral.promotion import (
    Reach,
    copies,
    is_needed_later,
    is_rounded_between,
    packed_tile,
    padded_tile,
    staged_tile,
    touches,
)
from tc.polyhedral.schedule import SERIAL, ArrayTile, Member, Node, Promotion, count, tile
from tc.polyhedral.scop.scop import Access, ScopStatement

COPY = 8.0
"""Time to copy an element to a padded copy, in that of a multiply-add of the whole reduction."""

PARTS = 4
"""Windows for each thread, at least: threads do not begin together."""

EVEN = 1 << 10
"""Windows for each thread from which on no thread has much more to do than another."""

WIDENED = 8
"""Rows of padded copies become whole vectors where that adds no more than this part of them."""

MIN_PARTS = 8
"""A parallel loop of fewer iterations is shared unevenly: more loops join it."""


@dataclass(frozen=True)
class BlockBuffers:
    """What a block with a register tile has in buffers, and when.

    `written` are the tensors that the cluster writes, `around` the members of the loops around the
    tile, `points` those within it.
    """

    facts: Facts
    device: Device
    block: Block
    tile: RegisterTile
    written: frozenset[str]
    around: tuple[Member, ...]
    points: tuple[Member, ...]

    # --- packing --------------------------------------------------------------------------------

    @cached_property
    def packs(self) -> tuple[Access, ...]:
        """The reads to pack, one a tensor, if all reads of the tensor in the block are alike."""
        found: dict[str, Access] = {}
        for access in self.tile.packed:
            alike = all(
                a.subscripts == access.subscripts
                for item in self.block.items
                for a in item.statement.reads
                if a.tensor == access.tensor
            )
            if alike and access.tensor not in self.written:
                found.setdefault(access.tensor, access)
        return tuple(found.values())

    def packed(
        self, *, whole: bool, steps: Mapping[str, int] | None = None
    ) -> tuple[ArrayTile, ...]:
        """The tiles of the packed reads, as `packed_tile` makes them."""
        return tuple(
            packed_tile(a, self.block, self.tile, whole=whole, steps=steps) for a in self.packs
        )

    def moves_packs(self, member: Member) -> bool:
        """Whether some packed read depends on a member."""
        return any(self._moves(access, member) for access in self.packs)

    def packs_locally(self, used: Iterable[Member], v_outer: Member) -> bool:
        """Whether each thread may pack what it needs: the loops that the panels depend on are
        outermost, enough of them for all threads, and a panel stays in the cache."""
        if not self._own_panels(used):
            return False
        parts = iterations((*used, v_outer), self.block)
        even = parts >= MIN_PARTS or parts % self.device.threads == 0
        return even and self.panel_bytes <= self.device.l2 * 3 // 4

    def packs_inside(self, outside: Iterable[Member], used: Iterable[Member]) -> bool:
        """Whether panels are packed inside of other loops: each iteration of these needs its own,
        and they stay in the first cache."""
        return self._own_panels((*outside, *used)) and self.panel_bytes <= self.device.l1

    def _own_panels(self, members: Iterable[Member]) -> bool:
        """Whether there are packed reads, each of which depends on all of the members."""
        return bool(self.packs) and all(self._moves(a, m) for m in members for a in self.packs)

    @property
    def panel_bytes(self) -> int:
        """The bytes of the packed reads for one tile of vectors."""
        elements = sum(prod(t.shape) for t in self.packed(whole=False))
        return elements * self.facts.bits(self.block.main.statement) // 8

    def _moves(self, access: Access, member: Member) -> bool:
        return self.facts.uses(access, self.block.variable(member))

    # --- padded reads and staged writes -----------------------------------------------------------

    @cached_property
    def pads(self) -> list[tuple[Access, int | float | bool]]:
        """The padded reads of the main statement that are not packed, if all others of the tensor
        are alike."""
        statement = self.block.main.statement
        packed = {access.tensor for access in self.packs}
        return [
            (access, fill)
            for access, fill in self.facts.padded(statement)
            if access.tensor not in self.written | packed
            and all(a == access for a in statement.reads if a.tensor == access.tensor)
            and not any(
                a.tensor == access.tensor
                for item in self.block.items
                if item is not self.block.main
                for a in item.statement.reads
            )
        ]

    def window(
        self, members: list[Member], inner: list[Member], *, shared: bool
    ) -> tuple[list[Member], list[Member]]:
        """The members around a padded copy for the `inner` loops, one of them in tiles, and the
        member inside of these tiles, if any: where windows overlap, the next ones use most of a
        copy again. The members are `shared` among threads, or run in each of them."""
        reduced = set(self.block.main.statement.reduction)
        subscripts = [x for access, _ in self.pads for x in access.subscripts if x is not None]
        for m in reversed(members):
            v = self.block.variable(m)
            if m.span is None and any(v in x.terms and reduced & set(x.terms) for x in subscripts):
                others = iterations([x for x in members if x is not m], self.block)
                threads = self.device.threads if shared else 1
                size = self._window(m, inner, others, threads)
                if size > 1:
                    outer, point = tile(m, size)
                    return [outer if x is m else x for x in members], [point]
        return members, []

    def _window(self, member: Member, inner: list[Member], others: int, threads: int) -> int:
        """How many iterations of a member share a copy: so many that the thread with the most to
        do has the least, of what there is room for in the cache."""
        extent = self.block.extent(member)
        work = self.block.main.instances / (extent * others)
        one, two = (self._copied(inner, (tile(member, size)[1],)) for size in (1, 2))
        room = self.device.l2 // 4 // self._element
        most = min(extent, 1 + (room - one) // max(1, two - one))
        enough = 1 if threads == 1 else PARTS * threads

        def time(size: int) -> float:
            copying = (one + (two - one) * (size - 1)) * COPY
            whole, last = divmod(extent, size)
            parts = [(size * work + copying, whole), (last * work + copying, int(last > 0))]
            return _longest(parts, others, threads)

        windows = {size: -(-extent // size) for size in range(most, 0, -1)}
        least = (size for size, found in windows.items() if size == -(-extent // found))
        fitting = (size for size in least if windows[size] * others >= enough)
        return min(fitting, key=time, default=1)

    def _copied(self, inner: list[Member], window: Iterable[Member]) -> int:
        return sum(prod(t.sizes) for t in self._padded_tiles(inner, window))

    def padded(self, node: Node, inner: list[Member], window: Iterable[Member] = ()) -> Node:
        """Padded reads come from a buffer that holds the padding too, for all of the inner loops
        and those of a window."""
        tiles = self._padded_tiles(inner, window)
        fitting = tuple(t for t in tiles if prod(t.sizes) * self._element <= self.device.l2 // 2)
        return Promotion(fitting, node) if fitting else node

    def _padded_tiles(self, inner: list[Member], window: Iterable[Member]) -> list[ArrayTile]:
        main = self.block.main
        statement = main.statement
        points = (m for m in self.points if whole_of(m) not in inner)
        inside = [*window, *map(whole_of, inner), *points]
        reach = Reach(self.facts.scop, self.around, {statement.name: (*inside, *main.reduction)})
        lanes = self.device.lanes(self.facts.bits(statement))
        tiles = []
        for access, fill in self.pads:
            found = reach.box(access.tensor, [statement])
            if found is not None:
                *others, last = self._rounded(access, found.sizes)
                whole = -(-last // lanes) * lanes
                row = whole if whole - last <= last // WIDENED else last
                tiles.append(padded_tile(access, (*others, row), lanes, fill))
        return tiles

    @property
    def _element(self) -> int:
        return self.facts.bits(self.block.main.statement) // 8

    def _rounded(self, access: Access, sizes: tuple[int, ...]) -> tuple[int, ...]:
        """The sizes of a box with what the last tiles, which may not be full, read beyond it."""
        result = list(sizes)
        width = self.tile.vectors * self.tile.lanes
        for member, step in ((self.tile.vector, width), (self.tile.row, self.tile.rows)):
            if member is None:
                continue
            extent, variable = self.block.extent(member), self.block.variable(member)
            beyond = -(-extent // step) * step - extent
            for d, subscript in enumerate(access.subscripts):
                if subscript is not None and variable is not None:
                    result[d] += beyond * abs(subscript.terms.get(variable, 0))
        return tuple(result)

    @cached_property
    def staged(self) -> ArrayTile | None:
        """A tile of the target where that is strided along the vector: all rows, in which it is
        contiguous, of one panel."""
        main, row = self.block.main.statement, self.tile.row
        v = self.block.variable(self.tile.vector)
        if self.facts.stride(main.write, v) == 1 or not main.accumulates or row is None:
            return None
        if self.facts.stride(main.write, self.block.variable(row)) != 1:
            return None
        tensor = main.write.tensor
        statements = [item.statement for item in self.block.items]
        users = [s for s in statements if touches(s, tensor)]
        if is_rounded_between(tensor, users, self.facts.scop):
            return None
        points = [p for p in self.points if p.name != row.name]
        rows = whole_of(row) if row.span is None else row
        reach = Reach(self.facts.scop, self.around, {s.name: (rows, *points) for s in users})
        found, last = reach.box(tensor, users), vector_dimension(self.tile, tensor, users)
        if found is None or last is None or prod(found.sizes) * 4 > self.device.l2 // 4:
            return None
        copied = copies(tensor, users, reach)
        if copied is None:
            return None
        keep = is_needed_later(tensor, [s.name for s in statements], self.facts)
        return staged_tile(tensor, found.sizes, last, self.tile.lanes, copied=copied, keep=keep)


def _longest(parts: Sequence[tuple[float, int]], times: int, threads: int) -> float:
    """The time of the last of some threads that take one part after the other, of times and how
    often each occurs, all of it so many times. Of very many parts all threads have as much.

    >>> _longest([(4, 3), (2, 1)], 1, 2), _longest([(7, 2), (1, 2)], 1, 2)
    (8.0, 8.0)
    >>> _longest([(4, 3), (2, 1)], 10**9, 2)
    7000000000.0
    """
    if sum(often for _, often in parts) * times > EVEN * threads:
        return sum(part * often for part, often in parts) * times / threads
    busy = [0.0] * threads
    for part in [part for part, often in parts for _ in range(often)] * times:
        heapreplace(busy, busy[0] + part)
    return max(busy)


def vector_dimension(tile: RegisterTile, tensor: str, users: Iterable[ScopStatement]) -> int | None:
    """The dimension of a target along the vectors of a tile."""
    for s in users:
        variable = tile.vector.values[s.name].variable
        if s.write.tensor == tensor:
            for d, subscript in enumerate(s.write.subscripts):
                if subscript is not None and variable in subscript.terms:
                    return d
    return None


def iterations(members: Iterable[Member], block: Block) -> int:
    """How many iterations the loops of some members have together."""
    return prod(count(m, block.extent(whole_of(m))) for m in members)


def whole_of(member: Member) -> Member:
    """The member that a tile or point member is a digit of."""
    return replace(member, step=1, span=None, role=SERIAL)
