"""Kernels in OpenCL C, built for a device, and their calls on arrays of numpy."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tc.backends.call_memory import record_words
from tc.backends.clike.printer import KernelFunction
from tc.backends.geometry import Extents, LaunchGeometry, MemorySpan
from tc.backends.opencl_device import OpenCLDevice
from tc.errors import BackendError
from tc.kernel.ir import Buffer, Failure, Kernel


@dataclass(frozen=True, eq=False)
class OpenCLKernel:
    """Implements `CompiledKernel`. `program` is built, None where there is nothing to launch;
    `values` is how many values a Fail of each site records. What a call needs beside arrays is in
    `idle` between calls, once for each that runs at the same time."""

    kernel: Kernel
    source: str
    device: OpenCLDevice
    program: Any
    functions: Sequence[KernelFunction]
    launches: Sequence[LaunchGeometry]
    values: Mapping[int, int]
    idle: list[_Call] = field(default_factory=list)

    def run(
        self,
        addresses: Sequence[int],
        *,
        threads: int | None = None,  # noqa: ARG002
    ) -> Failure | None:
        self.device.check_process()
        if not self.functions:
            return None
        with device_errors(self.device, self.kernel):
            try:
                call = self.idle.pop()
            except IndexError:
                call = _Call(self)
            failure = call.run(addresses)
        self.idle.append(call)
        return failure


class _Call:
    """What one call at a time needs: a queue, functions whose arguments it sets, memory for
    temporaries and for the record of a failure."""

    def __init__(self, owner: OpenCLKernel) -> None:
        self._cl, self._device = owner.device.library, owner.device
        context, flags = owner.device.context, self._cl.mem_flags
        self._queue = self._cl.CommandQueue(context, owner.device.device)
        self._launches = owner.launches
        self._functions = [self._cl.Kernel(owner.program, f.name) for f in owner.functions]
        self._spans = {b.name: MemorySpan.of(b) for b in owner.kernel.arguments}
        self._buffers = owner.kernel.arguments
        self._initial = owner.kernel.initial
        self._values = owner.values
        self._words = np.zeros(record_words(owner.values), np.int64)
        self._status: Any = None
        if len(self._words):
            copied = flags.READ_WRITE | flags.COPY_HOST_PTR
            self._status = self._cl.Buffer(context, copied, hostbuf=self._words)
        self._places: dict[str, list[tuple[Any, int]]] = {b.name: [] for b in self._buffers}
        for function, printed in zip(self._functions, owner.functions, strict=True):
            for place, buffer in enumerate(printed.arguments):
                self._places[buffer.name].append((function, place))
            if printed.fails:
                function.set_arg(len(printed.arguments), self._status)
        self._own = {  # temporaries, and what stands for buffers without elements
            buffer.name: self._cl.Buffer(context, flags.READ_WRITE, size or 1)
            for buffer in self._buffers
            if not (size := self._spans[buffer.name].size) or buffer.role == "temporary"
        }
        for buffer in self._buffers:
            if buffer.name in self._own:
                self._pass(buffer, self._own[buffer.name])

    def run(self, addresses: Sequence[int]) -> Failure | None:
        passed = []
        try:
            for buffer, address in zip(self._buffers, addresses, strict=False):
                if buffer.name in self._own:
                    continue
                span = self._spans[buffer.name]
                memory = (ctypes.c_char * span.size).from_address(address - span.start)
                given = self._given(buffer, memory)
                self._pass(buffer, given)
                passed.append((buffer, memory, given))
            for function, launch in zip(self._functions, self._launches, strict=True):
                self._cl.enqueue_nd_range_kernel(
                    self._queue, function, _work_items(launch), launch.block
                )
            for buffer, memory, given in passed:
                if buffer.role == "output":
                    self._bring(memory, given)
            return self._failure()
        finally:
            self._queue.finish()  # what is raised here must not leave memory that is in use

    def _pass(self, buffer: Buffer, memory: Any) -> None:
        """Makes this the memory of a buffer for all functions that take it; they do not keep it
        alive."""
        for function, place in self._places[buffer.name]:
            function.set_arg(place, memory)

    def _given(self, buffer: Buffer, memory: Any) -> Any:
        """The memory of an argument as the device has it."""
        flags, context = self._cl.mem_flags, self._device.context
        access = flags.READ_ONLY if buffer.role == "input" else flags.READ_WRITE
        if self._device.shares_memory:
            return self._cl.Buffer(context, access | flags.USE_HOST_PTR, hostbuf=memory)
        if buffer.role == "input" or buffer.name in self._initial:
            return self._cl.Buffer(context, access | flags.COPY_HOST_PTR, hostbuf=memory)
        return self._cl.Buffer(context, access, len(memory))

    def _bring(self, memory: Any, given: Any) -> None:
        """Has the caller's memory hold what the device has written."""
        if not self._device.shares_memory:
            self._cl.enqueue_copy(self._queue, memory, given)
            return
        flags = self._cl.map_flags
        mapped, _ = self._cl.enqueue_map_buffer(
            self._queue, given, flags.READ, 0, (len(memory),), np.uint8
        )
        mapped.base.release(self._queue)

    def _failure(self) -> Failure | None:
        """The failure on record; the record is empty afterwards."""
        if self._status is None:
            return None
        self._cl.enqueue_copy(self._queue, self._words, self._status)
        if not self._words[0]:
            return None
        site = int(self._words[0]) - 1
        values = self._words[1 : 1 + self._values[site]].tolist()
        self._words[:] = 0
        self._cl.enqueue_copy(self._queue, self._status, self._words)
        return Failure(site, tuple(values))


def _work_items(launch: LaunchGeometry) -> Extents:
    x, y, z = map(math.prod, zip(launch.grid, launch.block, strict=True))
    return x, y, z


@contextmanager
def device_errors(device: OpenCLDevice, kernel: Kernel) -> Iterator[None]:
    """Makes what OpenCL reports a BackendError."""
    try:
        yield
    except device.library.Error as error:
        raise BackendError(
            f"'{kernel.name}' cannot be run on the OpenCL device {device}: {error}",
            repair='use backend="numba"',
        ) from error
