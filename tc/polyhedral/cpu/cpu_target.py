"""The target of processors: threads, vectors, registers, caches."""

from __future__ import annotations

from tc.device import Device
from tc.plan import PACKED, PARALLEL, REGISTER, SCRATCH, SERIAL, UNROLL, VECTOR
from tc.polyhedral.cpu.chooser import choose
from tc.polyhedral.target import MemoryScope, Target

REGISTER_BYTES = 16 << 10
"""Locals that one tile may become: far more than there are registers, but no flood of code."""

SCRATCH_BYTES = 64 << 20
"""Memory of each thread for one tile."""

PACKED_BYTES = 4 << 30
"""Memory for a tensor that is packed before a part begins."""


def cpu_target(device: Device) -> Target:
    """What code for a processor can use.

    >>> from tc.device import Device
    >>> cpu_target(Device(vector_bits=0)).roles
    ('serial', 'parallel', 'unroll')
    """
    vectors = (VECTOR,) if device.vector_bits else ()
    return Target(
        device=device,
        roles=(SERIAL, PARALLEL, UNROLL, *vectors),
        scopes=(
            MemoryScope(REGISTER, REGISTER_BYTES),
            MemoryScope(SCRATCH, SCRATCH_BYTES),
            MemoryScope(PACKED, PACKED_BYTES),
        ),
        lanes=device.lanes(8),
        choose=choose,
    )
