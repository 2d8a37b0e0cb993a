"""A process that forks a child for each task, and watches over it.

A task may run code that crashes, hangs, prints or allocates without end: the child ends then, this
process goes on, and the next child begins as fresh as the first, with all that was imported. It has
no threads and shares none with who started it, so forks are safe. When that one is gone it ends,
and ends its child first.

    Task --stdin--> server --fork--> child --pipe--> server --pipe--> ChildReport
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import pickle
import resource
import select
import signal
import struct
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, BinaryIO, NoReturn

_TICK_SECONDS = 0.5  # seconds between looks at who started this
_GRACE_SECONDS = 2.0  # seconds that a child may take to end after its answer
_KEPT_BYTES = 4096  # bytes of what a child has printed
_PIECE_BYTES = 1 << 16
_LENGTH = struct.Struct("<Q")
_PR_SET_PDEATHSIG = 1

KILL, PAUSE, RESUME, END = "kill", "pause", "resume", "end"
"""What the server may be told while a child runs."""


@dataclass(frozen=True, slots=True)
class Task:
    """A call of `function`, a text "module:name", with pickled `arguments`, in a child of its own.
    The call may run for `seconds`, not counting pauses, take `memory` bytes more than at its start
    (None: no limit), and print `printed` bytes. `processors` are the processors that the call runs
    on, None for all.
    """

    function: str
    arguments: bytes
    seconds: float
    memory: int | None = None
    printed: int = 1 << 20
    processors: frozenset[int] | None = None


@dataclass(frozen=True, slots=True)
class ChildReport:
    """The end of a child: its `status` as `Popen.returncode`, whether the child was `late` or
    `loud`, the end of its output, and its answer (see `decoded`)."""

    status: int
    late: bool
    loud: bool
    printed: str
    answer: bytes


# --- what goes over pipes -------------------------------------------------------------------------


def encoded(header: Mapping[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """An answer: values of JSON, and bytes.

    >>> decoded(encoded({"a": 1}, [b"xy", b""]))
    ({'a': 1}, [b'xy', b''])
    """
    text = json.dumps([header, [len(blob) for blob in blobs]]).encode()
    return b"".join((_LENGTH.pack(len(text)), text, *blobs))


def decoded(answer: bytes) -> tuple[Mapping[str, Any], list[bytes]]:
    """What `encoded` was given; ValueError for anything else."""
    start = _LENGTH.size
    if len(answer) < start:
        raise ValueError("no answer")
    end = start + _LENGTH.unpack_from(answer)[0]
    header, sizes = json.loads(answer[start:end])
    blobs = []
    for size in sizes:
        blobs.append(answer[end : end + size])
        end += size
    if end != len(answer) or not isinstance(header, dict):
        raise ValueError("half an answer")
    return header, blobs


def send(stream: BinaryIO, value: object) -> None:
    content = pickle.dumps(value)
    stream.write(_LENGTH.pack(len(content)) + content)
    stream.flush()


def receive(descriptor: int) -> Any:
    """The next value that was sent; EOFError where there is none."""
    size = _LENGTH.unpack(_exactly(descriptor, _LENGTH.size))[0]
    return pickle.loads(_exactly(descriptor, size))


def _exactly(descriptor: int, size: int) -> bytes:
    parts = []
    while size:
        part = os.read(descriptor, min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


# --- the server -----------------------------------------------------------------------------------


def main(parent: int, answers: int, warm: str, about: Sequence[Any]) -> None:
    """Calls the function `warm`, as "module:name", with what it is `about`, and then serves."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(answers, "wb") as stream, contextlib.suppress(EOFError, BrokenPipeError):
        try:
            _function(warm)(*about)
        except Exception as error:  # whoever waits is told
            send(stream, f"{type(error).__name__}: {error}")
            return
        send(stream, None)
        server = _Server(parent, answers)
        while (said := server.next_message()) != END:
            if isinstance(said, Task):
                send(stream, server.run(said))


def _function(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)


class _Server:
    def __init__(self, parent: int, answers: int) -> None:
        self.parent, self.answers = parent, answers
        self.paused = False

    def next_message(self) -> Any:
        """The next message; `END` where no sender is left."""
        while not select.select([0], [], [], _TICK_SECONDS)[0]:
            if os.getppid() != self.parent:
                return END
        said = receive(0)
        if said in (PAUSE, RESUME):
            self.paused = said == PAUSE
        return said

    def run(self, task: Task) -> ChildReport:
        answer, answer_end = os.pipe()
        noise, noise_end = os.pipe()
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            for descriptor in (answer, noise, self.answers):
                os.close(descriptor)
            _be_child(task, server, answer_end, noise_end)
        for descriptor in (answer_end, noise_end):
            os.close(descriptor)
        with contextlib.suppress(OSError):  # the child does it, too: whoever is first
            os.setpgid(pid, pid)
        child = _Child(pid, task, answer, noise)
        if self.paused:
            child.pause()
        try:
            return child.watched(self)
        finally:
            child.kill()
            for descriptor in (answer, noise):
                os.close(descriptor)


