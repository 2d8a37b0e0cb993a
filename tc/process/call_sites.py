"""The line that called tc: where warnings are shown, whichever thread issues them, and where a text
stands in its file, so that errors can name the file and the line."""

from __future__ import annotations

import linecache
import sys
import warnings
from types import FrameType

from tc.errors import TCWarning
from tc.process.uninterrupted import stack
from tc.source import Origin, Source

_PACKAGE = __name__.partition(".")[0]
_BETWEEN = ("torch", "jax")
"""Libraries that call tc for their users: in layers, and where they trace."""


def warn(text: str) -> None:
    """A TCWarning at the innermost line outside of tc and of what calls it for users."""
    for frame in stack():
        module = frame.f_globals.get("__name__", "")
        if not (_is_ours(module) or module.partition(".")[0] in _BETWEEN):
            registry = frame.f_globals.setdefault("__warningregistry__", {})
            place = (frame.f_code.co_filename, frame.f_lineno, module, registry)
            warnings.warn_explicit(text, TCWarning, *place)
            return
    warnings.warn(text, TCWarning, stacklevel=2)


def _is_ours(module: str) -> bool:
    """Whether a module of this name is of tc."""
    return module == _PACKAGE or module.startswith(f"{_PACKAGE}.")


def source_of(text: str) -> Source:
    """The source of a text that the caller of tc gives, as it stands in the caller's file."""
    return Source(text, origin=_caller(text))


def _caller(text: str) -> Origin | None:
    """Where the innermost frame outside of tc is, and the text in its file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    if frame is None:
        return None
    file = frame.f_code.co_filename
    if file.startswith("<"):  # of no file: typed in, or a doctest
        return None
    lines = linecache.getlines(file)
    return _find(text, "".join(lines), file, frame.f_lineno) if lines else None


def _find(text: str, content: str, file: str, line: int) -> Origin:
    """The place of a text in a file: that next to the line of the call, if it stands there letter
    by letter."""
    found: tuple[int, int] | None = None
    start = content.find(text) if text.strip() else -1
    while start >= 0:
        first = content.count("\n", 0, start) + 1
        if found is None or abs(first - line) < abs(found[0] - line):
            found = first, start - (content.rfind("\n", 0, start) + 1)
        start = content.find(text, start + 1)
    return Origin(file, line, found)
