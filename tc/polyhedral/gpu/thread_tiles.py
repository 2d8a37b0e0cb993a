"""The tile of a reduction that a block of threads computes: the cheapest of a small lattice.

A search that goes down from several tiles: along one loop, or two, threads or iterations of each
thread become more or fewer, as long as that is cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import zip_longest
from math import inf, prod

from tc.gpu import Gpu
from tc.plan import AXES
from tc.polyhedral.gpu.costs import (
    COSTS,
    WIDE,
    MultiprocessorCosts,
    Reduction,
    ThreadTile,
    cost_of,
)

MOST_THREADS = 512
MOST_OF_A_LOOP = 256
MOST_OWN = 16
"""Iterations of a loop that one thread has at most."""

STAGES = (1, 2)
"""Of operands in shared memory."""

MOST_STEPS = 64
"""Steps of a reduction at a time at most."""


@lru_cache(maxsize=256)
def best_tile(
    reduction: Reduction,
    gpu: Gpu,
    most_results: int,
    costs: MultiprocessorCosts = COSTS,
    beside: tuple[int, ...] = (),
) -> ThreadTile | None:
    """The cheapest tile that was found, of which a thread holds no more than `most_results` bytes
    of results; None where there is none. Other loops of the launch are run by so many threads
    along each axis (`beside`)."""
    search = TileSearch(reduction, gpu, most_results, costs, beside)
    found = [search.descended(tile) for tile in search.starts()]
    best = min(found, key=search.cycles, default=None)
    return None if best is None or search.cycles(best) == inf else best


class TileSearch:
    """The lattice of tiles of a reduction, and a descent in it."""

    def __init__(
        self,
        reduction: Reduction,
        gpu: Gpu,
        most_results: int,
        costs: MultiprocessorCosts = COSTS,
        beside: tuple[int, ...] = (),
    ) -> None:
        self.reduction, self.gpu = reduction, gpu
        self.most_results, self.costs, self.beside = most_results, costs, beside
        extents = reduction.extents[: reduction.parallel]
        self.threads = [_counts(extent, MOST_OF_A_LOOP) for extent in extents]
        self.own = [_counts(extent, MOST_OWN) for extent in extents]
        steps = reduction.extents[reduction.parallel :]
        fills = tuple(map(reduction.fills, range(len(steps))))
        self.steps = list(_steps(steps, fills))
        self.may_be_ahead = all(operand.is_plain for operand in reduction.operands)
        self.known: dict[ThreadTile, float] = {}

    def cycles(self, tile: ThreadTile) -> float:
        if tile not in self.known:
            found = None
            if self._is_allowed(tile):
                found = cost_of(tile, self.reduction, self.gpu, self.most_results, self.costs)
            self.known[tile] = inf if found is None else found.cycles
        return self.known[tile]

    def _is_allowed(self, tile: ThreadTile) -> bool:
        along = [n for loop in self.reduction.by_stride if (n := tile.threads[loop]) > 1]
        in_block = map(max, zip_longest(along, self.beside, fillvalue=1))
        whole = self.reduction.extents[self.reduction.parallel :]
        return (
            (tile.stages == 1 or (self.may_be_ahead and tile.steps != whole))
            and len(along) <= len(AXES)
            and prod(along) <= MOST_THREADS
            and prod(in_block) <= self.gpu.threads
            and all(n <= most for n, most in zip(along, self.gpu.thread_limits, strict=False))
        )

    def starts(self) -> Iterator[ThreadTile]:
        """Tiles from which the search begins: rows of threads, and squares."""
        ones = (1,) * self.reduction.parallel
        yield ThreadTile(ones, ones, self.steps[-1])
        first, *others = self.reduction.by_stride
        for second in others or (first,):
            for along_x, along_y, own in ((32, 8, 2), (8, 8, 4), (64, 4, 4)):
                threads, mine = [1] * self.reduction.parallel, [1] * self.reduction.parallel
                for loop, wanted in ((second, along_y), (first, along_x)):
                    threads[loop] = max(n for n in self.threads[loop] if n <= wanted)
                    extent = -(-self.reduction.extents[loop] // threads[loop])
                    mine[loop] = max(n for n in self.own[loop] if n <= min(own, extent))
                yield ThreadTile(tuple(threads), tuple(mine), self.steps[-1])

    def descended(self, tile: ThreadTile) -> ThreadTile:
        while True:
            for neighbours in (self._beside(tile), self._exchanged(tile)):
                best = min(neighbours, key=self.cycles, default=tile)
                if self.cycles(best) < self.cycles(tile):
                    tile = best
                    break
            else:
                return tile

    def _beside(self, tile: ThreadTile) -> Iterator[ThreadTile]:
        """Other steps, or more or fewer iterations along one loop."""
        for steps in self.steps:
            for stages in STAGES:
                yield replace(tile, steps=steps, stages=stages)
        yield from self._moved(tile, 1)
        yield from self._moved(tile, -1)

    def _exchanged(self, tile: ThreadTile) -> Iterator[ThreadTile]:
        """More iterations along one loop and fewer along one."""
        for more in self._moved(tile, 1):
            yield from self._moved(more, -1)

    def _moved(self, tile: ThreadTile, by: int) -> Iterator[ThreadTile]:
        """More threads, or iterations of a thread, along one loop, or with -1 fewer."""
        for loop in range(self.reduction.parallel):
            for count in _next(tile.threads[loop], self.threads[loop], by):
                yield replace(tile, threads=_with(tile.threads, loop, count))
            for count in _next(tile.own[loop], self.own[loop], by):
                yield replace(tile, own=_with(tile.own, loop, count))


def _with(counts: tuple[int, ...], place: int, count: int) -> tuple[int, ...]:
    return (*counts[:place], count, *counts[place + 1 :])


def _next(count: int, counts: list[int], by: int) -> list[int]:
    """The next one of some counts; none at their end."""
    place = counts.index(count) + by
    return counts[place : place + 1] if place >= 0 else []


def _counts(extent: int, most: int) -> list[int]:
    """Powers of two, and what makes one to eight parts of a loop.

    >>> _counts(28, 16)
    [1, 2, 4, 5, 6, 7, 8, 10, 14, 16]
    """
    powers = {2**n for n in range(10) if 2**n < 2 * extent}
    parts = {-(-extent // n) for n in range(1, 9)}
    return sorted(n for n in powers | parts if n <= most)


def _steps(
    extents: tuple[int, ...], fills: tuple[bool, ...] | None = None
) -> Iterator[tuple[int, ...]]:
    """How many steps of the loops of a reduction there may be at a time, the fewest first: all of
    some innermost loops, and some of the next, a part of these where buffers do not hold zeros for
    steps beyond the end (`fills`).

    >>> list(_steps((64, 3, 3)))
    [(1, 1, 1), (1, 1, 3), (1, 3, 3), (2, 3, 3), (4, 3, 3)]
    >>> list(_steps((6,), (False,))), list(_steps((6,)))
    ([(1,), (2,), (3,), (6,)], [(1,), (2,), (3,), (4,), (6,)])
    """
    found = (1,) * len(extents)
    yield found
    for loop in reversed(range(len(extents))):
        for count in _counts(extents[loop], MOST_STEPS):
            tried = _with(found, loop, count)
            is_part = count == extents[loop] or (count < extents[loop] and extents[loop] >= WIDE)
            is_part &= fills is None or fills[loop] or extents[loop] % count == 0
            if count > 1 and is_part and prod(tried) <= MOST_STEPS:
                yield tried
        found = _with(found, loop, extents[loop])
        if prod(found) > MOST_STEPS:
            return
