"""What tc needs of CUDA's driver: a protocol, and which library stands behind it.

PyCUDA is taken where it can be imported, cuda-bindings otherwise. Nothing of either is imported
before a GPU is asked for.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tc.backends.geometry import LaunchGeometry
from tc.errors import BackendError
from tc.gpu import Gpu
from tc.process.forks import check_not_forked
from tc.process.uninterrupted import Lazy, load

INSTALL = (
    'pip install "tensor-comprehensions[cuda]" where there is a GPU of NVIDIA; elsewhere '
    'backend="opencl" or "numba" runs the program, and tc.emit shows its code'
)

Launcher: TypeAlias = Callable[[Sequence[int], int], None]
"""Puts a launch of a function in line; takes the arguments of the launch, all pointers, and a
stream."""


class DriverError(Exception):
    """An error of CUDA's driver: `code` is CUDA's name of the error, such as
    "CUDA_ERROR_OUT_OF_MEMORY", and `text` the driver's description."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code
        self.text = text


class CudaDriver(Protocol):
    """The driver of the GPUs of this machine. Each method may raise `DriverError`.

    Devices go by their numbers, streams by CUDA's handles (0 is the default stream), addresses and
    sizes are in bytes. What acts on "the current device" acts on that of this thread.
    """

    @property
    def name(self) -> str:
        """Of the library, with its version."""
        ...

    @property
    def cooperates(self) -> bool:
        """Whether it makes cooperative launches."""
        ...

    def count(self) -> int:
        """The number of devices."""
        ...

    def version(self) -> tuple[int, int]:
        """The newest CUDA whose programs it runs."""
        ...

    def gpu(self, number: int) -> Gpu:
        """What a device has."""
        ...

    def title(self, number: int) -> str:
        """The name that its maker gives the device of a number."""
        ...

    def current(self) -> int | None:
        """The current device, None where the current context is not the primary one of a device
        that was made current before."""
        ...

    def on(self, number: int) -> AbstractContextManager[None]:
        """Makes a device current, and at the end the device that was current before, if any."""
        ...

    def load(self, cubin: bytes) -> Any:
        """A module of compiled functions, on the current device."""
        ...

    def launcher(self, module: Any, geometry: LaunchGeometry, parameters: int) -> Launcher:
        """A launcher of a function with this number of parameters, with this geometry, on the
        current device. Any number of threads may call the launcher at the same time."""
        ...

    def registers(self, module: Any, function: str) -> int:
        """The number of registers of a thread of a function on the current device."""
        ...

    def blocks_at_once(self, module: Any, geometry: LaunchGeometry) -> int:
        """The number of blocks of a launch that the current device runs at a time; asked once there
        is a launcher, where the driver `cooperates`."""
        ...

    def allocate(self, size: int) -> Any:
        """Memory on the current device: an object with an `address` that frees the memory when the
        object goes."""
        ...

    def copy_in(self, address: int, source: int, size: int, stream: int) -> None:
        """Copies from the processor's memory, which is read before this returns."""
        ...

    def copy_out(self, target: int, address: int, size: int, stream: int) -> None:
        """Copies to the processor's memory, after all before in the stream, and waits."""
        ...

    def fill(self, address: int, content: bytes, stream: int) -> None:
        """Has the device write these bytes, zeros or 1, 2, 4 or 8 of any value."""
        ...

    def order(self, stream: int, other: int) -> None:
        """Makes all later work of a stream wait for the work that is in the stream `other` now."""
        ...

    def wait(self, stream: int) -> None:
        """Returns when all in the stream has been done; raises what went wrong there."""
        ...


@dataclass(frozen=True, eq=False)
class OpenedDriver:
    """The driver that this process uses: CUDA's contexts do not live on in forked children.
    `version` is the newest CUDA whose programs it runs."""

    driver: CudaDriver
    process: int
    version: tuple[int, int]

    def check_process(self) -> None:
        check_not_forked(self.process, "CUDA", "CUDA's contexts")


