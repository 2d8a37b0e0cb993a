"""The sectors of memory, 32 bytes each, that the accesses of a warp touch.

Global memory is read and written in sectors: what a warp accesses takes as long as the sectors are
many. Lanes that share an element, or lie side by side, take few; lanes that are far from each other
take one each. (NVIDIA, CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from math import prod

from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.footprint import trips_of
from tc.polyhedral.schedule import Member
from tc.polyhedral.scop.scop import Access, ScopStatement

SECTOR_BYTES = 32
FEWER = 1.5
"""How many times fewer sectors change which loops run along x."""


def sectors_of_a_lane(lanes: Sequence[tuple[int, int]], element_bytes: int, warp: int) -> float:
    """How many sectors a warp touches for each of its lanes that access an element. `lanes` are the
    loops that threads run, the fastest first: so many threads, and by how many elements each one
    moves.

    >>> [32 * sectors_of_a_lane([(32, stride)], 4, 32) for stride in (1, 0, 7, 100)]
    [4.0, 1.0, 28.0, 32.0]
    >>> 32 * sectors_of_a_lane([(3, 0), (64, 1)], 8, 32), sectors_of_a_lane([(2, 100)], 4, 32)
    (3.0, 1.0)
    """
    active = min(warp, prod(count for count, _ in lanes))
    found = set()
    for number in range(active):
        place = 0
        for count, stride in lanes:
            number, digit = divmod(number, count)
            place += digit * abs(stride)
        found.add(place * element_bytes // SECTOR_BYTES)
    return len(found) / active


def order_for_lanes(
    loops: Sequence[Member], statements: Sequence[ScopStatement], info: AccessInfo, warp: int
) -> tuple[Member, ...]:
    """Parallel loops in the order in which warps touch the fewest sectors, if threads run the last
    ones: as they are, unless another order takes far fewer."""

    def touched(last: Sequence[Member]) -> float:
        return sum(
            times
            * sectors_of_a_lane(
                _lanes(access, s, last, info), info.scop.dtype(access.tensor).bytes, warp
            )
            for s in statements
            for access, times in _accesses(s)
        )

    several = [loop for loop in loops if trips_of(loop, statements) > 1]
    if len(several) < 2:
        return tuple(loops)
    now = touched(several[:-3:-1])
    best = min(permutations(several, 2), key=touched)
    if touched(best) * FEWER > now:
        return tuple(loops)
    return (*(loop for loop in loops if loop not in best), *reversed(best))


def across_last(
    loops: Sequence[Member], statements: Sequence[ScopStatement], info: AccessInfo
) -> tuple[Member, ...]:
    """Parallel loops, the last but one of which is that along which most of what goes across the
    last one has neighbours in memory; as they are where nothing does."""
    several = [loop for loop in loops if trips_of(loop, statements) > 1]

    def along(loop: Member, access: Access, statement: ScopStatement) -> bool:
        return info.stride(access, loop.values[statement.name].variable) in (1, -1)

    reads = [(access, s) for s in statements for access in s.reads]
    across = [(a, s) for a, s in reads if several and not along(several[-1], a, s)]

    def count(loop: Member) -> int:
        return sum(along(loop, access, s) for access, s in across)

    best = max(reversed(several[:-1]), key=count, default=None)
    if best is None or not count(best):
        return tuple(loops)
    last = (best, several[-1])
    return (*(loop for loop in loops if loop not in last), *last)


def _accesses(statement: ScopStatement) -> Iterable[tuple[Access, int]]:
    """What a statement accesses, and how often: the sum that it adds to is in a register."""
    instances = {v: end - begin for v, (begin, end) in statement.ranges.items()}
    every = prod(instances.values())
    for access in statement.reads:
        if access.tensor != statement.write.tensor or not statement.accumulates:
            yield access, every
    yield statement.write, prod(instances[v] for v in statement.outer)


def _lanes(
    access: Access, statement: ScopStatement, last: Sequence[Member], info: AccessInfo
) -> list[tuple[int, int]]:
    strides = (info.stride(access, loop.values[statement.name].variable) for loop in last)
    return [
        (trips_of(loop, [statement]), SECTOR_BYTES if stride is None else stride)
        for loop, stride in zip(last, strides, strict=True)
    ]
