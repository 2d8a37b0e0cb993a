"""The numba backend: kernels as Python that is traced, compiled, on as many threads as pay off.

Each region is compiled on its own as a function of a part of its parallel loop. A call runs it
once for the whole loop, or hands equal parts to `threads`; each element is computed by the
same operations either way, so the result does not depend on the number of threads.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tc.backends.base import KernelText
from tc.backends.call_memory import CallMemory, FailureRecord
from tc.backends.numba.objects import machine_code
from tc.backends.numba.printer import print_kernel
from tc.backends.numba.tracing import VectorRegion
from tc.backends.printing import shared_loop
from tc.device import Device, host
from tc.errors import BackendError, InternalError
from tc.extents.sizes import at_hint
from tc.kernel.analysis.estimate import estimate
from tc.kernel.ir import Failure, Kernel, expressions, statements
from tc.kernel.scratch import scratch_layout
from tc.kernel.sizes import at_sizes, with_values
from tc.process.numba_settings import config
from tc.process.object_pool import ObjectPool
from tc.runtime.loaded import Direct
from tc.runtime.object_files import LoadedCode
from tc.runtime.thread_pool import Regions, perform, performer, pool, thread_count

config()  # where numba is told what it refuses, this backend cannot be had

MIN_SAVED_CYCLES = 4000
"""Cycles that threads save at least where a pool of threads is made at all: sharing pays from some
microseconds on where workers spin, and the pool knows in what time its workers begin."""


@dataclass(frozen=True, slots=True)
class NumbaBackend:
    """Implements `Backend`; the texts are described in `printer`."""

    name: str = "numba"
    checks_by_default: bool = True
    many_sizes: bool = True

    def usable(self) -> str | None:
        return None

    def device(self) -> Device:
        return host()

    def emit(self, kernel: Kernel, options: object | None = None) -> KernelText:  # noqa: ARG002
        try:
            return KernelText(kernel, self.name, print_kernel(kernel))
        except RecursionError as error:
            raise _too_deep(kernel, error) from error

    def load(self, text: KernelText) -> NumbaKernel:
        return _loaded(text.kernel, text.source, _compile(text))


@dataclass(frozen=True, eq=False)
class NumbaKernel:
    """Implements `MachineKernel`.

    `regions` are those of the `code` to run, with whether threads pay off for them; `shared` says
    whether they do for any. `new_memory` makes what a call needs beside the
    arrays, and `memory` keeps it for later calls.
    """

    kernel: Kernel
    source: str
    regions: Regions
    shared: bool
    new_memory: Callable[[], CallMemory]
    code: LoadedCode
    memory: ObjectPool[CallMemory] = field(default_factory=ObjectPool)

    def at_sizes(self, sizes: Mapping[str, int]) -> NumbaKernel:
        """The same code for the sizes of a call, where the kernel is one for many."""
        return _loaded(at_sizes(self.kernel, sizes), self.source, self.code)

    def run(self, addresses: Sequence[int], *, threads: int | None = None) -> Failure | None:
        memory = self.memory.take(self.new_memory)
        if isinstance(addresses, ctypes.Array):  # three times as fast as one by one
            ctypes.memmove(memory.arguments, addresses, ctypes.sizeof(addresses))
        else:
            memory.pack(memory.words, 0, *addresses)
        parts = memory.parts if threads is None else min(threads, memory.parts)
        call = (self.regions, memory.arguments, memory.failures, memory.record.nbytes)
        try:
            several = parts > 1 and self.shared
            failed = pool().perform(*call, parts) if several else perform(*call, 1, None)
        except BackendError:  # a forked child that cannot compile the pool's code
            failed = perform(*call, 1, None)
        failure = memory.take_failure() if failed else None
        self.memory.give_back(memory)
        return failure

    def direct(self, *, threads: int | None = None) -> Direct | None:
        memory = self.new_memory()
        parts = memory.parts if threads is None else min(threads, memory.parts)
        launch = ready = 0
        if parts > 1 and self.shared:
            found = pool().launcher()
            if found is None:
                return None
            launch, ready = found
        return Direct(
            performer(),
            (
                *(self.regions.address, len(self.regions.steps)),
                *(memory.arguments, memory.failures, memory.record.nbytes),
                *(parts if launch else 1, launch),
            ),
            memory.arguments,
            ready,
            memory.take_failure,
            (self, memory),
        )


def _loaded(kernel: Kernel, source: str, code: LoadedCode) -> NumbaKernel:
    """A kernel whose machine code is loaded."""
    estimated = with_values(kernel) if kernel.sizes else kernel
    cycles = [shared_cycles(estimated, number, host()) for number in range(len(kernel.regions))]
    regions = [*zip(code.addresses, cycles, strict=True)]
    buffers, private = len(kernel.arguments), at_hint(scratch_layout(kernel).size)
    record = FailureRecord.of(kernel)
    return NumbaKernel(
        *(kernel, source, Regions(regions), any(cycles)),
        lambda: CallMemory(buffers, record, private, thread_count()),
        code,
    )


def _compile(text: KernelText) -> LoadedCode:
    """The machine code of the regions, in their order."""
    try:
        kernel = text.kernel
        return machine_code(kernel.name, text.source, len(kernel.regions), lambda: _functions(text))
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise _too_deep(text.kernel, error) from error
    except Exception as error:
        numba = sys.modules.get("numba.core.errors")
        if numba is None or not isinstance(error, numba.NumbaError):
            raise
        cause = f"numba does not compile {text.kernel.name}: {error}"
        raise InternalError(cause, repair='report it, and use backend="c"') from error


def _functions(text: KernelText) -> Sequence[VectorRegion]:
    """The regions as functions to trace, by running the module that the text is."""
    name = f"<tc {text.kernel.name}>"
    module: dict[str, Any] = {"__name__": name}
    exec(compile(text.source, name, "exec"), module)
    regions: Sequence[VectorRegion] = module["REGIONS"]
    return regions


def _too_deep(kernel: Kernel, error: Exception) -> BackendError:
    return BackendError(
        f"{kernel.name} is nested too deeply for Python: {error}",
        repair='split the expression into several statements, or use backend="c"',
    )


def shared_cycles(kernel: Kernel, number: int, device: Device) -> int:
    """About the cycles that one thread takes for a region, by its operations, or by the bytes that
    it touches and the cache that holds them; 0 where the region cannot be shared among threads, or
    they would save very little. The kernel has numbers in the place of tracked sizes."""
    region = kernel.regions[number]
    if shared_loop(region) is None:
        return 0
    cost = estimate(replace(kernel, regions=(region,)))
    exprs = (expr for stmt in statements(region) for expr in expressions(stmt))
    widest = max((expr.dtype.lanes for expr in exprs), default=1)
    units = device.lanes(32) // device.passes(device.vector_bits) if widest > 1 else 1
    computing = cost.flops / (units * device.fma_per_cycle)
    cycles = int(max(computing, cost.bytes / device.read_rate(cost.bytes)))
    return cycles if cycles - cycles // max(2, device.threads) >= MIN_SAVED_CYCLES else 0
