"""Scripts in processes of their own: what hangs or dies there is a failure here."""

from __future__ import annotations

from tests.support.processes import ended_well, run_python, told

HEAD = """
import faulthandler, os, signal, sys, threading, time
import numpy as np
import tc
def guard():  # nobody else ends a child
    faulthandler.register(signal.SIGALRM, chain=True)
    signal.alarm(500)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=guard)
tc.cache.disable()
TEXT = "def f(float(N) x) -> (y) { y(i) = 3 * x(i) + 1 }"
def check(f, size):
    x = np.arange(size, dtype=np.float32)
    assert (f(x) == 3 * x + 1).all(), size
def wait(event):
    assert event.wait(300)
def until(condition):
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)
def status_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
"""What scripts start with: no file is read that another process may have written."""


def run_script(script: str, *arguments: str, **environment: str) -> str:
    """What a script prints, after `HEAD`; it ends well and writes no errors."""
    done = run_python(HEAD + script, *arguments, environment=environment)
    assert ended_well(done), told(done)
    return done.stdout
