"""Warnings at the line that called tc, whichever thread works for it."""

from __future__ import annotations

import warnings

from tc.errors import TCWarning
from tc.origins import is_ours
from tc.process.uninterrupted import stack


def warn(text: str) -> None:
    """A TCWarning at the innermost line outside of tc."""
    for frame in stack():
        module = frame.f_globals.get("__name__", "")
        if not is_ours(module):
            registry = frame.f_globals.setdefault("__warningregistry__", {})
            place = (frame.f_code.co_filename, frame.f_lineno, module, registry)
            warnings.warn_explicit(text, TCWarning, *place)
            return
    warnings.warn(text, TCWarning, stacklevel=2)
