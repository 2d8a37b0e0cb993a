"""Messages of commands for a terminal, and the streams that take them.

A message escapes what a terminal would obey (`tc.source.visible`), and a message that nobody can
read is lost without an error, so that the exit status is that of the command.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import NoReturn

from tc.source import visible


def say(message: object) -> None:
    """A line, or several, on the standard error."""
    with contextlib.suppress(OSError, ValueError):
        print(visible(str(message)), file=sys.stderr, flush=True)


def print_line(line: object) -> None:
    """A line of output, or several, in which names of files may stand."""
    write(f"{visible(str(line))}\n")


def write(text: str) -> None:
    """A text of programs or data as output: in UTF-8, as all files of texts are, but for a terminal
    of another encoding that has all of its characters."""
    stream = sys.stdout
    as_it_is = text.isascii() or (stream.isatty() and _has(stream.encoding, text))
    if isinstance(stream, io.TextIOWrapper) and not as_it_is:
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")
    stream.write(text)


def _has(encoding: str, text: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def open_streams() -> None:
    """Gives what is closed a stand-in, as under `2>&-`: a file that is opened later would be taken
    for the standard output or the standard error."""
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            with contextlib.suppress(OSError):
                os.open(os.devnull, os.O_RDWR)
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # until the end


class _Closed(io.TextIOBase):
    """A standard output that is closed: an error where something is written, and only there."""

    def write(self, _: str) -> NoReturn:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