def opened_driver() -> OpenedDriver:
    """The driver of this process. BackendError where there is none, or no GPU, or where this is a
    forked child of a process that has used it."""
    for opened in OPENED.made:
        opened.check_process()
    return OPENED()


def memsets(address: int, content: bytes) -> Iterator[tuple[int, int, int, int]]:
    """What `CudaDriver.fill` asks of a driver: the bytes of a word, the address, the value of each
    word, and how many words.

    >>> list(memsets(64, bytes(16))), list(memsets(64, bytes([1, 0, 0, 0, 2, 0, 0, 0])))
    ([(1, 64, 0, 16)], [(4, 64, 1, 1), (4, 68, 2, 1)])
    """
    if not any(content):
        yield 1, address, 0, len(content)
        return
    width = min(len(content), 4)
    for start in range(0, len(content), width):
        word = content[start : start + width]
        yield width, address + start, int.from_bytes(word, sys.byteorder), 1


def gpu_of(attribute: Callable[[str], int]) -> Gpu:
    """The GPU of attributes with the names of CUDA's driver, behind "CU_DEVICE_ATTRIBUTE_"."""

    def sizes(name: str) -> tuple[int, int, int]:
        return attribute(f"{name}_X"), attribute(f"{name}_Y"), attribute(f"{name}_Z")

    major, minor = (attribute(f"COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    processors = attribute("MULTIPROCESSOR_COUNT")
    cores = processors * (_CORES if (major, minor) > _FEW_CORES_UP_TO else _FEW_CORES)
    bytes_each = 2 * attribute("GLOBAL_MEMORY_BUS_WIDTH") / 8  # at both edges of the clock
    return Gpu(
        arch=f"sm_{major}{minor}",
        processors=processors,
        threads=attribute("MAX_THREADS_PER_BLOCK"),
        thread_limits=sizes("MAX_BLOCK_DIM"),
        grid_limits=sizes("MAX_GRID_DIM"),
        warp=attribute("WARP_SIZE"),
        shared=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        registers=attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        processor_threads=attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
        processor_blocks=attribute("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        processor_shared=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        cooperative=bool(attribute("COOPERATIVE_LAUNCH")),
        tensor_cores=major >= _MULTIPLIES_HALVES,
        gflops=2 * cores * attribute("CLOCK_RATE") / 1e6,
        gbytes=bytes_each * attribute("MEMORY_CLOCK_RATE") / 1e6,
    )


_MULTIPLIES_HALVES = 8
"""The compute capability since which mma.sync has the shape m16n8k16 (PTX ISA)."""

_FEW_CORES_UP_TO, _FEW_CORES, _CORES = (8, 0), 64, 128
"""How many float32 FMAs a multiprocessor starts in a cycle, by compute capability ("Throughput of
Native Arithmetic Instructions" in the CUDA C++ Programming Guide)."""


def _open() -> OpenedDriver:
    driver = _find()
    try:
        count, version = driver.count(), driver.version()
    except DriverError as error:
        if error.code == _NO_DEVICE:
            raise _no_gpu() from error
        raise BackendError(f"CUDA's driver cannot be used: {error}", repair=INSTALL) from error
    if not count:
        raise _no_gpu()
    return OpenedDriver(driver, os.getpid(), version)


def _no_gpu() -> BackendError:
    return BackendError("there is no GPU that CUDA can use", repair=INSTALL)


def _find() -> CudaDriver:
    missing = []
    for module, name in _DRIVERS:
        try:
            driver: CudaDriver = getattr(load(module), name)()
        except (ImportError, OSError) as error:
            missing.append(str(error))
        else:
            return driver
    raise BackendError(
        "neither PyCUDA nor cuda.core's cuda-bindings can be imported: " + "; ".join(missing),
        repair=INSTALL,
    )


_NO_DEVICE = "CUDA_ERROR_NO_DEVICE"

_DRIVERS = (
    ("tc.backends.pycuda_driver", "PyCudaDriver"),
    ("tc.backends.cuda_bindings_driver", "CudaBindingsDriver"),
)
"""In the order in which they are tried."""

OPENED = Lazy(_open)
