"""A GPU for the harness, through torch: arrays, clock, name and architecture."""

from __future__ import annotations

import ctypes
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.peers.peer import Run

FLUSHED = 2**28
"""Bytes written before each launch that is timed by events: more than the caches hold. Meanwhile
the processor puts the launch in line, so that it never waits for that."""

LEAST_RUNS = 10


class NoGpu(Exception):
    """There is none; the text says how that was found."""


def count_gpus() -> int:
    """The number of GPUs that CUDA's driver sees; NoGpu for none. No context is made."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise NoGpu(f"no driver of CUDA: {error}") from error
    status = driver.cuInit(0)
    if status:
        raise NoGpu(f"CUDA's driver does not start: error {status}")
    count = ctypes.c_int()
    driver.cuDeviceGetCount(ctypes.byref(count))
    if not count.value:
        raise NoGpu("CUDA's driver sees no GPU")
    return count.value


@dataclass(frozen=True)
class Timed:
    """Percentiles of the seconds of `runs` runs. `late` says that the GPU had to wait for the
    processor, so that the seconds have the time of the processor in them.

    >>> Timed.of([3.0, 1.0, 2.0, 5.0, 4.0])
    Timed(runs=5, p0=1.0, p50=3.0, p90=4.6, late=False)
    """

    runs: int
    p0: float
    p50: float
    p90: float
    late: bool = False

    @classmethod
    def of(cls, seconds: Sequence[float], *, late: bool = False) -> Timed:
        p0, p50, p90 = (float(p) for p in np.percentile(seconds, (0, 50, 90)))
        return cls(len(seconds), p0, p50, p90, late)


class GpuDevice:
    """`where` and `cuda` take the place of a GPU in tests."""

    def __init__(
        self, torch: Any, where: str = "cuda", cuda: Any = None, flushed: int = FLUSHED
    ) -> None:
        self.torch = torch
        self._where = where
        self._cuda = torch.cuda if cuda is None else cuda
        self._flushed = torch.empty(flushed, dtype=torch.int8, device=where)
        torch.set_grad_enabled(False)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False

    def tensor(self, value: Any) -> Any:
        """An array on the device; numbers stay what they are."""
        if isinstance(value, float):
            return value
        return self.torch.from_numpy(value).to(self._where)

    def empty(self, count: int, dtype: Any) -> Any:
        return self.torch.empty(count, dtype=dtype, device=self._where)

    def poison(self, tensors: Sequence[Any]) -> None:
        """Leaves NaN in memory that the next arrays like these get: an output that nobody writes
        does not show an earlier result."""
        for tensor in tensors:
            self.torch.full_like(tensor, float("nan"))

    def wait(self) -> None:
        """Raises what went wrong on the device."""
        self._cuda.synchronize()

    @property
    def stream(self) -> int:
        return int(self._cuda.current_stream().cuda_stream)

    def seconds(self, run: Run) -> float:
        """Of one run, by events."""
        first, last = self._events()
        first.record()
        run()
        last.record()
        self.wait()
        return float(first.elapsed_time(last)) / 1e3

    def by_events(self, run: Run, runs: int, longest: float) -> Timed:
        """Seconds that the device takes, the caches flushed before each run; of as many runs as
        take `longest` seconds, if these are fewer."""
        run()
        period = self.seconds(lambda: self._run_flushed(run))
        pairs = [self._events() for _ in range(_count(runs, longest, period))]
        for first, last in pairs:
            self._flushed.zero_()
            first.record()
            run()
            last.record()
        queued = time.perf_counter()
        self.wait()
        # a processor that is faster ends with many runs still in line
        late = time.perf_counter() - queued < period
        return Timed.of([first.elapsed_time(last) / 1e3 for first, last in pairs], late=late)

    def by_clock(self, run: Run, runs: int, longest: float) -> Timed:
        """Seconds from a call until its results are there, the caches as the last call left
        them; of as many runs as above."""
        count = _count(runs, longest, self._call(run))
        return Timed.of([self._call(run) for _ in range(count)])

    def _call(self, run: Run) -> float:
        self.wait()
        begin = time.perf_counter()
        run()
        self.wait()
        return time.perf_counter() - begin

    def _run_flushed(self, run: Run) -> None:
        self._flushed.zero_()
        run()

    def _events(self) -> tuple[Any, Any]:
        event: Callable[..., Any] = self._cuda.Event
        return event(enable_timing=True), event(enable_timing=True)

    def describe(self) -> dict[str, Any]:
        properties = self._cuda.get_device_properties(0)
        return {
            "gpu": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "processors": properties.multi_processor_count,
            "gpu_memory_gb": round(properties.total_memory / 2**30),
            "l2_mb": round(getattr(properties, "L2_cache_size", 0) / 2**20),
            "driver": asked_of_smi("driver_version"),
            "most_clock": asked_of_smi("clocks.max.sm"),
            "power_limit": asked_of_smi("power.limit"),
            "cuda": self.torch.version.cuda or "none",
        }


def _count(runs: int, longest: float, period: float) -> int:
    """
    >>> _count(1000, 2.0, 1e-3), _count(1000, 2.0, 1e-2), _count(1000, 2.0, 5.0), _count(3, 2.0, 1)
    (1000, 200, 10, 3)
    """
    return min(runs, max(LEAST_RUNS, int(longest / max(period, 1e-7))))


def asked_of_smi(field: str) -> str:
    """What nvidia-smi says of the first GPU."""
    try:
        done = subprocess.run(
            ["nvidia-smi", f"--query-gpu={field}", "--format=csv,noheader", "--id=0"],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    except (OSError, subprocess.TimeoutExpired):
        return "unknown"
    return done.stdout.strip() or "unknown"
