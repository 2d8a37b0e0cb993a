"""What tc needs of CUDA's driver: a protocol, and which library stands behind it.

PyCUDA is taken where it can be imported, cuda.core with cuda-bindings otherwise. Nothing of either
is imported before a GPU is asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from tc.backends.geometry import LaunchGeometry
from tc.errors import BackendError
from tc.gpu import Gpu
from tc.process.uninterrupted import Once, load

INSTALL = 'pip install "tensor-comprehensions[cuda]", or use backend="opencl" or "numba"'

Launcher: TypeAlias = Callable[[Sequence[int], int], None]
"""Puts one launch of a function in line: it takes its arguments, all pointers, and a stream."""


class DriverError(Exception):
    """What the driver reports: `code` is CUDA's name of the error, such as
    "CUDA_ERROR_OUT_OF_MEMORY", and `text` what it says of it."""

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

    def gpu(self, number: int) -> Gpu:
        """What a device has."""
        ...

    def title(self, number: int) -> str:
        """What its maker calls it."""
        ...

    def current(self) -> int | None:
        """The current device, None where no context is current."""
        ...

    def on(self, number: int) -> AbstractContextManager[None]:
        """Makes a device current, and afterwards the one that was, if any."""
        ...

    def load(self, cubin: bytes) -> Any:
        """A module of compiled functions, on the current device."""
        ...

    def launcher(self, module: Any, geometry: LaunchGeometry) -> Launcher:
        """What launches a function of a module with this geometry, on the current device."""
        ...

    def allocate(self, size: int) -> Any:
        """Memory on the current device: an object with `address`, which frees it when it goes."""
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
        """Makes what follows in a stream wait for what is in another one now."""
        ...

    def wait(self, stream: int) -> None:
        """Returns when all in the stream has been done; raises what went wrong there."""
        ...


@dataclass(frozen=True, eq=False)
class OpenedDriver:
    """The driver that this process uses: CUDA's contexts do not live on in forked children."""

    driver: CudaDriver
    process: int

    def check_process(self) -> None:
        if os.getpid() != self.process:
            raise BackendError(
                "this process was forked from one that has used CUDA, and CUDA's contexts are not "
                "in it",
                repair='multiprocessing.get_context("spawn"), or use backend="numba"',
            )


def opened_driver() -> OpenedDriver:
    """The driver of this process. BackendError where there is none, or no GPU, or where this is a
    forked child of a process that has used it."""
    for opened in OPENED.made:
        opened.check_process()
    return OPENED()


def cuda_driver() -> CudaDriver:
    """The same without what is known of its process."""
    return opened_driver().driver


def _open() -> OpenedDriver:
    driver = _find()
    try:
        count = driver.count()
    except DriverError as error:
        raise BackendError(f"there is no CUDA driver: {error}", repair=INSTALL) from error
    if not count:
        raise BackendError("there is no GPU that CUDA can use", repair=INSTALL)
    return OpenedDriver(driver, os.getpid())


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
        f"neither PyCUDA nor cuda.core can be imported: {'; '.join(missing)}", repair=INSTALL
    )


_DRIVERS = (
    ("tc.backends.pycuda_driver", "PyCudaDriver"),
    ("tc.backends.cuda_core_driver", "CudaCoreDriver"),
)
"""In the order in which they are tried."""

OPENED = Once(_open)
