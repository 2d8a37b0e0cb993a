"""Choosing the register tile of a nest: which loop is the vectors', which are unrolled.

The model counts, for one step of the main statement's reduction over a tile of `rows` x `vectors`
vectors, the vector operations and the loads that they need; a tile is as good as its time per
useful element. Strided and gathered vectors count as many loads as they take, unless the operand
is packed, whose cost is shared by all uses of the packed elements. Times are in slots (`costs`).
Vectors of half the width take half a slot on narrow units, but as many instructions: they are of
use where they waste fewer lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from tc.device import Device
from tc.kernel.passes.demanded_lanes import SHORTEST
from tc.options import MappingOptions
from tc.polyhedral.cpu.analysis import ParallelNest, is_tested
from tc.polyhedral.cpu.costs import TileCosts
from tc.polyhedral.cpu.operands import (
    TileOperand,
    TileShape,
    extent_of,
    is_alone,
    operand,
    vectors_of,
)
from tc.polyhedral.facts import Facts
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.scop import Access

MANY = 4
"""Vectors of a row from which the last one alone is made shorter."""

MAX_VECTORS, MAX_ROWS = 8, 16
"""How many vectors, and rows, are tried."""


@dataclass(frozen=True)
class RegisterTile:
    """`rows` iterations of member `row` times `vectors` vectors of `lanes` along `vector`.

    `reduced`: the vector is along a reduction member. `packed` are the reads to be packed,
    `blocked` those to be transposed block by block (a block is as high as a vector is wide).
    """

    vector: Member
    lanes: int
    vectors: int
    row: Member | None
    rows: int
    reduced: bool
    packed: tuple[Access, ...]
    blocked: tuple[Access, ...]
    cost: float


def choose_tile(
    nest: ParallelNest,
    facts: Facts,
    device: Device,
    options: MappingOptions,
    costs: TileCosts,
    written: frozenset[str],
    elsewhere: frozenset[str] = frozenset(),
) -> RegisterTile | None:
    """The cheapest register tile; None where nothing can be a vector.

    Tensors `written` by the cluster are not packed, nor those that are read `elsewhere` in it too,
    where they may be needed in another order.
    """
    if options.vector_bits is not None:
        device = replace(device, vector_bits=options.vector_bits)
    search = _Search(nest, facts, device, options, costs, written, elsewhere)
    candidates = list(search.candidates())
    best = min(candidates, key=lambda t: t.cost, default=None)
    alike = [t for t in candidates if best is not None and _is_alike(t, best, costs.alike)]
    return max(alike, key=lambda t: (t.vectors, -t.cost), default=None)


def _is_alike(one: RegisterTile, best: RegisterTile, factor: float) -> bool:
    """Whether a tile is another shape of the best, at nearly the same cost."""
    size = best.rows * best.vectors
    if one.cost > best.cost * factor or one.rows * one.vectors != size:
        return False
    return replace(one, rows=best.rows, vectors=best.vectors, cost=best.cost) == best


@dataclass(frozen=True)
class _Search:
    """The register tiles of one nest, and what they cost."""

    nest: ParallelNest
    facts: Facts
    device: Device
    options: MappingOptions
    costs: TileCosts
    written: frozenset[str]
    elsewhere: frozenset[str]

    def candidates(self) -> Iterator[RegisterTile]:
        nest = self.nest
        widest = self.device.lanes(self.facts.bits(nest.main.statement))
        if widest == 1:
            return
        for vector in (*nest.members, *nest.main.reduction):
            extent = extent_of(vector, nest)
            if nest.variable(vector) is None or extent < 2 or _needed(nest, vector):
                continue
            if is_tested(vector, nest, self.facts):
                continue
            rows: list[Member | None] = [None]
            for member in nest.members:
                is_across = member != vector and nest.variable(member) is not None
                if is_across and not is_tested(member, nest, self.facts):
                    rows.append(member)
            for lanes in _lane_counts(extent, widest):
                for row in rows:
                    yield from self._tiles(vector, lanes, row)

    def _tiles(self, vector: Member, lanes: int, row: Member | None) -> Iterator[RegisterTile]:
        """The tiles of some lanes along a member, with rows along another."""
        nest, options = self.nest, self.options
        shape = self._shape(vector, lanes, row)
        reads = self._operands(shape, reduced=vector not in nest.members)
        blocked = any(r.blocked for r in reads)
        accumulates = nest.main.statement.accumulates
        spans = extent_of(vector, nest), 1 if row is None else extent_of(row, nest)
        budget = max(self.device.vector_registers - 2, 2)
        for vectors in _choices(options.vectors, MAX_VECTORS):
            if vectors > 1 and (vectors - 1) * lanes >= spans[0] and options.vectors is None:
                break
            if not _splits(vector, vectors * lanes):
                continue
            for rows in _choices(options.rows, MAX_ROWS) if row is not None else (1,):
                if rows > spans[1] or rows * vectors + vectors > budget:
                    break
                if (row is not None and not _splits(row, rows)) or (blocked and rows != lanes):
                    continue
                if rows > 1 and not (blocked or accumulates):
                    continue  # nothing is used again
                yield self._tile(vector, row, shape, reads, rows, vectors)

    def _shape(self, vector: Member, lanes: int, row: Member | None) -> TileShape:
        nest, device = self.nest, self.device
        cycles = device.passes(device.vector_bits)
        share = device.passes(lanes * self.facts.bits(nest.main.statement)) / cycles
        v, u = nest.variable(vector), None if row is None else nest.variable(row)
        return TileShape(nest, self.facts, device, v, u, lanes, share, cycles)

    def _operands(self, shape: TileShape, *, reduced: bool) -> list[TileOperand]:
        may_pack = not reduced and self.options.pack is not False
        may_block = self.options.pack is not False
        return [
            operand(
                a,
                shape,
                self.costs,
                may_pack=may_pack and a.tensor not in self.written | self.elsewhere,
                unwritten=may_block and is_alone(a, self.nest) and a.tensor not in self.written,
            )
            for a in self.nest.main.statement.reads
            if a.site >= 0
        ]

    def _tile(
        self,
        vector: Member,
        row: Member | None,
        shape: TileShape,
        reads: list[TileOperand],
        rows: int,
        vectors: int,
    ) -> RegisterTile:
        """A tile with its cost: slots for each useful element of a step."""
        nest, costs, device, lanes = self.nest, self.costs, self.device, shape.lanes
        reduced = vector not in nest.members
        depth = prod(extent_of(m, nest) for m in nest.main.reduction)
        spans = extent_of(vector, nest), 1 if row is None else extent_of(row, nest)
        packed = tuple(r.access for r in reads if r.packing and not r.blocked)
        accumulators = rows * vectors
        free = device.vector_registers - accumulators - vectors
        counts = [vectors_of(r, rows, vectors, free) for r in reads]
        loads = sum(r.loads * n for r, n in zip(reads, counts, strict=True))
        loading = sum(r.loading * n for r, n in zip(reads, counts, strict=True))
        operations = accumulators * max(1, len(reads) - 1)
        fetched = sum(
            r.fetched * -(-n // r.neighbours)
            for r, n in zip(reads, counts, strict=True)
            if r.kept * (vectors if r.along else 1) > device.l1
        )
        part = 1.0 if reduced or packed else _computed(spans[0], vectors, shape)
        busy = max(operations * part * shape.share, loading) / device.fma_per_cycle
        busy = max(busy, fetched / device.l2_bytes_per_cycle / shape.cycles)
        work = max(busy, self._latency(shape, reduced=reduced)) + costs.issue * (loads + operations)
        store = 0.0 if reduced else self._store_cost(shape) / max(depth, 1)
        work += (store + sum(r.packing for r in reads)) * accumulators
        if reduced:
            work += costs.combining * rows / max(1.0, depth / (lanes * vectors))
        useful = accumulators * lanes * _fullness(spans[0], vectors * lanes)
        cost = work / (useful * _fullness(spans[1], rows))
        staged = self.facts.stride(nest.main.statement.write, shape.v) not in (0, 1)
        panel = depth * vectors * lanes * shape.element
        # a long reduction is cut into steps, unless its output is staged
        step = 1.0 if staged or not packed else min(1.0, device.l2 / 4 / panel)
        far = self._cycles_to_reread(shape.v, packed, step) / shape.cycles / nest.main.instances
        cost += far * (-(-spans[0] // (vectors * lanes)) - 1)
        if spans[0] % (vectors * lanes):
            gathers = any(r.loads > 1 for r in reads)
            cost *= costs.masked_gather if gathers else costs.masked
        if staged and packed and panel > device.l2 // 2:
            cost *= costs.spilled
        blocked = tuple(r.access for r in reads if r.blocked)
        return RegisterTile(vector, lanes, vectors, row, rows, reduced, packed, blocked, cost)

    def _latency(self, shape: TileShape, *, reduced: bool) -> float:
        """The slots between two uses of an accumulator. Vectors along reductions need as many as
        there are cycles, as much of what they read comes from afar."""
        if not self.nest.main.statement.accumulates:
            return 0.0
        return self.device.fma_latency / (1 if reduced else shape.cycles)

    def _cycles_to_reread(self, v: str | None, packed: tuple[Access, ...], part: float) -> float:
        """Cycles to read once more what no cache of a core holds: this happens for each panel of
        the vector's member, unless the read moves with it. `part` of it is read at a time."""
        total, device, shaped = 0.0, self.device, self.facts.scop.shaped
        for access in self.nest.main.statement.reads:
            if access in packed or self.facts.uses(access, v) or access.site < 0:
                continue
            dtype = shaped.program.tensors[access.tensor].dtype
            size = prod(shaped.shapes[access.tensor]) * dtype.bytes
            if size * part > device.l2:
                near = size <= device.l3
                rate = device.l3_bytes_per_cycle if near else device.memory_bytes_per_cycle
                total += size / rate
        return total

    def _store_cost(self, shape: TileShape) -> float:
        """Slots for storing a vector of each target, whose rows are staged where that is of use."""
        total, facts, main = 0.0, self.facts, self.nest.main.statement
        for item in self.nest.items:
            write, name = item.statement.write, item.statement.name
            step = facts.stride(write, self._variable(name, shape.v))
            staged = main.accumulates and write.tensor == main.write.tensor
            staged = staged and facts.stride(write, self._variable(name, shape.u)) == 1
            scattered = self.costs.staged * shape.share if staged else 2.0 * shape.lanes
            total += shape.share if step in (0, 1) else scattered
        return total / len(self.nest.items)

    def _variable(self, name: str, variable: str | None) -> str | None:
        """What a statement calls the variable of the main statement."""
        for member in self.nest.members:
            if self.nest.variable(member) == variable:
                return member.values[name].variable
        return variable


