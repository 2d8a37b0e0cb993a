"""The loops around a transpose block by block: where its parts of lines wait to be whole.

Blocks as high and wide as a vector read few elements of each of their rows. Strips of blocks next
to each other in what is read take several lines of each row at a time; within a strip, the blocks
go along the target. Where rows of the target are not whole lines, each block leaves parts of lines
to the next one: in the first cache, or, of outputs too large for the caches, in a buffer for a
part of the target, which is then copied to it in lines that go past the caches.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from tc.device import Device
from tc.dtypes import BOOL
from tc.kernel.passes.stores import MIN_VECTOR_BYTES, PART_OF_CACHES
from tc.polyhedral.cpu.analysis import ParallelNest
from tc.polyhedral.cpu.register_tiles import RegisterTile
from tc.polyhedral.schedule import Member

READ, WRITTEN = 4096, 2048
"""Bytes of a row of what is read, and of the target, that have their place in a buffer: at most."""

MIN_STRETCH_LINES = 16
"""Lines of a stretch of memory that is copied in lines: parts of lines at its ends cost more than
lines."""


@dataclass(frozen=True)
class TransposeBlocking:
    """How the loops over the blocks of a transpose are tiled: `row` and `vector` are iterations of
    a tile along each (None: the loop is not tiled). With `buffered`, the loops over tiles stand
    around a buffer for a part of the target; otherwise the loop over the blocks of a strip is
    innermost."""

    row: int | None
    vector: int | None
    buffered: bool


def transpose_blocking(
    nest: ParallelNest, chosen: RegisterTile, device: Device, row: Member, vector: Member
) -> TransposeBlocking:
    """The loops over blocks: `row` along what is read, `vector` along the target."""
    if row.span is None and vector.span is None and _is_large(nest, device):
        found = _buffered(nest, chosen, device, row, vector)
        if found is not None:
            return found
    blocks = device.l1 // 2 // (device.line * chosen.rows)
    return TransposeBlocking(None if blocks < 2 or row.span is not None else blocks, None, False)


def _is_large(nest: ParallelNest, device: Device) -> bool:
    """Whether an output is written past the caches, if in whole lines (see `stream`)."""
    scop = nest.info.scop
    program, shapes = scop.shaped.program, scop.shaped.shapes
    target = program.tensors[nest.main.statement.write.tensor]
    names = (*program.inputs, *program.outputs)
    total = sum(prod(shapes[name]) * program.tensors[name].dtype.bytes for name in names)
    is_alone = len(nest.items) == 1 and len(scop.statements) == 1
    is_plain = target.dtype != BOOL and not target.dtype.is_storage
    own = target.role == "output" and is_plain and _is_whole(nest)
    fills_lines = device.vector_bits >= 8 * MIN_VECTOR_BYTES
    return fills_lines and is_alone and own and 0 < PART_OF_CACHES * device.shared_cache < total


def _is_whole(nest: ParallelNest) -> bool:
    """Whether all elements of the target are written, each dimension along one variable."""
    statement = nest.main.statement
    shape = nest.info.scop.shaped.shapes[statement.write.tensor]
    return all(
        x is not None
        and x.constant == 0
        and len(x.terms) == 1
        and all(c == 1 and statement.ranges[v] == (0, size) for v, c in x.terms.items())
        for x, size in zip(statement.write.subscripts, shape, strict=True)
    )


def _buffered(
    nest: ParallelNest, chosen: RegisterTile, device: Device, row: Member, vector: Member
) -> TransposeBlocking | None:
    """With a buffer in part of the second cache, if rows of the target are not whole lines."""
    write = nest.main.statement.write
    size = nest.info.scop.shaped.program.tensors[write.tensor].dtype.bytes
    height, width = nest.extent(chosen.row or row), nest.extent(chosen.vector)
    step = nest.stride(write, row)
    if nest.stride(write, vector) != 1 or step is None or step * size % device.line == 0:
        return None
    columns = _part(width, WRITTEN // size, vector.step)
    rows = _part(height, min(READ, device.l2 // 4 // columns) // size, row.step)
    one_by_one = width <= columns and step == width
    stretch = min(columns, width) * (min(rows, height) if one_by_one else 1)
    if stretch * size < MIN_STRETCH_LINES * device.line:
        return None
    pieces = columns // vector.step if columns < width else None
    return TransposeBlocking(rows // row.step, pieces, True)


def _part(extent: int, most: int, unit: int) -> int:
    """A multiple of a unit, if possible no more than `most`, that divides an extent evenly.

    >>> _part(1030, 1024, 16), _part(59, 1024, 16), _part(100, 8, 16)
    (528, 64, 16)
    """
    parts = -(-extent // max(most // unit * unit, unit))
    return -(-extent // (parts * unit)) * unit
