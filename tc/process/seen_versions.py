"""The versions of a library with which tests have run, where tc uses private parts of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tc.process.call_sites import warn


def was_seen(version: str, seen: Sequence[str]) -> bool:
    """Whether a version lies between the first and the last of those that were `seen`, by its first
    two numbers.

    >>> seen = ("0.6.2", "0.10.2")
    >>> [was_seen(each, seen) for each in ("0.5.3", "0.6.2", "0.10.9", "0.11.0.dev1", "1.0")]
    [False, True, True, False, False]
    """
    return _release(seen[0]) <= _release(version) <= _release(seen[-1])


def check_version(library: str, version: str, seen: Sequence[str], meaning: str) -> bool:
    """Whether a version was seen; where not, a TCWarning says so, and what that means."""
    known = was_seen(version, seen)
    if not known:
        tested = f"{library} {seen[0]} to {seen[-1]}"
        warn(f"tc was tested with {tested}, and this is {version}: {meaning}")
    return known


def _release(version: str) -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)
