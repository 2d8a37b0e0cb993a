"""What the timings say: ratios, fractions of the limits, and the tables that are printed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from tabulate import tabulate

from bench.cpu_kernels.kernel import Kernel
from bench.cpu_kernels.table import group_of
from bench.cpu_limits import Limits, interpolate
from bench.cpu_measure import Timing
from bench.peers.catalogue import SUBJECT
from bench.timing import milliseconds

GOAL = 1.3
FLOOR = 0.95
PADDED = 1.1
Run = Mapping[str, Timing]
"""The timings of one kernel in one run, by peer."""


@dataclass(frozen=True)
class Row:
    """A kernel over all runs: seconds are medians over them, `least` is the least time that the
    machine allows."""

    kernel: Kernel
    seconds: Mapping[str, float]
    least: float
    reasons: Mapping[str, str]
    forms: Mapping[str, str]

    @property
    def subject(self) -> float | None:
        return self.seconds.get(SUBJECT)

    @property
    def ratio(self) -> float | None:
        """The fastest peer's time over tc's: of the times that stand beside it."""
        return ratio_of(self.seconds)

    @property
    def fastest(self) -> str:
        """The fastest peer's name, or nothing where no peer ran."""
        return fastest_of(self.seconds)


def others(seconds: Mapping[str, float]) -> dict[str, float]:
    """
    >>> others({"numpy": 2.0, "tc": 1.0, "tc-c": 1.5})
    {'numpy': 2.0}
    """
    return {name: s for name, s in seconds.items() if not name.startswith(SUBJECT)}


def fastest_of(seconds: Mapping[str, float]) -> str:
    """
    >>> fastest_of({"numpy": 2.0, "jax": 1.5, "tc": 1.0})
    'jax'
    """
    peers = others(seconds)
    return min(peers, key=lambda name: peers[name], default="")


def ratio_of(seconds: Mapping[str, float]) -> float | None:
    """
    >>> ratio_of({"numpy": 3.0, "jax": 1.5, "tc": 1.0}), ratio_of({"numpy": 3.0})
    (1.5, None)
    """
    fastest = fastest_of(seconds)
    if not fastest or SUBJECT not in seconds:
        return None
    return seconds[fastest] / seconds[SUBJECT]


def geometric_mean(values: Sequence[float]) -> float:
    """
    >>> geometric_mean([2.0, 8.0])
    4.0
    """
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def times_of(run: Run, least: bool) -> dict[str, float]:
    """
    >>> times_of({"numpy": Timing(2.0, low=1.5), "jax": Timing(reason="absent")}, False)
    {'numpy': 2.0}
    """
    times = {name: t.low if least else t.seconds for name, t in run.items() if not t.reason}
    return {name: time for name, time in times.items() if time is not None}


def row_of(kernel: Kernel, runs: Sequence[Run], limits: Limits, *, least: bool = False) -> Row:
    """With `least`, from the least times instead of the medians of rounds."""
    per_run = [times_of(run, least) for run in runs]
    names = {name: None for run in runs for name in run}
    seconds = {
        name: statistics.median([run[name] for run in per_run if name in run])
        for name in names
        if any(name in run for run in per_run)
    }
    allowed = limits.seconds(
        flops=kernel.flops, read=kernel.bytes_read, written=kernel.bytes_written
    )
    return Row(
        kernel,
        seconds,
        allowed,
        {n: t.reason for run in runs for n, t in run.items() if t.reason},
        {n: t.form for n, t in runs[-1].items() if t.form},
    )


def cells(row: Row, peers: Sequence[str]) -> list[str]:
    """A table's line: tc, its rates, the fastest peer, then the time of each."""
    kernel, own = row.kernel, row.subject
    moved = kernel.bytes_read + kernel.bytes_written
    rates = ["-"] * 4
    if own is not None:
        rates = [
            milliseconds(own),
            f"{kernel.flops / own / 1e9:.3g}" if kernel.flops else "-",
            f"{moved / own / 1e9:.3g}",
            f"{100 * row.least / own:.0f} %",
        ]
    ratio = "-" if row.ratio is None else f"{row.ratio:.2f}"
    best = row.fastest
    part = f"{100 * row.least / row.seconds[best]:.0f} %" if best else "-"
    times = [milliseconds(row.seconds[p]) if p in row.seconds else "-" for p in peers]
    return [kernel.name, *rates, ratio, best or "-", part, *times]


