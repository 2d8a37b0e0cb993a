"""Wavefronts of shared memory, beside the counts of the bench, which are made of addresses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tc
from bench import gpu_counts
from tc.kernel.ir import row_major
from tc.polyhedral.gpu import costs, gpu_mapping
from tc.polyhedral.gpu.costs import Operand, Reduction, ThreadTile
from tc.polyhedral.gpu.shared_banks import places_of, wavefronts
from tc.polyhedral.gpu.thread_tiles import best_tile
from tc.polyhedral.schedule import tiles
from tests.polyhedral.gpu.test_tile_costs import operand

H100 = tc.Gpu.named("sm_90")


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 70)), min_size=1, max_size=3),
    st.sampled_from((1, 2, 4)),
)
def test_wavefronts_are_those_that_are_counted(drawn: list[tuple[int, int]], words: int) -> None:
    lanes = tuple((count, stride * words) for count, stride in drawn)
    places = 4 * np.array(places_of(lanes, 32))
    threads = np.arange(len(places))
    if len(places) == 32:
        assert wavefronts(lanes, words, 32) == gpu_counts.wavefronts(places, 4 * words, threads)[0]


def batches() -> Reduction:
    """C(c,h,d,f) +=! A(i,c,g,e,h) * B(f,g,d,i,e): what lies side by side in C are products of their
    own."""
    extents = (37, 29, 23, 7, 29, 2, 31)
    unit = dict(zip("chdfige", np.eye(7, dtype=int).tolist(), strict=True))

    def of(name: str, indices: str) -> Operand:
        return operand(name, [tuple(unit[index]) for index in indices], extents)

    return Reduction(extents, 4, of("C", "chdf"), (of("A", "icgeh"), of("B", "fgdie")), 1)


def served(tile: ThreadTile, reduction: Reduction) -> list[int]:
    """The wavefronts of a warp that reads a word of each operand."""
    strides = [o.held_strides(tile, 1) for o in reduction.operands]
    along = [n for n in reduction.by_stride if tile.threads[n] > 1]
    far = reduction.next_ones(tile)
    return [
        wavefronts(tuple((tile.threads[n], far[n] * own[n]) for n in along), 1, 32)
        for own in strides
    ]


def test_lanes_are_in_different_banks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tiles of neighbouring products may be as far apart as banks are, and reads of a warp then
    take a wavefront for each; nothing else decides against that."""
    reduction = batches()
    found = best_tile(reduction, H100, 510)
    monkeypatch.setattr(costs, "wavefronts", lambda *_: 1)
    best_tile.cache_clear()
    other = best_tile(reduction, H100, 510)
    best_tile.cache_clear()
    assert found is not None
    assert other is not None
    assert sum(served(found, reduction)) < sum(served(other, reduction))


@pytest.mark.parametrize("steps", [8, 15])
@pytest.mark.parametrize("threads", [(1, 4, 8), (2, 8, 4), (7, 1, 8), (1, 1, 8)])
def test_strides_of_buffers_are_those_of_texts(
    threads: tuple[int, int, int], steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a product in batches, by the shapes of the tiles that a text promotes: those that costs
    count."""
    tile, known = ThreadTile(threads, (1, 4, 2), (steps,)), list[Reduction]()

    def given_tile(reduction: Reduction, *_: Any, **__: Any) -> ThreadTile:
        known.append(reduction)
        return tile

    monkeypatch.setattr(gpu_mapping, "best_tile", given_tile)
    text = "def f(float(B,M,K) A, float(B,K,N) W) -> (C) { C(b,i,j) +=! A(b,i,k) * W(b,k,j) }"
    sizes = {"B": 14, "M": 64, "N": 64, "K": 240}
    tree = tc.explain(text, sizes, backend="cuda", device=H100).trace.lowering.mapped.tree
    held = {own.tensor: own.shape for own in tiles(tree) if own.scope == "shared"}
    assert held.keys() == {o.tensor for o in known[-1].operands if known[-1].is_held(o, tile)}
    for own in known[-1].operands:
        if own.tensor in held:
            together = 4 if known[-1].reads_wide(own, tile) else 1
            steps_of = row_major(held[own.tensor])
            strides = own.held_strides(tile, together)
            for loop, count in enumerate((*tile.sizes, *tile.steps)):
                moved = (step for step, m in zip(steps_of, own.moves, strict=True) if m[loop])
                assert strides[loop] == (sum(moved) if count > 1 else 0)
