"""What was measured of one program, and how libraries take turns in one process."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bench.cpu_report import fastest_of, ratio_of
from bench.timing import ONE_THREAD, Timer, seconds_of_timers

DENSE = " dense"
"""Ends the name of a peer whose result is copied where the library returns a permuted view."""
ALWAYS_DENSE = "jax"

REST, WARM = 0.15, 0.03
"""Seconds before each time is taken: a worker of OpenBLAS keeps a core busy for 100 ms after a
call, and the threads of the library that is timed come back within the calls."""
ONE_WARM = 0.002
"""Of one thread alone, whose time of the processor is taken, nobody keeps the core."""
TURN, NUMBERS = 0.004, 3
MOST_ROUNDS = 15
FAR_BEHIND, SLOW = 4.0, 0.1
"""A peer that takes so many times as long as another and so many seconds takes no turns: its time
is that of a second call."""


@dataclass(frozen=True)
class Record:
    """The times of one program by peer, in seconds: medians, and the least, which others on the
    machine change little. `beyond` counts elements of tc's results that are outside of their
    bounds; `notes` say why peers have no times."""

    suite: str
    name: str
    sizes: str
    seconds: Mapping[str, float]
    least: Mapping[str, float] = field(default_factory=dict)
    beyond: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Record:
        return cls(**values)

    def with_least(self) -> Record:
        """The record whose times are the least."""
        return replace(self, seconds=self.least)

    @property
    def right(self) -> bool:
        return self.beyond == 0 and "tc" in self.seconds

    @property
    def returned(self) -> dict[str, float]:
        """The times in which libraries may return views.

        >>> Record("", "", "", {"tc": 1.0, "numpy": 2.0, "numpy dense": 3.0}).returned
        {'tc': 1.0, 'numpy': 2.0}
        """
        return {name: s for name, s in self.seconds.items() if not name.endswith(DENSE)}

    @property
    def fastest(self) -> str:
        return fastest_of(self.returned)

    @property
    def ratio(self) -> float | None:
        """The fastest peer's time over tc's."""
        return ratio_of(self.returned)

    @property
    def dense_ratio(self) -> float | None:
        """The time of the fastest peer with a dense result over tc's, where copies were timed.

        >>> seconds = {"tc": 1.0, "numpy": 1.0, "numpy dense": 3.0, "jax": 2.0}
        >>> Record("", "", "", seconds).dense_ratio
        2.0
        """
        if not any(name.endswith(DENSE) for name in self.seconds):
            return None
        kept = ("tc", ALWAYS_DENSE)
        return ratio_of({n: s for n, s in self.seconds.items() if n.endswith(DENSE) or n in kept})


def one_thread() -> bool:
    """Whether this process and those that it starts were told to take one thread."""
    return ONE_THREAD.items() <= os.environ.items()


def clock() -> Callable[[], float]:
    """Of the processor for one thread, as other work on the machine changes that little."""
    return time.process_time if one_thread() else time.perf_counter


def timed(timers: Mapping[str, Timer], budget: float) -> tuple[dict[str, float], dict[str, float]]:
    """Median and least seconds of a call of each, in turns of about `budget` seconds together."""
    second = {}
    for name, timer in timers.items():
        timer(1)
        second[name] = timer(1)
    fastest = min(second.values())
    alone = {n for n, s in second.items() if s > SLOW and s > FAR_BEHIND * fastest and n != "tc"}
    turns = {name: timer for name, timer in timers.items() if name not in alone}
    rest, warm = (0.0, ONE_WARM) if one_thread() else (REST, WARM)
    each = sum(rest + warm + 2 * NUMBERS * max(second[name], TURN) for name in turns)
    rounds = max(3, min(MOST_ROUNDS, int(budget / each)))
    samples = seconds_of_timers(
        turns, budget=TURN * rounds, rounds=rounds, rest=rest, warm=warm, numbers=NUMBERS
    )
    samples |= {name: [second[name]] for name in alone}
    medians = {name: statistics.median(samples[name]) for name in timers}
    return medians, {name: min(samples[name]) for name in timers}
