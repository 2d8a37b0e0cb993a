"""Scripts in processes of their own: what hangs or dies there is a failure here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LIMIT = 240
"""Seconds: far more than any script takes, on a machine that has other work as well."""

HEAD = """
import faulthandler, os, signal, sys, threading, time
import numpy as np
import tc
def guard():  # nobody else ends a child
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(200)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=guard)
tc.cache.disable()
TEXT = "def f(float(N) x) -> (y) { y(i) = 3 * x(i) + 1 }"
def check(f, size):
    x = np.arange(size, dtype=np.float32)
    assert (f(x) == 3 * x + 1).all(), size
def wait(event):
    assert event.wait(120)
def until(condition):
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
def status_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
"""What scripts start with: no file is read that another process may have written."""


def run_script(script: str, *arguments: str, **environment: str) -> str:
    """What a script prints, after `HEAD`; it ends well and writes no errors."""
    done = subprocess.run(
        [sys.executable, "-c", HEAD + script, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    return done.stdout