class _Child:
    def __init__(self, pid: int, task: Task, answer: int, noise: int) -> None:
        self.pid, self.task, self.answer, self.noise = pid, task, answer, noise
        self.left = task.seconds
        self.since: float | None = time.monotonic()  # it runs; None while it is paused
        self.open = [answer, noise]
        self.parts: list[bytes] = []
        self.printed, self.tail = 0, b""
        self.status: int | None = None
        self.late = False

    def watched(self, server: _Server) -> ChildReport:
        """Until it ends, by itself or not; EOFError where nobody is left to take the report."""
        while True:
            self._take_noise_and(server, wait := min(_TICK_SECONDS, max(self._remaining(), 0)))
            if self.status is not None:
                break
            if wait == 0 or self.printed > self.task.printed:
                self.late = wait == 0
                self.kill()
                break
        while self.noise in self.open and select.select([self.noise], [], [], 0)[0]:
            self._read_noise()
        loud = self.printed > self.task.printed
        status = 0 if self.status is None else self.status
        text = self.tail.decode(errors="replace")
        return ChildReport(status, self.late, loud, text, b"".join(self.parts))

    def pause(self) -> None:
        if self.since is not None:
            self.left, self.since = self._remaining(), None
            os.killpg(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        if self.since is None:
            self.since = time.monotonic()
            os.killpg(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """Ends it and what it has started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        if self.status is None:
            self.status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def _remaining(self) -> float:
        if self.since is None:
            return self.left
        return self.left - (time.monotonic() - self.since)

    def _take_noise_and(self, server: _Server, wait: float) -> None:
        """What the child and the parent say within a time."""
        ready = select.select([0, *self.open], [], [], wait)[0]
        if not ready and os.getppid() != server.parent:
            raise EOFError
        if 0 in ready:
            said = server.next_message()
            if said == END:
                raise EOFError
            {KILL: self.kill, PAUSE: self.pause, RESUME: self.resume}[said]()
        if self.noise in ready:
            self._read_noise()
        if self.answer in ready:
            part = os.read(self.answer, _PIECE_BYTES)
            self.parts.append(part)
            if not part:
                self._end()

    def _read_noise(self) -> None:
        part = os.read(self.noise, _PIECE_BYTES)
        if not part:
            self.open.remove(self.noise)
        self.printed += len(part)
        self.tail = (self.tail + part)[-_KEPT_BYTES:]

    def _end(self) -> None:
        """Waits for the end of a child that has closed its pipe, and kills a child whose end
        hangs."""
        deadline = time.monotonic() + _GRACE_SECONDS
        while time.monotonic() < deadline:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
                return
            time.sleep(0.001)
        self.kill()


# --- the child ------------------------------------------------------------------------------------


def _be_child(task: Task, server: int, answer: int, noise: int) -> NoReturn:
    status = 1
    try:
        with contextlib.suppress(OSError):
            os.setpgid(0, 0)
        _die_with(server)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for descriptor, own in ((nothing, 0), (noise, 1), (noise, 2)):
            os.dup2(descriptor, own)
        if task.processors:
            os.sched_setaffinity(0, task.processors)
        content = _answered(task)
        while content:
            content = content[os.write(answer, content) :]
        status = 0
    finally:
        os._exit(status)


def _answered(task: Task) -> bytes:
    try:
        _limit_memory(task.memory)
        header, blobs = _function(task.function)(*pickle.loads(task.arguments))
        return encoded(header, blobs)
    except MemoryError:
        _limit_memory(None)
        return encoded({"failure": "there is not enough memory for it"})
    except BaseException as error:  # whatever the code of a task raises is told
        cause = getattr(error, "cause", None)  # as errors of tc have
        about = {"failure": cause or f"{type(error).__name__}: {error}"}
        try:
            return encoded(about, [pickle.dumps(error)])
        except Exception:  # not everything can be pickled
            return encoded(about)


def _die_with(server: int) -> None:
    """Has the system end this process with the server, where it can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != server:
        os._exit(1)


def _limit_memory(more: int | None) -> None:
    """Lets this process take `more` bytes more than now, on systems that tell how many it has."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    soft = hard
    if more is not None and sys.platform == "linux":
        with open("/proc/self/statm", encoding="ascii") as file:
            pages = int(file.read().split()[0])
        soft = pages * resource.getpagesize() + more
        if hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
