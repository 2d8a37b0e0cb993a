"""How benchmarks measure: alternating rounds, medians, and the machine named beside the numbers."""

from __future__ import annotations

import os
import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TypeVar

T = TypeVar("T")


def machine() -> str:
    """The processor, cores and versions that a number was measured with."""
    name = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as info:
            name = next(
                line.split(":", 1)[1].strip() for line in info if line.startswith("model name")
            )
    except (OSError, StopIteration):
        pass
    versions = ", ".join(f"{p} {version(p)}" for p in ("numpy", "numba", "islpy"))
    return f"{name}, {os.cpu_count()} cores, Python {platform.python_version()}, {versions}"


def once(run: Callable[[], object]) -> float:
    """Seconds of one run."""
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


def medians(
    runs: Mapping[str, Callable[[], object]], *, budget: float = 0.5, rounds: int = 7
) -> dict[str, float]:
    """Median seconds of each run, of those of `seconds_of_rounds`."""
    samples = seconds_of_rounds(runs, budget=budget, rounds=rounds)
    return {name: statistics.median(values) for name, values in samples.items()}


def seconds_of_rounds(
    runs: Mapping[str, Callable[[], object]],
    *,
    budget: float = 0.5,
    rounds: int = 7,
    clock: Callable[[], float] = time.perf_counter,
    rest: float = 0.0,
    warm: float = 0.0,
) -> dict[str, list[float]]:
    """Seconds of each run by a clock, one number a round. Rounds alternate between the runs, so
    that a slow moment of the machine falls on all, and begin with another run each; each round
    repeats a run for about budget / rounds seconds. Before each number the machine rests for `rest`
    seconds and the run is called for `warm` seconds: threads of one library that wait for work keep
    the cores from the next library."""
    repeats = {}
    for name, run in runs.items():
        first = min(once(run), once(run))
        repeats[name] = max(1, min(10_000, int(budget / rounds / max(first, 1e-7))))
    samples: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds):
        for name, run in rotated(list(runs.items()), number):
            settle(run, rest, warm)
            count = repeats[name]
            begin = clock()
            for _ in range(count):
                run()
            samples[name].append((clock() - begin) / count)
    return samples


def rotated(values: Sequence[T], by: int) -> list[T]:
    """
    >>> rotated("abc", 4)
    ['b', 'c', 'a']
    """
    start = by % max(len(values), 1)
    return [*values[start:], *values[:start]]


def settle(run: Callable[[], object], rest: float, warm: float) -> None:
    """Sleeps for `rest` seconds, then calls the run for `warm` seconds, if at all."""
    if rest:
        time.sleep(rest)
    end = time.perf_counter() + warm
    while time.perf_counter() < end:
        run()


def milliseconds(seconds: float) -> str:
    """
    >>> milliseconds(0.0123456), milliseconds(1.2e-5), milliseconds(2.345)
    ('12.3 ms', '12 us', '2.35 s')
    """
    if seconds >= 0.9995:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"
