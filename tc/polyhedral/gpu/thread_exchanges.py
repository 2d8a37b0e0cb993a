"""The shared memory through which threads of a block exchange accumulators."""

from __future__ import annotations

from tc.gpu import bytes_in_shared
from tc.plan import AXES, THREAD
from tc.polyhedral.codegen.launches import launch_sizes
from tc.polyhedral.codegen.thread_sums import combined_axes, exchange_of
from tc.polyhedral.promotion import accumulators
from tc.polyhedral.schedule import Node
from tc.polyhedral.scop.scop import Scop


def exchanged_bytes(part: Node, scop: Scop) -> int:
    """The bytes of the arrays by which warps of a block exchange what they have summed up."""
    sizes = launch_sizes(part, scop)
    threads = {axis: sizes.get((THREAD, axis), 1) for axis in AXES}
    total = 0
    for node, elements in accumulators(part, scop):
        if axes := combined_axes(node):
            exchange = exchange_of(axes, threads)
            if exchange.partials > 1:
                dtype = scop.dtype(scop.statement(node.statement).write.tensor).computed
                held = elements * exchange.partials * exchange.groups * dtype.bytes
                total += bytes_in_shared(held)
    return total
