"""The CUDA backend: kernels as CUDA C++. Texts are emitted anywhere, and run on NVIDIA's GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from tc.backends import nvrtc, sass
from tc.backends.base import KernelText
from tc.backends.call_memory import FailureRecord
from tc.backends.clike.cuda_dialect import CUDA as CUDA_DIALECT
from tc.backends.clike.cuda_dialect import FLAGS, cuda_for
from tc.backends.clike.printer import functions_of, launches_of, print_kernel
from tc.backends.cuda_driver import INSTALL, DriverError, opened_driver
from tc.backends.cuda_errors import NEWER_DRIVER, NEWER_NVRTC, OLDER_NVRTC, KernelOnDevice
from tc.backends.cuda_kernel import CudaKernel, LaunchStep, steps_of
from tc.backends.geometry import LaunchText
from tc.errors import BackendError
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.options import Options
from tc.runtime import cache as disk
from tc.runtime.arrays.device_array import CUDA, DeviceLocation


@dataclass(frozen=True, slots=True)
class CudaText(LaunchText):
    """A kernel in CUDA C++, with the options and the architecture that it was lowered for."""

    options: Options = field(default_factory=Options, kw_only=True, repr=False)
    arch: str = field(default=Gpu().arch, kw_only=True, repr=False)

    def usage(self, arch: str | None = None) -> Mapping[str, nvrtc.Usage] | None:
        """The registers and spills of each function on an architecture, by default its own, as
        NVRTC compiles it; None where NVRTC is not installed."""
        if not nvrtc.is_installed():
            return None
        return nvrtc.usage_in(nvrtc.compiler_log(self.source, arch or self.arch))

    def machine_code(self) -> str:
        """What each function needs, and its hottest loop by kinds of instructions; or which package
        is missing to say so."""
        if not nvrtc.is_installed():
            return "unknown: NVRTC is missing (pip install nvidia-cuda-nvrtc)"
        try:
            compiled = nvrtc.compiled(self.source, self.arch)
        except BackendError as error:
            return f"none: {error.cause}"
        code = sass.disassembled(compiled.cubin) if sass.is_installed() else {}
        lines = []
        for name, used in nvrtc.usage_in(compiled.log).items():
            spilled = f"{used.spills} bytes spilled, " if used.spills else ""
            stack = f"{used.stack} bytes of stack, " if used.stack else ""
            loop = sass.hottest(code[name]).told() if name in code else _NO_LOOPS
            lines.append(
                f"{name} for {self.arch}: {used.registers} registers, {spilled}{stack}{loop}"
            )
        return "\n".join(sorted(lines))


_NO_LOOPS = "loops unknown: nvdisasm is missing (pip install nvidia-cuda-nvdisasm)"
_FIRST = DeviceLocation(CUDA)


@dataclass(frozen=True, slots=True)
class CudaBackend:
    """Implements `Backend`; what it emits is described in `tc.backends.clike.printer`.

    Kernels are compiled by NVRTC and loaded at `place`, the device of a call's arrays; for arrays
    of the processor that is device 0.
    """

    name: str = "cuda"
    checks_by_default: bool = False
    kinds: frozenset[str] = frozenset({CUDA})
    place: DeviceLocation = _FIRST

    def check(self) -> None:
        major, minor = opened_driver().version
        compiler = nvrtc.version()
        if major < int(compiler.partition(".")[0]):
            raise BackendError(
                f"the driver runs programs of CUDA {major}.{minor} and older, and NVRTC {compiler} "
                "compiles for newer ones",
                repair=NEWER_DRIVER,
            )
        first, *others = (self.at(DeviceLocation(CUDA, number)) for number in range(_count()))
        gpu = first.device()
        try:
            first._check_architecture(gpu)
        except BackendError:
            if not any(each._is_known() for each in others):
                raise

    def _is_known(self) -> bool:
        try:
            self._check_architecture(self.device())
        except BackendError:
            return False
        return True

    def _check_architecture(self, gpu: Gpu) -> None:
        """BackendError where NVRTC compiles nothing for a GPU: it is older, or has left it out."""
        known = nvrtc.architectures()
        if gpu.arch not in known:
            raise BackendError(
                f"{self.place} is of architecture {gpu.arch}, and NVRTC {nvrtc.version()} compiles "
                f"for {', '.join(known)}",
                repair=OLDER_NVRTC if _number(gpu.arch) < _number(known[0]) else NEWER_NVRTC,
            )

    def usable(self) -> str | None:
        try:
            self.check()
        except BackendError as error:
            return error.cause
        return None

    def at(self, place: DeviceLocation) -> CudaBackend:
        return replace(self, place=place)

    def device(self) -> Gpu:
        try:
            driver = opened_driver().driver
        except BackendError:  # texts need no device
            return Gpu()
        try:
            return driver.gpu(self.place.number)
        except DriverError as error:
            raise BackendError(
                f"{self.place} cannot be used: {error}", repair='backend="opencl" or "numba"'
            ) from error

    def emit(
        self, kernel: Kernel, options: object | None = None, gpu: Gpu | None = None
    ) -> CudaText:
        gpu = gpu or Gpu()
        source, launches = print_kernel(kernel, cuda_for(gpu)), launches_of(kernel, CUDA_DIALECT)
        chosen = options if isinstance(options, Options) else Options()
        return CudaText(kernel, self.name, source, launches=launches, options=chosen, arch=gpu.arch)

    def load(self, text: KernelText) -> CudaKernel:
        options = text.options if isinstance(text, CudaText) else Options()
        kernel = text.kernel
        at = KernelOnDevice(kernel, self.place, opened_driver(), options)
        functions, launches = functions_of(kernel, CUDA_DIALECT), launches_of(kernel, CUDA_DIALECT)
        if not functions:
            return CudaKernel(text.source, at, (), FailureRecord.of(kernel), tuple)
        gpu = self.device()
        self._check_architecture(gpu)
        for launch in launches:
            at.check_limits(launch, gpu)

        def steps(source: str) -> tuple[LaunchStep, ...]:
            cubin = compile_text(replace(text, source=source), gpu.arch)
            return steps_of(at, functions, launches, gpu, cubin)

        def later() -> tuple[LaunchStep, ...]:
            return steps(print_kernel(kernel, cuda_for(gpu, aligned=False)))

        return CudaKernel(text.source, at, steps(text.source), FailureRecord.of(kernel), later)


def _count() -> int:
    """The number of CUDA devices, 1 at least; BackendError where the driver cannot be used."""
    try:
        return opened_driver().driver.count()
    except DriverError as error:
        raise BackendError(f"CUDA's driver cannot be used: {error}", repair=INSTALL) from error


def _number(arch: str) -> int:
    return int(arch.removeprefix("sm_"))


def compile_text(text: KernelText, arch: str) -> bytes:
    """The cubin of a text, from the disk if it was compiled before; BackendError where NVRTC fails
    or is absent."""
    key = disk.digest("cubin", text.source, arch, nvrtc.version(), *FLAGS)
    stored = disk.get(key)
    found = None if stored is None else disk.unpacked("cubin", stored)
    if found is not None and found[1].startswith(_ELF):
        return found[1]
    cubin = nvrtc.compiled(text.source, arch).cubin
    disk.put(key, disk.packed("cubin", {"arch": arch}, cubin))
    return cubin


_ELF = b"\x7fELF"
"""How cubins begin, which are ELF files."""
