"""The numba backend: kernels as Python that is traced, compiled, on as many threads as pay off.

Each region is compiled on its own as a function of a part of its parallel loop. A call runs it
once for the whole loop, or hands equal parts to `threads`; each element is computed by the
same operations either way, so the result does not depend on the number of threads.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
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
from tc.kernel.analysis.estimate import Operations
from tc.kernel.ir import Failure, Kernel, Stmt, expressions, statements
from tc.kernel.scratch import scratch_layout
from tc.kernel.sizes import at_sizes
from tc.process.numba_settings import config
from tc.process.object_pool import ObjectPool
from tc.runtime.loaded import Direct
from tc.runtime.object_files import LoadedCode
from tc.runtime.specialisation import spare_memory
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
        return RegionCode.loaded(text.kernel, _compile(text)).of(text.kernel, text.source)


@dataclass(frozen=True, eq=False)
class NumbaKernel:
    """Implements `MachineKernel`.

    `regions` are those of the `code` to run, with whether threads pay off for them; `shared` says
    whether they do for any. `private` are the bytes of scratch memory for each part of a loop.
    `memory` keeps what a call needs beside the arrays for later calls, and `temporaries` keeps
    their memory, at whatever sizes of a kernel for many.
    """

    kernel: Kernel
    source: str
    regions: Regions
    shared: bool
    private: int
    code: RegionCode
    memory: ObjectPool[CallMemory] = field(default_factory=ObjectPool)
    temporaries: ObjectPool[Any] = field(default_factory=spare_memory)

    def at_sizes(self, sizes: Mapping[str, int]) -> NumbaKernel:
        """The same code for the sizes of a call, where the kernel is one for many."""
        made = self.code.of(at_sizes(self.kernel, sizes), self.source)
        return replace(made, memory=self.memory, temporaries=self.temporaries)

    def run(self, addresses: Sequence[int], *, threads: int | None = None) -> Failure | None:
        memory = self.memory.take(self.new_memory)
        memory.reserve(self.private)
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

    def new_memory(self) -> CallMemory:
        """What one more call at the same time needs beside the arrays."""
        record = self.code.record
        return CallMemory(len(self.kernel.arguments), record, self.private, thread_count())

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


@dataclass(frozen=True, slots=True)
class RegionCode:
    """The machine code of a kernel, with what is known of its regions for all sizes."""

    machine: LoadedCode
    record: FailureRecord
    work: tuple[RegionWork, ...]

    @classmethod
    def loaded(cls, kernel: Kernel, machine: LoadedCode) -> RegionCode:
        work = tuple(map(RegionWork.of, kernel.regions))
        return cls(machine, FailureRecord.of(kernel), work)

    def of(self, kernel: Kernel, source: str) -> NumbaKernel:
        """The kernel that this is the code of."""
        cycles = [work.shared_cycles(kernel, host()) for work in self.work]
        regions = Regions([*zip(self.machine.addresses, cycles, strict=True)])
        private = at_hint(scratch_layout(kernel).size)
        return NumbaKernel(kernel, source, regions, any(cycles), private, self)


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


@dataclass(frozen=True, slots=True)
class RegionWork:
    """What a region does, where it can be shared among threads; `lanes` are those of its widest
    vectors. `operations` are None where it cannot."""

    operations: Operations | None
    lanes: int

    @classmethod
    def of(cls, region: tuple[Stmt, ...]) -> RegionWork:
        if shared_loop(region) is None:
            return cls(None, 1)
        exprs = (expr for stmt in statements(region) for expr in expressions(stmt))
        return cls(Operations.of(region), max((expr.dtype.lanes for expr in exprs), default=1))

    def shared_cycles(self, kernel: Kernel, device: Device) -> int:
        """About the cycles that one thread takes for the region of a kernel, by its operations, or
        by the bytes that it touches and the cache that holds them; 0 where the region cannot be
        shared among threads, or they would save very little."""
        if self.operations is None:
            return 0
        cost = self.operations.estimate(kernel)
        units = device.lanes(32) // device.passes(device.vector_bits) if self.lanes > 1 else 1
        computing = cost.flops / (units * device.fma_per_cycle)
        cycles = int(max(computing, cost.bytes / device.read_rate(cost.bytes)))
        return cycles if cycles - cycles // max(2, device.threads) >= MIN_SAVED_CYCLES else 0
