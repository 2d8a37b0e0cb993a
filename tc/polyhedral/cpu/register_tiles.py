"""Choosing the register tile of a block: which variable is the vector's, which are unrolled.

The model counts, for one step of the main statement's reduction over a tile of `rows` x `vectors`
vectors, the vector operations and the loads that they need; a tile is as good as its time per
useful element. Strided and gathered vectors count as many loads as they take, unless the operand
is packed, whose cost is shared by all uses of the packed elements.

Time is in turns: in one, two units take a vector of the full width each, in a cycle, or in two
where they are half as wide as vectors. Vectors of half the width then take half a turn, but as many
instructions: they are of use where they waste fewer lanes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from tc.device import Device
from tc.kernel.passes.demanded_lanes import SHORTEST
from tc.options import MappingOptions
from tc.polyhedral.cpu.analysis import ParallelNest, is_tested
from tc.polyhedral.cpu.operands import Grip, extent_of, is_alone, operand, vectors_of
from tc.polyhedral.facts import Facts
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.scop import Access

MAX_VECTORS = 8
MANY = 4
"""Vectors of a row from which the last one alone is made shorter."""

LATENCY = 4.0
"""Cycles of a multiply-add, in which each accumulator takes one. Vectors along reductions need so
many turns, as much of what they read comes from afar."""

SLACK = 0.125
"""Turns that an instruction takes beside the units' time, whatever its width."""

MASKED = 1.1
"""What masks at the tails of vectors cost, as a factor."""

GATHERED = 3.0
"""The same for strided reads, which masks make gathers of."""

OWN_BYTES = 48.0
"""Bytes in a turn from the second cache of a core."""

NEAR_BYTES, FAR_BYTES = 24.0, 6.0
"""Bytes in a cycle from a shared cache, and from memory."""

SPILLED = 2.0
"""What panels cost that do not stay in the cache, as a factor."""

ALIKE = 1.01
"""Costs that differ by less are alike: wider panels are taken then, for which rows are read less
often."""


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
    block: ParallelNest,
    facts: Facts,
    device: Device,
    options: MappingOptions,
    written: frozenset[str],
    elsewhere: frozenset[str] = frozenset(),
) -> RegisterTile | None:
    """The cheapest register tile; None where nothing can be a vector.

    Tensors `written` by the cluster are not packed, nor those that are read `elsewhere` in it too,
    where they may be needed in another order.
    """
    if options.vector_bits is not None:
        device = replace(device, vector_bits=options.vector_bits)
    candidates = list(_candidates(block, facts, device, options, written, elsewhere))
    best = min(candidates, key=lambda t: t.cost, default=None)
    alike = [t for t in candidates if best is not None and _is_alike(t, best)]
    return max(alike, key=lambda t: (t.vectors, -t.cost), default=None)


def _is_alike(one: RegisterTile, best: RegisterTile) -> bool:
    """Whether a tile is another shape of the best, at nearly the same cost."""
    size = best.rows * best.vectors
    if one.cost > best.cost * ALIKE or one.rows * one.vectors != size:
        return False
    return replace(one, rows=best.rows, vectors=best.vectors, cost=best.cost) == best


ROWS = range(1, 17)
"""How many rows are tried."""


def _candidates(
    block: ParallelNest,
    facts: Facts,
    device: Device,
    options: MappingOptions,
    written: frozenset[str],
    elsewhere: frozenset[str],
) -> Iterator[RegisterTile]:
    statement = block.main.statement
    widest = device.lanes(facts.bits(statement))
    if widest == 1:
        return
    for vector in (*block.members, *block.main.reduction):
        variable = block.variable(vector)
        extent = extent_of(vector, block)
        if variable is None or extent < 2 or _needed(block, vector):
            continue
        if is_tested(vector, block, facts):
            continue
        rows: list[Member | None] = [None]
        for member in block.members:
            is_across = member != vector and block.variable(member) is not None
            if is_across and not is_tested(member, block, facts):
                rows.append(member)
        for lanes in _lane_counts(extent, widest):
            for row in rows:
                known = (block, facts, device, options, written, elsewhere)
                yield from _tiles(*known, vector, lanes, row)


def _needed(block: ParallelNest, vector: Member) -> bool:
    """Whether some item does not move with the vector's member."""
    if vector not in block.members:
        return False
    return any(vector.values[i.statement.name].variable is None for i in block.items)


def _lane_counts(extent: int, widest: int) -> Iterator[int]:
    lanes = widest
    while lanes > 4 and lanes // 2 >= extent:
        lanes //= 2
    yield lanes
    if lanes > 4 and extent % lanes:
        yield lanes // 2


