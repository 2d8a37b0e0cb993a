"""GPUs and their options, drawn from a `random.Random` or as Hypothesis strategies: few threads and
little memory, so that small programs meet every decision."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import strategies as st

import tc
from tc.options import GpuOptions
from tests.fuzz.strategies import SEEDS

THREADS = (1, 2, 4, 6, 8, 32, 64, 256)
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 32)
DEFAULT = tc.Gpu()


def random_gpu(rng: random.Random) -> dict[str, Any]:
    """Random values for some fields of a GPU, and `arch`, which marks a case as one for GPUs."""
    few = (1, 2, 3, 8, 64, 65535)
    return {
        "arch": "sm_80",
        "processors": rng.choice((1, 2, 108)),
        "threads": rng.choice(THREADS),
        "thread_limits": [rng.choice(THREADS), rng.choice(few), rng.choice(few)],
        "grid_limits": [rng.choice((1, 2, 7, 2**31 - 1)), rng.choice(few), rng.choice(few)],
        "warp": rng.choice((1, 2, 4, 32)),
        "shared": rng.choice((4, 64, 1 << 10, 4 << 10, 48 << 10)),
        "registers": rng.choice((256, 4096, 65536)),
        "thread_registers": rng.choice((8, 32, 255)),
        "processor_threads": rng.choice((32, 1024)),
        "processor_blocks": rng.choice((1, 2, 16)),
        "processor_shared": rng.choice((2 << 10, 64 << 10)),
        "cooperative": rng.random() < 0.8,
        "tensor_cores": rng.random() < 0.8,
        "wide_atomics": rng.random() < 0.8,
    }


def random_gpu_options(
    rng: random.Random, gpu: tc.Gpu = DEFAULT, *, may_round: bool = True
) -> GpuOptions:
    """What a GPU can do; half of all choices are left to tc. OpenCL may not round."""

    def perhaps(value: Any) -> Any:
        return value if rng.random() < 0.5 else None

    return GpuOptions(
        tile=perhaps(tuple(rng.choice(SIZES) for _ in range(rng.randint(1, 4)))),
        blocks=perhaps(_launch(rng, gpu.grid_limits, 2**31 - 1)),
        threads=perhaps(_launch(rng, gpu.thread_limits, gpu.threads)),
        shared=perhaps(rng.random() < 0.5),
        private=perhaps(rng.random() < 0.5),
        unroll=perhaps(rng.choice((1, 8, 64, 4096))),
        unroll_copies=perhaps(rng.random() < 0.5),
        single_kernel=rng.random() < 0.25,
        tf32=may_round and gpu.multiplies_matrices and rng.random() < 0.3,
    )


def _launch(rng: random.Random, limits: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Sizes within the limits along x, y and z and, in all, within the most; outermost first."""
    found: list[int] = []
    for limit in limits[: rng.randint(1, 3)]:
        room = min(limit, most)
        found.append(rng.choice([size for size in SIZES if size <= room]))
        most //= found[-1]
    return tuple(reversed(found))


def gpus() -> st.SearchStrategy[tc.Gpu]:
    return SEEDS.map(lambda seed: tc.Gpu(**random_gpu(random.Random(seed))))


def gpus_with_options() -> st.SearchStrategy[tuple[tc.Gpu, GpuOptions]]:
    def drawn(seed: int) -> tuple[tc.Gpu, GpuOptions]:
        rng = random.Random(seed)
        gpu = tc.Gpu(**random_gpu(rng))
        return gpu, random_gpu_options(rng, gpu)

    return SEEDS.map(drawn)
