"""Operands whose rows lie side by side, packed so that a tile reads its rows from end to end.

Of `A(k,i)` with rows along i, each step of a sum over k takes a few elements of another line. All
of these lines would have to stay in the first cache until the next tile takes their next elements.
"""

from __future__ import annotations

from math import gcd, prod

from tc.device import Device
from tc.polyhedral.cpu.analysis import ParallelNest
from tc.polyhedral.cpu.register_tiles import RegisterTile
from tc.polyhedral.scop.scop import Access

LEAST_PANELS = 8
"""Panels of vectors for each of which the rows are read again, from which on packing pays."""


def packed_rows(
    nest: ParallelNest, tile: RegisterTile, device: Device, others: frozenset[str]
) -> tuple[Access, ...]:
    """The reads to be packed in rows of a tile, of tensors that `others` do not touch: each reads a
    line in each step of a long sum, for many panels, and the first cache does not hold these."""
    row = tile.row
    if row is None or tile.rows == 1 or tile.reduced or tile.blocked:
        return ()
    panels = -(-nest.extent(tile.vector) // (tile.lanes * tile.vectors))
    if panels < LEAST_PANELS:
        return ()
    found = (a for a in nest.main.statement.reads if a.site >= 0 and a.tensor not in others)
    return tuple(
        access
        for access in found
        if _moves_with_rows(access, nest, tile)
        and len(nest.reads(access.tensor)) == 1
        and not _stay(access, nest, device)
    )


def _moves_with_rows(access: Access, nest: ParallelNest, tile: RegisterTile) -> bool:
    """Whether the rows of a tile, and nothing else of it, lie side by side in what is read."""
    assert tile.row is not None
    if nest.uses(access, tile.vector) or nest.stride(access, tile.row) != 1:
        return False
    forms = [dict(s.terms) for s in access.subscripts if s is not None]
    u = nest.variable(tile.row)
    whole = len(forms) == len(access.subscripts) and all(len(form) <= 1 for form in forms)
    return whole and [form for form in forms if u in form] == [{u: 1}]


def _stay(access: Access, nest: ParallelNest, device: Device) -> bool:
    """Whether the first cache holds half as many lines again as a sum reads. Lines that are a
    multiple of its sets apart share few of these: a page is a line of each set."""
    members = [m for m in nest.main.reduction if nest.uses(access, m)]
    steps = [abs(nest.stride(access, m) or 0) * nest.element for m in members]
    line, sets = device.line, max(1, device.page // device.line)
    if not steps or min(steps) < line:
        return True
    alike = gcd(sets, *(step // line for step in steps)) if all(s % line == 0 for s in steps) else 1
    return 2 * prod(map(nest.extent, members)) <= device.l1 // line // alike
