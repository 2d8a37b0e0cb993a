"""The command line: `tc check | fmt | explain | run | emit | cache`, also installed as `tensorc`.

Exit status 0: done; 1: an error in the program or the inputs, printed with its place and repair;
2: wrong usage. What a command needs is imported when it runs, so that `tc --version` is quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from tc import __version__

NAMES = ("tc", "tensorc")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit status.

    >>> main(["--version"])  # doctest: +ELLIPSIS
    tc ...
    0
    """
    words = list(sys.argv[1:] if argv is None else argv)
    called = os.path.basename(sys.argv[0]).removesuffix(".exe")
    name = called if called in NAMES else NAMES[0]
    if words in (["--version"], ["-V"]):
        print(f"{name} {__version__}")
        return 0
    status: int = import_module("tc.cli.dispatch").run(name, words)
    return status
