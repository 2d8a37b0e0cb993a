"""GPUs and their options as Hypothesis strategies: few threads and little memory, so that small
programs meet every decision."""

from __future__ import annotations

from hypothesis import strategies as st

import tc
from tc.options import GpuOptions

THREADS = (1, 2, 4, 6, 8, 32, 64, 256)
SIZES = (1, 1, 2, 3, 4, 5, 7, 8, 16, 32)
DEFAULT = tc.Gpu()


def gpus() -> st.SearchStrategy[tc.Gpu]:
    few = st.sampled_from((1, 2, 3, 8, 64, 65535))
    return st.builds(
        tc.Gpu,
        processors=st.sampled_from((1, 2, 108)),
        threads=st.sampled_from(THREADS),
        thread_limits=st.tuples(st.sampled_from(THREADS), few, few),
        grid_limits=st.tuples(st.sampled_from((1, 2, 7, 2**31 - 1)), few, few),
        warp=st.sampled_from((1, 2, 4, 32)),
        shared=st.sampled_from((4, 64, 1 << 10, 4 << 10, 48 << 10)),
        registers=st.sampled_from((256, 4096, 65536)),
        thread_registers=st.sampled_from((8, 32, 255)),
    )


def gpu_options(gpu: tc.Gpu = DEFAULT) -> st.SearchStrategy[GpuOptions]:
    """What a GPU can do."""
    chosen = st.sampled_from((None, True, False))
    return st.builds(
        GpuOptions,
        tile=st.none() | st.lists(st.sampled_from(SIZES), min_size=1, max_size=4),
        blocks=st.none() | _launches(gpu.grid_limits, 2**31 - 1),
        threads=st.none() | _launches(gpu.thread_limits, gpu.threads),
        shared=chosen,
        private=chosen,
        unroll=st.none() | st.sampled_from((1, 8, 64, 4096)),
        unroll_copies=chosen,
    )


def gpus_with_options() -> st.SearchStrategy[tuple[tc.Gpu, GpuOptions]]:
    return gpus().flatmap(lambda gpu: st.tuples(st.just(gpu), gpu_options(gpu)))


@st.composite
def _launches(draw: st.DrawFn, limits: tuple[int, ...], most: int) -> tuple[int, ...]:
    """Sizes within the limits along x, y and z and, in all, within the most; outermost first."""
    found: list[int] = []
    for limit in limits[: draw(st.integers(1, 3))]:
        room = min(limit, most)
        found.append(draw(st.sampled_from([size for size in SIZES if size <= room])))
        most //= found[-1]
    return tuple(reversed(found))
