"""The CUDA backend: kernels as CUDA C++. Texts are emitted anywhere; nothing runs them yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tc.backends import nvrtc
from tc.backends.base import KernelText
from tc.backends.clike.cuda_dialect import CUDA
from tc.backends.clike.printer import launches_of, print_kernel
from tc.backends.geometry import LaunchText
from tc.errors import BackendError
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.runtime.loaded import CompiledKernel

_LATER = "this version of tc emits CUDA C++, and does not run it"


@dataclass(frozen=True, slots=True)
class CudaText(LaunchText):
    """A kernel in CUDA C++."""

    def usage(self, arch: str = Gpu().arch) -> Mapping[str, nvrtc.Usage] | None:
        """The registers and spills of each function on an architecture, as NVRTC compiles it; None
        where NVRTC is not installed."""
        if not nvrtc.is_installed():
            return None
        return nvrtc.usage_in(nvrtc.compiler_log(self.source, arch))


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """Implements `Backend`; what it emits is described in `tc.backends.clike.printer`."""

    name: str = "cuda"
    checks_by_default: bool = False
    for_gpus: bool = True

    def usable(self) -> str | None:
        return _LATER

    def device(self) -> Gpu:
        return Gpu()

    def emit(self, kernel: Kernel, options: object | None = None) -> CudaText:  # noqa: ARG002
        source = print_kernel(kernel, CUDA)
        return CudaText(kernel, self.name, source, launches=launches_of(kernel, CUDA))

    def load(self, text: KernelText) -> CompiledKernel:  # noqa: ARG002
        raise BackendError(
            f"backend {self.name!r}: {_LATER}", repair='backend="opencl", or backend="numba"'
        )
