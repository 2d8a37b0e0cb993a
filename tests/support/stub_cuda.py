"""A machine with GPUs that are none, and cuda-bindings for it: modules with the signatures of the
released versions, whose memory is that of the processor.

Of all functions only "told" does something: it writes its arguments to where the first points.
"""

# ruff: noqa: ARG001 (the parameters are those of the released versions)

from __future__ import annotations

import ctypes
import enum
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from types import ModuleType
from typing import Any

WORD = 8
ATTRIBUTES = {
    "MAX_THREADS_PER_BLOCK": (1, 1024), "MAX_BLOCK_DIM_X": (2, 1024), "MAX_BLOCK_DIM_Y": (3, 1024),
    "MAX_BLOCK_DIM_Z": (4, 64), "MAX_GRID_DIM_X": (5, 2**31 - 1), "MAX_GRID_DIM_Y": (6, 65535),
    "MAX_GRID_DIM_Z": (7, 65535), "WARP_SIZE": (10, 32), "CLOCK_RATE": (13, 1_980_000),
    "MULTIPROCESSOR_COUNT": (16, 132), "MEMORY_CLOCK_RATE": (36, 2_619_000),
    "GLOBAL_MEMORY_BUS_WIDTH": (37, 5120), "MAX_THREADS_PER_MULTIPROCESSOR": (39, 2048),
    "COMPUTE_CAPABILITY_MAJOR": (75, 9), "COMPUTE_CAPABILITY_MINOR": (76, 0),
    "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": (81, 233472),
    "MAX_REGISTERS_PER_MULTIPROCESSOR": (82, 65536), "COOPERATIVE_LAUNCH": (95, 1),
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": (97, 232448), "MAX_BLOCKS_PER_MULTIPROCESSOR": (106, 32),
}  # fmt: skip
"""Those of the H100, with the numbers that CUDA has for them."""

STATUS = {
    "CUDA_SUCCESS": (0, "no error"),
    "CUDA_ERROR_INVALID_VALUE": (1, "invalid argument"),
    "CUDA_ERROR_OUT_OF_MEMORY": (2, "out of memory"),
    "CUDA_ERROR_NO_DEVICE": (100, "no CUDA-capable device is detected"),
    "CUDA_ERROR_INVALID_CONTEXT": (201, "invalid device context"),
    "CUDA_ERROR_NOT_FOUND": (500, "named symbol not found"),
    "CUDA_ERROR_ILLEGAL_ADDRESS": (700, "an illegal memory access was encountered"),
}
"""Errors that the driver reports, with their numbers and texts."""


