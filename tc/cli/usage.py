"""The error about the command line itself."""

from __future__ import annotations


class UsageError(Exception):
    """The command line, or a file that it names, is wrong: exit status 2."""
