"""This tree's tc against that of another commit: `python -m bench.cpu --against COMMIT`.

Each has a process of its own, which imports its own tc and the benchmark as it is now; the
processes take turns, one is stopped while the other runs, and the order changes from round to
round. What counts is the quotient of the two times of one round: a slow moment of the machine falls
on both.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path

from tabulate import tabulate

from bench.cpu_kernels.kernel import Kernel
from bench.cpu_kernels.table import GROUPS, group_of
from bench.cpu_measure import CALL_LIMIT, Settings, Timing, measure
from bench.cpu_report import geometric_mean
from bench.peers.process import ROOT, PeerError, PeerProcess
from bench.timing import milliseconds

NOW, BEFORE = "now", "before"
GOAL, FLOOR = 0.98, 0.93
"""Asked of the geometric mean, and of each kernel."""

HEADERS = ("kernel", NOW, BEFORE, "ratio", "quartiles", "of each run")


def commit_of(name: str) -> str:
    """The whole hash of a commit of this repository; ValueError where there is none."""
    done = _git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip()
        raise ValueError(f"no commit {name!r} in {ROOT}{said and ': '}{said}")
    return done.stdout.decode().strip()


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=False)
    except OSError as error:
        return subprocess.CompletedProcess(arguments, 1, b"", str(error).encode())


def trees(commit: str, folder: Path) -> dict[str, Path]:
    """Two folders with a `tc` each: the files of this tree as they are, and those of a commit. The
    benchmark and the programs are this tree's in both."""
    roots = {name: folder / name for name in (NOW, BEFORE)}
    for root in roots.values():
        root.mkdir()
        for shared in ("bench", "tests"):
            os.symlink(ROOT / shared, root / shared)
    shutil.copytree(ROOT / "tc", roots[NOW] / "tc", ignore=shutil.ignore_patterns("__pycache__"))
    done = _git("archive", "--format=tar", commit, "tc")
    if done.returncode != 0:
        raise ValueError(f"commit {commit}: {done.stderr.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=BytesIO(done.stdout)) as archive:
        archive.extractall(roots[BEFORE], filter="data")
    return roots


def processes(roots: Mapping[str, Path], peer: str, settings: Settings) -> list[PeerProcess]:
    """One for each tree, with a directory of its own for kernels on disk. Plain code that stands in
    for a fault of tc would be timed in its place, so that faults are errors."""
    return [
        PeerProcess(
            name,
            settings.threads,
            settings.niceness,
            peer=peer,
            root=root,
            settings={"TC_CACHE_DIR": str(root / "kernels"), "TC_STRICT": "1"},
        )
        for name, root in roots.items()
    ]


def check_origins(both: Sequence[PeerProcess], roots: Mapping[str, Path]) -> None:
    """PeerError unless each process has imported the tc of its own tree."""
    for process in both:
        try:
            process.ask("drop", CALL_LIMIT)
        except PeerError as error:
            raise PeerError(f"'{process.name}' does not start: {error.reason}") from None
        if not Path(process.imported).is_relative_to(roots[process.name]):
            raise PeerError(f"'{process.name}' has imported {process.imported}")


@dataclass
class Row:
    """One kernel, and the timings of both trees in each run."""

    kernel: Kernel
    runs: list[Mapping[str, Timing]] = field(default_factory=list)

    @property
    def reasons(self) -> list[str]:
        """Why there are no times."""
        return [f"{n}: {t.reason}" for run in self.runs for n, t in run.items() if t.reason]

    @property
    def ratios(self) -> list[list[float]]:
        """How many times as fast as before it is now, round by round of each run."""
        return [
            [before / now for now, before in zip(run[NOW].rounds, run[BEFORE].rounds, strict=False)]
            for run in self.runs
        ]

    @property
    def ratio(self) -> float | None:
        """The median over all rounds; None where one of both has failed in any run."""
        ratios = [ratio for run in self.ratios for ratio in run]
        return statistics.median(ratios) if ratios and not self.reasons else None

    def cells(self) -> list[str]:
        if self.ratio is None:
            return [self.kernel.name, *("-" for _ in HEADERS[1:])]
        rounds = {n: [s for run in self.runs for s in run[n].rounds] for n in (NOW, BEFORE)}
        times = [milliseconds(statistics.median(rounds[name])) for name in (NOW, BEFORE)]
        first, third = quartiles([ratio for run in self.ratios for ratio in run])
        each = ", ".join(f"{statistics.median(run):.3f}" for run in self.ratios)
        spread = f"{first:.3f} to {third:.3f}"
        return [self.kernel.name, *times, f"{self.ratio:.3f}", spread, each]


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third.

    >>> quartiles([1.0, 2.0, 3.0, 4.0, 5.0]), quartiles([1.0])
    ((2.0, 4.0), (1.0, 1.0))
    """
    if len(values) == 1:
        return values[0], values[0]
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def measured(
    commit: str, kernels: Sequence[Kernel], peer: str, settings: Settings, runs: int
) -> list[Row]:
    """All kernels, with fresh processes in each run. ValueError for no commit; PeerError where a
    process does not start."""
    rows = {kernel.name: Row(kernel) for kernel in kernels}
    with tempfile.TemporaryDirectory(prefix="tc-against-") as name:
        folder = Path(name)
        roots = trees(commit, folder)
        for _ in range(runs):
            both = processes(roots, peer, settings)
            try:
                check_origins(both, roots)
                for kernel in kernels:
                    rows[kernel.name].runs.append(measure(kernel, both, settings, folder))
                    print(", ".join(rows[kernel.name].cells()), flush=True)
            finally:
                for process in both:
                    process.end()
    return list(rows.values())


def summary(rows: Sequence[Row]) -> str:
    """The means, of all and of each group, and the kernels that are slower than they were."""
    ratios = {row.kernel.name: row.ratio for row in rows if row.ratio is not None}
    groups = {name: [row for row in rows if group_of(row.kernel) == name] for name in GROUPS}
    lines = []
    for name, members in {"all": rows, **groups}.items():
        values = [row.ratio for row in members if row.ratio is not None]
        if values:
            asked = f" (asked: {GOAL} at least)" if name == "all" else ""
            mean = f"{geometric_mean(values):.3f} over {len(values)} kernels"
            lines.append(f"{name}: geometric mean {mean}, least {min(values):.3f}{asked}")
    under = [f"{name} {ratio:.3f}" for name, ratio in ratios.items() if ratio < FLOOR]
    lines.append(f"under {FLOOR}: {', '.join(under) or 'none'}")
    lines += [f"- {row.kernel.name}: {reason}" for row in rows for reason in row.reasons]
    return "\n".join(lines)


def report(rows: Sequence[Row], heading: str, commit: str) -> str:
    """Markdown."""
    parts = [
        heading,
        f"`{NOW}` is the tree above, `{BEFORE}` commit {commit[:10]}; `ratio` the time before over "
        "that of now, the median over all rounds, in each of which both had a turn.",
        str(tabulate([row.cells() for row in rows], HEADERS, "github", disable_numparse=True)),
        summary(rows),
    ]
    return "\n\n".join(parts) + "\n"
