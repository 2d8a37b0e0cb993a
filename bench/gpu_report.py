"""What the timings on a GPU say: the tables, and the file that they are kept in."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tabulate import tabulate

from bench.gpu_device import Timed
from bench.gpu_kernels import KERNELS
from bench.gpu_limits import GpuLimits
from bench.gpu_worker import PEERS, GpuTiming
from bench.timing import milliseconds

OF_MACHINE = ("gpu", "driver", "cuda", "torch", "nvrtc", "tc_driver")
OF_TC = ("commit", "changed_files")
"""What must be the same for a recorded time to count as one of now."""

EXPLAINED = """
`events`: what the GPU takes, by CUDA's events around each launch, the caches flushed before it;
`clock`: from the call until the GPU is done, the caches as the last call left them. The first table
has medians (p50) by events; `of limit` is the least time that the machine allows over that. A star:
the GPU waited for the processor, whose time is in it. A result further from float64 than rule R5
allows is wrong and has no time; below stands why.
""".strip()


@dataclass
class Record:
    """`sessions` are the machines that were measured on, with their limits (none where they could
    not be measured) and settings; `timings` are by kernel and peer, each with the number of its
    session."""

    sessions: list[dict[str, Any]] = field(default_factory=list)
    timings: dict[str, dict[str, tuple[int, GpuTiming]]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Record:
        """That of a file; an empty one where there is none."""
        if not path.exists():
            return cls()
        data = json.loads(path.read_text(encoding="utf-8"))
        timings = {
            kernel: {p: (of["session"], GpuTiming.read(of["timing"])) for p, of in peers.items()}
            for kernel, peers in data["kernels"].items()
        }
        return cls(data["sessions"], timings)

    def write(self, path: Path) -> None:
        """Writes the file at once, and the tables beside it, so that an interrupted process leaves
        a file that can be read."""
        kernels = {
            kernel: {p: {"session": n, "timing": asdict(timing)} for p, (n, timing) in of.items()}
            for kernel, of in self.timings.items()
        }
        data = {"sessions": self.sessions, "kernels": kernels}
        replace_text(path, json.dumps(data, indent=1) + "\n")
        replace_text(path.with_suffix(".md"), markdown(self))

    def add(self, kernel: str, peer: str, timing: GpuTiming) -> None:
        """Of the last session."""
        self.timings.setdefault(kernel, {})[peer] = (len(self.sessions) - 1, timing)

    def is_done(self, kernel: str, peer: str, machine: Mapping[str, Any], *, again: bool) -> bool:
        """Whether it was measured on such a machine, and for tc with this code; `again` wants
        times, not reasons why there are none."""
        if peer not in self.timings.get(kernel, {}):
            return False
        number, timing = self.timings[kernel][peer]
        then = self.sessions[number]["machine"]
        of_peer = OF_MACHINE + (OF_TC if peer in ("tc", "paper") else ())
        same = all(then.get(name) == machine.get(name) for name in of_peer)
        return same and not (again and timing.reason)

    def fraction(self, kernel: str, peer: str) -> float | None:
        """The least time that the limits of its session allow over the time by events."""
        number, timing = self.timings[kernel][peer]
        limits = self.sessions[number]["limits"]
        if limits is None or timing.events is None:
            return None
        return GpuLimits(**limits).seconds(KERNELS[kernel]) / timing.events.p50


def replace_text(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.new")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def time_text(timed: Timed | None) -> str:
    """
    >>> time_text(Timed(1000, 1e-6, 2e-6, 3e-6)), time_text(Timed(10, 1e-3, 2e-3, 3e-3, late=True))
    ('2 us', '2 ms *')
    >>> time_text(None)
    '-'
    """
    if timed is None:
        return "-"
    return milliseconds(timed.p50) + (" *" if timed.late else "")


def result_text(timing: GpuTiming) -> str:
    """
    >>> result_text(GpuTiming(reason="defaults: wrong: 3 times the bound"))
    'wrong'
    >>> result_text(GpuTiming(reason="the process ended with -11: "))
    'failed'
    """
    if timing.reason:
        return "wrong" if "wrong" in timing.reason else "failed"
    return time_text(timing.events)


def percent(part: float | None) -> str:
    """
    >>> percent(0.256), percent(None)
    ('26 %', '-')
    """
    return "-" if part is None else f"{100 * part:.0f} %"


def peers_of(record: Record) -> list[str]:
    found = {peer for of in record.timings.values() for peer in of}
    return [peer for peer in PEERS if peer in found]


def overview(record: Record) -> str:
    """A line for each kernel: every peer's time, and its part of the limit."""
    peers, lines = peers_of(record), []
    for kernel, of in record.timings.items():
        cells = [kernel]
        for peer in peers:
            known = peer in of
            cells.append(result_text(of[peer][1]) if known else "-")
            cells.append(percent(record.fraction(kernel, peer)) if known else "-")
        lines.append(cells)
    headers = ["kernel", *(name for peer in peers for name in (peer, "of limit"))]
    return _table(lines, headers)