def _needed(nest: ParallelNest, vector: Member) -> bool:
    """Whether some item does not move with the vector's member."""
    if vector not in nest.members:
        return False
    return any(vector.values[i.statement.name].variable is None for i in nest.items)


def _lane_counts(extent: int, widest: int) -> Iterator[int]:
    lanes = widest
    while lanes > 4 and lanes // 2 >= extent:
        lanes //= 2
    yield lanes
    if lanes > 4 and extent % lanes:
        yield lanes // 2


def _computed(extent: int, vectors: int, shape: TileShape) -> float:
    """The part of a tile's work on vectors that is done where the last vector of a tile as long as
    the row has a half that goes nowhere (demanded lanes), and takes fewer passes so. Rows of few
    vectors are as well off with all of them half as wide."""
    bits, last = shape.vector * 8, extent - (vectors - 1) * shape.lanes
    if vectors < MANY or not 0 < last <= shape.lanes // 2 or bits // 2 < SHORTEST:
        return 1.0
    passes = shape.device.passes
    return (vectors - 1 + passes(bits // 2) / passes(bits)) / vectors


def _splits(member: Member, size: int) -> bool:
    """Whether tiles of a size split a member: a point member evenly."""
    return member.span is None or (member.span // member.step) % size == 0


def _choices(wanted: int | None, most: int) -> Sequence[int]:
    return range(1, most + 1) if wanted is None else (wanted,)


def _fullness(extent: int, tile: int) -> float:
    return extent / (-(-extent // tile) * tile)
