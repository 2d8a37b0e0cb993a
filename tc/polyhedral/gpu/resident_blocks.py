"""Grids whose blocks wait for each other, and are all resident: how many there may be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product
from math import prod

from tc.gpu import REGISTERS_BESIDE, Gpu
from tc.kernel.ir import GRID
from tc.plan import AXES, BLOCK, THREAD
from tc.polyhedral.codegen.launches import launch_sizes
from tc.polyhedral.footprint import trips_of
from tc.polyhedral.gpu.gpu_promotion import register_bytes, shared_bytes
from tc.polyhedral.schedule import Band, Node, Sync, in_order, leaves, nodes
from tc.polyhedral.scop.scop import Scop

_MOST_TURNS = 64
"""Turns that are tried along an axis; to an axis that needs more, all blocks go."""


def waits_for_all(part: Node) -> bool:
    """Whether all blocks of a launch wait for each other."""
    return any(isinstance(node, Sync) and node.scope == GRID for node in in_order(part))


def blocks_too_many(part: Node, scop: Scop, gpu: Gpu) -> tuple[int, int] | None:
    """The blocks of a launch, and how many of them run at a time, if these are fewer."""
    sizes = launch_sizes(part, scop)
    blocks, threads = (prod(sizes.get((role, a), 1) for a in AXES) for role in (BLOCK, THREAD))
    registers = min(gpu.thread_registers, REGISTERS_BESIDE + -(-register_bytes(part, scop) // 4))
    most = gpu.blocks_at_once(threads, shared_bytes(part, scop), registers)
    return (blocks, most) if blocks > most else None


def fewer_blocks(part: Node, scop: Scop, most: int) -> Mapping[str, int]:
    """How many blocks there may be along each axis, at most so many in all: so that the children of
    a launch take as few turns as can be, one after the other."""
    children = [dict(_iterations(child, scop)) for child in in_order(part)]

    def turns(counts: Mapping[str, int]) -> int:
        return sum(prod(-(-n // counts[axis]) for axis, n in child.items()) for child in children)

    def counts(axis: str) -> list[int]:
        longest = {child.get(axis, 1) for child in children}
        found = {-(-n // turn) for n in longest for turn in range(1, min(n, _MOST_TURNS) + 1)}
        return sorted({1, *(min(count, most) for count in found)}, reverse=True)

    every = (dict(zip(AXES, found, strict=True)) for found in product(*map(counts, AXES)))
    return min((found for found in every if prod(found.values()) <= most), key=turns)


def _iterations(node: Node, scop: Scop) -> Iterator[tuple[str, int]]:
    """The axes of blocks to which loops are bound, and the iterations of these."""
    for band in nodes(node):
        if isinstance(band, Band):
            statements = list(map(scop.statement, leaves(band)))
            for member in band.members:
                if member.role == BLOCK and member.axis is not None:
                    yield member.axis, trips_of(member, statements)
