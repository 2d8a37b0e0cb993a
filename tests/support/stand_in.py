"""A driver of CUDA that is none: addresses are those of the processor's memory, a launch runs the
kernel by `evaluate` on the arrays at its addresses, and every call is on record."""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends import cuda, cuda_driver, nvrtc
from tc.backends.base import KernelText
from tc.backends.clike.cuda_dialect import CUDA as DIALECT
from tc.backends.clike.printer import functions_of
from tc.backends.cuda_driver import DriverError, Launcher, OpenedDriver
from tc.backends.geometry import LaunchGeometry, MemorySpan
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Kernel
from tc.runtime.arrays.any_address import array_at


class StandInMemory:
    """Memory of a device, filled with what no program expects."""

    def __init__(self, driver: StandInDriver, size: int) -> None:
        self.driver = driver
        self.bytes = np.full(size + 16, 0xA5, np.uint8)
        self.address = -(-self.bytes.ctypes.data // 16) * 16
        driver.live.add(id(self))

    def __del__(self) -> None:
        self.driver.live.discard(id(self))


@dataclass
class StandInDriver:
    """Implements `CudaDriver`. `calls` are the names of all methods that were called, with what
    tells them apart; `faults` are what a method raises, the next time it is called, `faults_at`
    what the call of that number raises."""

    gpus: tuple[tc.Gpu, ...] = (tc.Gpu(), tc.Gpu(arch="sm_90"))
    name: str = "stand-in 1.0"
    cooperates: bool = True
    thread_registers: int = 32
    at_once: int = 1000
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    faults: dict[str, DriverError] = field(default_factory=dict)
    faults_at: dict[int, DriverError] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    kernels: dict[bytes, Kernel] = field(default_factory=dict)
    local: threading.local = field(default_factory=threading.local)

    def told(self, name: str, *details: Any) -> None:
        number = len(self.calls)
        self.calls.append((name, *details))
        if number in self.faults_at:
            raise self.faults_at.pop(number)
        if name in self.faults:
            raise self.faults.pop(name)

    def names(self) -> list[str]:
        return [call[0] for call in self.calls]

    def count(self) -> int:
        self.told("count")
        return len(self.gpus)

    def gpu(self, number: int) -> tc.Gpu:
        self.told("gpu", number)
        if number >= len(self.gpus):
            raise DriverError("CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal")
        return self.gpus[number]

    def title(self, number: int) -> str:
        return f"stand-in {number}"

    def current(self) -> int | None:
        return getattr(self.local, "current", None)

    @contextlib.contextmanager
    def on(self, number: int) -> Iterator[None]:
        self.told("on", number)
        before, self.local.current = self.current(), number
        try:
            yield
        finally:
            self.local.current = before

    def compile(self, text: KernelText, arch: str) -> bytes:
        """Takes the place of NVRTC."""
        cubin = f"{arch} {text.source}".encode()
        self.kernels[cubin] = text.kernel
        return cubin

    def load(self, cubin: bytes) -> Kernel:
        self.told("load", self.current())
        return self.kernels[cubin]

    def version(self) -> tuple[int, int]:
        return 13, 0

    def registers(self, module: Kernel, function: str) -> int:  # noqa: ARG002
        self.told("registers", function)
        return self.thread_registers

    def blocks_at_once(self, module: Kernel, geometry: LaunchGeometry) -> int:  # noqa: ARG002
        self.told("blocks_at_once", geometry.function)
        return self.at_once

    def launcher(self, module: Kernel, geometry: LaunchGeometry, parameters: int) -> Launcher:
        self.told("launcher", geometry.function, parameters)
        device = self.current()
        function = next(f for f in functions_of(module, DIALECT) if f.name == geometry.function)
        region = next(r for r in module.regions if function.grid in r)
        given = [replace(b, role="output") if b.role == "temporary" else b for b in module.buffers]
        outputs = frozenset(b.name for b in given if b.role == "output")
        kernel = replace(module, buffers=tuple(given), regions=(region,), initial=outputs)

        def launch(arguments: Sequence[int], stream: int) -> None:
            assert self.current() == device
            assert len(arguments) == parameters
            if function.waits:
                assert ctypes.c_uint32.from_address(arguments[-1]).value == 0
            self.told("launch", geometry.function, stream)
            pointers = dict(zip((b.name for b in function.arguments), arguments, strict=False))
            arrays = {b.name: np.zeros(b.shape, b.dtype.numpy) for b in kernel.arguments}
            for buffer in function.arguments:
                start, item = MemorySpan.of(buffer).start, buffer.dtype.bytes
                steps = [step * item for step in buffer.strides]
                if 0 not in buffer.shape:
                    place = pointers[buffer.name] + start
                    arrays[buffer.name] = array_at(place, buffer.dtype.numpy, buffer.shape, steps)
            failure = evaluate(kernel, arrays)
            if failure is not None:
                record = (failure.site + 1, *failure.values)
                words = (ctypes.c_int64 * len(record)).from_address(
                    arguments[len(function.arguments)]
                )
                if not words[0]:
                    words[:] = record

        return launch

    def allocate(self, size: int) -> StandInMemory:
        self.told("allocate", size)
        return StandInMemory(self, size)

    def copy_in(self, address: int, source: int, size: int, stream: int) -> None:
        self.told("copy_in", size, stream)
        ctypes.memmove(address, source, size)

    def copy_out(self, target: int, address: int, size: int, stream: int) -> None:
        self.told("copy_out", size, stream)
        ctypes.memmove(target, address, size)

    def fill(self, address: int, content: bytes, stream: int) -> None:
        self.told("fill", len(content), stream)
        ctypes.memmove(address, content, len(content))

    def order(self, stream: int, other: int) -> None:
        self.told("order", stream, other)

    def wait(self, stream: int) -> None:
        self.told("wait", stream)


class DeviceVector:
    """An array of a library of which only the interface is known: CUDA's, or that and DLPack's."""

    def __init__(
        self, values: Any, *, device: int = 0, stream: int | None = None, read_only: bool = False
    ) -> None:
        self.values = np.asarray(values)
        self.device = device
        self.stream = stream
        self.read_only = read_only

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        found = self.values.__array_interface__
        return {
            "shape": found["shape"],
            "typestr": found["typestr"],
            "descr": found["descr"],
            "data": (found["data"][0], self.read_only),
            "strides": found["strides"],
            "stream": self.stream,
            "version": 3,
        }


def empty(shape: tuple[int, ...], dtype: Any) -> DeviceVector:
    """What tc takes for the library's way to make an array: it is in the module of the type."""
    ALLOCATED.append((shape, dtype))
    if REFUSED:
        raise REFUSED.pop()
    return DeviceVector(np.empty(shape, dtype))


ALLOCATED: list[Any] = []
"""What `empty` was asked for."""

REFUSED: list[Exception] = []
"""What `empty` raises, once each."""


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandInDriver:
    """The driver of this process, for one test."""
    driver = StandInDriver()
    use(driver, monkeypatch)
    return driver


def use(driver: StandInDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = OpenedDriver(driver, cuda_driver.os.getpid(), driver.version())
    monkeypatch.setattr(cuda_driver.OPENED, "made", [opened])
    monkeypatch.setattr(nvrtc, "version", lambda: "0.0")
    monkeypatch.setattr(nvrtc, "architectures", lambda: ("sm_80", "sm_90"))
    monkeypatch.setattr(cuda, "compile_text", driver.compile)
    ALLOCATED.clear()


Maker = Callable[[Any], Any]