def table(rows: Sequence[Row], peers: Sequence[str], form: str = "simple") -> str:
    shown = [name for name in peers if name != SUBJECT]
    headers = ["kernel", SUBJECT, "GFLOP/s", "GB/s", "of limit", "ratio", "fastest", "of limit"]
    lines = [cells(row, shown) for row in rows]
    return str(tabulate(lines, [*headers, *shown], tablefmt=form, disable_numparse=True))


def summary(rows: Sequence[Row]) -> str:
    """The mean over the whole table; then what is asked of the listed kernels and what was reached,
    primes and extras apart."""
    every = {row.kernel.name: row.ratio for row in rows if row.ratio is not None}
    lines = []
    if every:
        worst = min(every, key=lambda name: every[name])
        lines.append(
            f"all: geometric mean {geometric_mean(list(every.values())):.3f} over {len(every)} "
            f"kernels, least {every[worst]:.2f} ({worst})"
        )
    for group in dict.fromkeys(group_of(row.kernel) for row in rows):
        members = [row for row in rows if group_of(row.kernel) == group]
        ratios = {row.kernel.name: row.ratio for row in members if row.ratio is not None}
        missing = [row.kernel.name for row in members if row.ratio is None]
        if ratios:
            worst = min(ratios, key=lambda name: ratios[name])
            asked = f" (asked: {GOAL}, none under {FLOOR})" if group == "listed" else ""
            lines.append(
                f"{group}: geometric mean {geometric_mean(list(ratios.values())):.3f} "
                f"over {len(ratios)} kernels, least {ratios[worst]:.2f} ({worst}){asked}"
            )
            most = [row.seconds[row.fastest] / row.least for row in members if row.fastest]
            lines.append(f"  at the machine's limits it would be {geometric_mean(most):.2f}")
            under = [f"{name} {r:.2f}" for name, r in ratios.items() if r < FLOOR]
            lines += [f"  under {FLOOR}: {', '.join(under)}"] if under else []
        lines += [f"  no ratio: {', '.join(missing)}"] if missing else []
    return "\n".join([*lines, *padding(rows)])


def padding(rows: Sequence[Row]) -> list[str]:
    """How much longer tc takes per output with padding, where both convolutions were measured."""
    per_output = {
        row.kernel.family: row.subject / row.kernel.bytes_written
        for row in rows
        if row.subject is not None and group_of(row.kernel) == "listed"
    }
    if not {"conv2d", "conv2d_pad"} <= set(per_output):
        return []
    more = per_output["conv2d_pad"] / per_output["conv2d"]
    return [f"conv2d with padding: {more:.2f} of the time per output (asked: {PADDED} at most)"]


def limits_text(limits: Limits) -> str:
    sizes = (2**16, 2**20, 2**23, 2**26, 2**28)
    parts = [
        f"{size / 2**20:.3g} MB {interpolate(limits.sizes, limits.read, size) / 1e9:.0f} / "
        f"{interpolate(limits.sizes, limits.copy, size) / 1e9:.0f}"
        for size in sizes
    ]
    return (
        f"limits: FMA peak {limits.flops / 1e9:.0f} GFLOP/s; "
        f"bandwidth read / copied, GB/s: {', '.join(parts)}"
    )


def failures_text(rows: Sequence[Row]) -> str:
    return "\n".join(
        f"- {row.kernel.name}: {name}: {reason}"
        for row in rows
        for name, reason in row.reasons.items()
    )


def as_json(rows: Sequence[Row], runs: Mapping[str, Sequence[Run]]) -> list[dict[str, Any]]:
    return [
        {
            "kernel": row.kernel.name,
            "group": group_of(row.kernel),
            "text": row.kernel.text,
            "flops": row.kernel.flops,
            "bytes_read": row.kernel.bytes_read,
            "bytes_written": row.kernel.bytes_written,
            "least_seconds": row.least,
            "seconds": dict(row.seconds),
            "fastest": row.fastest,
            "ratio": row.ratio,
            "runs": [{n: summarised(t) for n, t in of.items()} for of in runs[row.kernel.name]],
        }
        for row in rows
    ]


def summarised(timing: Timing) -> dict[str, Any]:
    """All but the single rounds."""
    values = asdict(timing)
    del values["rounds"]
    return values