class Fault(Exception):
    """An error that the driver reports instead of doing its work."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class Launch:
    """A launch as the driver got it, with the values of its parameters."""

    function: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int
    stream: int
    parameters: tuple[int, ...]
    cooperative: bool = False


@dataclass
class Machine:
    """What both libraries stand on. `calls` are the names of the functions that were called, with
    their arguments, `faults` what one of them reports, the next time that it is called."""

    devices: int = 2
    parameters: int = 3
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)
    memory: dict[int, Any] = field(default_factory=dict)
    launches: list[Launch] = field(default_factory=list)
    local: threading.local = field(default_factory=threading.local)

    def told(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, *arguments))
        if name in self.faults:
            raise Fault(self.faults.pop(name))

    def called(self, name: str) -> list[tuple[Any, ...]]:
        return [call[1:] for call in self.calls if call[0] == name]

    @property
    def contexts(self) -> list[int]:
        """The stack of this thread: contexts are primary ones, 100 plus their device."""
        if not hasattr(self.local, "contexts"):
            self.local.contexts = []
        stack: list[int] = self.local.contexts
        return stack

    def device(self) -> int:
        """That of the current context."""
        if not self.contexts:
            raise Fault("CUDA_ERROR_INVALID_CONTEXT")
        return self.contexts[-1] - 100

    def allocate(self, size: int) -> int:
        self.device()
        memory = (ctypes.c_char * max(size, 1))(*[0xA5] * size)
        address = ctypes.addressof(memory)
        self.memory[address] = memory
        return address

    def launch(self, launch: Launch) -> None:
        self.device()
        self.launches.append(launch)
        if launch.function == "told" and launch.parameters:
            count = len(launch.parameters)
            words = (ctypes.c_uint64 * count).from_address(launch.parameters[0])
            words[:] = launch.parameters


class Handle:
    """What cuda-bindings has for a pointer of the driver."""

    def __init__(self, value: int, of: Any = None) -> None:
        self.value, self.of = value, of

    def __int__(self) -> int:
        return self.value


def bindings(machine: Machine) -> Mapping[str, ModuleType]:
    """The modules of cuda-bindings 13.5 that tc asks for, by their names."""
    package: Any
    driver: Any
    package, driver = ModuleType("cuda.bindings"), ModuleType("cuda.bindings.driver")
    package.__version__, package.driver = "13.5.0", driver
    status = enum.IntEnum("CUresult", {name: number for name, (number, _) in STATUS.items()})
    device_names = {f"CU_DEVICE_ATTRIBUTE_{n}": number for n, (number, _) in ATTRIBUTES.items()}
    attributes = enum.IntEnum("CUdevice_attribute", device_names)
    of_function = enum.IntEnum(
        "CUfunction_attribute",
        {
            "CU_FUNC_ATTRIBUTE_NUM_REGS": 4,
            "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES": 8,
        },
    )
    flags = enum.IntEnum("CUevent_flags", {"CU_EVENT_DISABLE_TIMING": 2})
    names: dict[int, str] = {}

    def function(work: Callable[..., Any]) -> None:
        name, gives = work.__name__, work.__annotations__["return"] != "None"

        @wraps(work)
        def called(*arguments: Any) -> tuple[Any, ...]:
            found = [a.of if isinstance(a, Handle) and a.of else a for a in arguments]
            found = [int(a) if isinstance(a, Handle | enum.IntEnum) else a for a in found]
            try:
                machine.told(name, *found)
                result = work(*arguments)
            except Fault as fault:
                return (status[fault.name], *([None] if gives else []))
            return (status["CUDA_SUCCESS"], *([result] if gives else []))

        setattr(driver, name, called)

    @function
    def cuInit(Flags: int) -> None:
        pass

    @function
    def cuDriverGetVersion() -> int:
        return 13000

    @function
    def cuDeviceGetCount() -> int:
        return machine.devices

    @function
    def cuDeviceGet(ordinal: int) -> Handle:
        return Handle(ordinal)

    @function
    def cuDeviceGetName(length: int, dev: Any) -> bytes:
        return f"Stub {int(dev)}\0".encode().ljust(length)

    @function
    def cuDeviceGetAttribute(attrib: Any, dev: Any) -> int:
        assert isinstance(attrib, attributes)
        return ATTRIBUTES[attrib.name.removeprefix("CU_DEVICE_ATTRIBUTE_")][1]

    @function
    def cuDevicePrimaryCtxRetain(dev: Any) -> Handle:
        return Handle(100 + int(dev))

    @function
    def cuCtxGetCurrent() -> Handle:
        return Handle(machine.contexts[-1] if machine.contexts else 0)

    @function
    def cuCtxPushCurrent(ctx: Any) -> None:
        machine.contexts.append(int(ctx))

    @function
    def cuCtxPopCurrent() -> Handle:
        return Handle(machine.contexts.pop())

    @function
    def cuCtxGetDevice() -> Handle:
        return Handle(machine.device())

    @function
    def cuLibraryLoadData(
        code: bytes,
        jitOptions: Any,
        jitOptionsValues: Any,
        numJitOptions: int,
        libraryOptions: Any,
        libraryOptionValues: Any,
        numLibraryOptions: int,
    ) -> Handle:
        return Handle(1000)

    @function
    def cuLibraryGetKernel(library: Any, name: bytes) -> Handle:
        if name == b"absent":
            raise Fault("CUDA_ERROR_NOT_FOUND")
        names[2000 + len(names)] = name.decode()
        return Handle([*names][-1], name.decode())

    @function
    def cuLibraryUnload(library: Any) -> None:
        pass

    @function
    def cuKernelSetAttribute(attrib: Any, val: int, kernel: Any, dev: Any) -> None:
        assert isinstance(attrib, of_function)

    @function
    def cuKernelGetAttribute(attrib: Any, kernel: Any, dev: Any) -> int:
        assert isinstance(attrib, of_function)
        return 40

    @function
    def cuOccupancyMaxActiveBlocksPerMultiprocessor(
        func: Any, blockSize: int, dynamicSMemSize: int
    ) -> int:
        return 3

    def launched(f: Any, sizes: tuple[int, ...], stream: int, pointers: int, coop: bool) -> None:
        at = (ctypes.c_uint64 * machine.parameters).from_address(pointers)
        values = tuple(ctypes.c_uint64.from_address(pointer).value for pointer in at)
        told = (sizes[:3], sizes[3:6], sizes[6], stream, values, coop)
        machine.launch(Launch(names[int(f)], *told))

    @function
    def cuLaunchKernel(
        f: Any,
        gridDimX: int,
        gridDimY: int,
        gridDimZ: int,
        blockDimX: int,
        blockDimY: int,
        blockDimZ: int,
        sharedMemBytes: int,
        hStream: int,
        kernelParams: int,
        extra: int,
    ) -> None:
        assert extra == 0
        grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        launched(f, (*grid, *block, sharedMemBytes), hStream, kernelParams, False)

    @function
    def cuLaunchCooperativeKernel(
        f: Any,
        gridDimX: int,
        gridDimY: int,
        gridDimZ: int,
        blockDimX: int,
        blockDimY: int,
        blockDimZ: int,
        sharedMemBytes: int,
        hStream: int,
        kernelParams: int,
    ) -> None:
        grid, block = (gridDimX, gridDimY, gridDimZ), (blockDimX, blockDimY, blockDimZ)
        launched(f, (*grid, *block, sharedMemBytes), hStream, kernelParams, True)

    @function
    def cuMemAlloc(bytesize: int) -> Handle:
        return Handle(machine.allocate(bytesize))

    @function
    def cuMemFree(dptr: int) -> None:
        machine.device()
        del machine.memory[int(dptr)]

    @function
    def cuMemcpyHtoDAsync(dstDevice: int, srcHost: int, ByteCount: int, hStream: int) -> None:
        ctypes.memmove(dstDevice, srcHost, ByteCount)

    @function
    def cuMemcpyDtoHAsync(dstHost: int, srcDevice: int, ByteCount: int, hStream: int) -> None:
        ctypes.memmove(dstHost, srcDevice, ByteCount)

    @function
    def cuMemsetD8Async(dstDevice: int, uc: int, N: int, hStream: int) -> None:
        filled(dstDevice, uc, N, ctypes.c_uint8)

    @function
    def cuMemsetD16Async(dstDevice: int, us: int, N: int, hStream: int) -> None:
        filled(dstDevice, us, N, ctypes.c_uint16)

    @function
    def cuMemsetD32Async(dstDevice: int, ui: int, N: int, hStream: int) -> None:
        filled(dstDevice, ui, N, ctypes.c_uint32)

    @function
    def cuEventCreate(Flags: Any) -> Handle:
        return Handle(3000 + int(Flags))

    @function
    def cuEventRecord(hEvent: Any, hStream: int) -> None:
        pass

    @function
    def cuStreamWaitEvent(hStream: int, hEvent: Any, Flags: int) -> None:
        pass

    @function
    def cuEventDestroy(hEvent: Any) -> None:
        pass

    @function
    def cuStreamSynchronize(hStream: int) -> None:
        pass

    @function
    def cuGetErrorString(error: Any) -> bytes:
        assert isinstance(error, status)
        return STATUS[error.name][1].encode()

    driver.CUresult, driver.CUfunction = status, Handle
    driver.CUdevice_attribute, driver.CUevent_flags = attributes, flags
    driver.CUfunction_attribute = of_function
    return {"cuda.bindings": package, "cuda.bindings.driver": driver}


def filled(address: int, value: int, count: int, kind: Any) -> None:
    (kind * count).from_address(address)[:] = [value] * count
