"""One kernel on all peers: prepared, checked, then timed in rounds that alternate between them."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bench.cpu_kernels.kernel import Subject
from bench.peers.process import PeerError, PeerProcess

CALL_LIMIT = 120.0
SLOW = 0.5
"""Seconds of a call beyond which a peer takes part in few rounds: it is far behind anyway."""


@dataclass(frozen=True)
class Settings:
    """How long is measured: rounds, seconds of a peer's turn, seconds to build one form. On a
    machine that others use too: seconds to wait for it before a turn, and the niceness of a turn,
    below 0 to go before others."""

    threads: int = 2
    rounds: int = 15
    turn: float = 0.03
    build_limit: float = 20.0
    patience: float = 0.0
    niceness: int = 0


@dataclass
class Timing:
    """What one peer did with one kernel; `reason` says why there are no seconds.

    `rounds` has the median of each turn, `seconds` and `high` are the median and the largest of
    them, `low` the least time of a batch of calls: the one to look at on a machine that others use.

    `error` is in units of the kernel's tolerance, the larger of those before and after timing.
    `failures` names the forms that could not be built or were wrong.
    """

    seconds: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    form: str = ""
    error: float | None = None
    reason: str = ""
    failures: dict[str, str] = field(default_factory=dict)
    rounds: list[float] = field(default_factory=list)


def measure(
    kernel: Subject, peers: Sequence[PeerProcess], settings: Settings, folder: Path
) -> dict[str, Timing]:
    """A timing for each peer, whatever becomes of it."""
    timings = {peer.name: Timing() for peer in peers}
    with ThreadPoolExecutor(settings.threads) as pool:
        prepared = [
            (peer, pool.submit(prepare, peer, kernel, timings[peer.name], settings))
            for peer in peers
        ]
        expected = references(kernel, folder)
        ready = [peer for peer, future in prepared if future.result()]
    ready = [peer for peer in ready if choose(peer, timings[peer.name], expected)]
    alternate(ready, timings, settings)
    for peer in ready:
        finish(peer, timings[peer.name], expected)
    for peer in peers:
        release(peer)
    return timings


def references(kernel: Subject, folder: Path) -> dict[str, Any]:
    """Files with the expected outputs, and the tolerance of each."""
    paths, tolerances = [], []
    for number, value in enumerate(kernel.case().expected()):
        path = folder / f"reference{number}.npy"
        np.save(path, np.asarray(value, np.float64))
        paths.append(str(path))
        tolerances.append(kernel.tolerance(value))
    return {"references": paths, "tolerances": tolerances}


def prepare(peer: PeerProcess, kernel: Subject, timing: Timing, settings: Settings) -> bool:
    """Builds the peer's forms; one that hangs or dies is left out and the others built anew."""
    skip: list[str] = []
    late: dict[str, str] = {}
    while True:
        try:
            built = peer.ask("prepare", settings.build_limit, kernel=kernel.name, skip=skip)
        except PeerError as error:
            if not error.at or error.at in skip:
                timing.reason = error.reason
                return False
            late[error.at] = error.reason
            skip.append(error.at)
            continue
        timing.failures = {**built["failures"], **late}
        if not built["built"]:
            timing.reason = first_reason(timing.failures)
        return bool(built["built"])


def first_reason(failures: Mapping[str, str]) -> str:
    """
    >>> first_reason({"hand": "too big"}), first_reason({})
    ('hand: too big', 'not offered')
    """
    return next((f"{name}: {reason}" for name, reason in failures.items()), "not offered")


def choose(peer: PeerProcess, timing: Timing, expected: Mapping[str, Any]) -> bool:
    try:
        chosen = peer.ask("choose", CALL_LIMIT, **expected)
    except PeerError as error:
        timing.reason = f"{error.at}: {error.reason}" if error.at else error.reason
        return False
    timing.failures.update(chosen["failures"])
    timing.form, timing.error = chosen["form"], chosen["error"]
    timing.seconds = chosen["seconds"]
    if not timing.form:
        timing.reason = first_reason(timing.failures)
    return bool(timing.form)


def alternate(
    peers: Sequence[PeerProcess], timings: Mapping[str, Timing], settings: Settings
) -> None:
    """Each round gives every peer a turn, in an order that moves on by one."""
    for number in range(settings.rounds):
        start = number % max(len(peers), 1)
        for peer in (*peers[start:], *peers[:start]):
            timing = timings[peer.name]
            slow = (timing.seconds or 0) > SLOW
            if timing.reason or (slow and number >= 2):
                continue
            await_quiet(settings.patience)
            try:
                answer = peer.ask("sample", CALL_LIMIT, budget=settings.turn)
            except PeerError as error:
                timing.reason = error.reason
                continue
            timing.rounds.append(statistics.median(answer["samples"]))
            timing.low = min(timing.low or math.inf, *answer["samples"])
    for peer in peers:
        timing = timings[peer.name]
        if timing.reason or not timing.rounds:
            timing.seconds = None
            continue
        timing.seconds, timing.samples = statistics.median(timing.rounds), len(timing.rounds)
        timing.high = max(timing.rounds)


def processor_seconds() -> tuple[float, float]:
    """Ticks that all cores spent, in all and at work; zeros where the system does not say."""
    try:
        with open("/proc/stat", encoding="ascii") as file:
            ticks = [float(word) for word in file.readline().split()[1:]]
    except OSError:
        return 0.0, 0.0
    return sum(ticks), sum(ticks) - ticks[3] - ticks[4]


def await_quiet(patience: float) -> None:
    """Returns once the cores were idle for a moment, or patience is at its end."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        before = processor_seconds()
        time.sleep(0.05)
        total, busy = (now - old for now, old in zip(processor_seconds(), before, strict=True))
        if busy <= 0.1 * total:
            return


def finish(peer: PeerProcess, timing: Timing, expected: Mapping[str, Any]) -> None:
    """Checks the output once more, after all those calls."""
    if timing.reason:
        return
    try:
        error = peer.ask("check", CALL_LIMIT, **expected)["error"]
    except PeerError as failure:
        timing.seconds, timing.reason = None, failure.reason
        return
    if not error <= 1:
        timing.seconds = None
        timing.reason = f"wrong after timing: {error:.3g} times the tolerance"
    timing.error = max(error, timing.error or 0.0)


def release(peer: PeerProcess) -> None:
    try:
        peer.ask("drop", CALL_LIMIT)
    except PeerError:
        peer.end()
