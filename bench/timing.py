"""How benchmarks measure: alternating rounds, medians, and the machine named beside the numbers."""

from __future__ import annotations

import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from typing import TypeVar

T = TypeVar("T")

Timer = Callable[[int], float]
"""Seconds of so many calls."""


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


ONE_THREAD = {
    **{f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL", "NUMBA")},
    "TC_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
"""What tells libraries to take one thread, in the environment of a process that imports them."""


def with_one_thread(module: str) -> None:
    """Starts the module again unless the libraries below it are told to take one thread."""
    if not ONE_THREAD.items() <= os.environ.items():
        command = [sys.executable, "-m", module, *sys.argv[1:]]
        os.execve(sys.executable, command, {**os.environ, **ONE_THREAD})


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
) -> dict[str, list[float]]:
    """Seconds of each run by a clock, one number a round. Rounds alternate between the runs, so
    that a slow moment of the machine falls on all; each round repeats a run for about
    budget / rounds seconds."""
    timers = {name: timer_of(run, clock) for name, run in runs.items()}
    return seconds_of_timers(timers, budget=budget, rounds=rounds)


def timer_of(run: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> Timer:
    def seconds(count: int) -> float:
        begin = clock()
        for _ in range(count):
            run()
        return clock() - begin

    return seconds


def seconds_of_timers(
    timers: Mapping[str, Timer],
    *,
    budget: float = 0.5,
    rounds: int = 7,
    rest: float = 0.0,
    warm: float = 0.0,
    numbers: int = 1,
) -> dict[str, list[float]]:
    """Like `seconds_of_rounds`, of timers, with another one first in each round, and as many
    numbers a round as are asked for. Before them the machine rests for `rest` seconds, and calls
    run for `warm` seconds: threads of one library that wait for work keep the cores from the
    next."""
    repeats = {}
    for name, timer in timers.items():
        first = min(timer(1), timer(1))
        repeats[name] = max(1, min(10_000, int(budget / rounds / max(first, 1e-7))))
    samples: dict[str, list[float]] = {name: [] for name in timers}
    for number in range(rounds):
        for name, timer in rotated(list(timers.items()), number):
            settle(timer, rest, warm)
            count = repeats[name]
            samples[name] += [timer(count) / count for _ in range(numbers)]
    return samples


def rotated(values: Sequence[T], by: int) -> list[T]:
    """
    >>> rotated("abc", 4)
    ['b', 'c', 'a']
    """
    start = by % max(len(values), 1)
    return [*values[start:], *values[:start]]


def settle(timer: Timer, rest: float, warm: float) -> None:
    """Sleeps for `rest` seconds, then calls for `warm` seconds, if at all."""
    if rest:
        time.sleep(rest)
    end = time.perf_counter() + warm
    while time.perf_counter() < end:
        timer(1)


def milliseconds(seconds: float) -> str:
    """
    >>> milliseconds(0.0123456), milliseconds(1.2e-5), milliseconds(2.345)
    ('12.3 ms', '12 us', '2.35 s')
    """
    if seconds >= 0.9995:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e6:.3g} us" if seconds < 1e-3 else f"{seconds * 1e3:.3g} ms"
