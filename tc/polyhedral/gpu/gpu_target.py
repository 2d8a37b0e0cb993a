"""The target of GPUs: blocks, threads, shared memory, registers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from tc.gpu import Gpu
from tc.kernel.pass_manager import PassContext
from tc.kernel.passes.pass_list import GPU_PASSES
from tc.options import Options
from tc.plan import AXES, BLOCK, MMA, MMA_TF32, REGISTER, SERIAL, SHARED, THREAD, UNROLL
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.codegen.launches import launch_sizes
from tc.polyhedral.gpu.barriers import place_barriers
from tc.polyhedral.gpu.gpu_mapping import choose
from tc.polyhedral.gpu.gpu_promotion import shared_bytes
from tc.polyhedral.gpu.resident_blocks import blocks_too_many, waits_for_all
from tc.polyhedral.gpu.tensor_cores import mma_fault
from tc.polyhedral.rewrite.thresholds import (
    AtomicCosts,
    BlockSplits,
    ScanCosts,
    SortCosts,
    Thresholds,
)
from tc.polyhedral.schedule import Node
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.scop.scop import Scop
from tc.polyhedral.target import MemoryScope, PartPlan, Target

UNROLLED = 1024
"""Statements that unrolling makes of a launch at most, where options say nothing."""

OF_A_PROCESSOR = 8192
"""Results of a sum of products that keep a multiprocessor busy: several blocks, which have tiles
that compute as fast as memory can be read."""

LARGE = 1 << 22
"""Steps of a product from which on it takes longer in blocks that have a part of its tiles than
another launch does."""

ROWS_OF_A_PROCESSOR, COLUMNS_OF_A_PROCESSOR = 8, 64
"""Sums along rows, and along columns, that keep a multiprocessor busy."""

LONG = 512
"""Steps from which on sums are split over blocks that have fewer results than that."""

PRODUCT_STEPS, ROW_STEPS, COLUMN_STEPS = 128, 16384, 512
"""Steps of a part at least: of a sum of products, of one along a row, which all threads of a block
share, of one along columns, which some share."""


ACROSS = 1 << 19
"""Steps of a sum, of all its results, from which on a warp that reads sectors for elements takes
longer than another launch does: 32 cycles for 32 steps, on over a hundred multiprocessors."""


COMPARED = 1 << 22
"""Comparisons of terms with places, on a multiprocessor, in the time of which the launches of a
sort begin, about as many as LAUNCHES_OF_A_SORT, each of which takes some microseconds."""
LAUNCHES_OF_A_SORT = 32


@dataclass(frozen=True, kw_only=True)
class GpuTarget(Target):
    """A GPU; with `at_once`, blocks of a launch wait for each other where they must."""

    device: Gpu
    at_once: bool = False

    def context(self, options: Options) -> PassContext:
        wanted = options.gpu.unroll
        return PassContext(lanes_bits=0, unroll_limit=UNROLLED if wanted is None else wanted)

    def wanted(self, options: Options) -> GpuTarget:
        at_once = options.gpu.single_kernel and self.device.cooperative
        roles = (*self.roles, *[MMA_TF32] * options.gpu.tf32)
        return replace(self, at_once=at_once, roles=roles)

    def choose(
        self, tree: Node, info: AccessInfo, dependences: Dependences, options: Options
    ) -> Iterator[PartPlan]:
        return choose(tree, info, dependences, self, options.gpu)

    def finish(self, part: Node, dependences: Dependences) -> Node:
        return place_barriers(part, dependences, of_grids=self.at_once)

    def refusal(self, part: Node, scop: Scop) -> str | None:
        gpu, sizes = self.device, launch_sizes(part, scop)
        threads = prod(sizes.get((THREAD, axis), 1) for axis in AXES)
        if threads > gpu.threads:
            return f"{threads} threads in a block, where the GPU can have {gpu.threads}"
        for role, limits in ((BLOCK, gpu.grid_limits), (THREAD, gpu.thread_limits)):
            for axis, limit in zip(AXES, limits, strict=True):
                if (count := sizes.get((role, axis), 1)) > limit:
                    return f"{count} {role}s along {axis}, where the GPU can have {limit}"
        if (shared := shared_bytes(part, scop)) > gpu.shared:
            return f"{shared} bytes of shared memory, where a block can have {gpu.shared}"
        if (reason := mma_fault(part, scop)) is not None:
            return reason
        if waits_for_all(part) and (found := blocks_too_many(part, scop, gpu)) is not None:
            blocks, most = found
            return f"{blocks} blocks that wait for each other, where the GPU runs {most} at a time"
        return None


def gpu_target(gpu: Gpu) -> GpuTarget:
    """What code for a GPU can use.

    >>> gpu_target(Gpu()).room("shared")
    49152
    """
    matrices = (MMA,) if gpu.multiplies_matrices else ()
    return GpuTarget(
        device=gpu,
        roles=(SERIAL, UNROLL, BLOCK, THREAD, *matrices),
        scopes=(
            MemoryScope(REGISTER, 4 * -(-gpu.thread_registers // 2)),
            MemoryScope(SHARED, gpu.shared),
        ),
        lanes=1,
        rewriting=Thresholds(
            pieces=0,
            across=ACROSS,
            sorting=SortCosts(launches=COMPARED * gpu.processors),
            atomics=AtomicCosts(
                launch=COMPARED // LAUNCHES_OF_A_SORT * gpu.processors,
                shared=min(gpu.shared, gpu.processor_shared // 2),
                blocks=2 * gpu.processors,
                bits=(32, 64) if gpu.wide_atomics else (32,),
            ),
            scans=ScanCosts(terms=COMPARED * gpu.processors // 8),
            blocks=BlockSplits(
                products=OF_A_PROCESSOR * gpu.processors,
                rows=ROWS_OF_A_PROCESSOR * gpu.processors,
                columns=COLUMNS_OF_A_PROCESSOR * gpu.processors,
                long=LONG,
                steps=PRODUCT_STEPS,
                row_steps=ROW_STEPS,
                column_steps=COLUMN_STEPS,
            ),
        ),
        fusion_bytes=gpu.shared,
        whole_products=LARGE,
        passes=GPU_PASSES,
        launches=True,
    )
