"""The OpenCL backend: kernels as OpenCL C, on any device that has a driver, processors too."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from tc.backends.base import KernelText
from tc.backends.call_memory import FailureRecord
from tc.backends.clike.opencl_dialect import EXACT_DIVISION, FLAGS, OPENCL
from tc.backends.clike.printer import functions_of, launches_of, print_kernel
from tc.backends.geometry import LaunchGeometry, LaunchText, MemorySpan
from tc.backends.opencl_device import OpenCLDevice, check_drivers, opencl_device
from tc.backends.opencl_kernel import OpenCLKernel
from tc.backends.printing import product_text
from tc.errors import BackendError
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.kernel.passes.exchanges import exchange_in_shared_memory
from tc.kernel.passes.warp_products import multiply_by_threads
from tc.options import Options, fitting
from tc.process.forks import step
from tc.runtime.arrays.device_array import OPENCL as OPENCL_PLACES
from tc.runtime.arrays.device_array import DeviceLocation
from tc.wording import last_lines

_ELSEWHERE = 'use backend="numba"'


@dataclass(frozen=True, slots=True)
class OpenCLBackend:
    """Implements `Backend`; what it emits is described in `tc.backends.clike.printer`.

    Kernels are built for the device of a call's arrays; for those of the processor tc opens one.
    """

    name: str = "opencl"
    checks_by_default: bool = False
    kinds: frozenset[str] = frozenset({OPENCL_PLACES})
    place: DeviceLocation | None = None

    def check(self) -> None:
        check_drivers()

    def at(self, place: DeviceLocation) -> OpenCLBackend:
        return replace(self, place=place)

    def usable(self) -> str | None:
        try:
            self.check()
        except BackendError as error:
            return error.cause
        return None

    def device(self) -> Gpu:
        try:
            return opencl_device(self.place).limits()
        except BackendError:  # texts need no device
            return Gpu(cooperative=False, tensor_cores=False, wide_atomics=False)

    def emit(
        self,
        kernel: Kernel,
        options: object | None = None,
        gpu: Gpu | None = None,  # noqa: ARG002
    ) -> LaunchText:
        if isinstance(options, Options) and options.gpu.tf32:
            raise BackendError(
                "tf32=True, but OpenCL C has no tensor cores",
                repair='GpuOptions(tf32=False), or backend="cuda"',
            )
        kernel = multiply_by_threads(exchange_in_shared_memory(kernel))
        source = print_kernel(kernel, OPENCL)
        return LaunchText(kernel, self.name, source, launches=launches_of(kernel, OPENCL))

    def load(self, text: KernelText) -> OpenCLKernel:
        device, kernel, place = opencl_device(self.place), text.kernel, self.place
        functions, launches = functions_of(kernel, OPENCL), launches_of(kernel, OPENCL)
        _check(device, text, launches)
        program = _build(device, text) if functions else None
        known = (functions, launches, FailureRecord.of(kernel))
        return OpenCLKernel(kernel, text.source, device, place, program, *known)


def _check(device: OpenCLDevice, text: KernelText, launches: tuple[LaunchGeometry, ...]) -> None:
    """BackendError where the device lacks what a kernel needs."""
    name, limits = text.kernel.name, device.device
    for buffer in text.kernel.arguments:
        if (size := MemorySpan.of(buffer).size) > limits.max_mem_alloc_size:
            raise BackendError(
                f"'{buffer.name}' of '{name}' has {size} bytes, and the OpenCL device {device} "
                f"takes at most {limits.max_mem_alloc_size} at once",
                repair=_ELSEWHERE,
            )
    if not device.has_doubles and re.search(r"\bdouble\b", text.source):
        raise BackendError(
            f"'{name}' computes with doubles, which the OpenCL device {device} does not have",
            repair=f"use float in the program, or {_ELSEWHERE}",
        )
    for launch in launches:
        sizes, most = launch.block, limits.max_work_item_sizes[:3]
        fewer = fitting(sizes[::-1], most, limits.max_work_group_size)
        if launch.threads > limits.max_work_group_size or any(map(int.__gt__, sizes, most)):
            raise BackendError(
                f"'{name}' has blocks of {product_text(sizes)} threads (x, y, z), and the OpenCL "
                f"device {device} has at most {limits.max_work_group_size}, and "
                f"{product_text(most)} along x, y and z",
                repair=f"tc.GpuOptions(threads={fewer!r})",
            )
        if launch.shared > limits.local_mem_size:
            raise BackendError(
                f"'{name}' has {launch.shared} bytes of shared memory, and the OpenCL device "
                f"{device} has at most {limits.local_mem_size}",
                repair="tc.GpuOptions(shared=False)",
            )


def _build(device: OpenCLDevice, text: KernelText) -> Any:
    """The program of a text."""
    library = device.library
    options = [*FLAGS, *((EXACT_DIVISION,) if device.divides_exactly else ())]
    with step():
        program = library.Program(device.context, text.source)
        try:
            return program.build(options, [device.device], cache_dir=False)
        except library.Error as error:
            log = program.get_build_info(device.device, library.program_build_info.LOG)
            raise BackendError(
                f"the OpenCL device {device} cannot build '{text.kernel.name}' "
                f"({' '.join(options)}):\n{last_lines(str(log or error))}",
                repair=_ELSEWHERE,
            ) from error
