"""Worker processes as who starts them sees them: tasks run one after the other, each in a child of
its own (`tc.tuning.measuring.fork_server`), whatever becomes of the children.

Workers are started afresh, not forked: threads and locks of this process do not reach them, and a
script needs no guard. They do not hear the terminal's Ctrl-C, and end with this process, however
that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from tc.process.forks import step
from tc.tuning.measuring.fork_server import (
    END,
    KILL,
    PAUSE,
    RESUME,
    ChildReport,
    Task,
    decoded,
    receive,
    send,
)

_BOOT = (
    "import json, sys; given = json.loads(sys.argv[1]); sys.path[:] = given.pop('path'); "
    "from tc.tuning.measuring.fork_server import main; main(**given)"
)
_SERVER_END_SECONDS = 0.5  # seconds that a server may take to end by itself
_PRINTED_CHARACTERS = 200  # characters of what was printed


class WorkerLost(Exception):
    """The server of a worker is gone, or was told to go."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a task, or the reason why there is none; `raised` is the pickled exception of
    the task."""

    header: Mapping[str, Any]
    blobs: Sequence[bytes] = ()
    failure: str | None = None
    raised: bytes | None = None


class Worker:
    """A process that runs tasks, started with the first task and again after it was lost. The
    process calls the function `warm`, "module:name", with the arguments `about` when it starts, and
    shares the descriptors `files`. One thread at a time runs tasks; any thread may pause, resume,
    stop and close the process."""

    def __init__(self, warm: str, about: Sequence[Any] = (), files: Sequence[int] = ()) -> None:
        self._warm, self._about, self._files = warm, about, files
        self._process: subprocess.Popen[bytes] | None = None
        self._answers = -1
        self._saying = threading.RLock()  # held by who writes, starts the process or gives it up
        self._asking = threading.RLock()  # held by who reads
        self._paused = False
        self._closed = False

    def run(self, task: Task) -> Outcome:
        """Runs a task to its end. WorkerLost where the server is lost meanwhile, or closed."""
        with self._asking:
            self._check_open()
            try:
                if self._process is None:
                    self._start()
                self._say(task)
                return outcome_of(task, receive(self._answers))
            except (EOFError, OSError, pickle.UnpicklingError) as error:
                self._end()
                raise WorkerLost("the process that watches over it was ended") from error

    def run_twice(self, task: Task) -> Outcome:
        """The outcome of a task, which is begun once more where its server is lost, as others may
        be to blame; a failure where that is lost, too, or the worker is closed."""
        for left in (1, 0):
            try:
                return self.run(task)
            except WorkerLost as error:
                if not left or self._closed:
                    return Outcome({}, failure=str(error))
        raise AssertionError

    def stop(self) -> None:
        """Ends the task that runs now, if any."""
        self._tell(KILL)

    def pause(self) -> None:
        """The task that runs, or is begun, waits until `resume`; that time does not count."""
        self._paused = True
        self._tell(PAUSE)

    def resume(self) -> None:
        self._paused = False
        self._tell(RESUME)

    def close(self) -> None:
        """Ends the process and the task in it, at once."""
        self._closed = True
        self._end()

    @property
    def process(self) -> int | None:
        """The number of the process that watches over tasks; None where none was started."""
        return None if self._process is None else self._process.pid

    def _start(self) -> None:
        self._answers, answers_end = os.pipe()
        given = {
            "path": sys.path,
            "parent": os.getpid(),
            "answers": answers_end,
            "warm": self._warm,
            "about": list(self._about),
        }
        with self._saying:
            try:
                self._check_open()
                with step():
                    self._process = subprocess.Popen(
                        [sys.executable, "-c", _BOOT, json.dumps(given)],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        pass_fds=(answers_end, *self._files),
                        env={**os.environ, "TC_STRICT": "1"},
                        start_new_session=True,
                    )
            finally:
                os.close(answers_end)
        reason = receive(self._answers)
        if reason is not None:
            self._end()
            raise WorkerLost(f"it cannot begin: {reason}")
        if self._paused:
            self._tell(PAUSE)

    def _tell(self, what: str) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._say(what)

    def _say(self, what: object) -> None:
        with self._saying:
            if isinstance(what, Task):
                self._check_open()
            if self._process is not None and self._process.stdin is not None:
                send(cast(BinaryIO, self._process.stdin), what)

    def _check_open(self) -> None:
        if self._closed:
            raise WorkerLost("it was closed")

    def _end(self) -> None:
        with self._saying:
            process, self._process = self._process, None
            if process is None or process.stdin is None:
                return
            with contextlib.suppress(OSError, ValueError):
                send(cast(BinaryIO, process.stdin), END)
            with contextlib.suppress(OSError):
                process.stdin.close()
        try:
            process.wait(_SERVER_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        _end_session(process.pid)
        with self._asking:
            os.close(self._answers)


def _end_session(leader: int) -> None:
    """Ends the processes that tasks have started, and that their server, which is gone, could not
    end itself; where the system tells of them."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, ValueError):
            fields = (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
            if int(fields[_SESSION]) == leader != int(folder.name):
                os.kill(int(folder.name), signal.SIGKILL)


_SESSION = 3  # of the fields behind the name of a process


def outcome_of(task: Task, report: ChildReport) -> Outcome:
    """What a report says of a task."""
    printed = " ".join(report.printed.split())[-_PRINTED_CHARACTERS:]
    said = f'; it has printed "{printed}"' if printed else ""
    if report.late:
        return Outcome({}, failure=f"it has not ended after {task.seconds:g} s{said}")
    if report.loud:
        return Outcome({}, failure=f"it has printed more than {task.printed} bytes{said}")
    if report.status < 0:
        name = signal.Signals(-report.status).name
        return Outcome({}, failure=f"it was ended by {name}{_meanings.get(name, '')}{said}")
    try:
        header, blobs = decoded(report.answer)
    except (ValueError, KeyError, TypeError):
        return Outcome({}, failure=f"it has ended with status {report.status}{said}")
    if "failure" in header:
        raised = blobs[0] if blobs else None
        return Outcome(header, failure=str(header["failure"]), raised=raised)
    return Outcome(header, blobs)


_meanings = {
    "SIGSEGV": ": it reads or writes memory that is not its own",
    "SIGBUS": ": it reads or writes memory that is not there",
    "SIGILL": ": it has an instruction that this processor lacks",
    "SIGFPE": ": it divides an integer by zero",
    "SIGABRT": ": it gave up",
}
