"""The target of processors: threads, vectors, registers, caches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from tc.device import Device
from tc.kernel.pass_manager import PassContext
from tc.kernel.passes.pass_list import PASSES
from tc.options import Options
from tc.plan import PACKED, PARALLEL, REGISTER, SCRATCH, SERIAL, UNROLL, VECTOR
from tc.polyhedral.access_info import AccessInfo
from tc.polyhedral.cpu.chooser import choose
from tc.polyhedral.cpu.costs import TileCosts, stored_operations, streamed_size
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.schedule import Node
from tc.polyhedral.scop.dependences import Dependences
from tc.polyhedral.target import MemoryScope, PartPlan, Target

REGISTER_BYTES = 16 << 10
"""Locals that one tile may become: far more than there are registers, but no flood of code."""

SCRATCH_BYTES = 64 << 20
"""Memory of each thread for one tile."""

PACKED_BYTES = 4 << 30
"""Memory for a tensor that is packed before a part begins."""


STRIPS = 4
"""The most strips of rows of a symmetric sum: 5 of 8 parts of the products are left. Twice as many
would leave 9 of 16, and take twice as long to compile."""

READ_STEPS = 32
"""Terms of a sum from which on a copy of the sums is a small part."""


@dataclass(frozen=True, kw_only=True)
class CpuTarget(Target):
    """A processor; `costs` are those of its chooser."""

    device: Device
    costs: TileCosts = field(default_factory=TileCosts)

    def context(self, options: Options) -> PassContext:
        device, bits = self.device, options.mapping.vector_bits
        return PassContext(
            lanes_bits=device.vector_bits if bits is None else bits,
            unroll_limit=options.mapping.unroll,
            fma=device.fma,
            exponents=device.exponents,
            line=device.line,
            page=device.page,
            l2=device.l2,
            shared_cache=device.shared_cache,
        )

    def choose(
        self,
        tree: Node,
        info: AccessInfo,
        dependences: Dependences,  # noqa: ARG002
        options: Options,
    ) -> Iterator[PartPlan]:
        return choose(tree, info, self, options.mapping, self.costs)


def cpu_target(device: Device) -> CpuTarget:
    """What code for a processor can use.

    >>> from tc.device import Device
    >>> cpu_target(Device(vector_bits=0)).roles
    ('serial', 'parallel', 'unroll')
    """
    vectors = (VECTOR,) if device.vector_bits else ()
    return CpuTarget(
        device=device,
        roles=(SERIAL, PARALLEL, UNROLL, *vectors),
        scopes=(
            MemoryScope(REGISTER, REGISTER_BYTES),
            MemoryScope(SCRATCH, SCRATCH_BYTES),
            MemoryScope(PACKED, PACKED_BYTES),
        ),
        lanes=device.lanes(8),
        rewriting=Thresholds(
            stored=stored_operations(device),
            rows=streamed_size(device),
            sums=device.l2 // 8,
            mirrored=STRIPS,
            tile_bytes=device.l2 // 2,
            tile_rows=device.l1 // device.page,
            read_steps=READ_STEPS,
            read_row=device.line,
        ),
        fusion_bytes=device.l2 // 2,
        passes=PASSES,
    )
