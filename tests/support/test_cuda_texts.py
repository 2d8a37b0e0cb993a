"""Kernels by hand with copies in flight, fragments and exchanges: what NVRTC makes of them computes
on the PTX machine what numpy does, their counts are those of the texts, and the model's cycles lie
between what units need at least and what latencies add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
import pytest

from bench.gpu_counts import Memory
from bench.gpu_machines import MACHINES
from bench.gpu_model import Modelled, modelled, work_of
from tc.backends import nvrtc, sass
from tc.backends.geometry import LaunchGeometry
from tests.support.cuda_texts import (
    DEPTH,
    THREADS,
    TILE,
    HalfProduct,
    product_of,
    sums_of,
    text_of_sums,
)
from tests.support.ptx.parse import parse
from tests.support.ptx.texts import ptx_of

H200 = MACHINES["H200"]
WARPS = THREADS // 32


@pytest.mark.parametrize(
    "product",
    [
        HalfProduct(),
        HalfProduct("bf16", stages=3, by_rows=True),
        HalfProduct(stages=1, by_rows=True, swizzled=False),
        HalfProduct("bf16", stages=4, swizzled=False),
    ],
    ids=repr,
)
def test_products_of_halves(product: HalfProduct) -> None:
    """At sizes that fill no tile, and with fewer steps than stages."""
    rng = np.random.default_rng(3)
    ptx = ptx_of(str(product))
    for m, n, k in ((70, 40, 72), (3, 8, 40)):
        a, b = rng.integers(-8, 9, (m, k)), rng.integers(-8, 9, (k, n))
        np.testing.assert_array_equal(product_of(product, ptx, a, b), a @ b)


@pytest.mark.parametrize("shape", [(9, 100), (4, 31), (1, 1)])
def test_sums_of_warps(shape: tuple[int, int]) -> None:
    a = np.random.default_rng(4).integers(-99, 100, shape)
    np.testing.assert_array_equal(sums_of(ptx_of(text_of_sums(shape[1])), a), a.sum(axis=1))


# --- counts and model -------------------------------------------------------------------------


def model_of(
    text: str, geometry: LaunchGeometry, sizes: Sequence[int], *numbers: int
) -> tuple[Modelled, Mapping[str, float]]:
    """A launch by the model, with arrays of these bytes, and how often a warp executes each kind of
    machine code."""
    if not sass.is_installed():
        pytest.skip("nvdisasm is not installed")
    compiled = nvrtc.compiled(text, H200.gpu.arch, lines=True)
    name = geometry.function
    code, function = sass.disassembled(compiled.cubin)[name], parse(compiled.ptx)[name]
    usage = nvrtc.usage_in(compiled.log)[name]
    assert usage.spills == 0
    memory = Memory()
    arguments = [*(memory.add_zeros("array", size) for size in sizes), *numbers]
    found = modelled(function, code, usage, geometry, arguments, memory, H200)
    kinds: Counter[str] = Counter()
    for i, times in zip(code, work_of(code, found.counts, {}, 1.0).times().T, strict=True):
        kinds[i.op.split(".")[0]] += times.mean()
    return found, kinds


N, K = 1024, 256
STEPS = K // DEPTH


@lru_cache
def model_of_product(product: HalfProduct) -> tuple[Modelled, Mapping[str, float]]:
    grid, shared = (N // TILE, N // TILE, 1), product.stages * 4 * TILE * DEPTH
    geometry = LaunchGeometry("product", grid, (THREADS, 1, 1), shared)
    return model_of(str(product), geometry, (2 * N * K, 2 * N * K, 4 * N * N), N, N, K)


@pytest.mark.parametrize(
    "product",
    [HalfProduct(), HalfProduct("bf16", stages=3, by_rows=True), HalfProduct(swizzled=False)],
    ids=repr,
)
def test_counts_and_cycles_of_products(product: HalfProduct) -> None:
    found, kinds = model_of_product(product)
    # a warp has 32 x 32 of C, hence 2 x 4 products of 16 x 8 x 16, twice a step
    expected = {
        "HMMA": STEPS * 2 * 2 * 4, "LDSM": STEPS * 2 * (2 + 2), "BAR": STEPS * 2,
        "LDGSTS": (STEPS + product.stages - 1) * 4, "LDGDEPBAR": STEPS + product.stages - 1,
        "DEPBAR": STEPS, "STG": 2 * 4 * 4,
    }  # fmt: skip
    assert {kind: kinds[kind] for kind in expected} == expected
    assert found.counts.barriers == STEPS * 2

    accesses = found.counts.accesses()
    loads = accesses["shared loads, 128 bits"]
    assert loads.warps == WARPS * expected["LDSM"]
    assert loads.least == 4 * loads.warps  # 32 rows of 16 bytes, where a wavefront has 128
    # without a swizzle, of eight rows, 64 bytes apart, four lie in the same banks
    assert loads.parts == (1 if product.swizzled else 4) * loads.least
    stores = accesses["shared stores, 128 bits"]
    assert stores.warps == WARPS * expected["LDGSTS"]
    assert stores.parts == stores.least == 4 * stores.warps
    # rows of A and B, of which nothing beyond their ends, and a tile of C
    assert found.counts.touched_bytes == 2 * TILE * 2 * K + 4 * TILE * TILE

    blocks = round(found.found.instructions / found.instructions / WARPS)
    least = blocks * max(
        expected["HMMA"] * H200.taken_tensor, loads.parts + stores.parts,
        found.instructions,  # a partition issues those of one warp of a block
    )  # fmt: skip
    each = H200.memory_cycles + 2 * H200.barrier_cycles + 16 * 33 + 4 * H200.shared_cycles
    most = blocks * STEPS * each + blocks * (loads.parts + stores.parts)
    assert least <= found.found.cycles <= most


def test_stages_hide_latencies_and_conflicts_cost() -> None:
    one, two, conflicts = (
        model_of_product(product)[0].found
        for product in (HalfProduct(stages=1), HalfProduct(), HalfProduct(swizzled=False))
    )
    assert two.cycles < 0.85 * one.cycles
    assert conflicts.cycles > 1.5 * two.cycles
    assert conflicts.shared > 0.9


def test_counts_and_cycles_of_sums() -> None:
    rows, columns = 4096, 1024
    geometry = LaunchGeometry("sums", (rows // 4, 1, 1), (THREADS, 1, 1), 0)
    found, kinds = model_of(text_of_sums(columns), geometry, (4 * rows * columns, 4 * rows), rows)
    assert kinds["SHFL"] == 5
    assert kinds["FADD"] == columns // 32 + 5
    assert kinds["LDG"] == columns // 32
    assert found.counts.touched_bytes == 4 * 4 * columns + 32
    # 16 MB, at the rate of memory
    least = 4 * rows * columns / H200.memory_rate
    assert least < found.seconds < 4 * least
