"""Which threads copy what of a tile in shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod

from tc.polyhedral.schedule import Axis

SECTOR_BYTES = 32
"""What is read at once of a line of memory (NVIDIA's programming guide)."""


def copied_along(layout: tuple[Axis, ...], rows: int) -> list[int]:
    """The axes of a shared buffer along which the threads' x, y and z run, in this order: at most
    three axes. `rows` is the axis that is contiguous in memory, -1 if none is.

    >>> copied_along((Axis(0, 1, 4), Axis(1, 1, 8), Axis(2, 1, 1)), 0)
    [0, 1]
    """
    order = sorted(range(len(layout)), key=lambda axis: (axis != rows, -axis))
    return [axis for axis in order if layout[axis].size > 1]


def thread_digits(
    layout: tuple[Axis, ...], rows: int, threads: tuple[int, ...], bytes_at_once: int
) -> tuple[int, ...] | None:
    """How many values digits of the numbers of all threads have along the axes that `copied_along`
    gives, where the threads take fewer turns by these digits than by the numbers along x, y and z,
    of which there are `threads`, or read larger parts of rows; None where they do not. A thread
    copies so many bytes of a row at once.

    >>> rows = Axis(0, 1, 128), Axis(1, 1, 8)
    >>> thread_digits(rows, 1, (16, 16), 4)
    (8, 32)
    """
    sizes = tuple(layout[axis].size for axis in copied_along(layout, rows))
    sector = 1 if rows < 0 else max(1, SECTOR_BYTES // bytes_at_once)
    return _fewest_turns(sizes, threads, sector) if sizes and threads else None


@lru_cache(1024)
def _fewest_turns(
    sizes: tuple[int, ...], threads: tuple[int, ...], sector: int
) -> tuple[int, ...] | None:
    """`thread_digits` along axes of such sizes, where rows are read `sector` elements at once.

    >>> _fewest_turns((33, 128), (32, 8), 8), _fewest_turns((32, 128), (32, 8), 8)
    ((33, 7), None)
    """

    def cost(widths: Sequence[int]) -> tuple[int, int]:
        own = (*widths, *(1 for _ in sizes[len(widths) :]))
        turns = prod(-(-size // width) for size, width in zip(sizes, own, strict=False))
        return turns, max(0, min(sector, sizes[0]) - own[0])

    def candidates(place: int, left: int) -> Iterator[tuple[int, ...]]:
        size = sizes[place]
        most = min(size, left)
        if place == len(sizes) - 1:
            yield (most,)
            return
        wanted = {-(-size // turns) for turns in range(1, size + 1)}
        if place == 0:  # whole rows, or whole sectors of these
            wanted = {-(-width // sector) * sector for width in wanted}
        for width in (most, *sorted((w for w in wanted if w < most), reverse=True)):
            yield from ((width, *others) for others in candidates(place + 1, left // width))

    found = min(candidates(0, prod(threads)), key=cost)
    return found if cost(found) < cost(threads) else None
