"""0.18: a call in `__del__` while Python ends gives its result, or an error of tc."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import numpy as np
import tc

class Last:
    def __init__(self, function, x):
        self.function, self.x = function, x

    def __del__(self):
        assert sys.is_finalizing()
        try:
            print(float(self.function(self.x)), flush=True)
        except tc_error as error:
            print(error, flush=True)

tc_error = tc.TCError
f = tc.compile("def f(float(N) x) -> (o) {{ o +=! 2 * x(i) }}", backend="{backend}")
x = np.ones(3, np.float32)
if {warm}:
    f(x)
sys.modules["last"] = Last(f, x)
"""
REFUSED = (
    "BackendError: Python is ending, and what this call needs can no longer be loaded\n"
    "repair: call it before, as in atexit.register(...), and not in __del__\n"
)


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("backend", "warm", "said"),
    [("interpret", False, "6.0\n"), ("numba", False, REFUSED), ("numba", True, "6.0\n")],
)
def test_a_call_while_python_ends(backend: str, warm: bool, said: str) -> None:
    """0.18: the interpreter waited for a thread for ever, numba gave a raw ImportError."""
    text = PROGRAM.format(backend=backend, warm=warm)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.returncode) == (said, 0), done.stderr
