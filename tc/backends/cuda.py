"""The CUDA backend: kernels as CUDA C++. Texts are emitted anywhere, and run on NVIDIA's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tc.backends import nvrtc
from tc.backends.base import KernelText
from tc.backends.clike.cuda_dialect import CUDA as CUDA_DIALECT
from tc.backends.clike.cuda_dialect import FLAGS
from tc.backends.clike.printer import functions_of, launches_of, print_kernel
from tc.backends.cuda_driver import cuda_driver, opened_driver
from tc.backends.cuda_kernel import CudaKernel, LaunchStep, driver_errors, steps_of
from tc.backends.geometry import LaunchText
from tc.backends.printing import values_of_fails
from tc.errors import BackendError
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.runtime import cache as disk
from tc.runtime.arrays.device_array import CUDA, Place


@dataclass(frozen=True, slots=True)
class CudaText(LaunchText):
    """A kernel in CUDA C++."""

    def usage(self, arch: str = Gpu().arch) -> Mapping[str, nvrtc.Usage] | None:
        """The registers and spills of each function on an architecture, as NVRTC compiles it; None
        where NVRTC is not installed."""
        if not nvrtc.is_installed():
            return None
        return nvrtc.usage_in(nvrtc.compiler_log(self.source, arch))


_FIRST = Place(CUDA)


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """Implements `Backend`; what it emits is described in `tc.backends.clike.printer`.

    Kernels are compiled by NVRTC and loaded at `place`, the device of a call's arrays; for arrays
    of the processor that is device 0.
    """

    name: str = "cuda"
    checks_by_default: bool = False
    kinds: frozenset[str] = frozenset({CUDA})
    place: Place = _FIRST

    def check(self) -> None:
        cuda_driver()
        nvrtc.version()

    def usable(self) -> str | None:
        try:
            self.check()
        except BackendError as error:
            return error.cause
        return None

    def at(self, place: Place) -> CudaBackend:
        return replace(self, place=place)

    def device(self) -> Gpu:
        try:
            return cuda_driver().gpu(self.place.number)
        except BackendError:  # texts need no device
            return Gpu()

    def emit(self, kernel: Kernel, options: object | None = None) -> CudaText:  # noqa: ARG002
        source = print_kernel(kernel, CUDA_DIALECT)
        return CudaText(kernel, self.name, source, launches=launches_of(kernel, CUDA_DIALECT))

    def load(self, text: KernelText) -> CudaKernel:
        opened, kernel, place = opened_driver(), text.kernel, self.place
        driver = opened.driver
        functions, launches = functions_of(kernel, CUDA_DIALECT), launches_of(kernel, CUDA_DIALECT)
        steps: tuple[LaunchStep, ...] = ()
        if functions:
            cubin = compile_text(text, driver.gpu(place.number).arch)
            with driver_errors(kernel, None), driver.on(place.number):
                module = driver.load(cubin)
                steps = steps_of(kernel, functions, launches, driver, module)
        values = values_of_fails(*kernel.regions)
        return CudaKernel(kernel, text.source, opened, place, steps, values)


def compile_text(text: KernelText, arch: str) -> bytes:
    """The cubin of a text, from the disk if it was compiled before; BackendError where NVRTC fails
    or is absent."""
    key = disk.digest("cubin", text.source, arch, nvrtc.version(), *FLAGS)
    cubin = disk.get(key)
    if cubin is None:
        cubin = nvrtc.compiled(text.source, arch).cubin
        disk.put(key, cubin)
    return cubin
