"""The numba backend: kernels as readable Python loops, compiled, on as many threads as pay off.

Each region is compiled on its own as a function of a part of its parallel loop. A call runs it
once for the whole loop, or hands equal parts to `threads`; each element is computed by the
same operations either way, so the result does not depend on the number of threads.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numba.core.errors import NumbaError

from tc.backends.base import KernelText
from tc.backends.numba.objects import machine_code
from tc.backends.numba.printer import print_kernel
from tc.backends.numba.threads import LAUNCHER
from tc.backends.numba.traced_printer import is_vector_region
from tc.backends.printing import shared_loop, values_of_fails
from tc.backends.scratch import ALIGNMENT, scratch_layout
from tc.errors import BackendError, InternalError
from tc.kernel.estimate import estimate
from tc.kernel.ir import Failure, Kernel
from tc.runtime.arrays import address, empty
from tc.runtime.loaded import Direct
from tc.runtime.object_files import LoadedCode
from tc.runtime.thread_count import thread_count
from tc.runtime.thread_pool import ThreadPool, performer

PARALLEL_WORK = 1 << 16
"""Operations, or elements moved, from which sharing a region among threads pays: some 30 us."""

PARALLEL_VECTORS = 1 << 19
"""The same where they are done by vectors."""

_WORD = 8
_BYTE = np.dtype(np.uint8)
_SIGNATURE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)


@dataclass(frozen=True, slots=True)
class NumbaBackend:
    """Implements `Backend`; what it emits is described in `printer`."""

    name: str = "numba"
    checks_by_default: bool = True

    def usable(self) -> str | None:
        return None

    def emit(self, kernel: Kernel, options: object | None = None) -> KernelText:  # noqa: ARG002
        try:
            return KernelText(kernel, self.name, print_kernel(kernel))
        except RecursionError as error:
            raise _too_deep(kernel, error) from error

    def load(self, text: KernelText) -> NumbaKernel:
        code = _compile(text)
        functions = tuple(
            _Region(
                _function(address, code),
                address,
                _pays(text.kernel, i),
                code.owner,
            )
            for i, address in enumerate(code.addresses)
        )
        counts = values_of_fails(*text.kernel.regions)
        width = 1 + max(counts.values()) if counts else 0
        private = scratch_layout(text.kernel).size
        words = [word for region in functions for word in (region.address, region.parallel)]
        table = (ctypes.c_int64 * len(words))(*words)
        shared = any(region.parallel for region in functions)
        parts = (functions, table, shared)
        return NumbaKernel(text.kernel, text.source, *parts, counts, width, private)


@dataclass(frozen=True, slots=True)
class _Region:
    """`parallel`: threads pay off. `owner` keeps the machine code alive."""

    function: Callable[[int, int, int, int], None]
    address: int
    parallel: bool
    owner: Any


@dataclass(frozen=True, eq=False)
class NumbaKernel:
    """Implements `MachineKernel`.

    `table` has a pair of words for each region: its address, and whether it is shared among
    threads; `shared` says whether any is. `values` is how many values a Fail of each site records,
    and `width` the number of words that the record of any takes, 0 where nothing can fail.
    `private` is how many bytes of scratch memory each part of a shared loop has. `blocks` are the
    argument blocks that no call uses now.
    """

    kernel: Kernel
    source: str
    regions: tuple[_Region, ...]
    table: Any
    shared: bool
    values: Mapping[int, int]
    width: int
    private: int = 0
    blocks: list[_Block] = field(default_factory=list)

    def run(self, addresses: Sequence[int], *, threads: int | None = None) -> Failure | None:
        try:
            block = self.blocks.pop()
        except IndexError:
            block = _Block(len(self.kernel.arguments), self.width, self.private)
        failure = self._run(block, addresses, threads)
        self.blocks.append(block)  # one that an exception left is not used again
        return failure

    def direct(self, *, threads: int | None = None) -> Direct | None:
        block = _Block(len(self.kernel.arguments), self.width, self.private)
        parts = block.parts if threads is None else min(threads, block.parts)
        launch = ready = 0
        if parts > 1 and self.shared:
            if LAUNCHER.pool is None:
                return None
            launch, ready = LAUNCHER.pool.launcher()
        return Direct(
            performer(),
            (
                *(ctypes.addressof(self.table), len(self.regions)),
                *(block.arguments, block.failures, self.width * _WORD),
                *(parts if launch else 1, launch),
            ),
            block.arguments,
            ready,
            lambda: block.take_failure(self.values),
            (self, block),
        )

    def _run(self, block: _Block, addresses: Sequence[int], threads: int | None) -> Failure | None:
        if isinstance(addresses, ctypes.Array):  # three times as fast as one by one
            ctypes.memmove(block.arguments, addresses, ctypes.sizeof(addresses))
        else:
            block.pack(block.words, 0, *addresses)
        parts = block.parts if threads is None else min(threads, block.parts)
        if parts > 1 and self.shared and LAUNCHER.pool is not None:
            try:
                return self._run_by_pool(LAUNCHER.pool, block, parts)
            except BackendError:  # a forked child that cannot compile the pool's code
                parts = 1
        for region in self.regions:
            if not (parts > 1 and region.parallel and self._launch(region, block, parts)):
                region.function(block.arguments, block.failures, 0, 1)
            if self.width and (failure := block.take_failure(self.values)) is not None:
                return failure
        return None

    def _run_by_pool(self, pool: ThreadPool, block: _Block, parts: int) -> Failure | None:
        count, record = len(self.regions), self.width * _WORD
        place = ctypes.addressof(self.table)
        if pool.perform(place, count, block.arguments, block.failures, record, parts):
            return block.take_failure(self.values)
        return None

    def _launch(self, region: _Region, block: _Block, parts: int) -> bool:
        """Whether a region has run on several threads."""
        record = self.width * _WORD
        return LAUNCHER.launch(region.address, block.arguments, block.failures, record, parts)


class _Block:
    """The arguments of one call at a time: the addresses of the buffers, that of the scratch
    memory of all parts, then a failure record per part.

    Parts are in the order of the loop that they share, so the first record that is not empty
    holds the failure that a serial run would meet first.
    """

    __slots__ = ("arguments", "failures", "pack", "parts", "rows", "scratch", "width", "words")

    def __init__(self, buffers: int, width: int, private: int) -> None:
        self.parts = thread_count()
        self.width = width
        self.scratch = empty((self.parts * private,), _BYTE, ALIGNMENT)
        self.words = (ctypes.c_int64 * (buffers + 1 + self.parts * width))()
        self.words[buffers] = address(self.scratch)
        self.rows = range(buffers + 1, buffers + 1 + self.parts * width, width or 1)
        self.arguments = ctypes.addressof(self.words)
        self.failures = self.arguments + (buffers + 1) * _WORD
        self.pack = struct.Struct(f"={buffers}q").pack_into

    def take_failure(self, counts: Mapping[int, int]) -> Failure | None:
        """The first failure on record; the records are empty afterwards."""
        found = next((row for row in self.rows if self.words[row]), None)
        if found is None:
            return None
        site = self.words[found] - 1
        values = self.words[found + 1 : found + 1 + counts[site]]
        ctypes.memset(self.failures, 0, len(self.rows) * self.width * _WORD)
        return Failure(site, tuple(values))


def _compile(text: KernelText) -> LoadedCode:
    """The machine code of the regions, in their order."""
    try:
        return machine_code(text.kernel.name, text.source, lambda: _functions(text))
    except (SyntaxError, RecursionError, MemoryError) as error:
        raise _too_deep(text.kernel, error) from error
    except NumbaError as error:
        cause = f"numba does not compile {text.kernel.name}: {error}"
        raise InternalError(cause, repair='report it, and use backend="c"') from error


def _functions(text: KernelText) -> Sequence[Any]:
    """The regions as Python functions, by running the module that the text is."""
    name = f"<tc {text.kernel.name}>"
    module: dict[str, Any] = {"__name__": name}
    exec(compile(text.source, name, "exec"), module)
    regions: Sequence[Any] = module["REGIONS"]
    return regions


def _function(address: int, code: LoadedCode) -> Any:
    """A region as a C function, which keeps its code alive."""
    function = _SIGNATURE(address)
    function.owner = code.owner  # type: ignore[attr-defined]  # any attribute can be set
    return function


def _too_deep(kernel: Kernel, error: Exception) -> BackendError:
    return BackendError(
        f"{kernel.name} is nested too deeply for Python: {error}",
        repair='split the expression into several statements, or use backend="c"',
    )


def _pays(kernel: Kernel, number: int) -> bool:
    """Whether a region can be shared among threads and is large enough."""
    region = kernel.regions[number]
    if shared_loop(region) is None:
        return False
    least = PARALLEL_VECTORS if is_vector_region(region, kernel) else PARALLEL_WORK
    return _work(kernel, number) >= least


def _work(kernel: Kernel, number: int) -> int:
    """Operations of a region, or elements moved."""
    cost = estimate(replace(kernel, regions=(kernel.regions[number],)))
    return cost.flops + cost.bytes // 4
