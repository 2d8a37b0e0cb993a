"""The error about the command line itself."""

from __future__ import annotations


class UsageError(Exception):
    """The command line is wrong, or a file that it names: exit status 2."""