def _tiles(
    block: ParallelNest,
    facts: Facts,
    device: Device,
    options: MappingOptions,
    written: frozenset[str],
    elsewhere: frozenset[str],
    vector: Member,
    lanes: int,
    row: Member | None,
) -> Iterator[RegisterTile]:
    v, u = block.variable(vector), None if row is None else block.variable(row)
    reduced = vector not in block.members
    depth = prod(extent_of(m, block) for m in block.main.reduction)
    may_pack = not reduced and options.pack is not False
    size = facts.bits(block.main.statement) // 8
    turn = device.passes(device.vector_bits)
    share = device.passes(lanes * size * 8) / turn
    grip = Grip(block, facts, v, u, lanes, share, turn)
    reads = [
        operand(
            a,
            grip,
            may_pack=may_pack and a.tensor not in written | elsewhere,
            unwritten=options.pack is not False and is_alone(a, block) and a.tensor not in written,
        )
        for a in block.main.statement.reads
        if a.site >= 0
    ]
    packed = tuple(r.access for r in reads if r.packing and not r.blocked)
    blocked = tuple(r.access for r in reads if r.blocked)
    packing = sum(r.packing for r in reads)
    store = 0.0 if reduced else _store_cost(block, v, u, lanes, facts, share) / max(depth, 1)
    staged = facts.stride(block.main.statement.write, v) not in (0, 1)
    spans = extent_of(vector, block), 1 if row is None else extent_of(row, block)
    budget = device.vector_registers - 2
    latency = LATENCY / (1 if reduced else turn) if block.main.statement.accumulates else 0.0
    for vectors in _choices(options.vectors, range(1, MAX_VECTORS + 1)):
        if vectors > 1 and (vectors - 1) * lanes >= spans[0] and options.vectors is None:
            break
        if not _splits(vector, vectors * lanes):
            continue
        for rows in _choices(options.rows, ROWS) if row is not None else (1,):
            accumulators = rows * vectors
            if rows > spans[1] or accumulators + vectors > max(budget, 2):
                break
            if (row is not None and not _splits(row, rows)) or (blocked and rows != lanes):
                continue
            if rows > 1 and not (blocked or block.main.statement.accumulates):
                continue  # nothing is used again
            free = device.vector_registers - accumulators - vectors
            counts = [vectors_of(r, rows, vectors, free) for r in reads]
            loads = sum(r.loads * n for r, n in zip(reads, counts, strict=True))
            slots = sum(r.slots * n for r, n in zip(reads, counts, strict=True))
            fetched = sum(
                r.fetched * -(-n // r.neighbours)
                for r, n in zip(reads, counts, strict=True)
                if r.kept * (vectors if r.along else 1) > device.l1
            )
            operations = accumulators * max(1, len(reads) - 1)
            part = 1.0
            if not (reduced or packed):
                part = _computed(spans[0], vectors, lanes, size, device)
            busy = max(operations * part * share / 2, slots / 2, fetched / OWN_BYTES)
            work = max(busy, latency) + SLACK * (loads + operations)
            work += (store + packing) * accumulators
            if reduced:
                work += 12.0 * rows / max(1.0, depth / (lanes * vectors))
            useful = accumulators * lanes * _fullness(spans[0], vectors * lanes)
            cost = work / (useful * _fullness(spans[1], rows))
            # a long reduction is cut into steps, unless its output is staged
            panel = depth * vectors * lanes * size
            step = 1.0 if staged or not packed else min(1.0, device.l2 / 4 / panel)
            far = _cycles_to_reread(block, v, facts, device, packed, step) / turn
            far /= block.main.instances
            cost += far * (-(-spans[0] // (vectors * lanes)) - 1)
            if spans[0] % (vectors * lanes):
                cost *= GATHERED if any(r.loads > 1 for r in reads) else MASKED
            if staged and packed and depth * vectors * lanes * size > device.l2 // 2:
                cost *= SPILLED  # a reduction whose output is staged is not cut into steps
            yield RegisterTile(vector, lanes, vectors, row, rows, reduced, packed, blocked, cost)


def _cycles_to_reread(
    block: ParallelNest,
    v: str | None,
    facts: Facts,
    device: Device,
    packed: tuple[Access, ...],
    part: float,
) -> float:
    """Cycles to read once more what no cache of a core holds: this happens for each panel of the
    vector's member, unless the read moves with it. `part` of it is read at a time."""
    total = 0.0
    for access in block.main.statement.reads:
        if access in packed or facts.uses(access, v) or access.site < 0:
            continue
        shape = facts.scop.shaped.shapes[access.tensor]
        size = prod(shape) * facts.scop.shaped.program.tensors[access.tensor].dtype.bytes
        if size * part > device.l2:
            total += size / (NEAR_BYTES if size <= device.l3 else FAR_BYTES)
    return total


def _store_cost(
    block: ParallelNest, v: str | None, u: str | None, lanes: int, facts: Facts, share: float
) -> float:
    """Cycles of storing a vector of each target, whose rows are staged where that is of use."""
    total = 0.0
    for item in block.items:
        write, name = item.statement.write, item.statement.name
        step = facts.stride(write, block_variable(name, v, block))
        staged = block.main.statement.accumulates
        staged = staged and write.tensor == block.main.statement.write.tensor
        staged = staged and facts.stride(write, block_variable(name, u, block)) == 1
        total += share if step in (0, 1) else 6.0 * share if staged else 2.0 * lanes
    return total / len(block.items)


def _computed(extent: int, vectors: int, lanes: int, size: int, device: Device) -> float:
    """The part of a tile's work on vectors that is done where the last vector of a tile as long as
    the row has a half that goes nowhere (see `tc.kernel.passes.demanded_lanes`), and takes fewer
    passes so. Rows of few vectors are as well off with all of them half as wide."""
    bits, last = lanes * size * 8, extent - (vectors - 1) * lanes
    if vectors < MANY or not 0 < last <= lanes // 2 or bits // 2 < SHORTEST:
        return 1.0
    return (vectors - 1 + device.passes(bits // 2) / device.passes(bits)) / vectors


def _splits(member: Member, size: int) -> bool:
    """Whether tiles of a size split a member: a point member evenly."""
    return member.span is None or (member.span // member.step) % size == 0


def _choices(wanted: int | None, most: Sequence[int]) -> Sequence[int]:
    return most if wanted is None else (wanted,)


def block_variable(name: str, variable: str | None, block: ParallelNest) -> str | None:
    """What a statement calls the variable of the main statement."""
    for member in block.members:
        if block.variable(member) == variable:
            return member.values[name].variable
    return variable


def _fullness(extent: int, tile: int) -> float:
    return extent / (-(-extent // tile) * tile)
