"""Tiles of reductions on GPUs: what the formula says of them, and what is chosen by it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from functools import cache
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tc.polyhedral.gpu import gpu_mapping
from tc.polyhedral.gpu.costs import (
    COSTS,
    MultiprocessorCosts,
    Operand,
    Reduction,
    ThreadTile,
    cost_of,
)
from tc.polyhedral.gpu.matrix_tiles import MatrixSum, best_warp_tile
from tc.polyhedral.gpu.thread_tiles import TileSearch, best_tile
from tc.polyhedral.schedule import tiles

H100 = tc.Gpu.named("sm_90")
ROOM = 510


def operand(name: str, moves: list[tuple[int, ...]], extents: tuple[int, ...]) -> Operand:
    """A row-major tensor whose dimensions move so with each loop."""
    sizes = [
        1 + sum(m * (n - 1) for m, n in zip(dimension, extents, strict=True)) for dimension in moves
    ]
    strides = tuple(
        sum(dimension[loop] * prod(sizes[d + 1 :]) for d, dimension in enumerate(moves))
        for loop in range(len(extents))
    )
    return Operand(name, tuple(moves), strides, 1)


def matrices(m: int, n: int, k: int, *, transposed: bool = False) -> Reduction:
    """C(i,j) +=! A(i,k) * B(k,j), or B(j,k)."""
    extents = (m, n, k)
    b = [(0, 0, 1), (0, 1, 0)]
    return Reduction(
        extents,
        2,
        operand("C", [(1, 0, 0), (0, 1, 0)], extents),
        (
            operand("A", [(1, 0, 0), (0, 0, 1)], extents),
            operand("B", b[::-1] if transposed else b, extents),
        ),
        1,
    )


def images(f: int, h: int, w: int, c: int, k: int) -> Reduction:
    """O(f,h,w) +=! I(c,h+kh,w+kw) * W(f,c,kh,kw)."""
    extents = (f, h, w, c, k, k)
    return Reduction(
        extents,
        3,
        operand("O", [(1, 0, 0, 0, 0, 0), (0, 1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0)], extents),
        (
            operand("I", [(0, 0, 0, 1, 0, 0), (0, 1, 0, 0, 1, 0), (0, 0, 1, 0, 0, 1)], extents),
            operand(
                "W",
                [(1, 0, 0, 0, 0, 0), (0, 0, 0, 1, 0, 0), (0, 0, 0, 0, 1, 0), (0, 0, 0, 0, 0, 1)],
                extents,
            ),
        ),
        1,
    )


REDUCTIONS = (
    matrices(2048, 2048, 2048),
    matrices(128, 1024, 1024, transposed=True),
    matrices(127, 1021, 509),
    matrices(128, 256, 32, transposed=True),
    matrices(4099, 61, 300),
    matrices(64, 64, 4096),
    matrices(130, 190, 70),
    matrices(16384, 16384, 64),
    images(64, 54, 54, 64, 3),
    images(16, 12, 12, 16, 3),
    images(7, 101, 97, 5, 5),
)


MATRICES = [
    MatrixSum("S0", extents, ("i", "j", "k"), 1, 1)
    for extents in ((2048, 2048, 2048), (512, 512, 512), (128, 4096, 4096), (1000, 1000, 1000))
]


@pytest.mark.parametrize("name", [field.name for field in fields(MultiprocessorCosts)])
def test_each_cost_decides_a_tile(name: str) -> None:
    value = getattr(COSTS, name)
    others = [replace(COSTS, **{name: value * factor}) for factor in (0.02, 50.0)]
    assert any(
        tile != usual
        for own in others
        for tile, usual in zip(chosen(own), usual_tiles(), strict=True)
    )


def chosen(costs: MultiprocessorCosts) -> Iterator[Any]:
    yield from (best_tile(r, H100, ROOM, costs) for r in REDUCTIONS)
    yield from (best_warp_tile(found, H100, ROOM, costs) for found in MATRICES)


@cache
def usual_tiles() -> list[Any]:
    return [*chosen(COSTS)]


SMALL = st.integers(1, 20)


@settings(max_examples=15, deadline=None)
@given(SMALL, SMALL, st.integers(1, 40), st.booleans())
def test_the_descent_ends_near_the_best(m: int, n: int, k: int, transposed: bool) -> None:
    """Of all tiles of the lattice, no one is much cheaper."""
    reduction = matrices(m, n, k, transposed=transposed)
    search = TileSearch(reduction, H100, ROOM)
    found = best_tile(reduction, H100, ROOM)
    every = (
        ThreadTile(threads, own, steps)
        for threads in product(*search.threads)
        for own in product(*search.own)
        for steps in search.steps
    )
    assert found is not None
    assert search.cycles(found) <= 1.15 * min(map(search.cycles, every))


@pytest.mark.parametrize("gpu", [H100, tc.Gpu(), tc.Gpu(threads=64, thread_limits=(64, 3, 1))])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_what_is_chosen_fits(reduction: Reduction, gpu: tc.Gpu) -> None:
    tile = best_tile(reduction, gpu, ROOM)
    assert tile is not None
    cost = cost_of(tile, reduction, gpu, ROOM)
    assert cost is not None
    assert cost.cycles < inf
    assert prod(tile.threads) <= gpu.threads
    assert 4 * prod(tile.own) <= ROOM
    assert cost.shared <= gpu.shared
    assert cost.registers <= gpu.thread_registers


def test_tiles_without_room_have_no_cost() -> None:
    reduction = REDUCTIONS[0]
    assert cost_of(ThreadTile((16, 16), (16, 16), (8,)), reduction, H100, ROOM) is None
    assert cost_of(ThreadTile((16, 16), (8, 8), (1024,)), reduction, H100, ROOM) is None


@pytest.mark.parametrize(("stride", "more"), [(1, 0), (3, 8), (16, 28)])
def test_results_cost_the_sectors_that_are_stored(stride: int, more: int) -> None:
    """A warp stores 32 results in 4 sectors of 32 bytes, or in more, which go to the second
    cache."""
    found = matrices(64, 64, 64)
    along = Operand("C", found.result.moves, (64, 1, 0), 1)
    across = Operand("C", found.result.moves, (64 * stride, stride, 0), 1)
    tile = ThreadTile((1, 32), (2, 1), (8,))
    costs = [cost_of(tile, replace(found, result=result), H100, ROOM) for result in (along, across)]
    assert costs[0] is not None
    assert costs[1] is not None
    taken = 2 * more * 32 / COSTS.fetched_bytes
    assert costs[1].cycles - costs[0].cycles == pytest.approx(taken)


def test_what_no_other_thread_reads_is_read_from_memory() -> None:
    """As by each thread of a batch for itself, whose results read the same again in registers."""
    text = "def f(float(N,K,B) X, float(K,M,B) Y) -> (Z) { Z(i,j,b) +=! X(i,k,b) * Y(k,j,b) }"
    sizes = {"N": 58, "K": 32, "B": 4863, "M": 7}
    tree = tc.explain(text, sizes, backend="cuda", device=H100).trace.lowering.mapped.tree
    assert {tile.tensor: tile.scope for tile in tiles(tree)} == {"Z": "register"}


def test_large_products_have_square_tiles_of_threads() -> None:
    """Each thread has a tile in both dimensions; all multiprocessors have work."""
    tile = best_tile(REDUCTIONS[0], H100, ROOM)
    assert tile is not None
    assert min(tile.own) >= 4
    assert prod(tile.own) == 64
    small = best_tile(matrices(128, 1024, 1024, transposed=True), H100, ROOM)
    assert small is not None
    blocks = prod(-(-n // size) for n, size in zip((128, 1024), small.sizes, strict=True))
    assert blocks >= H100.processors * 0.9


def test_neighbours_of_windows_are_of_one_thread() -> None:
    """What a thread reads of an image for some steps, it reads once for all its results."""
    reduction = images(64, 54, 54, 64, 3)
    assert reduction.windows == {1, 2}
    tile = ThreadTile((4, 1, 54), (2, 14, 1), (4, 3, 3))
    assert reduction.apart(tile) == (4, 1, 1)
    assert reduction.at_once(tile) == (1, 3, 3)
    image = reduction.operands[0]
    assert image.elements((*tile.own, 1, 3, 3), (4, 1, 1, 1, 1, 1)) == 16 * 3
    assert image.elements((*tile.own, 1, 3, 3), (4, 2, 1, 1, 1, 1)) == (1 + 13 * 2 + 2) * 3


def test_tiles_are_for_sums_whose_operands_are_read_again() -> None:
    """Where each element is for one result alone, a block has nothing to copy."""
    extents = (97, 70)
    rows = operand("A", [(1, 0), (0, 1)], extents)
    vector = operand("x", [(0, 1)], extents)
    result = operand("o", [(1, 0)], extents)
    assert not Reduction(extents, 1, result, (rows,), 1).reads_again
    assert not Reduction(extents, 1, result, (rows, vector), 1).reads_again
    assert all(reduction.reads_again for reduction in REDUCTIONS)


def test_what_is_read_in_rows_is_read_in_fours() -> None:
    """Along loops that go on in the rows of an operand; not where a thread has fewer."""
    reduction = matrices(2048, 2048, 2048)
    assert reduction.fours(ThreadTile((16, 16), (8, 8), (16,))) == {1}
    assert reduction.fours(ThreadTile((16, 16), (8, 2), (16,))) == frozenset()
    transposed = matrices(2048, 2048, 2048, transposed=True)
    assert transposed.fours(ThreadTile((16, 16), (8, 8), (16,))) == frozenset()


TEXTS = {
    "a batch": (
        "def f(float(B,M,K) A, float(B,K,N) B1) -> (C) { C(b,i,j) +=! A(b,i,k) * B1(b,k,j) }",
        {"A": (5, 33, 70), "B1": (5, 70, 41)},
        {"A", "B1"},
    ),
    "a start that reads its own": (
        "def f(float(M,K) A, float(K,N) B, float(N) c) -> (C) "
        "{ C(i,j) = c(j)  C(i,j) += A(i,k) * B(k,j)  C(i,j) = fmax(C(i,j), 0.0) }",
        {"A": (130, 70), "B": (70, 190), "c": (190,)},
        {"A", "B"},
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_operands_that_blocks_hold(name: str) -> None:
    text, shapes, held = TEXTS[name]
    zeros = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    notes = str(tc.explain(text, zeros, backend="cuda", stage="mapping", device=H100))
    assert {name for name in shapes if f"{name} in shared" in " ".join(notes.split())} == held


CONV = """def conv(float(B,C,H,W) I, float(F,C,K,L) W1) -> (O) {
  O(b,f,h,w) +=! I(b,c,h+kh,w+kw) * W1(f,c,kh,kw)
}"""


@pytest.mark.parametrize("own", [2, 3, 5, 7, 9])
def test_operands_of_windows_are_held_at_edges(own: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of buffers have room for what lies beyond the ends of ranges, too."""
    tile = ThreadTile((1, 2, 4, -(-54 // own)), (1, 2, 2, own), (4, 3, 3))
    monkeypatch.setattr(gpu_mapping, "best_tile", lambda *_, **__: tile)
    zeros = {"I": np.zeros((2, 8, 56, 56), np.float32), "W1": np.zeros((16, 8, 3, 3), np.float32)}
    told = str(tc.explain(CONV, zeros, backend="cuda", stage="mapping", device=H100))
    assert "I in shared" in " ".join(told.split())


def test_what_waits_for_a_sum_is_not_in_registers() -> None:
    """The tile of b * C would lie in registers while the product is added up; there is room."""
    text = (
        "def sgemm(float a, float b, float(N,M) A, float(M,K) B) -> (C) {"
        " C(i,j) = b * C(i,j)  C(i,j) += a * A(i,k) * B(k,j) }"
    )
    sizes = {"N": 2048, "M": 2048, "K": 2048, "a": 1.5, "b": 0.5}
    found = tc.explain(text, sizes, backend="cuda", device=H100).trace.lowering.mapped.tree
    held = [tile for tile in tiles(found) if tile.scope == "register"]
    assert [(tile.tensor, tile.shape) for tile in held] == [("C.t0", (8, 2, 4))]
