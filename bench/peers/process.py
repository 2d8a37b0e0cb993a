"""A peer's process as the harness sees it: asked with a time limit, stopped while others run."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from bench.cpu_limits import hurry
from bench.peers.catalogue import environment

ROOT = Path(__file__).parent.parent.parent
START_LIMIT = 120.0
TIMED = ("choose", "sample")
"""The questions that run at the process's own niceness; building does not hurry."""


class PeerError(Exception):
    """A peer that did not answer; `at` is the form that the peer was at, if it has said so."""

    def __init__(self, reason: str, at: str = "") -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


class PeerProcess:
    """Started on first use, and anew after it died or was ended for being late.

    Between questions the whole process group is stopped, so that threads that spin for work
    disturb nobody. `missing` is why the peer cannot start at all: it is not tried again.

    `peer` is its name in the catalogue where `name` is another one; `root` the folder whose `bench`
    and `tc` it is to import, `imported` where its `tc` is, if it has one; `settings` are more
    variables of its environment.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        niceness: int = 0,
        *,
        peer: str = "",
        root: Path = ROOT,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self._peer = peer or name
        self._root = root
        self._settings = settings or {}
        self._niceness = niceness
        self.version = ""
        self.imported = ""
        self.missing = ""
        self._threads = threads
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._unread = b""

    def ask(self, do: str, limit: float, **values: Any) -> Mapping[str, Any]:
        """The answer; the limit holds for each form that the peer names in between. Raises
        PeerError."""
        if self.missing:
            raise PeerError(self.missing)
        if self._process is None:
            self._start()
        if self._niceness and self._process is not None:
            hurry(self._process.pid, self._niceness if do in TIMED else 0)
        self._signal(signal.SIGCONT)
        try:
            self._send({"do": do, **values})
            return self._receive(limit)
        finally:
            self._signal(signal.SIGSTOP)

    def end(self) -> None:
        if self._process is None:
            return
        self._signal(signal.SIGKILL)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self._process.wait()
        self._process = None
        if self._log is not None:
            self._log.close()

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "bench.peers.worker", self._peer, str(self._threads)]

    def _environment(self) -> Mapping[str, str]:
        return environment(self._peer, self._threads)

    def _start(self) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._unread = b""
        self._process = subprocess.Popen(
            self._command(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            cwd=self._root,
            env={**self._environment(), **self._settings},
            start_new_session=True,
        )
        try:
            started = self._receive(START_LIMIT)
            self.version, self.imported = started["version"], started["tc"]
        except PeerError as error:
            self.missing = error.reason
            self.end()
            raise

    def _send(self, message: Mapping[str, Any]) -> None:
        if self._process is None or self._process.stdin is None:
            raise PeerError("the process is not running")
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except OSError:
            raise self._dead("") from None

    def _receive(self, limit: float) -> Mapping[str, Any]:
        at, deadline = "", time.monotonic() + limit
        while True:
            line = self._line(deadline, limit, at)
            message = json.loads(line)
            if "at" in message:
                at, deadline = message["at"], time.monotonic() + limit
            elif "failed" in message:
                raise PeerError(message["failed"], at)
            else:
                done: Mapping[str, Any] = message["done"]
                return done

    def _line(self, deadline: float, limit: float, at: str) -> bytes:
        if self._process is None or self._process.stdout is None:
            raise PeerError("the process is not running")
        descriptor = self._process.stdout.fileno()
        with selectors.DefaultSelector() as ready:
            ready.register(descriptor, selectors.EVENT_READ)
            while b"\n" not in self._unread:
                if not ready.select(max(deadline - time.monotonic(), 0)):
                    self.end()
                    raise PeerError(f"no answer within {limit:.0f} s", at)
                received = os.read(descriptor, 65536)
                if not received:
                    raise self._dead(at)
                self._unread += received
        line, self._unread = self._unread.split(b"\n", 1)
        return line

    def _dead(self, at: str) -> PeerError:
        code = None
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                code = self._process.wait(5)
        last: list[str] = []
        if self._log is not None:
            self._log.seek(0)
            last = self._log.read().decode(errors="replace").strip().splitlines()[-1:]
        self.end()
        return PeerError(f"the process ended with {code}: {' '.join(last)}"[:400], at)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
