"""Times tc on a GPU beside torch: `python -m bench.gpu`.

Each kernel and library is one step, whose result is written at once; a later run goes on with what
is missing, also on another machine of the same kind. `--seconds 500` ends in time. One process has
the GPU, and is started anew after whatever breaks it. Every output is checked under rule R5 before
and after it is timed. The limits of the machine are measured in the same run.

Where there is no GPU it says so, and that is no failure.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench import cpu_machine
from bench.cpu import RESULTS, words
from bench.cpu_kernels.kernel import Kernel
from bench.gpu_device import NoGpu, count_gpus
from bench.gpu_kernels import PAPER, select
from bench.gpu_report import Record, overview, session_text
from bench.gpu_worker import PEERS, GpuTiming
from bench.peers.process import PeerError, PeerProcess
from bench.timing import milliseconds

FORM_LIMIT = 240.0
"""Seconds for one form to be built and timed."""
LEFT = 3
PACKAGES = ("torch", "triton", "numpy", "cuda-core", "cuda-bindings", "pycuda", "cupy-cuda13x")


@dataclass(frozen=True)
class GpuSettings:
    """Runs that are timed in each way, and the seconds that they may take."""

    runs: int = 1000
    longest: float = 4.0


class GpuProcess(PeerProcess):
    """The one that has the GPU."""

    def __init__(self) -> None:
        super().__init__("gpu", threads=0)

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "bench.gpu_worker"]

    def _environment(self) -> Mapping[str, str]:
        return os.environ


def arguments_of(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--kernels", default="", help="seeds, others, or parts of names: a,b")
    parser.add_argument("--peers", default=",".join(PEERS), help=", ".join(PEERS))
    parser.add_argument("--runs", type=int, default=GpuSettings.runs)
    parser.add_argument("--longest", type=float, default=GpuSettings.longest)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="ends by then")
    parser.add_argument("--again", action="store_true", help="measure what failed again")
    parser.add_argument("--commit", default="", help="of the code, where git cannot tell")
    parser.add_argument("--out", type=Path, help="the .json file; else in bench/results")
    parser.add_argument(
        "--tables-of", type=Path, metavar="FILE", help="make the tables of recorded data anew"
    )
    chosen = parser.parse_args(given)
    unknown = [name for name in words(chosen.peers) if name not in PEERS]
    if unknown:
        parser.error(f"no peer {', '.join(unknown)}; there are {', '.join(PEERS)}")
    return chosen


def described(process: PeerProcess, commit: str) -> dict[str, Any]:
    machine = cpu_machine.describe(PACKAGES, os.cpu_count() or 1)
    if commit:
        machine |= {"commit": commit, "changed_files": 0}
    return {**machine, **process.ask("describe", FORM_LIMIT)}


def file_name(machine: Mapping[str, Any]) -> str:
    """
    >>> file_name({"gpu": "NVIDIA H200"})
    'gpu-nvidia-h200.json'
    """
    return f"gpu-{re.sub(r'[^a-z0-9]+', '-', machine['gpu'].lower()).strip('-')}.json"


def measured_limits(process: PeerProcess) -> dict[str, float] | None:
    try:
        return dict(process.ask("limits", FORM_LIMIT))
    except PeerError as error:
        process.end()
        print(f"limits: {error.reason}", flush=True)
        return None


def steps(
    record: Record,
    machine: Mapping[str, Any],
    kernels: Sequence[Kernel],
    peers: Sequence[str],
    *,
    again: bool,
) -> list[tuple[str, str]]:
    """What is missing, kernel by kernel."""
    return [
        (kernel.name, peer)
        for kernel in kernels
        for peer in peers
        if (peer != "paper" or kernel.name in PAPER)
        and not record.is_done(kernel.name, peer, machine, again=again)
    ]


def measured(
    process: PeerProcess, kernel: str, peer: str, settings: GpuSettings, deadline: float
) -> GpuTiming | None:
    """A timing, whatever becomes of it; None where the time is over before it is done. A form that
    hangs, or takes the process with it, is left out and the others tried in a new one."""
    skip: dict[str, str] = {}
    while (left := deadline - time.monotonic()) > 0:
        request = {"kernel": kernel, "peer": peer, "skip": [*skip], **asdict(settings)}
        try:
            timing = GpuTiming.read(process.ask("measure", min(FORM_LIMIT, left), **request))
        except PeerError as error:
            process.end()
            if time.monotonic() >= deadline:
                return None
            if not error.at or error.at in skip:
                return GpuTiming(reason=error.reason, failures=skip)
            skip[error.at] = error.reason
            continue
        timing.failures = {**skip, **timing.failures}
        if timing.reason == "not offered" and skip:
            timing.reason = "; ".join(f"{form}: {why}" for form, why in skip.items())
        return timing
    return None


def progress(kernel: str, peer: str, timing: GpuTiming) -> str:
    if timing.events is None or timing.clock is None:
        return f"{kernel}: {peer}: {timing.reason}"
    events, clock = milliseconds(timing.events.p50), milliseconds(timing.clock.p50)
    return f"{kernel}: {peer}: {events}, called and awaited {clock} ({timing.form})"


def main(given: Sequence[str] | None = None) -> int:
    chosen = arguments_of(given)
    deadline = time.monotonic() + chosen.seconds
    if chosen.tables_of is not None:
        Record.read(chosen.tables_of).write(chosen.tables_of)
        return 0
    kernels, peers = select(words(chosen.kernels)), words(chosen.peers)
    try:
        count_gpus()
    except NoGpu as error:
        print(f"There is no GPU here ({error}), so nothing is measured.")
        return 0
    process = GpuProcess()
    try:
        return session(process, chosen, kernels, peers, deadline)
    finally:
        process.end()


def session(
    process: PeerProcess,
    chosen: argparse.Namespace,
    kernels: Sequence[Kernel],
    peers: Sequence[str],
    deadline: float,
) -> int:
    try:
        machine = described(process, chosen.commit)
    except PeerError as error:
        print(f"The GPU cannot be used: {error.reason}", file=sys.stderr)
        return 1
    out = chosen.out or RESULTS / file_name(machine)
    record, settings = Record.read(out), GpuSettings(chosen.runs, chosen.longest)
    missing = steps(record, machine, kernels, peers, again=chosen.again)
    if missing:
        limits = measured_limits(process)
        said = {"machine": machine, "limits": limits, "settings": asdict(settings)}
        record.sessions.append(said)
        print(session_text(said), flush=True)
    left = 0
    for kernel, peer in missing:
        timing = measured(process, kernel, peer, settings, deadline)
        if timing is None:
            left += 1
            continue
        record.add(kernel, peer, timing)
        record.write(out)
        print(progress(kernel, peer, timing), flush=True)
    print(f"\n{overview(record)}\n\n{out}" + (f"; {left} left for another run" if left else ""))
    return LEFT if left else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    sys.exit(main())
