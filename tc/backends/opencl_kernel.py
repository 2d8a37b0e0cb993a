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
    """Implements `DeviceKernel` for arrays at `place`, and `CompiledKernel` for arrays of the
    processor, where there is no place. `program` is built, None where there is nothing to launch;
    `idle` and `calls` are the memory that no call uses now."""

    kernel: Kernel
    source: str
    device: OpenCLDevice
    place: DeviceLocation | None
    program: Any
    functions: Sequence[KernelFunction]
    launches: Sequence[LaunchGeometry]
    record: FailureRecord
    idle: ObjectPool[_Functions] = field(default_factory=ObjectPool)
    calls: ObjectPool[_HostCall] = field(default_factory=ObjectPool)

    @property
    def words(self) -> int:
        return self.record.words

    @property
    def waits(self) -> bool:
        return bool(self.record.words)

    @property
    def copied(self) -> Copies | None:
        if self.device.shares_memory or not self.functions:
            return None
        move = "pyopencl.array.to_device(queue, {name})"
        return Copies(f"the OpenCL device {self.device}", *copied_bytes(self.kernel), move)

    def fill(self, pointer: DeviceArray, content: bytes, stream: Any) -> None:
        with self._reported():
            self._fill(pointer.memory, pointer.address, content, stream)

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
            functions = self.idle.take(lambda: _Functions(self))
            if words is not None:
                functions.give_record(words.memory)
            self._launch_on_parts(functions, pointers, stream)
            self.idle.give_back(functions)
            return None if words is None else self._failure(words.memory, words.address, stream)

    def run(
        self,
        addresses: Sequence[int],
        *,
        threads: int | None = None,  # noqa: ARG002
    ) -> Failure | None:
        with self._reported():
            if not self.functions:
                return None
            call = self.calls.take(lambda: _HostCall(self))
            try:
                failure = self._run_copied(call, addresses)
            finally:
                call.queue.finish()  # what is raised here must not leave memory that is in use
        self.calls.give_back(call)
        return failure

    def _launch(self, functions: _Functions, queue: Any, events: Sequence[Any]) -> Any:
        """Launches all functions, the first after the `events`; returns the event of the last."""
        for function, launch in zip(functions.launched, self.launches, strict=True):
            self._keep_order(queue)
            done = self.device.library.enqueue_nd_range_kernel(
                queue, function, _work_items(launch), launch.block, wait_for=events
            )
            events = [done]
        return events[0]

    def _failure(self, words: Any, start: int, queue: Any) -> Failure | None:
        """The failure on record, at a byte of a memory; the record is empty afterwards."""
        found = np.empty(self.words, np.int64)
        self._keep_order(queue)
        self.device.library.enqueue_copy(queue, found, words, src_offset=start)
        failure = self.record.failure(found.tolist())
        if failure is not None:
            self._fill(words, start, bytes(found.nbytes), queue)
        return failure

    def _fill(self, memory: Any, start: int, content: bytes, queue: Any) -> None:
        pattern = content if len(content) <= WORD_BYTES else bytes(WORD_BYTES)
        self._keep_order(queue)
        self.device.library.enqueue_fill_buffer(
            queue, memory, np.frombuffer(pattern, np.uint8), start, len(content)
        )

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

    # --- arrays of the processor ------------------------------------------------------------

    def _run_copied(self, call: _HostCall, addresses: Sequence[int]) -> Failure | None:
        passed = []
        for buffer, address in zip(self.kernel.arguments, addresses, strict=False):
            span = call.functions.spans[buffer.name]
            if buffer.name in call.temporaries or not span.size:
                continue
            memory = (ctypes.c_char * span.size).from_address(address - span.start)
            given = self._given(buffer, memory)
            call.functions.give(buffer, given)
            passed.append((buffer, memory, given))
        self._launch(call.functions, call.queue, [])
        for buffer, memory, given in passed:
            if buffer.role == "output":
                self._bring(memory, given, call.queue)
        return None if call.words is None else self._failure(call.words, 0, call.queue)

    def _given(self, buffer: Buffer, memory: Any) -> Any:
        """The memory of an argument as the device has it."""
        cl, context = self.device.library, self.device.context
        flags = cl.mem_flags
        access = flags.READ_ONLY if buffer.role == "input" else flags.READ_WRITE
        if self.device.shares_memory:
            return cl.Buffer(context, access | flags.USE_HOST_PTR, hostbuf=memory)
        if has_contents(buffer, self.kernel):
            return cl.Buffer(context, access | flags.COPY_HOST_PTR, hostbuf=memory)
        return cl.Buffer(context, access, len(memory))

    def _bring(self, memory: Any, given: Any, queue: Any) -> None:
        """Has the caller's memory hold what the device has written."""
        cl = self.device.library
        if not self.device.shares_memory:
            cl.enqueue_copy(queue, memory, given)
            return
        mapped, _ = cl.enqueue_map_buffer(
            queue, given, cl.map_flags.READ, 0, (len(memory),), np.uint8
        )
        mapped.base.release(queue)

    # --- arrays of pyopencl -----------------------------------------------------------------

    def _launch_on_parts(
        self, functions: _Functions, pointers: Sequence[DeviceArray], queue: Any
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
        # who wrote to an array in another queue than its own has left an event
        events = [event for pointer in pointers for event in pointer.owner.events]
        done = self._launch(functions, queue, events)
        for pointer in written:
            pointer.owner.add_event(done)

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


class _Functions:
    """The functions of a kernel for one call at a time, which sets their arguments. Buffers without
    elements stand for nothing, but have to be there."""

    def __init__(self, owner: OpenCLKernel) -> None:
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


class _HostCall:
    """What one call at a time with arrays of the processor needs: a queue, functions, memory for
    temporaries, and for the record of a failure where something can fail."""

    def __init__(self, owner: OpenCLKernel) -> None:
        cl, context = owner.device.library, owner.device.context
        flags = cl.mem_flags
        self.queue = cl.CommandQueue(context, owner.device.device)
        self.functions = _Functions(owner)
        self.words: Any = None
        if owner.words:
            copied = flags.READ_WRITE | flags.COPY_HOST_PTR
            self.words = cl.Buffer(context, copied, hostbuf=np.zeros(owner.words, np.int64))
            self.functions.give_record(self.words)
        self.temporaries = {}
        for buffer in owner.kernel.arguments:
            size = self.functions.spans[buffer.name].size
            if buffer.role == "temporary" and size:
                self.temporaries[buffer.name] = cl.Buffer(context, flags.READ_WRITE, size)
                self.functions.give(buffer, self.temporaries[buffer.name])


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
