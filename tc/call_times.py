"""How long calls of a function take once it is compiled."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from tc.semantics.work import scaled

_SAMPLE_SECONDS = 1e-3
"""Seconds of one measurement: many times as long as a clock is wrong."""

_MIN_SAMPLES = 3


@dataclass(frozen=True, slots=True)
class CallTime:
    """The time of a call: `seconds` is the median, `fastest` the least of `measurements`, each of
    which is the mean over `calls` calls.

    >>> print(CallTime(12.3e-6, 11.9e-6, 41, 90))
    12.3 us a call: the median of 41 measurements of 90 calls each, the fastest 11.9 us
    """

    seconds: float
    fastest: float
    measurements: int
    calls: int

    def __float__(self) -> float:
        return self.seconds

    def __str__(self) -> str:
        each = "calls each" if self.calls > 1 else "one call"
        count = f"{self.calls} " if self.calls > 1 else ""
        return (
            f"{scaled(self.seconds)}s a call: the median of {self.measurements} measurements of "
            f"{count}{each}, the fastest {scaled(self.fastest)}s"
        )


def time_of(call: Callable[[], Any], seconds: float) -> CallTime:
    """The time of `call`, measured for `seconds` after a first call that may compile. A call ends
    when its results are there, on a device too."""
    wait_for(call())
    once = _mean(call, 1)
    calls = max(1, int(_SAMPLE_SECONDS / max(once, 1e-9)))
    measured: list[float] = []
    end = time.perf_counter() + seconds
    while len(measured) < _MIN_SAMPLES or time.perf_counter() < end:
        measured.append(_mean(call, calls))
    return CallTime(median(measured), min(measured), len(measured), calls)


def _mean(call: Callable[[], Any], calls: int) -> float:
    begin = time.perf_counter()
    for _ in range(calls - 1):
        call()
    wait_for(call())
    return (time.perf_counter() - begin) / calls


def wait_for(results: Any) -> None:
    """Until arrays on a device are computed."""
    for result in results if isinstance(results, tuple) else (results,):
        if hasattr(result, "block_until_ready"):  # jax
            result.block_until_ready()
        elif getattr(result, "is_cuda", False):  # torch
            sys.modules["torch"].cuda.synchronize(result.device)
        elif hasattr(result, "__cuda_array_interface__") and hasattr(result, "device"):  # cupy
            result.device.synchronize()
        elif hasattr(getattr(result, "queue", None), "finish"):  # pyopencl
            result.queue.finish()
