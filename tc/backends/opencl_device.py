"""The OpenCL device that kernels run on: found and opened once, for this process alone."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tc.errors import BackendError
from tc.gpu import Gpu
from tc.process.forks import check_not_forked
from tc.process.uninterrupted import Lazy, load
from tc.runtime.arrays.device_array import DeviceLocation

REPLICATED = "POCL_FULL_REPLICATION_THRESHOLD"
"""The environment variable with the largest block whose code PoCL repeats for each thread: by
default 2, and PoCL 3 makes loops that never end of some blocks of 2."""

INSTALL = 'pip install "tensor-comprehensions[opencl]", or use backend="numba"'


@dataclass(frozen=True, eq=False)
class OpenCLDevice:
    """A device with its context. `library` is pyopencl; `process` is the process that opened the
    device: forked children of that process have none of the threads of the driver."""

    library: Any
    device: Any
    context: Any
    process: int = field(default_factory=os.getpid)

    def __str__(self) -> str:
        return str(self.device.name).strip()

    def check_process(self) -> None:
        """BackendError in a forked child, in which a driver would wait for ever."""
        check_not_forked(self.process, "OpenCL", "the threads of OpenCL's driver")

    @property
    def shares_memory(self) -> bool:
        """Whether kernels may take the arrays of a caller where they are."""
        return bool(self.device.type & self.library.device_type.CPU)

    @property
    def has_doubles(self) -> bool:
        return bool(self.device.double_fp_config)

    @property
    def divides_exactly(self) -> bool:
        """Whether quotients and roots of floats can be rounded as in IEEE's arithmetic."""
        config = self.library.device_fp_config
        return bool(self.device.single_fp_config & config.CORRECTLY_ROUNDED_DIVIDE_SQRT)

    def limits(self) -> Gpu:
        """The device that all texts are made for, with this device's lower limits; blocks cannot
        wait for each other in OpenCL."""
        usual, device = Gpu(), self.device
        x, y, z = map(min, usual.thread_limits, device.max_work_item_sizes[:3])
        return replace(
            usual,
            threads=min(usual.threads, device.max_work_group_size),
            thread_limits=(x, y, z),
            shared=min(usual.shared, device.local_mem_size),
            cooperative=False,
            tensor_cores=False,
            wide_atomics=False,
        )


def opencl_device(place: DeviceLocation | None = None) -> OpenCLDevice:
    """The device of a caller's arrays, or that of this process: the first GPU, or the first device
    if there is none. BackendError where there is no device, or something on the way to it is
    absent."""
    device = _OPENED() if place is None else _device_at(place)
    device.check_process()
    return device


@lru_cache(maxsize=16)
def _device_at(place: DeviceLocation) -> OpenCLDevice:
    context = place.context
    return OpenCLDevice(_library(), context.devices[place.number], context)


def check_drivers() -> None:
    """BackendError where there is no driver of OpenCL, or this process cannot use it. Devices are
    not asked for: drivers start threads then, which forked children would lack."""
    for device in _OPENED.made:
        device.check_process()
    if not _platforms(_library()):
        raise BackendError("there is no OpenCL driver", repair=INSTALL)


def _open() -> OpenCLDevice:
    os.environ.setdefault(REPLICATED, "1")
    check_drivers()
    library = _library()
    platforms = _platforms(library)
    devices = [device for platform in platforms for device in _devices(library, platform)]
    if not devices:
        names = ", ".join(str(platform.name) for platform in platforms)
        raise BackendError(f"there is no OpenCL device (drivers: {names})", repair=INSTALL)
    gpus = [device for device in devices if device.type & library.device_type.GPU]
    chosen = (gpus or devices)[0]
    return OpenCLDevice(library, chosen, library.Context([chosen]))


def _library() -> Any:
    try:
        return load("pyopencl")
    except ImportError as error:
        raise BackendError(f"pyopencl cannot be imported: {error}", repair=INSTALL) from error


def _platforms(library: Any) -> list[Any]:
    try:
        return list(library.get_platforms())
    except library.Error:  # which means that there are none
        return []


def _devices(library: Any, platform: Any) -> list[Any]:
    try:
        return list(platform.get_devices())
    except library.Error:
        return []


_OPENED = Lazy(_open)
