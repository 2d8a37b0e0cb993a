"""Work, counted: the same however busy the machine is."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def calls(run: Callable[[], object]) -> int:
    """How many functions a run calls."""
    count = 0

    def profile(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count
