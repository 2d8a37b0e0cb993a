"""What the GPU can do at most: FMA peak by a kernel that has nothing but registers, bandwidth by a
copy, and for halves the rate of a product of the library's."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.cpu_kernels.kernel import Kernel
from bench.cpu_limits import Limits
from bench.gpu_device import GpuDevice
from bench.peers.peer import Run
from tc.backends import nvrtc
from tc.backends.cuda_driver import opened_driver
from tc.backends.geometry import LaunchGeometry

ACCUMULATORS = 16
STEPS = 4096
THREADS = 256
BLOCKS = 8
"""Of a multiprocessor: as many threads as one takes."""
COPIED = 2**30
"""Bytes, far more than the caches hold."""
SIDE = 8192
"""Of the matrices of halves."""
TRIES = 10

_SUMS = [f"a{number}" for number in range(ACCUMULATORS)]
_NEWLINE = "\n"
FMA_TEXT = f"""
extern "C" __global__ void __launch_bounds__({THREADS}) fma_rate(float* out) {{
  float x = out[0], y = out[1];
{_NEWLINE.join(f"  float {a} = x + {n};" for n, a in enumerate(_SUMS))}
  for (int k = 0; k < {STEPS}; ++k) {{
{_NEWLINE.join(f"    {a} = fmaf({a}, x, y);" for a in _SUMS)}
  }}
  float sum = {" + ".join(_SUMS)};
  if (sum == 12345.0f) out[2] = sum;
}}
"""
"""The store keeps the sums from being left out; it never happens."""


@dataclass(frozen=True)
class GpuLimits:
    """FLOP/s in float32 and with halves, and bytes per second, both read and written.

    >>> from bench.cpu_kernels.contractions import half_product, tmm
    >>> limits = GpuLimits(flops=2e9, half_flops=8e9, copy=1e9)
    >>> limits.seconds(tmm(1000, 1000, 1000)), limits.seconds(half_product(1000, 1000, 1000))
    (1.0, 0.25)
    """

    flops: float
    half_flops: float
    copy: float

    def seconds(self, kernel: Kernel) -> float:
        """The least time of a kernel."""
        flops = self.half_flops if kernel.dtype == np.float16 else self.flops
        limits = Limits(flops, (1,), (self.copy,), (self.copy,))
        return limits.seconds(
            flops=kernel.flops, read=kernel.bytes_read, written=kernel.bytes_written
        )


def fma_run(device: GpuDevice) -> tuple[Run, int]:
    """A run of the kernel, by the driver that tc uses, and its floating-point operations."""
    driver = opened_driver().driver
    gpu = driver.gpu(0)
    blocks = BLOCKS * gpu.processors
    geometry = LaunchGeometry("fma_rate", (blocks, 1, 1), (THREADS, 1, 1))
    out = device.tensor(np.float32([0.5, 0.25, 0.0]))
    cubin = nvrtc.compiled(FMA_TEXT, gpu.arch).cubin
    with driver.on(0):
        launch = driver.launcher(driver.load(cubin), geometry, 1)

    def run() -> None:
        launch([out.data_ptr()], device.stream)

    return run, 2 * ACCUMULATORS * STEPS * THREADS * blocks


def least_seconds(device: GpuDevice, run: Run) -> float:
    run()
    return min(device.seconds(run) for _ in range(TRIES))


def copy_rate(device: GpuDevice, size: int = COPIED) -> float:
    kind = device.torch.int8
    source, target = device.empty(size, kind).zero_(), device.empty(size, kind)
    return 2 * size / least_seconds(device, lambda: target.copy_(source))


def half_rate(device: GpuDevice, side: int = SIDE) -> float:
    rng = np.random.default_rng(0)
    a, b = (device.tensor(rng.random((side, side), np.float32)).half() - 0.5 for _ in range(2))
    return float(2 * side**3 / least_seconds(device, lambda: a @ b))


def measure(device: GpuDevice) -> GpuLimits:
    run, flops = fma_run(device)
    return GpuLimits(flops / least_seconds(device, run), half_rate(device), copy_rate(device))
