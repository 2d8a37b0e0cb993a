"""What the chooser for processors counts, beside what a `Device` says of itself.

Times are in *slots*: in one, a core's units begin as many multiply-adds of full vectors as they do
in a cycle; where units are narrower than vectors, a slot is several cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import product
from math import inf, prod

from tc.device import Device
from tc.options import MappingOptions
from tc.polyhedral.actions.draft import Draft
from tc.polyhedral.cpu.analysis import ParallelNest
from tc.polyhedral.scop.scop import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class TileCosts:
    """Costs of what a register tile does: slots of a core, factors of such, bytes.

    Each of these decides the plan of some program (`tests/polyhedral/test_cost_terms.py`)."""

    issue_slots: float = 0.125
    """An instruction takes these beside the time of the units, whatever its width."""

    masked_factor: float = 1.1
    masked_gather_factor: float = 3.0
    """Masks at the ends of rows make a tile that much slower; those of gathers, so much."""

    packing_slots: float = 6.0
    transposing_slots: float = 7.0
    """A vector is packed in these; a vector is transposed in registers in these."""

    staged_slots: float = 6.0
    scattered_slots: float = 4.0
    """A vector is stored in these by way of a staged tile; each of its elements is stored in these
    where the elements of a vector lie apart."""

    regrouped_slots: float = 12.0
    """A vector is stored in these by way of a staged tile in which another loop than the rows' is
    contiguous."""

    interleaved_factor: float = 0.5
    """The part of `scattered_slots` that is left where other statements store the elements between
    those of a vector, with which they are interleaved."""

    split_line_cycles: float = 6.0
    """A store waits so long for each line that it goes to, where a vector is as long as a line and
    a tile of a stencil stores other rows between: 150 x 150 sums of five doubles take 14 us in
    tiles of 8 rows, 9.3 in tiles of 8 rows and two vectors, 8.4 row by row (an Intel Xeon)."""

    combining_slots: float = 7.0
    """The partial sums of a vector are combined in these, at the end of a reduction, while others
    are summed: sums of 4096 rows of 17 take 7 ns a row across vectors of rows, 2 along (Zen 4)."""

    spilled_factor: float = 2.0
    """Panels that do not stay in the cache make a tile that much slower."""

    tie_factor: float = 1.01
    """Tiles whose costs differ by less are equal: the wider panels are taken, for which rows are
    read less often."""

    lines_factor: float = 1.08
    """Lines that are fetched decide between tiles of which one is that much slower for them: of
    1.0, seven of 128 contractions lost a fifth or more of their speed, of 1.08 one."""

    unprefetched_factor: float = 4.0
    """A line that hardware does not prefetch costs as much as that many others."""

    packing_span_bytes: int = 128 << 10
    """The vectors of one panel may be spread over that much memory before they are packed."""

    stream_switch_slots: float = 2.0
    """A step of a reduction takes these to go on at another place of memory that no cache holds."""

    packing_reads: float = 7.5
    """An element is packed in the order of rows in the time of that many reads of it which the
    first cache does not serve."""

    copying_multiply_adds: float = 8.0
    """An element is copied to a padded copy in the time of that many multiply-adds of the whole
    reduction."""


def device_of(draft: Draft, options: MappingOptions | None = None) -> Device:
    """The processor that a plan is for, with vectors as wide as options say."""
    device = draft.target.device
    assert isinstance(device, Device)
    if options is None or options.vector_bits is None:
        return device
    return replace(device, vector_bits=options.vector_bits)


# --- operands ---------------------------------------------------------------------------------

MAX_ROWS = 16
"""How many rows of a tile are tried."""

PREFETCHED = 3
"""Lines of a row that the first cache holds where it is read from one end to the other: 14 rows of
16,400 bytes take half as long again as 8 rows, of 16,448 bytes as long (Zen 4)."""

SHORT = 9
"""Reductions of so few steps are unrolled, over small tiles."""


@dataclass(frozen=True)
class TileShape:
    """Vectors of `lanes` along the variable `v`, rows along the variable `u`. A slot takes
    `cycles`: units that are narrower than vectors take a vector in several. A vector of the tile
    needs the part `share` of a slot."""

    nest: ParallelNest
    device: Device
    v: str | None
    u: str | None
    lanes: int
    share: float
    cycles: int

    @property
    def vector_bytes(self) -> int:
        return self.lanes * self.nest.element


@dataclass(frozen=True)
class TileOperand:
    """A read of the main statement, with what the read costs a tile.

    The subscripts of the read move `along` the vector, or `across` the rows, of the tile. The first
    n rows of a tile read at `rows[n - 1]` distinct places: quotients and remainders of several rows
    are often the same. Of `kept_rows`, the first cache keeps the lines from one step to the next.
    To load a vector takes `loads` instructions, which keep one unit busy for
    `loading_slots`. The vectors of `neighbours` rows need `fetched_bytes` of lines together, and
    `reuse_distance_bytes` are fetched before the tile needs these lines again. In each of the next
    `window` steps of the reduction, a row reads what its neighbour has read in the step before.
    Packing, or transposing, a vector of the read takes `packing_slots`. `blocked`: the read is
    transposed block by block. `gathered`: elements are loaded one by one, rather than in whole
    vectors that are shuffled.
    """

    access: Access
    along: bool
    across: bool
    rows: tuple[int, ...]
    kept_rows: float
    loads: float
    loading_slots: float
    fetched_bytes: float
    neighbours: int
    reuse_distance_bytes: float
    window: int
    packing_slots: float
    blocked: bool
    gathered: bool

    @property
    def serves_rows(self) -> bool:
        """Whether several rows of a tile use one element that is loaded."""
        return not self.across or self.window > 1 or len({*self.rows}) < len(self.rows)


def operand(
    access: Access, shape: TileShape, costs: TileCosts, *, may_pack: bool, unwritten: bool
) -> TileOperand:
    """What a read costs. The read is packed where that is of use, if the nest `may_pack`; it is
    transposed block by block only where nothing else touches its tensor, which is `unwritten`."""
    info, share, line = shape.nest.info, shape.share, shape.device.line
    step = info.stride(access, shape.v)
    packing, loads, loading, blocked, gathered = 0.0, 1.0, share, False, False
    if may_pack and _packable(access, shape, costs):
        packing = costs.packing_slots * share / max(1, _uses(access, shape))
    elif unwritten and step not in (None, 0, 1) and info.stride(access, shape.u) == 1:
        packing, blocked = costs.transposing_slots * share, True
    elif step is None or abs(step) > 4:
        loads = loading = float(shape.lanes)
        gathered = True
    elif step == 1:
        loading += 0.0 if _is_aligned(access, shape) else shape.vector_bytes / line / shape.cycles
    elif step != 0:
        loads = 2.0 * abs(step)
        loading = loads * share
    fetched, neighbours, kept = _fetched(access, shape, costs.unprefetched_factor)
    return TileOperand(
        access=access,
        along=step != 0,
        across=info.uses(access, shape.u),
        rows=info.distinct_positions(access, shape.u, MAX_ROWS),
        kept_rows=_kept_rows(access, shape),
        loads=loads,
        loading_slots=loading,
        fetched_bytes=fetched,
        neighbours=neighbours,
        reuse_distance_bytes=kept,
        window=_window(access, shape),
        packing_slots=packing,
        blocked=blocked,
        gathered=gathered,
    )


def vectors_of(read: TileOperand, rows: int, vectors: int, registers: int) -> float:
    """The vectors of a read that a step of a tile loads, where `registers` registers are free."""
    count = (vectors if read.along else 1) * read.rows[rows - 1]
    if read.along or not read.across or rows + read.window - 1 > registers:
        return count
    return (rows + read.window - 1) / read.window


def _kept_rows(access: Access, shape: TileShape) -> float:
    """Of how many rows the first cache keeps the lines that a read takes from one step of a
    reduction to the next, or, along a reduction, the lines that hardware has prefetched."""
    device, info = shape.device, shape.nest.info
    apart = abs(info.stride(access, shape.u) or 0) * shape.nest.element
    along, reduced = info.uses(access, shape.v), shape.v in shape.nest.main.statement.reduction
    if (along and not reduced) or apart < device.line:
        return inf
    lines = (device.line, PREFETCHED if along else 1)
    ways = max(1, device.l1 // device.page)
    sizes = range(1, MAX_ROWS + 1)
    return next((n - 1 for n in sizes if fullest_set(device, [(apart, n), lines]) > ways), inf)


def fullest_set(device: Device, loops: Iterable[tuple[int, int]]) -> int:
    """How many lines that some loops touch, each by its step in bytes and its iterations, go to one
    set of the first cache, at most. A page has a line for each set.

    >>> fullest_set(Device(line=64, page=4096), [(1024, 64), (64, 2)])
    16
    """
    sets, held = max(1, device.page // device.line), Counter({0: 1})
    for step, extent in loops:
        own = Counter(line % sets for line in {n * step // device.line for n in range(extent)})
        pairs = product(held.items(), own.items())
        held = Counter()
        for (one, number), (other, times) in pairs:
            held[(one + other) % sets] += number * times
    return max(held.values())


def is_alone(access: Access, nest: ParallelNest) -> bool:
    """Whether no other access of the nest touches the tensor, and this one is linear."""
    touching = [a for i in nest.items for a in i.statement.accesses if a.tensor == access.tensor]
    return len(touching) == 1 and None not in access.subscripts


def _is_aligned(access: Access, shape: TileShape) -> bool:
    """Whether each vector of a read starts where a line or another vector of the line ends, if the
    tensor starts with a line. Other vectors cross lines, and count as two loads."""
    nest, line = shape.nest, shape.device.line
    others = (x for x in nest.main.statement.ranges if x != shape.v)
    steps = (nest.info.stride(access, x) or 0 for x in others)
    return all(step * nest.element % line == 0 for step in steps)


def _fetched(access: Access, shape: TileShape, unprefetched: float) -> tuple[float, int, float]:
    """The bytes of lines that a vector of a read needs, how many rows the lines serve, and the
    bytes of all that is read before the lines are read again: a panel for each tile of rows, or all
    rows for each panel. Where rows lie side by side, but not the steps of the reduction, each tile
    of rows reads whole lines; where steps are a page or more apart, a line costs as much as
    `unprefetched` others, as hardware prefetches within pages only.

    The result is 0 bytes where lines are read again soon, in the next window, or never. Vectors
    along a reduction read the whole reduction for each tile.
    """
    nest, info, line = shape.nest, shape.nest.info, shape.device.line
    windows = any(s is None or len(s.terms) > 1 for s in access.subscripts)
    reduced = shape.v in nest.main.statement.reduction
    if (windows and not reduced) or _uses(access, shape) == 1:
        return 0.0, 1, 0.0
    reduction = [m for m in nest.main.reduction if nest.uses(access, m)]
    if reduced:
        whole = nest.element * prod(map(nest.extent, reduction))
        return float(shape.vector_bytes), 1, float(whole)
    across = info.uses(access, shape.u)
    rows = [m for m in nest.members if across and nest.variable(m) == shape.u]
    depth = prod(map(nest.extent, (*reduction, *rows)))
    if info.uses(access, shape.v):
        tensor = nest.element * prod(info.scop.shape(access.tensor))
        kept = tensor if rows else shape.vector_bytes * depth
        return float(shape.vector_bytes), 1, float(kept)
    if not rows:
        return 0.0, 1, 0.0
    steps = [nest.stride(access, m) for m in reduction]
    nearest = min((abs(step or line) * nest.element for step in steps), default=line)
    if nearest < line:
        return float(nearest), 1, float(nearest * depth)
    apart = abs(info.stride(access, shape.u) or line) * nest.element
    neighbours = line // min(line, apart)
    fetched = line * (unprefetched if nearest >= shape.device.page else 1.0)
    return fetched, neighbours, line * depth / neighbours


def is_streamed(access: Access, shape: TileShape) -> bool:
    """Whether each step of a reduction reads vectors beside each other, at another place than the
    step before, that are read only once and that no cache of a core holds."""
    nest, info = shape.nest, shape.nest.info
    if shape.v in nest.main.statement.reduction or abs(info.stride(access, shape.v) or 0) != 1:
        return False
    if any(s is None or len(s.terms) > 1 for s in access.subscripts):
        return False
    moves = any(nest.uses(access, m) for m in nest.main.reduction)
    shaped = info.scop.shaped
    size = prod(shaped.shapes[access.tensor]) * nest.element
    return moves and _uses(access, shape) == 1 and size > shape.device.l2


def _window(access: Access, shape: TileShape) -> int:
    """The steps of a short innermost reduction of which each reads, for a row, what the step before
    read for the next row: compilers unroll such a reduction, and keep the elements in registers."""
    nest, info = shape.nest, shape.nest.info
    if not nest.main.reduction or info.uses(access, shape.v):
        return 1
    last = nest.main.reduction[-1]
    is_row = nest.stride(access, last) == info.stride(access, shape.u)
    return nest.extent(last) if is_row and nest.extent(last) <= SHORT else 1


def _packable(access: Access, shape: TileShape, costs: TileCosts) -> bool:
    """Whether a read is worth packing: it is strided along the vector, and used again."""
    step = shape.nest.info.stride(access, shape.v)
    if step is None or step == 0 or None in access.subscripts:
        return False
    moving = [s for s in access.subscripts if s is not None and shape.v in s.terms]
    if len(moving) != 1 or dict(moving[0].terms) != {shape.v: 1}:
        return False
    uses = _uses(access, shape)
    if step != 1:
        return uses >= 4
    steps = (shape.nest.stride(access, m) for m in shape.nest.main.reduction)
    nearest = min((abs(s) * shape.nest.element for s in steps if s), default=0)
    tiles = 1 if nearest >= shape.device.page else 2  # of rows, which read what is packed
    return uses >= tiles * MAX_ROWS and _is_scattered(access, shape, costs.packing_span_bytes)


def _is_scattered(access: Access, shape: TileShape, far: int) -> bool:
    """Whether the vectors that a reduction reads lie far apart, so that caches and the table of
    pages hold few of them."""
    nest, line = shape.nest, shape.device.line
    steps = [
        (abs(nest.stride(access, m) or 0) * nest.element, nest.extent(m))
        for m in nest.main.reduction
    ]
    reach = sum(step * (extent - 1) for step, extent in steps)
    return reach > far and any(step >= line * 2 for step, extent in steps if extent > 8)


def _uses(access: Access, shape: TileShape) -> int:
    """How often each element of a read is used by instances that differ in parallel members."""
    nest = shape.nest
    return prod(nest.extent(m) for m in nest.members if not nest.uses(access, m))


def stored_operations(device: Device) -> tuple[tuple[float, float], ...]:
    """For each level of memory, the second caches of all threads first: the bytes that it holds,
    and the operations in the time of which a core stores an element and reads it again."""
    computed = (device.unit_bits or device.vector_bits or 32) // 8 * device.fma_per_cycle
    return tuple((held, 2 * computed / rate) for held, rate in device.levels(device.threads))


def staged_size(device: Device) -> int:
    """The bytes that the rows of a target may take that are staged for one panel."""
    return device.l2 // 4


def streamed_size(device: Device) -> int:
    """The bytes from which on a matrix is walked row by row: the second caches hold no more."""
    return device.l2 * device.threads
