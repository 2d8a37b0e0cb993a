"""What was measured of one program, and how libraries take turns in one process."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.cpu_report import fastest_of, ratio_of
from bench.timing import once, seconds_of_rounds

DENSE = " dense"
"""Ends the name of a peer whose result is copied where the library returns a permuted view."""
ALWAYS_DENSE = "jax"

REST, WARM = 0.15, 0.03
"""Seconds before each time is taken: a worker of OpenBLAS keeps a core busy for 100 ms after a
call, and the threads of the library that is timed come back within the calls."""
TURN = 0.004
MOST_ROUNDS = 15
FAR_BEHIND, SLOW = 4.0, 0.1
"""A peer that takes so many times as long as another and so many seconds takes no turns: its time
is that of a second call."""

Runs = Mapping[str, Callable[[], object]]


@dataclass(frozen=True)
class Record:
    """The times of one program by peer, in seconds. `beyond` counts elements of tc's results that
    are outside of their bounds; `notes` say why peers have no times."""

    suite: str
    name: str
    sizes: str
    seconds: Mapping[str, float]
    beyond: int = 0
    notes: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, values: Mapping[str, Any]) -> Record:
        return cls(**values)

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


def timed(runs: Runs, budget: float) -> dict[str, float]:
    """Median seconds of each run, in turns of about `budget` seconds together."""
    second = {}
    for name, run in runs.items():
        run()
        second[name] = once(run)
    least = min(second.values())
    alone = {n: s for n, s in second.items() if s > SLOW and s > FAR_BEHIND * least and n != "tc"}
    turns = {name: run for name, run in runs.items() if name not in alone}
    each = sum(REST + WARM + 2 * max(second[name], TURN) for name in turns)
    rounds = max(3, min(MOST_ROUNDS, int(budget / each)))
    samples = seconds_of_rounds(turns, budget=TURN * rounds, rounds=rounds, rest=REST, warm=WARM)
    return {n: alone[n] if n in alone else statistics.median(samples[n]) for n in runs}
