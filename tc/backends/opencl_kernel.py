"""Kernels in OpenCL C, built for a device, and their calls on arrays of numpy and of pyopencl."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tc.backends.call_memory import FailureRecord
from tc.backends.clike.printer import KernelFunction
from tc.backends.geometry import (
    Extents,
    LaunchGeometry,
    MemorySpan,
    copied_bytes,
    has_contents,
)
from tc.backends.opencl_device import OpenCLDevice
from tc.errors import BackendError
from tc.kernel.ir import Buffer, Failure, Kernel
from tc.process.object_pool import ObjectPool
from tc.runtime.arrays.device_array import DeviceArray, DeviceLocation
from tc.runtime.arrays.opencl_arrays import alignment
from tc.runtime.device_calls import Copies
from tc.runtime.loaded import WORD_BYTES


@dataclass(frozen=True, eq=False)
class OpenCLKernel:
    """Implements `CompiledKernel`. `program` is built, None where there is nothing to launch;
    `calls` are the `_Call`s that no call uses now. `place` is that of arrays of the processor."""

    kernel: Kernel
    source: str
    device: OpenCLDevice
    program: Any
    functions: Sequence[KernelFunction]
    launches: Sequence[LaunchGeometry]
    record: FailureRecord
    calls: ObjectPool[_Call] = field(default_factory=ObjectPool)
    place: None = None

    @property
    def copied(self) -> Copies | None:
        if self.device.shares_memory or not self.functions:
            return None
        move = "pyopencl.array.to_device(queue, {name})"
        return Copies(f"the OpenCL device {self.device}", *copied_bytes(self.kernel), move)

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
            call = self.calls.take(lambda: _Call(self))
            failure = call.run(addresses)
        self.calls.give_back(call)
        return failure


class Functions:
    """The functions of a kernel for one call at a time, which sets their arguments. Buffers without
    elements stand for nothing, but have to be there."""

    def __init__(self, owner: OpenCLKernel | OpenCLArraysKernel) -> None:
        cl = owner.device.library
        self.launched = [cl.Kernel(owner.program, f.name) for f in owner.functions]
        self._places: dict[str, list[tuple[Any, int]]] = {
            buffer.name: [] for buffer in owner.kernel.arguments
        }
        self._failing: list[tuple[Any, int]] = []
        for function, printed in zip(self.launched, owner.functions, strict=True):
            for place, buffer in enumerate(printed.arguments):
                self._places[buffer.name].append((function, place))
            if printed.fails:
                self._failing.append((function, len(printed.arguments)))
        self.spans = {buffer.name: MemorySpan.of(buffer) for buffer in owner.kernel.arguments}
        self._nothing = cl.Buffer(owner.device.context, cl.mem_flags.READ_WRITE, 1)
        for buffer in owner.kernel.arguments:
            if not self.spans[buffer.name].size:
                self.give(buffer, self._nothing)

    def give(self, buffer: Buffer, memory: Any) -> None:
        """Makes `memory` the memory of a buffer for all functions that take the buffer; the
        functions do not keep the memory alive."""
        for function, place in self._places[buffer.name]:
            function.set_arg(place, memory)

    def give_record(self, memory: Any) -> None:
        """Makes this the memory of the record of failures."""
        for function, place in self._failing:
            function.set_arg(place, memory)


class _Call:
    """What one call at a time needs: a queue, functions, memory for temporaries and for the record
    of a failure."""

    def __init__(self, owner: OpenCLKernel) -> None:
        self._cl, self._device = owner.device.library, owner.device
        context, flags = owner.device.context, self._cl.mem_flags
        self._queue = self._cl.CommandQueue(context, owner.device.device)
        self._launches = owner.launches
        self._functions = Functions(owner)
        self._buffers = owner.kernel.arguments
        self._kernel = owner.kernel
        self._record = owner.record
        self._words = np.zeros(owner.record.words, np.int64)
        self._status: Any = None
        if len(self._words):
            copied = flags.READ_WRITE | flags.COPY_HOST_PTR
            self._status = self._cl.Buffer(context, copied, hostbuf=self._words)
            self._functions.give_record(self._status)
        self._own = {
            buffer.name: self._cl.Buffer(context, flags.READ_WRITE, size)
            for buffer in self._buffers
            if buffer.role == "temporary" and (size := self._functions.spans[buffer.name].size)
        }
        for buffer in self._buffers:
            if buffer.name in self._own:
                self._functions.give(buffer, self._own[buffer.name])

    def run(self, addresses: Sequence[int]) -> Failure | None:
        passed = []
        try:
            for buffer, address in zip(self._buffers, addresses, strict=False):
                span = self._functions.spans[buffer.name]
                if buffer.name in self._own or not span.size:
                    continue
                memory = (ctypes.c_char * span.size).from_address(address - span.start)
                given = self._given(buffer, memory)
                self._functions.give(buffer, given)
                passed.append((buffer, memory, given))
            for function, launch in zip(self._functions.launched, self._launches, strict=True):
                self._cl.enqueue_nd_range_kernel(
                    self._queue, function, _work_items(launch), launch.block
                )
            for buffer, memory, given in passed:
                if buffer.role == "output":
                    self._bring(memory, given)
            return self._failure()
        finally:
            self._queue.finish()  # what is raised here must not leave memory that is in use

    def _given(self, buffer: Buffer, memory: Any) -> Any:
        """The memory of an argument as the device has it."""
        flags, context = self._cl.mem_flags, self._device.context
        access = flags.READ_ONLY if buffer.role == "input" else flags.READ_WRITE
        if self._device.shares_memory:
            return self._cl.Buffer(context, access | flags.USE_HOST_PTR, hostbuf=memory)
        if has_contents(buffer, self._kernel):
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
        failure = self._record.failure(self._words.tolist())
        if failure is not None:
            self._words[:] = 0
            self._cl.enqueue_copy(self._queue, self._status, self._words)
        return failure


# --- arrays of pyopencl -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OpenCLArraysKernel:
    """Implements `DeviceKernel` for arrays at `place`; its other fields are those of
    `OpenCLKernel`. `idle` are the functions that no call uses now."""

    kernel: Kernel
    source: str
    device: OpenCLDevice
    place: DeviceLocation
    program: Any
    functions: Sequence[KernelFunction]
    launches: Sequence[LaunchGeometry]
    record: FailureRecord
    idle: ObjectPool[Functions] = field(default_factory=ObjectPool)

    @property
    def words(self) -> int:
        return self.record.words

    @property
    def waits(self) -> bool:
        return bool(self.record.words)

    def fill(self, pointer: DeviceArray, content: bytes, stream: Any) -> None:
        pattern = content if len(content) <= WORD_BYTES else bytes(WORD_BYTES)
        with self._reported():
            self._keep_order(stream)
            self.device.library.enqueue_fill_buffer(
                stream,
                pointer.memory,
                np.frombuffer(pattern, np.uint8),
                pointer.address,
                len(content),
            )

    def after(self, stream: Any, other: Any) -> None:
        with self._reported():
            marker = self.device.library.enqueue_marker(other)
            other.flush()
            self.device.library.enqueue_barrier(stream, wait_for=[marker])

    def wait(self, stream: Any) -> None:
        with self._reported():
            stream.finish()

    def enqueue(
        self, pointers: Sequence[DeviceArray], words: DeviceArray | None, stream: Any
    ) -> Failure | None:
        if not self.functions:
            return None
        with self._reported():
            functions = self.idle.take(lambda: Functions(self))
            self._launch(functions, pointers, words, stream)
            self.idle.give_back(functions)
            return None if words is None else self._failure(words, stream)

    def _launch(
        self,
        functions: Functions,
        pointers: Sequence[DeviceArray],
        words: DeviceArray | None,
        queue: Any,
    ) -> None:
        arguments = [*zip(self.kernel.arguments, pointers, strict=True)]
        written = [pointer for buffer, pointer in arguments if buffer.role == "output"]
        parts = [
            self._part(functions.spans[buffer.name], pointer)
            if buffer.role != "input" or self._can_be_part(pointer, written)
            else self._copy(functions.spans[buffer.name], pointer, queue)
            for buffer, pointer in arguments
        ]
        for (buffer, _), part in zip(arguments, parts, strict=True):
            if part is not None:
                functions.give(buffer, part)
        if words is not None:
            functions.give_record(words.memory)
        # who wrote to an array in another queue than its own has left an event
        events = [event for pointer in pointers for event in pointer.owner.events]
        for function, launch in zip(functions.launched, self.launches, strict=True):
            self._keep_order(queue)
            done = self.device.library.enqueue_nd_range_kernel(
                queue, function, _work_items(launch), launch.block, wait_for=events
            )
            events = [done]
        for buffer, pointer in arguments:
            if buffer.role == "output":
                pointer.owner.add_event(events[0])

    def _can_be_part(self, pointer: DeviceArray, written: Sequence[DeviceArray]) -> bool:
        """Whether an input can be passed as a part of its buffer: that begins where parts may, and
        nothing is written to in between its elements, as OpenCL wants parts to be apart then."""
        low, end = pointer.span
        return low == end or (
            low % alignment(self.device.device) == 0
            and all(
                other.memory != pointer.memory or other.span[0] >= end or other.span[1] <= low
                for other in written
            )
        )

    def _part(self, span: MemorySpan, pointer: DeviceArray) -> Any:
        """The memory of an array from its lowest element on; None where it has no elements."""
        memory, start = pointer.memory, pointer.address - span.start
        if not span.size:
            return None
        if memory.size == span.size:
            return memory
        # what is of a pool has no parts itself
        whole = self.device.library.Buffer.from_int_ptr(memory.int_ptr)
        return whole.get_sub_region(start, span.size)

    def _copy(self, span: MemorySpan, pointer: DeviceArray, queue: Any) -> Any:
        cl, memory, start = self.device.library, pointer.memory, pointer.address - span.start
        copy = cl.Buffer(self.device.context, cl.mem_flags.READ_WRITE, span.size)
        self._keep_order(queue)
        cl.enqueue_copy(
            queue,
            copy,
            memory,
            byte_count=span.size,
            src_offset=start,
            wait_for=pointer.owner.events,
        )
        return copy

    def _failure(self, words: DeviceArray, queue: Any) -> Failure | None:
        """The failure on record; the record is empty afterwards."""
        found = np.empty(self.words, np.int64)
        self._keep_order(queue)
        self.device.library.enqueue_copy(queue, found, words.memory, src_offset=words.address)
        failure = self.record.failure(found.tolist())
        if failure is not None:
            self.fill(words, bytes(found.nbytes), queue)
        return failure

    @contextmanager
    def _reported(self) -> Iterator[None]:
        """Work for the device, whose errors are told."""
        self.device.check_process()
        with device_errors(self.device, self.kernel):
            yield

    def _keep_order(self, queue: Any) -> None:
        """Has what follows wait for all before, in a queue that need not keep the order."""
        flags = self.device.library.command_queue_properties
        if queue.properties & flags.OUT_OF_ORDER_EXEC_MODE_ENABLE:
            self.device.library.enqueue_barrier(queue)


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
