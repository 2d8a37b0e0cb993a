"""What the reads of a nest cost a register tile: loads, packing."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tc.device import Device
from tc.polyhedral.cpu.analysis import ParallelNest
from tc.polyhedral.cpu.costs import TileCosts
from tc.polyhedral.scop.scop import Access

MAX_ROWS = 16
"""How many rows of a tile are tried."""

SHORT = 9
"""Reductions of so few steps are unrolled, over small tiles."""


@dataclass(frozen=True)
class TileShape:
    """Vectors of `lanes` along variable `v`, rows along `u`. A slot takes `cycles`, as units that
    are narrower than vectors take them in several; a vector of the tile needs `share` of one."""

    nest: ParallelNest
    device: Device
    v: str | None
    u: str | None
    lanes: int
    share: float
    cycles: int

    @property
    def vector(self) -> int:
        """The bytes of a vector."""
        return self.lanes * self.nest.element


@dataclass(frozen=True)
class TileOperand:
    """A read, as a tile sees it: whether it moves `along` the vector and `across` the rows.

    Along `rows` it is at so many places: those of quotients and remainders are often the same.
    A vector of it takes `loads` instructions, which keep one unit busy for `loading` slots, and
    `fetched` bytes of lines, for so many `neighbours` together; `kept` bytes are fetched before the
    same lines are needed again. The next `window` steps shift it by a row each. `packing` is what
    that costs a vector, in slots. `gathered`: one by one, not in whole vectors that are shuffled.
    """

    along: bool
    across: bool
    rows: tuple[int, ...]
    loads: float
    loading: float
    fetched: float
    neighbours: int
    kept: float
    window: int
    packing: float
    blocked: bool
    gathered: bool
    access: Access

    @property
    def serves_rows(self) -> bool:
        """Whether some rows read the same."""
        return not self.across or self.window > 1 or len({*self.rows}) < len(self.rows)


def operand(
    access: Access, shape: TileShape, costs: TileCosts, *, may_pack: bool, unwritten: bool
) -> TileOperand:
    """What a read costs. It `may_pack`ed if it is of use; transposed block by block only where its
    tensor is `unwritten` and has no other accesses."""
    facts, share, line = shape.nest.facts, shape.share, shape.device.line
    step = facts.stride(access, shape.v)
    packing, loads, loading, blocked, gathered = 0.0, 1.0, share, False, False
    if may_pack and _packable(access, shape, costs):
        packing = costs.packing * share / max(1, _uses(access, shape))
    elif unwritten and step not in (None, 0, 1) and facts.stride(access, shape.u) == 1:
        packing, blocked = costs.transposing * share, True
    elif step is None or abs(step) > 4:
        loads = loading = float(shape.lanes)
        gathered = True
    elif step == 1:
        loading += 0.0 if _is_aligned(access, shape) else shape.vector / line / shape.cycles
    elif step != 0:
        loads = 2.0 * abs(step)
        loading = loads * share
    fetched, neighbours, kept = _fetched(access, shape, costs.unforeseen)
    return TileOperand(
        along=step != 0,
        across=facts.uses(access, shape.u),
        rows=facts.places(access, shape.u, MAX_ROWS),
        loads=loads,
        loading=loading,
        fetched=fetched,
        neighbours=neighbours,
        kept=kept,
        window=_window(access, shape),
        packing=packing,
        blocked=blocked,
        gathered=gathered,
        access=access,
    )


def vectors_of(read: TileOperand, rows: int, vectors: int, registers: int) -> float:
    """How many vectors of a read a step of a tile loads, if so many registers are free."""
    count = (vectors if read.along else 1) * read.rows[rows - 1]
    if read.along or not read.across or rows + read.window - 1 > registers:
        return count
    return (rows + read.window - 1) / read.window


def is_alone(access: Access, nest: ParallelNest) -> bool:
    """Whether no other access of the nest touches the tensor, and this one is linear."""
    touching = [a for i in nest.items for a in i.statement.accesses if a.tensor == access.tensor]
    return len(touching) == 1 and None not in access.subscripts


def _is_aligned(access: Access, shape: TileShape) -> bool:
    """Whether vectors start lines, if the tensor does; where they do not, some cross them, and
    count as two loads."""
    nest, line = shape.nest, shape.device.line
    others = (x for x in nest.main.statement.ranges if x != shape.v)
    steps = (nest.facts.stride(access, x) or 0 for x in others)
    return all(step * nest.element % line == 0 for step in steps)


def _fetched(access: Access, shape: TileShape, unforeseen: float) -> tuple[float, int, float]:
    """The bytes of lines that a vector of a read needs, how many rows they serve, and the bytes of
    all that is read before these are read again: a panel for each tile of rows, or all rows for
    each panel. Where rows lie side by side, but not the steps of the reduction, each tile of rows
    reads whole lines; where steps are a page or more apart, each costs as much as `unforeseen`
    others, as hardware prefetches within pages only.

    Nothing where that is soon, in the next window, or never. Vectors along a reduction read all of
    it for each tile.
    """
    nest, facts, line = shape.nest, shape.nest.facts, shape.device.line
    windows = any(s is None or len(s.terms) > 1 for s in access.subscripts)
    reduced = shape.v in nest.main.statement.reduction
    if (windows and not reduced) or _uses(access, shape) == 1:
        return 0.0, 1, 0.0
    reduction = [m for m in nest.main.reduction if nest.uses(access, m)]
    if reduced:
        whole = nest.element * prod(map(nest.extent, reduction))
        return float(shape.vector), 1, float(whole)
    across = facts.uses(access, shape.u)
    rows = [m for m in nest.members if across and nest.variable(m) == shape.u]
    depth = prod(map(nest.extent, (*reduction, *rows)))
    if facts.uses(access, shape.v):
        return float(shape.vector), 1, float(shape.vector * depth)
    if not rows:
        return 0.0, 1, 0.0
    steps = [nest.stride(access, m) for m in reduction]
    nearest = min((abs(step or line) * nest.element for step in steps), default=line)
    if nearest < line:
        return float(nearest), 1, float(nearest * depth)
    apart = abs(facts.stride(access, shape.u) or line) * nest.element
    neighbours = line // min(line, apart)
    fetched = line * (unforeseen if nearest >= shape.device.page else 1.0)
    return fetched, neighbours, line * depth / neighbours


def is_streamed(access: Access, shape: TileShape) -> bool:
    """Whether each step of a reduction reads vectors beside each other, at another place than the
    step before, that are read only once and that no cache of a core holds."""
    nest, facts = shape.nest, shape.nest.facts
    if shape.v in nest.main.statement.reduction or abs(facts.stride(access, shape.v) or 0) != 1:
        return False
    if any(s is None or len(s.terms) > 1 for s in access.subscripts):
        return False
    moves = any(nest.uses(access, m) for m in nest.main.reduction)
    shaped = facts.scop.shaped
    size = prod(shaped.shapes[access.tensor]) * nest.element
    return moves and _uses(access, shape) == 1 and size > shape.device.l2


def _window(access: Access, shape: TileShape) -> int:
    """The steps of a short innermost reduction that shift a read along the rows, by one row each:
    compilers unroll it, and keep in registers what the next step needs again."""
    nest, facts = shape.nest, shape.nest.facts
    if not nest.main.reduction or facts.uses(access, shape.v):
        return 1
    last = nest.main.reduction[-1]
    is_row = nest.stride(access, last) == facts.stride(access, shape.u)
    return nest.extent(last) if is_row and nest.extent(last) <= SHORT else 1


def _packable(access: Access, shape: TileShape, costs: TileCosts) -> bool:
    """Whether a read is worth packing: it is strided along the vector, and used again."""
    step = shape.nest.facts.stride(access, shape.v)
    if step is None or step == 0 or None in access.subscripts:
        return False
    moving = [s for s in access.subscripts if s is not None and shape.v in s.terms]
    if len(moving) != 1 or dict(moving[0].terms) != {shape.v: 1}:
        return False
    uses = _uses(access, shape)
    return uses >= 4 if step != 1 else uses >= 16 and _is_scattered(access, shape, costs.far)


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


def streamed_row(device: Device) -> int:
    """The bytes that the sums of columns may take that are accumulated row by row: several such fit
    into the first cache, beside the rows."""
    return device.l1 // 4


def streamed_size(device: Device) -> int:
    """The bytes from which what they sum comes from memory: some of it is in the caches, still."""
    return max(device.shared_cache, device.l2 * device.threads) // 2
