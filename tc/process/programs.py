"""Other programs, such as C compilers, run beside threads that fork."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tc.process.forks import step


def run_program(
    command: Sequence[str],
    *,
    seconds: float,
    environment: Mapping[str, str],
    cwd: Path | None = None,
    given: str = "",
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, and gives what it printed.

    Its pipes are made in a step: a child forked meanwhile would have them, too, and this would
    wait for that one's end. Raises OSError and subprocess.TimeoutExpired as `subprocess.run`.

    >>> import os, sys
    >>> command = [sys.executable, "-c", "print(input() * 2)"]
    >>> run_program(command, seconds=60, environment=os.environ, given="ab").stdout
    'abab\\n'
    """
    with step():
        program = subprocess.Popen(
            command,
            cwd=cwd,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
    with program:
        try:
            output, errors = program.communicate(given, timeout=seconds)
        except BaseException:
            program.kill()
            raise
    return subprocess.CompletedProcess(command, program.returncode, output, errors)
