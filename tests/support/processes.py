"""Scripts in Python processes of their own: what hangs there ends with its stacks, and a failure
shows the lines of the script that its traceback names."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]

LIMIT = 600
"""Seconds after which a process hangs: far more than any takes, on a machine that has other work
as well."""

_LAST = 30  # seconds to write stacks, and to end


def run_python(
    script: str,
    *arguments: str,
    flags: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    cwd: Path = ROOT,
    limit: float = LIMIT,
) -> subprocess.CompletedProcess[str]:
    """Runs a script to its end, with more variables in its environment.

    A script that does not end within the limit is aborted with the processes that it has started,
    and their stacks are in its errors.

    >>> run_python("print(6 * 7)").stdout
    '42\\n'
    """
    command = [sys.executable, *flags, "-c", script, *arguments]
    process = subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, "PYTHONFAULTHANDLER": "1", **(environment or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        try:
            output, errors = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            output, errors = _aborted(process)
            errors = f"no end within {limit:g} s\n{errors}"
        except BaseException:
            _kill(process, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, output, errors)


def told(done: subprocess.CompletedProcess[str]) -> str:
    """The status and output of a process, with the lines of the script that a traceback names."""
    script = done.args[done.args.index("-c") + 1].splitlines()

    def with_text(found: re.Match[str]) -> str:
        at = int(found[1]) - 1
        return f"{found[0]}: {script[at].strip()}" if 0 <= at < len(script) else found[0]

    errors = re.sub(r'File "<string>", line (\d+)', with_text, done.stderr)
    return f"status {done.returncode}\n{done.stdout}{errors}"


def ended_well(done: subprocess.CompletedProcess[str]) -> bool:
    """By itself, and without a word on stderr."""
    return (done.returncode, done.stderr) == (0, "")


def processor_seconds(process: int) -> float | None:
    """The seconds of processors that a process has used, with the processes that it has started
    and these in turn; None where there is no /proc, as on macOS. Short times read as 0."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        started = [
            int(child)
            for tasks in Path(f"/proc/{process}/task").glob("*/children")
            for child in tasks.read_text().split()
        ]
    except OSError:
        return None
    ticks = sum(map(int, fields[_TIMES]))
    return ticks / os.sysconf("SC_CLK_TCK") + sum(processor_seconds(each) or 0 for each in started)


_TIMES = slice(11, 15)
"""Where `stat`, from its third field on, has the times of a process and of those it waited for."""


def _aborted(process: subprocess.Popen[str]) -> tuple[str, str]:
    """What they all write at their end. They stop at once; then the process that was started first
    writes its stacks, and only when it has ended the others do, so that no lines mix."""
    _kill(process, signal.SIGSTOP)
    for kill in (os.kill, os.killpg):
        _kill(process, signal.SIGABRT, kill)
        _kill(process, signal.SIGCONT, kill)
        for _ in range(_LAST * 10):  # and no deadline: this process may be stopped meanwhile, too
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.communicate(timeout=0.1)
            if kill is os.kill and process.poll() is not None:
                break
    _kill(process, signal.SIGKILL)
    return process.communicate()


def _kill(
    process: subprocess.Popen[str],
    number: signal.Signals,
    kill: Callable[[int, int], None] = os.killpg,
) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        kill(process.pid, number)
