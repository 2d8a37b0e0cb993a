"""Kernels in CUDA C++, compiled and loaded on a device, and their calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from tc.backends.call_memory import FailureRecord
from tc.backends.clike.printer import KernelFunction
from tc.backends.cuda_driver import CudaDriver, DriverError, Launcher
from tc.backends.cuda_errors import KernelOnDevice
from tc.backends.geometry import (
    LaunchGeometry,
    MemorySpan,
    copied_bytes,
    has_contents,
    wide_bytes,
)
from tc.gpu import Gpu
from tc.kernel.ir import Buffer, Failure, Kernel
from tc.runtime.arrays.device_array import DeviceLocation
from tc.runtime.device_calls import Copies
from tc.runtime.loaded import WORD_BYTES


@dataclass(frozen=True, slots=True)
class LaunchStep:
    """One launch of a kernel: `take` makes the arguments of the launch of the pointers to the
    arguments of the kernel; `wide` has the places of those that lie at multiples of some bytes, and
    of how many. `fails` says that the launch records failures, `waits` that its blocks wait for
    each other; `registers` is the number of registers of each thread."""

    geometry: LaunchGeometry
    take: Callable[[Sequence[int]], Sequence[int]]
    wide: tuple[tuple[int, int], ...]
    fails: bool
    waits: bool
    registers: int
    launch: Launcher


@dataclass(frozen=True, eq=False)
class CudaKernel:
    """Implements `DeviceKernel`, and `CompiledKernel` for arrays of the processor, which are copied
    to the device and back.

    The words of a call are the record of a failure, and one where blocks wait for each other.
    `load_for_any_address` gives the steps of a text that takes no address to be aligned; it is
    called once, where an array of a call lies at another address than `steps` need."""

    source: str
    at: KernelOnDevice
    steps: tuple[LaunchStep, ...]
    record: FailureRecord
    load_for_any_address: Callable[[], tuple[LaunchStep, ...]]

    @cached_property
    def steps_for_any_address(self) -> tuple[LaunchStep, ...]:
        return self.load_for_any_address()

    @property
    def kernel(self) -> Kernel:
        return self.at.kernel

    @property
    def place(self) -> DeviceLocation:
        return self.at.place

    @property
    def words(self) -> int:
        return self.record.words + any(step.waits for step in self.steps)

    @property
    def waits(self) -> bool:
        return bool(self.record.words)

    @property
    def copied(self) -> Copies | None:
        if not self.steps:
            return None
        move = "torch's {name}.cuda(), or cupy.asarray({name})"
        return Copies(str(self.place), *copied_bytes(self.kernel), move)

    def fill(self, pointer: int, content: bytes, stream: int) -> None:
        with self._here():
            self._driver.fill(pointer, content, stream)

    def after(self, stream: int, other: int) -> None:
        with self._here():
            self._driver.order(stream, other)

    def wait(self, stream: int) -> None:
        with self._here():
            self._driver.wait(stream)

    def allocate(self, size: int) -> Any:
        with self._here():
            return self._driver.allocate(size)

    def enqueue(self, pointers: Sequence[int], words: int | None, stream: int) -> Failure | None:
        at = self.at
        at.opened.check_process()
        driver, number = at.opened.driver, at.place.number
        try:
            if driver.current() == number:
                return self._enqueue(pointers, words, stream)
            with driver.on(number):
                return self._enqueue(pointers, words, stream)
        except DriverError as error:
            raise at.error(error) from error

    def _enqueue(self, pointers: Sequence[int], words: int | None, stream: int) -> Failure | None:
        for number, step in enumerate(self.steps):
            arguments = step.take(pointers)
            if any(arguments[place] % size for place, size in step.wide):
                step = self.steps_for_any_address[number]
            if words is not None:
                arguments = [*arguments, words] if step.fails else [*arguments]
                if step.waits:
                    arguments.append(words + self.record.nbytes)
            try:
                step.launch(arguments, stream)
            except DriverError as error:
                raise self.at.error(error, step.geometry, step.registers) from error
        return self._failure(words, stream) if words is not None and self.waits else None

    def run(
        self,
        addresses: Sequence[int],
        *,
        threads: int | None = None,  # noqa: ARG002
    ) -> Failure | None:
        if not self.steps:
            return None
        with self._here():
            return self._run_copied(addresses)

    def _run_copied(self, addresses: Sequence[int]) -> Failure | None:
        driver, pointers, taken = self._driver, [], []
        for buffer, address in zip(self.kernel.arguments, addresses, strict=False):
            span = MemorySpan.of(buffer)
            memory = driver.allocate(max(span.size, 1))
            taken.append((buffer, address - span.start, memory, span.size))
            pointers.append(memory.address + span.start)
            if has_contents(buffer, self.kernel) and span.size:
                driver.copy_in(memory.address, address - span.start, span.size, 0)
        words = None
        if self.words:
            words = driver.allocate(self.words * WORD_BYTES)
            driver.fill(words.address, bytes(self.words * WORD_BYTES), 0)
        failure = self.enqueue(pointers, words and words.address, 0)
        for buffer, address, memory, size in taken:
            if buffer.role == "output" and size:
                driver.copy_out(address, memory.address, size, 0)
        return failure

    def _failure(self, words: int, stream: int) -> Failure | None:
        """The failure on record; the record is empty afterwards."""
        found = np.empty(self.record.words, np.int64)
        self._driver.copy_out(found.ctypes.data, words, found.nbytes, stream)
        failure = self.record.failure(found.tolist())
        if failure is not None:
            self._driver.fill(words, bytes(found.nbytes), stream)
        return failure

    @property
    def _driver(self) -> CudaDriver:
        return self.at.opened.driver

    @contextmanager
    def _here(self) -> Iterator[None]:
        """On the device of this kernel."""
        self.at.opened.check_process()
        with self.at.errors():
            if self._driver.current() == self.place.number:
                yield
            else:
                with self._driver.on(self.place.number):
                    yield


def steps_of(
    at: KernelOnDevice,
    functions: Sequence[KernelFunction],
    launches: Sequence[LaunchGeometry],
    gpu: Gpu,
    cubin: bytes,
) -> tuple[LaunchStep, ...]:
    """The launches of a kernel, whose functions are loaded now. BackendError for those that the
    device cannot make."""
    driver = at.opened.driver

    def step(module: Any, function: KernelFunction, launch: LaunchGeometry) -> LaunchStep:
        parameters = len(function.arguments) + function.fails + function.waits
        with at.errors(launch):
            launcher = driver.launcher(module, launch, parameters)
            registers = driver.registers(module, launch.function)
            at.check_registers(launch, registers, gpu)
            if launch.cooperative:
                at.check_at_once(launch, driver.blocks_at_once(module, launch))
        take = _taker(at.kernel.arguments, function.arguments)
        sizes = enumerate(map(wide_bytes, function.arguments))
        wide = tuple((place, size) for place, size in sizes if size > 1)
        return LaunchStep(launch, take, wide, function.fails, function.waits, registers, launcher)

    with at.errors(), driver.on(at.place.number):
        module = driver.load(cubin)
        pairs = zip(functions, launches, strict=True)
        return tuple(step(module, function, launch) for function, launch in pairs)


def _taker(
    buffers: Sequence[Buffer], taken: Sequence[Buffer]
) -> Callable[[Sequence[int]], Sequence[int]]:
    """What makes of the pointers to all buffers those to some of them, each to the lowest element
    in memory in place of element (0, ..., 0)."""
    names = [buffer.name for buffer in buffers]
    places = [names.index(buffer.name) for buffer in taken]
    starts = [MemorySpan.of(buffer).start for buffer in taken]
    if not any(starts):
        if places == [*range(len(names))]:
            return _all
        if len(places) > 1:  # of one, `itemgetter` makes no sequence
            return itemgetter(*places)
    pairs = tuple(zip(places, starts, strict=True))

    def take(pointers: Sequence[int]) -> Sequence[int]:
        return [pointers[place] - before for place, before in pairs]

    return take


def _all(pointers: Sequence[int]) -> Sequence[int]:
    return pointers
