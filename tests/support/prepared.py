"""A process that has imported tc, numba and numpy, and runs each script in a fork of itself.

Importing takes a second of processor time, which a script in a fork does not take again. No kernel
was compiled there and no thread of tc runs there, so a fork is like a new process, but for the
modules and for what is read from the environment when they are imported.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import select
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any

ROOT = Path(__file__).parents[2]
TEXT = "def f(float(N) x) -> (y) { y(i) = 3 * x(i) + 1 }"


class PreparedProcess:
    """A script that runs in a fork, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, script: str, arguments: Sequence[str], environment: Mapping[str, str], cwd: Path
    ) -> None:
        self.returncode: int | None = None
        pipes = [os.pipe() for _ in range(3)]
        self._output, self._errors, self._report = (read for read, _ in pipes)
        asked = {"script": script, "arguments": arguments, "cwd": str(cwd)}
        message = json.dumps({**asked, "environment": {**environment}}).encode()
        server = _server()
        socket.send_fds(server, [len(message).to_bytes(8, "little")], [end for _, end in pipes])
        server.sendall(message)
        for _, end in pipes:
            os.close(end)
        self._read = {self._output: b"", self._errors: b"", self._report: b""}
        self._open = {*self._read}
        while b"\n" not in self._read[self._report]:
            self._wait(None)
        self.pid = int(self._read[self._report].split(b"\n")[0])

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """The output and the errors, once the script and all that hold its pipes have ended."""
        until = None if timeout is None else time.monotonic() + timeout
        while self._open:
            left = None if until is None else max(0.0, until - time.monotonic())
            if not self._wait(left) and left is not None:
                raise subprocess.TimeoutExpired("a prepared process", timeout or 0.0)
        return self._read[self._output].decode(), self._read[self._errors].decode()

    def __enter__(self) -> PreparedProcess:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._open:
            os.close(pipe)
        self._open.clear()

    def poll(self) -> int | None:
        self._wait(0.0)
        return self.returncode

    def _wait(self, seconds: float | None) -> bool:
        """Reads what there is within a time; whether there was anything."""
        ready, _, _ = select.select([*self._open], [], [], seconds)
        for pipe in ready:
            if data := os.read(pipe, 1 << 16):
                self._read[pipe] += data
            else:
                self._open.remove(pipe)
                os.close(pipe)
        words = self._read[self._report].split()
        self.returncode = int(words[1]) if len(words) > 1 else None
        return bool(ready)


_servers: dict[int, tuple[subprocess.Popen[bytes], socket.socket]] = {}


def _server() -> socket.socket:
    """The connection with the prepared process of this process, which begins with the first use."""
    if os.getpid() not in _servers:
        ours, theirs = socket.socketpair()
        environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
        command = [sys.executable, "-m", __name__]
        process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=theirs, stdout=subprocess.DEVNULL
        )
        theirs.close()
        _servers[os.getpid()] = process, ours
        atexit.register(_end, os.getpid())
    return _servers[os.getpid()][1]


def _end(owner: int) -> None:
    if owner == os.getpid():
        process, ours = _servers.pop(owner)
        ours.close()
        process.wait()


# --- in the prepared process ----------------------------------------------------------------------


def serve() -> CodeType:
    """Forks for each script that is asked for, until nobody can ask any more. In a fork this
    returns the script, so that the interpreter ends after it as it does after any script."""
    _import_all()
    asking = socket.socket(fileno=os.dup(0))
    while True:
        size, pipes, _, _ = socket.recv_fds(asking, 8, 3)
        if not size:
            sys.exit()
        asked, left = b"", int.from_bytes(size, "little")
        while len(asked) < left:
            asked += asking.recv(left - len(asked))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads of numpy's library
            child = os.fork()
        if child == 0:
            asking.close()
            return _begin(json.loads(asked), pipes)
        output, errors, report = pipes
        os.close(output)
        os.close(errors)
        os.write(report, f"{child}\n".encode())
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with contextlib.suppress(BrokenPipeError):
            os.write(report, f"{status}\n".encode())
        os.close(report)


def _import_all() -> None:
    """Imports what a first call needs; which modules these are, tc decides where it is used."""
    import numpy

    import tc

    tc.emit(TEXT, N=7, backend="numba")
    tc.runtime.thread_pool, tc.runtime.native_pool, numpy.random  # noqa: B018


def _begin(asked: dict[str, Any], pipes: list[int]) -> CodeType:
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (pipes[0], 1), (pipes[1], 2)):
        os.dup2(source, target)
    for pipe in (nothing, *pipes):
        os.close(pipe)
    os.environ.clear()
    os.environ.update(asked["environment"])
    os.chdir(asked["cwd"])
    sys.argv = ["-c", *asked["arguments"]]
    return compile(asked["script"], "<string>", "exec")


if __name__ == "__main__":
    exec(serve(), vars(sys.modules["__main__"]))
