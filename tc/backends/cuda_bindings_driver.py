"""CUDA's driver by cuda-bindings: the functions on which cuda.core is built, one for one.

Nothing of cuda.core itself is used: its objects cost several times what the driver takes for a
launch, and its errors have no names but in their texts.
"""

from __future__ import annotations

import ctypes
import os
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

from cuda import bindings
from cuda.bindings import driver

from tc.backends.cuda_driver import DriverError, Launcher, gpu_of, memsets
from tc.backends.geometry import LaunchGeometry
from tc.gpu import Gpu
from tc.process.object_pool import ObjectPool
from tc.runtime.loaded import WORD_BYTES

_MAX_NAME_BYTES = 256  # bytes that the name of a device may have
_FUNCTION = driver.CUfunction_attribute


class CudaBindingsDriver:
    """Implements `CudaDriver`."""

    cooperates = True

    def __init__(self) -> None:
        self.name = f"cuda-bindings {bindings.__version__}"
        self._contexts: dict[int, Any] = {}
        self._numbers: dict[int, int] = {}  # of devices, by the handles of their contexts
        self._lock = threading.Lock()
        self.process = os.getpid()

    def count(self) -> int:
        _called(driver.cuInit, 0)
        return int(_called(driver.cuDeviceGetCount))

    def version(self) -> tuple[int, int]:
        number = int(_called(driver.cuDriverGetVersion))
        return number // 1000, number % 1000 // 10

    def gpu(self, number: int) -> Gpu:
        device = _called(driver.cuDeviceGet, number)

        def attribute(name: str) -> int:
            wanted = getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(_called(driver.cuDeviceGetAttribute, wanted, device))

        return gpu_of(attribute)

    def title(self, number: int) -> str:
        device = _called(driver.cuDeviceGet, number)
        found: bytes = _called(driver.cuDeviceGetName, _MAX_NAME_BYTES, device)
        return found.partition(b"\0")[0].decode(errors="replace")

    def current(self) -> int | None:
        status, context = driver.cuCtxGetCurrent()
        return None if status else self._numbers.get(int(context))

    @contextmanager
    def on(self, number: int) -> Iterator[None]:
        _called(driver.cuCtxPushCurrent, self._context(number))
        try:
            yield
        finally:
            driver.cuCtxPopCurrent()

    def load(self, cubin: bytes) -> _Module:
        return _Module(self, cubin)

    def launcher(self, module: _Module, geometry: LaunchGeometry, parameters: int) -> Launcher:
        kernel = module.kernel(geometry.function)
        if geometry.dynamic:
            wanted = _FUNCTION.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            device = _called(driver.cuCtxGetDevice)
            _called(driver.cuKernelSetAttribute, wanted, geometry.dynamic, kernel, device)
        start = driver.cuLaunchCooperativeKernel if geometry.cooperative else driver.cuLaunchKernel
        extra = () if geometry.cooperative else (0,)
        function = driver.CUfunction(int(kernel))
        sizes = (*geometry.grid, *geometry.block, geometry.dynamic)
        idle: ObjectPool[_Parameters] = ObjectPool()
        new = partial(_Parameters, parameters, module)
        idle.give_back(new())

        def launch(arguments: Sequence[int], stream: int) -> None:
            memory = idle.take(new)
            memory.set(*arguments)
            (status,) = start(function, *sizes, stream, memory.pointers, *extra)
            idle.give_back(memory)
            if status:
                raise _error(status)

        return launch

    def registers(self, module: _Module, function: str) -> int:
        wanted, device = _FUNCTION.CU_FUNC_ATTRIBUTE_NUM_REGS, _called(driver.cuCtxGetDevice)
        return int(_called(driver.cuKernelGetAttribute, wanted, module.kernel(function), device))

    def blocks_at_once(self, module: _Module, geometry: LaunchGeometry) -> int:
        each = _called(
            driver.cuOccupancyMaxActiveBlocksPerMultiprocessor,
            driver.CUfunction(int(module.kernel(geometry.function))),
            geometry.threads,
            geometry.dynamic,
        )
        processors = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT
        device = _called(driver.cuCtxGetDevice)
        return int(each) * int(_called(driver.cuDeviceGetAttribute, processors, device))

    def allocate(self, size: int) -> _Memory:
        number = _called(driver.cuCtxGetDevice)
        return _Memory(self, int(number), int(_called(driver.cuMemAlloc, size)))

    def copy_in(self, address: int, source: int, size: int, stream: int) -> None:
        _called(driver.cuMemcpyHtoDAsync, address, source, size, stream)
        _called(driver.cuStreamSynchronize, stream)

    def copy_out(self, target: int, address: int, size: int, stream: int) -> None:
        _called(driver.cuMemcpyDtoHAsync, target, address, size, stream)
        _called(driver.cuStreamSynchronize, stream)

    def fill(self, address: int, content: bytes, stream: int) -> None:
        for width, *given in memsets(address, content):
            _called(getattr(driver, f"cuMemsetD{8 * width}Async"), *given, stream)

    def order(self, stream: int, other: int) -> None:
        event = _called(driver.cuEventCreate, driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        try:
            _called(driver.cuEventRecord, event, other)
            _called(driver.cuStreamWaitEvent, stream, event, 0)
        finally:
            driver.cuEventDestroy(event)

    def wait(self, stream: int) -> None:
        _called(driver.cuStreamSynchronize, stream)

    def _context(self, number: int) -> Any:
        """The primary context of a device, which this process keeps."""
        with self._lock:
            if number not in self._contexts:
                device = _called(driver.cuDeviceGet, number)
                context = _called(driver.cuDevicePrimaryCtxRetain, device)
                self._contexts[number] = context
                self._numbers[int(context)] = number
            return self._contexts[number]


class _Module:
    """Compiled functions. The driver loads them for each device that asks for them, and unloads
    them in any thread, but not in a forked child."""

    __slots__ = ("_driver", "_library")

    def __init__(self, owner: CudaBindingsDriver, cubin: bytes) -> None:
        self._driver = owner
        self._library = _called(driver.cuLibraryLoadData, cubin, [], [], 0, [], [], 0)

    def kernel(self, function: str) -> Any:
        return _called(driver.cuLibraryGetKernel, self._library, function.encode())

    def __del__(self) -> None:
        if hasattr(self, "_library") and os.getpid() == self._driver.process:
            driver.cuLibraryUnload(self._library)


class _Parameters:
    """The parameters of one launch at a time, all 64 bits wide: their values, and behind these the
    pointers to them that the driver reads. They keep the function loaded."""

    __slots__ = ("module", "pointers", "set", "words")

    def __init__(self, count: int, module: _Module) -> None:
        self.module = module
        self.words = (ctypes.c_uint64 * (2 * count))()
        start = ctypes.addressof(self.words)
        self.pointers = start + WORD_BYTES * count
        self.words[count:] = [start + WORD_BYTES * place for place in range(count)]
        self.set: Callable[..., None] = partial(
            struct.Struct(f"={count}Q").pack_into, self.words, 0
        )


class _Memory:
    """Memory of a device, freed when it goes."""

    __slots__ = ("_driver", "_number", "address")

    def __init__(self, owner: CudaBindingsDriver, number: int, address: int) -> None:
        self._driver, self._number, self.address = owner, number, address

    def __del__(self) -> None:
        with suppress(DriverError), self._driver.on(self._number):
            driver.cuMemFree(self.address)


def _called(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of the driver gives."""
    try:
        status, *values = function(*arguments)
    except RuntimeError as error:  # of cuda-bindings, where there is no driver or no such function
        raise DriverError("CUDA_ERROR_NOT_FOUND", str(error)) from error
    if status:
        raise _error(status)
    return values[0] if values else None


def _error(status: Any) -> DriverError:
    _, text = driver.cuGetErrorString(status)
    return DriverError(status.name, (text or b"unknown error").decode(errors="replace"))
