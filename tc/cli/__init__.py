"""The command line, as `tc` and `tensorc`: check, fmt, explain, run, emit, tune, grad,
vjp, jvp, batch, cache.

Exit status 0: done; 1: an error in the program or the inputs, printed with its place and repair;
2: wrong usage, or a file that cannot be read or written; 130: stopped by Ctrl-C. What a command
needs is imported when it runs, so that `tc --version` is quick.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import TextIO

from tc import __version__
from tc.cli.terminal import open_streams, say

NAMES = ("tc", "tensorc")
INTERRUPTED = 130
"""The exit status after Ctrl-C, as shells have it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    >>> main(["--version"])  # doctest: +ELLIPSIS
    tc ...
    0
    """
    open_streams()
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
        say(f"{name}: cannot write the output: {error.strerror or error}")
        return 2
    except KeyboardInterrupt:
        return INTERRUPTED
    return status


def _run(name: str, words: Sequence[str]) -> int:
    if words in (["--version"], ["-V"]):
        print(f"{name} {__version__}")
        return 0
    dispatch = import_module("tc.cli.dispatch")
    _interrupts_raise()
    status: int = dispatch.run(name, words)
    return status


def _interrupts_raise() -> None:
    """Ctrl-C is KeyboardInterrupt from here on. It ended the process while modules were imported,
    where an exception is a traceback, or a module that is half there (`tc/__init__.py`)."""
    with contextlib.suppress(ValueError):  # in another thread
        if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _drop(stream: TextIO) -> None:
    """What was printed and cannot be written would be tried again when Python ends."""
    with contextlib.suppress(OSError):  # a stream without a file
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)
