"""What the timings of drawn programs say: a table from the worst ratio, and means by family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tabulate import tabulate

from bench.broad_programs.peers import SUBJECTS
from bench.cpu_measure import Timing
from bench.cpu_report import geometric_mean, times_of
from bench.timing import milliseconds

FLOOR = 0.9
DEFAULT, TUNED = SUBJECTS


@dataclass(frozen=True)
class BroadRow:
    """A program at its sizes: the seconds of all that ran, and why others did not."""

    program: str
    family: str
    sizes: Mapping[str, int]
    seconds: Mapping[str, float]
    reasons: Mapping[str, str] = field(default_factory=dict)

    @property
    def fastest(self) -> str:
        """The fastest peer; nothing where none ran."""
        peers = {name: s for name, s in self.seconds.items() if name not in SUBJECTS}
        return min(peers, key=lambda name: peers[name], default="")

    def ratio(self, of: str, to: str) -> float | None:
        """How many times as fast `of` is; None where one of both did not run."""
        if of not in self.seconds or to not in self.seconds:
            return None
        return self.seconds[to] / self.seconds[of]

    @property
    def ratios(self) -> tuple[float | None, float | None, float | None]:
        """Of the default to the tuned plan, of each to the fastest peer.

        >>> BroadRow("p", "f", {}, {"tc": 2.0, "tuned": 1.0, "numba": 3.0, "torch": 4.0}).ratios
        (0.5, 1.5, 3.0)
        """
        fastest = self.fastest
        return (
            self.ratio(DEFAULT, TUNED),
            self.ratio(DEFAULT, fastest),
            self.ratio(TUNED, fastest),
        )


def row_of(record: Mapping[str, Any], *, least: bool = False) -> BroadRow:
    timings = {name: Timing(**timing) for name, timing in record["timings"].items()}
    return BroadRow(
        record["program"],
        record["family"],
        record["sizes"],
        times_of(timings, least),
        {name: timing.reason for name, timing in timings.items() if timing.reason},
    )


def shown(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}"


RATIOS = ("default / tuned", "default / fastest", "tuned / fastest")


def table(rows: Sequence[BroadRow], peers: Sequence[str]) -> str:
    """A line a program, the worst before all."""
    lines = [
        [
            row.program,
            " ".join(f"{name}{size}" for name, size in row.sizes.items()),
            *(milliseconds(row.seconds[p]) if p in row.seconds else "-" for p in peers),
            row.fastest,
            *map(shown, row.ratios),
        ]
        for row in sorted(rows, key=lambda row: row.ratios[1] or 0.0)
    ]
    headers = ["program", "sizes", *peers, "fastest", *RATIOS]
    return str(tabulate(lines, headers, "github", disable_numparse=True))


def means(rows: Sequence[BroadRow]) -> str:
    """Geometric means by family and over all; programs where the default is behind a peer."""
    families = dict.fromkeys(row.family for row in rows)
    lines = [means_of(family, [row for row in rows if row.family == family]) for family in families]
    lines.append(means_of("all", rows))
    headers = ["family", "programs", *RATIOS, f"below {FLOOR}"]
    return str(tabulate(lines, headers, "github", disable_numparse=True))


def means_of(name: str, rows: Sequence[BroadRow]) -> list[str]:
    columns = [[row.ratios[i] for row in rows if row.ratios[i] is not None] for i in range(3)]
    below = sum(ratio < FLOOR for ratio in columns[1] if ratio is not None)
    cells = [shown(geometric_mean([v for v in c if v])) if c else "-" for c in columns]
    return [name, str(len(rows)), *cells, str(below)]


def failures(rows: Sequence[BroadRow]) -> str:
    """What has no time, with the reason."""
    return "\n".join(
        f"- {row.program}: {name}: {reason}" for row in rows for name, reason in row.reasons.items()
    )


def report(heading: str, rows: Sequence[BroadRow], peers: Sequence[str]) -> str:
    """Markdown."""
    explained = (
        "Of two named `a / b` a ratio is the speed of a over that of b: above 1, a is faster. "
        "`default` is tc as it chooses, `tuned` after a search, `fastest` the fastest peer."
    )
    parts = [heading, explained, means(rows), table(rows, peers), failures(rows)]
    return "\n\n".join(part for part in parts if part) + "\n"
