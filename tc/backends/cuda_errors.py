"""Errors of CUDA's driver as errors of tc, with the kernel, its launch and its options, the
meaning, and a repair; and errors of launches that a device has no room for, before the launch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

from tc.backends import nvrtc
from tc.backends.cuda_driver import DriverError, OpenedDriver
from tc.backends.geometry import LaunchGeometry
from tc.backends.printing import product_text
from tc.errors import BackendError
from tc.gpu import Gpu
from tc.kernel.ir import Kernel
from tc.options import GpuOptions, Options, fitting
from tc.runtime.arrays.device_array import DeviceLocation

_MEMORY = frozenset({"CUDA_ERROR_OUT_OF_MEMORY"})
_RESOURCES = frozenset(
    {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE"}
)
_CRASHED = frozenset(
    {
        "CUDA_ERROR_ASSERT",
        "CUDA_ERROR_ECC_UNCORRECTABLE",
        "CUDA_ERROR_HARDWARE_STACK_ERROR",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION",
        "CUDA_ERROR_INVALID_ADDRESS_SPACE",
        "CUDA_ERROR_INVALID_PC",
        "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_LAUNCH_TIMEOUT",
        "CUDA_ERROR_MISALIGNED_ADDRESS",
    }
)
_LOST = frozenset(
    {
        "CUDA_ERROR_CONTEXT_IS_DESTROYED",
        "CUDA_ERROR_DEINITIALIZED",
        "CUDA_ERROR_INVALID_CONTEXT",
        "CUDA_ERROR_NOT_INITIALIZED",
    }
)
_UNREADABLE = frozenset(
    {
        "CUDA_ERROR_INVALID_IMAGE",
        "CUDA_ERROR_INVALID_PTX",
        "CUDA_ERROR_INVALID_SOURCE",
        "CUDA_ERROR_NO_BINARY_FOR_GPU",
        "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
    }
)
_CAPTURE = "CUDA_ERROR_STREAM_CAPTURE_"
COOPERATE = (
    'pip uninstall pycuda; pip install "tensor-comprehensions[cuda]", or '
    "GpuOptions(single_kernel=False)"
)


@dataclass(frozen=True, slots=True)
class KernelOnDevice:
    """A kernel at a place, compiled with `options`, as errors describe it."""

    kernel: Kernel
    place: DeviceLocation
    opened: OpenedDriver
    options: Options

    @contextmanager
    def errors(self, launch: LaunchGeometry | None = None, registers: int = 0) -> Iterator[None]:
        """Raises errors of the driver as errors about this kernel, or about one launch of the
        kernel whose threads have `registers` each."""
        try:
            yield
        except DriverError as error:
            raise self.error(error, launch, registers) from error

    def error(
        self, error: DriverError, launch: LaunchGeometry | None = None, registers: int = 0
    ) -> BackendError:
        what, place = self._named(launch), self.place
        if error.code in _MEMORY:
            arrays = ", ".join(
                f"{b.name} of shape {b.shape} and dtype {b.dtype}" for b in self.kernel.arguments
            )
            cause = f"{what}: there is not enough memory on {place} for {arrays}: {error}"
            return BackendError(cause, repair="call it with smaller inputs")
        if error.code in _RESOURCES and launch is not None:
            of = f", with {registers} registers each" if registers else ""
            cause = f"{what} needs more than {place} has for {launch.threads} threads{of}: {error}"
            return BackendError(cause, repair=fewer_threads(launch, launch.threads // 2))
        if error.code in _CRASHED:
            return BackendError(
                f"{what}, or what ran before it on {place}, has crashed: {error}. The context of "
                f"{place} is lost with all that is in its memory: later calls in this process fail",
                repair="tc.compile(..., check=True) in a new process, which finds reads and "
                "divisions that are not allowed",
            )
        if error.code in _LOST:
            return BackendError(
                f"{what} cannot be run, as the context of {place} is gone, which was reset or "
                f"destroyed: {error}",
                repair="start a new process, and do not reset the device in it",
            )
        if error.code in _UNREADABLE:
            newest = ".".join(map(str, self.opened.version))
            return BackendError(
                f"{what}, compiled by NVRTC {nvrtc.version()}, cannot be loaded on {place}, whose "
                f"driver runs programs of CUDA {newest} and older: {error}",
                repair=NEWER_DRIVER,
            )
        if error.code.startswith(_CAPTURE):
            return BackendError(
                f"{what} cannot be run on {place} while its stream is captured to a graph: {error}",
                repair="call it once with such arrays before the capture",
            )
        return BackendError(
            f"{what} cannot be run on {place}: {error}", repair='use backend="numba"'
        )

    def check_limits(self, launch: LaunchGeometry, gpu: Gpu) -> None:
        """BackendError where the device lacks what a launch needs."""
        what, place = self._named(launch), self.place
        if launch.threads > gpu.threads or _has_larger(launch.block, gpu.thread_limits):
            fitting_ones = _sizes(launch.block, gpu.thread_limits, gpu.threads)
            raise BackendError(
                f"{what} has {launch.threads} threads in a block, and {place} has at most "
                f"{gpu.threads}, and {product_text(gpu.thread_limits)} along x, y and z",
                repair=f"GpuOptions(threads={fitting_ones})",
            )
        if _has_larger(launch.grid, gpu.grid_limits):
            raise BackendError(
                f"{what} has more blocks than {place}, which has at most "
                f"{product_text(gpu.grid_limits)} along x, y and z",
                repair=f"GpuOptions(blocks={_sizes(launch.grid, gpu.grid_limits)})",
            )
        if launch.shared > gpu.shared:
            raise BackendError(
                f"{what} has {launch.shared} bytes of shared memory, and {place} has at most "
                f"{gpu.shared}",
                repair="choose smaller tiles, or GpuOptions(shared=False)",
            )
        if launch.cooperative and not self.opened.driver.cooperates:
            raise BackendError(
                f"{what} is a cooperative launch, as its blocks wait for each other, and "
                f"{self.opened.driver.name} has none; cuda.core's cuda-bindings have",
                repair=COOPERATE,
            )
        if launch.cooperative and not gpu.cooperative:
            raise BackendError(
                f"{what} is a cooperative launch, as its blocks wait for each other, and {place} "
                "has none",
                repair="GpuOptions(single_kernel=False)",
            )

    def check_registers(self, launch: LaunchGeometry, registers: int, gpu: Gpu) -> None:
        """BackendError where the threads of a block have more registers than there are."""
        if launch.threads * registers > gpu.registers:
            raise BackendError(
                f"{self._named(launch)} needs {registers} registers for each of {launch.threads} "
                f"threads of a block, and {self.place} has {gpu.registers}",
                repair=fewer_threads(launch, gpu.registers // registers // gpu.warp * gpu.warp),
            )

    def check_at_once(self, launch: LaunchGeometry, most: int) -> None:
        """BackendError where blocks that wait for each other cannot run at the same time."""
        blocks = launch.blocks
        if blocks > most:
            raise BackendError(
                f"{self._named(launch)} has {blocks} blocks that wait for each other, and "
                f"{self.place} runs {most} of them at a time",
                repair=f"GpuOptions(blocks={_sizes(launch.grid, launch.grid, most)}), or "
                "GpuOptions(single_kernel=False)",
            )

    def _named(self, launch: LaunchGeometry | None) -> str:
        told = [*([str(launch)] if launch else []), _options_text(self.options)]
        return f"'{self.kernel.name}' ({'; '.join(told)})"


_ELSEWHERE = '; backend="opencl" or "numba" runs it, tc.emit shows the code'
OLDER_NVRTC = f"pip uninstall nvidia-cuda-nvrtc; pip install nvidia-cuda-nvrtc-cu12{_ELSEWHERE}"
NEWER_NVRTC = f"pip install --upgrade nvidia-cuda-nvrtc{_ELSEWHERE}"
NEWER_DRIVER = f"install a newer driver of NVIDIA's, or an older NVRTC: {OLDER_NVRTC}"


def fewer_threads(launch: LaunchGeometry, most: int) -> str:
    """A repair that sets threads whose product is at most `most`."""
    return f"GpuOptions(threads={_sizes(launch.block, launch.block, max(most, 1))})"


def _sizes(extents: tuple[int, ...], limits: tuple[int, ...], most: int = 2**62) -> str:
    """Sizes for an option, the outermost first, within limits along x, y and z and in all."""
    found = fitting(extents[::-1], limits, most)
    while len(found) > 1 and found[0] == 1:
        found = found[1:]
    return repr(found)


def _has_larger(extents: tuple[int, ...], limits: tuple[int, ...]) -> bool:
    return any(size > most for size, most in zip(extents, limits, strict=True))


def _options_text(options: Options) -> str:
    """The options for GPUs, without those that have their default.

    >>> _options_text(Options(gpu=GpuOptions(tile=[4, 32], shared=False)))
    'GpuOptions(tile=(4, 32), shared=False)'
    """
    default, given = GpuOptions(), options.gpu
    pairs = [(f.name, getattr(given, f.name), getattr(default, f.name)) for f in fields(given)]
    chosen = ", ".join(f"{name}={value!r}" for name, value, usual in pairs if value != usual)
    plan = ", with a plan" if options.plan is not None else ""
    return (f"GpuOptions({chosen})" if chosen else "default options") + plan
