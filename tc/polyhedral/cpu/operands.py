"""What the reads of a block cost a register tile: loads, lines, packing."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tc.device import LINE
from tc.polyhedral.cpu.analysis import ParallelNest
from tc.polyhedral.facts import Facts
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.scop import Access

SHORT = 9
"""Reductions of so few steps are unrolled."""

PAGE = 4096
"""Bytes within which processors foresee what is read next."""

UNFORESEEN = 4.0
"""What lines cost that are not foreseen, as a factor."""

FAR = 128 << 10
"""Bytes over which the vectors of one panel may be spread before it is packed."""


@dataclass(frozen=True)
class Grip:
    """How a tile takes hold of a block: vectors of `lanes` along variable `v`, rows along `u`.

    A *turn* is the time in which two units take a vector of the full width each: `cycles` cycles,
    as units that are narrower take it in passes. A vector of the tile needs `share` of a turn.
    """

    block: ParallelNest
    facts: Facts
    v: str | None
    u: str | None
    lanes: int
    share: float
    cycles: int

    @property
    def element(self) -> int:
        """The bytes of an element."""
        return self.facts.bits(self.block.main.statement) // 8

    @property
    def vector(self) -> int:
        """The bytes of a vector."""
        return self.lanes * self.element


@dataclass(frozen=True)
class TileOperand:
    """A read, as a tile sees it: whether it moves `along` the vector and `across` the rows.

    A vector of it takes `loads` instructions, half of `slots` turns and `fetched` bytes of lines,
    for so many `neighbours` together; `kept` bytes are fetched before the same lines are needed
    again. The next `window` steps shift
    it by a row each. `packing` is what that costs a vector, in turns.
    """

    along: bool
    across: bool
    loads: float
    slots: float
    fetched: float
    neighbours: int
    kept: float
    window: int
    packing: float
    blocked: bool
    access: Access


def operand(access: Access, grip: Grip, *, may_pack: bool, unwritten: bool) -> TileOperand:
    """What a read costs. It `may_pack`ed if it is of use; transposed block by block only where its
    tensor is `unwritten` and has no other accesses."""
    facts, share = grip.facts, grip.share
    step = facts.stride(access, grip.v)
    packing, loads, slots, blocked = 0.0, 1.0, share, False
    if may_pack and _packable(access, grip):
        packing = 6.0 * share / max(1, _uses(access, grip))
    elif unwritten and step not in (None, 0, 1) and facts.stride(access, grip.u) == 1:
        packing, blocked = 7.0 * share, True
    elif step is None or abs(step) > 4:
        loads = slots = float(grip.lanes)
    elif step == 1:
        slots += 0.0 if _is_aligned(access, grip) else grip.vector / LINE / grip.cycles
    elif step != 0:
        loads = 2.0 * abs(step)
        slots = loads * share
    fetched, neighbours, kept = _fetched(access, grip)
    return TileOperand(
        along=step != 0,
        across=facts.uses(access, grip.u),
        loads=loads,
        slots=slots,
        fetched=fetched,
        neighbours=neighbours,
        kept=kept,
        window=_window(access, grip),
        packing=packing,
        blocked=blocked,
        access=access,
    )


def vectors_of(read: TileOperand, rows: int, vectors: int, registers: int) -> float:
    """How many vectors of a read a step of a tile loads, if so many registers are free."""
    count = (vectors if read.along else 1) * (rows if read.across else 1)
    if read.along or not read.across or rows + read.window - 1 > registers:
        return count
    return (rows + read.window - 1) / read.window


def extent_of(member: Member, block: ParallelNest) -> int:
    """How many values a member of a block, or of its main reduction, has."""
    if member in block.members:
        return block.extent(member)
    variable = member.values[block.main.statement.name].variable
    assert variable is not None
    begin, end = block.main.statement.ranges[variable]
    return end - begin


def is_alone(access: Access, block: ParallelNest) -> bool:
    """Whether no other access of the block touches the tensor, and this one is linear."""
    others = [
        a
        for item in block.items
        for a in (item.statement.write, *item.statement.reads)
        if a.tensor == access.tensor
    ]
    return len(others) == 1 and None not in access.subscripts


def _is_aligned(access: Access, grip: Grip) -> bool:
    """Whether vectors start lines, if the tensor does; where they do not, some cross them, and
    count as two loads."""
    others = [x for x in grip.block.main.statement.ranges if x != grip.v]
    steps = [grip.facts.stride(access, x) or 0 for x in others]
    return all(step * grip.element % LINE == 0 for step in steps)


def _fetched(access: Access, grip: Grip) -> tuple[float, int, float]:
    """The bytes of lines that a vector of a read needs, how many rows they serve, and the bytes of
    all that is read before these are read again: a panel for each tile of rows, or all rows for
    each panel. Where rows lie side by side, but not the steps of the reduction, each tile of rows
    reads whole lines.

    Nothing where that is soon, in the next window, or never.
    """
    block, facts = grip.block, grip.facts
    windows = any(s is None or len(s.terms) > 1 for s in access.subscripts)
    if windows or grip.v in block.main.statement.reduction or _uses(access, grip) == 1:
        return 0.0, 1, 0.0
    reduction = [m for m in block.main.reduction if facts.uses(access, block.variable(m))]
    across = facts.uses(access, grip.u)
    rows = [m for m in block.members if across and block.variable(m) == grip.u]
    depth = prod(extent_of(m, block) for m in (*reduction, *rows))
    if facts.uses(access, grip.v):
        return float(grip.vector), 1, float(grip.vector * depth)
    if not rows:
        return 0.0, 1, 0.0
    steps = [facts.stride(access, block.variable(m)) for m in reduction]
    nearest = min((abs(step or LINE) * grip.element for step in steps), default=LINE)
    if nearest < LINE:
        return float(nearest), 1, float(nearest * depth)
    neighbours = LINE // min(LINE, abs(facts.stride(access, grip.u) or LINE) * grip.element)
    unforeseen = UNFORESEEN if nearest >= PAGE else 1.0
    return LINE * unforeseen, neighbours, LINE * depth / neighbours


def _window(access: Access, grip: Grip) -> int:
    """The steps of a short innermost reduction that shift a read along the rows, by one row each:
    compilers unroll it, and keep in registers what the next step needs again."""
    block, facts = grip.block, grip.facts
    if not block.main.reduction or facts.uses(access, grip.v):
        return 1
    last = block.main.reduction[-1]
    steps, step = extent_of(last, block), facts.stride(access, block.variable(last))
    return steps if steps <= SHORT and step == facts.stride(access, grip.u) else 1


def _packable(access: Access, grip: Grip) -> bool:
    """Whether a read is worth packing: it is strided along the vector, and used again."""
    step = grip.facts.stride(access, grip.v)
    if step is None or step == 0 or None in access.subscripts:
        return False
    moving = [s for s in access.subscripts if s is not None and grip.v in s.terms]
    if len(moving) != 1 or dict(moving[0].terms) != {grip.v: 1}:
        return False
    uses = _uses(access, grip)
    return uses >= 4 if step != 1 else uses >= 16 and _is_scattered(access, grip)


def _is_scattered(access: Access, grip: Grip) -> bool:
    """Whether the vectors that a reduction reads lie far apart, so that caches and the table of
    pages hold few of them."""
    block = grip.block
    steps = [
        (abs(grip.facts.stride(access, block.variable(m)) or 0), extent_of(m, block))
        for m in block.main.reduction
    ]
    size = grip.element
    reach = sum(step * (extent - 1) for step, extent in steps) * size
    return reach > FAR and any(step * size >= LINE * 2 for step, extent in steps if extent > 8)


def _uses(access: Access, grip: Grip) -> int:
    """How often each element of a read is used by instances that differ in parallel members."""
    block, facts = grip.block, grip.facts
    return prod(block.extent(m) for m in block.members if not facts.uses(access, block.variable(m)))