def details(record: Record) -> str:
    """A line for each time, with its percentiles."""
    lines = []
    for kernel, of in record.timings.items():
        for peer in (p for p in PEERS if p in of):
            timing = of[peer][1]
            if timing.events is None or timing.clock is None:
                continue
            error = "-" if timing.error is None else f"{timing.error:.2g}"
            first = "-" if timing.first is None else f"{timing.first:.2f} s"
            lines.append(
                [kernel, peer, timing.form, *_percentiles(timing.events)]
                + [*_percentiles(timing.clock), first, error]
            )
    of_each = ["runs", "p0", "p50", "p90"]
    headers = [*of_each, *of_each, "first run", "error / bound"]
    return _table(lines, ["kernel", "by", "form", *headers])


def _percentiles(timed: Timed) -> list[str]:
    times = [milliseconds(seconds) for seconds in (timed.p0, timed.p50, timed.p90)]
    return [f"{timed.runs}{' *' if timed.late else ''}", *times]


def _table(lines: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    return str(tabulate(lines, headers, tablefmt="github", disable_numparse=True))


def failures(record: Record) -> str:
    """Why there is no time, and which forms of others were left out."""
    lines = []
    for kernel, of in record.timings.items():
        for peer, (_, timing) in of.items():
            if timing.reason:
                lines.append(f"- {kernel}: {peer}: {timing.reason}")
            else:
                found = timing.failures.items()
                lines += [f"- {kernel}: {peer}: {form} left out: {why}" for form, why in found]
    return "\n".join(lines)


def session_text(session: Mapping[str, Any]) -> str:
    machine, limits = session["machine"], session["limits"]
    said = "limits not measured"
    if limits is not None:
        said = (
            f"limits: FMA peak {limits['flops'] / 1e12:.1f} TFLOP/s, halves "
            f"{limits['half_flops'] / 1e12:.0f} TFLOP/s, copies {limits['copy'] / 1e12:.2f} TB/s "
            "(read and written)"
        )
    return (
        f"{machine['gpu']} (compute capability {machine['capability']}, {machine['processors']} "
        f"processors, {machine['gpu_memory_gb']} GB, L2 {machine['l2_mb']} MB), driver "
        f"{machine['driver']}, CUDA {machine['cuda']}, NVRTC {machine['nvrtc']}, torch "
        f"{machine['torch']}, {machine['tc_driver']}, Python {machine['python']}, "
        f"{machine['date'][:10]}, commit {machine['commit'][:10]}"
        f"{' and changes' if machine['changed_files'] else ''}; {said}"
    )


def markdown(record: Record) -> str:
    used = {number for of in record.timings.values() for number, _ in of.values()}
    sessions = [session_text(s) for n, s in enumerate(record.sessions) if n in used]
    parts = [
        "\n\n".join(dict.fromkeys(sessions)),
        EXPLAINED,
        overview(record),
        "First by events, then by the clock:",
        details(record),
        failures(record),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"
