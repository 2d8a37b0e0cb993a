"""The command line, as `tc` and `tensorc`: check, fmt, explain, run, emit, tune, grad,
vjp, jvp, batch, cache.

Exit status 0: done; 1: an error in the program or the inputs, printed with its place and repair;
2: wrong usage, or a file that cannot be read or written; 130: stopped by Ctrl-C. What a command
needs is imported when it runs, so that `tc --version` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from tc import __version__

NAMES = ("tc", "tensorc")
INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    >>> main(["--version"])  # doctest: +ELLIPSIS
    tc ...
    0
    """
    words = list(sys.argv[1:] if argv is None else argv)
    called = os.path.basename(sys.argv[0]).removesuffix(".exe")
    name = called if called in NAMES else NAMES[0]
    try:
        status = _run(name, words)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads has enough
        _drop(sys.stdout)
        return 0
    except OSError as error:
        _drop(sys.stdout)
        print(f"{name}: cannot write the output: {error.strerror}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _run(name: str, words: Sequence[str]) -> int:
    if words in (["--version"], ["-V"]):
        print(f"{name} {__version__}")
        return 0
    status: int = import_module("tc.cli.dispatch").run(name, words)
    return status


def _drop(stream: TextIO) -> None:
    """What was printed and cannot be written would be tried again when Python ends."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, stream.fileno())
    os.close(nothing)
