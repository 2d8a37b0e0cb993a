"""Workers seen from outside: what they do is counted, and how they end is judged."""

from __future__ import annotations

import contextlib
import json
import os
import random
import selectors
import signal
import subprocess
import sys
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.campaigns import Campaign

ROOT = Path(__file__).resolve().parent.parent.parent
SILENCE_SECONDS = 120
"""Seconds without a record after which a process counts as hanging; its forks are asked first. A
process may take as long until its first record, as it starts slowly on a busy machine."""

WARM = 25
"""Actions after which a worker has opened all the threads and files that later actions need."""

GROWTH = 400 << 10
"""KiB by which a worker may grow after `WARM` actions, as everything that tc keeps is bounded."""

THREADS, FILES = 8, 8
"""Threads and files that a worker may have more than after `WARM` actions."""

_STACKS = 5  # seconds to write stacks
_LAST = 60  # lines of a worker that a finding shows


@dataclass
class Watched:
    """One worker."""

    seed: str
    process: subprocess.Popen[bytes]
    mortal: bool  # others live for all of their actions, so that growth shows
    heard: float
    begun: bool = False
    kill_at: float | None = None
    killed: bool = False
    dumped: bool = False
    hung: bool = False
    over: bool = False
    ends: int = 0
    warm: dict[str, int] = field(default_factory=dict)
    rest: bytes = b""
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST))

    def end(self) -> int:
        """Ends the process and all processes that it has started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        return self.process.wait()


class LoadCampaign(Campaign):
    """Keeps some workers at work, kills some, and judges how each ends."""

    def __init__(
        self,
        cache: Path,
        *,
        seed: str,
        workers: int,
        actions: int,
        kills: float = 0.06,
        patience: int = SILENCE_SECONDS,
        log: Path | None = None,
    ) -> None:
        super().__init__(seed, log)
        self.cache, self.actions, self.kills = cache, actions, kills
        self.command = [sys.executable, "-m", "tests.soak.worker"]
        self.draw, self.patience = random.Random(seed), patience
        self.workers = workers
        self.started = 0
        self.most: Counter[str] = Counter()
        self.selector = selectors.DefaultSelector()

    def judge(self, number: int) -> int:
        """Runs the workers from this number on, several at a time as they are to meet, until the
        time of the campaign is over or `self.left` workers have been started and have ended."""
        self.started = number
        watched: list[Watched] = []
        try:
            while True:
                if time.monotonic() > self.end:
                    break
                while len(watched) < self.workers and self.started < number + self.left:
                    watched.append(self._start(mortal=any(not one.mortal for one in watched)))
                if not watched:
                    break
                for key, _ in self.selector.select(0.1):
                    self._read(key.data)
                watched = [one for one in watched if not self._judge(one)]
        finally:
            for one in watched:
                self.selector.unregister(one.process.stdout)
                one.end()
            self.selector.close()
        return self.started - number

    def summary(self) -> str:
        c, most = self.counts, self.most
        lines = [
            f"{c['end']} actions: {c['call']} calls, {c['kernels made']} kernels compiled, "
            f"{c['kernels found']} read from disk, {c['fork']} forks, {c['signal']} signals",
            f"{self.started} workers, {c['killed']} of them killed, {c['kill']} forks killed, "
            f"{c['refused']} refused where a disk was full or a fork could not compile",
            f"at most {most['rss'] / 1024:.0f} MiB more than when warm, "
            f"{most['all threads']} threads, {most['all files']} files",
        ]
        lines += [f"  {number:6d} {what}" for what, number in sorted(self._whats().items())]
        lines += [f"{finding.kind}: {finding.text}" for finding in self.findings]
        return "\n".join(lines)

    def _whats(self) -> dict[str, int]:
        return {k.removeprefix("did "): n for k, n in self.counts.items() if k.startswith("did ")}

    def _start(self, mortal: bool) -> Watched:
        seed = f"{self.seed}.{self.started}"
        self.started += 1
        process = subprocess.Popen(
            [*self.command, seed, str(self.actions), str(self.patience)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=ROOT,
            start_new_session=True,
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "TC_CACHE_DIR": str(self.cache),
                "TC_STRICT": "1",
            },
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        one = Watched(seed, process, mortal, time.monotonic())
        self.selector.register(process.stdout, selectors.EVENT_READ, one)
        return one

    def _read(self, one: Watched) -> bool:
        """What has come; whether there was any."""
        assert one.process.stdout is not None
        try:
            data = os.read(one.process.stdout.fileno(), 1 << 16)
        except BlockingIOError:
            return False
        *lines, one.rest = (one.rest + data).split(b"\n")
        for line in filter(None, lines):
            text = line.decode(errors="replace")
            one.lines.append(text)
            self.note({"worker": one.seed, "line": text})
            if text.startswith("{") and text.endswith("}"):
                one.heard, one.begun = time.monotonic(), True
                self._count(one, json.loads(text))
        return bool(data)

    def _count(self, one: Watched, record: dict[str, Any]) -> None:
        act = record["act"]
        self.counts[act] += 1
        one.over = one.over or act == "over"
        if act == "begin":
            if one.mortal and one.kill_at is None and self.draw.random() < self.kills:
                one.kill_at = time.monotonic() + self.draw.random() * self.draw.choice((0.02, 2))
        elif act in ("wrong", "raised"):
            self._find(one, act, record["error"])
        elif act == "looked":
            self.counts["kernels found"] += record["found"]
            self.counts["kernels made"] += record["missed"]
        elif act == "end":
            one.ends += 1
            self.counts[f"did {record['what']}"] += 1
            self._measure(one, record)

    def _measure(self, one: Watched, record: dict[str, Any]) -> None:
        now = {name: int(record[name]) for name in ("rss", "threads", "files")}
        for name in ("threads", "files"):
            self.most[f"all {name}"] = max(self.most[f"all {name}"], now[name])
        if one.ends == WARM:
            one.warm = now
        for name, most in {"rss": GROWTH, "threads": THREADS, "files": FILES}.items():
            more = now[name] - one.warm[name] if one.warm else 0
            self.most[name] = max(self.most[name], more)
            if more > most:
                one.warm[name] = now[name]  # it is found once
                self._find(one, "grew", f"{name}: {more} more after {one.ends} actions")

    def _judge(self, one: Watched) -> bool:
        """Whether that worker is over, by itself, or ended here."""
        now = time.monotonic()
        if one.process.poll() is not None:
            while self._read(one):
                pass
            self.selector.unregister(one.process.stdout)
            status = one.end()
            one.process.stdout.close()
            self.counts["killed"] += status == -signal.SIGKILL and one.killed
            ended = one.hung or (one.killed and status == -signal.SIGKILL)
            if not ended and (status or not one.over):
                self._find(one, "died", f"status {status}")
            return True
        silent_until = one.heard + (
            self.patience if one.begun else max(self.patience, SILENCE_SECONDS)
        )
        if one.kill_at is not None and now > one.kill_at and not one.killed:
            one.killed = True
            os.killpg(one.process.pid, signal.SIGKILL)
        elif now > silent_until and not one.dumped:
            one.dumped = True
            os.killpg(one.process.pid, signal.SIGUSR2)  # for the stacks of all threads
        elif now > silent_until + _STACKS:
            self._find(one, "hung", f"no record for {self.patience} s")
            one.hung = True
            one.end()
        return False

    def _find(self, one: Watched, kind: str, text: str) -> None:
        if self.find(kind, one.seed, f"worker {one.seed}: {text}"):
            print("  " + "\n  ".join(one.lines), flush=True)
