"""Threads and processes, each case in a process of its own: results right, never an abort, with the
thread pool in machine code and with that in Python."""

from __future__ import annotations

import os

import pytest

from tests.support.processes import run_python, told

SETUP = """
import os, sys, threading, warnings
import numpy as np
from tc.backends.numba.backend import NumbaBackend
from tc.runtime.thread_pool import pool
from tc.runtime.thread_pool import ThreadPool
from tc.errors import TCWarning
from tests.support.kernels import load, matmul, run

rng = np.random.default_rng(0)
a, b = (rng.standard_normal((64, 64)).astype(np.float32) for _ in range(2))
compiled = load(NumbaBackend(), matmul(64, 64, 64))

def product():
    return run(compiled, {"A": a, "B": b})[1]["C"]

def in_thread(function):
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()

expected = run(compiled, {"A": a, "B": b}, 1)[1]["C"]

def say(caught):
    texts = {str(w.message).split("\\n")[0] for w in caught if w.category is TCWarning}
    assert all(w.category is TCWarning for w in caught), [str(w.message) for w in caught]
    print("; ".join(sorted(texts)) or "quiet", flush=True)

def forked(function=product):
    child = os.fork()
    if child == 0:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            right = all((function() == expected).all() for _ in range(3))
        say(caught)
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
"""

HAMMER = """
product()
rights = []
def work():
    rights.extend((product() == expected).all() for _ in range(60))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads: t.start()
    for t in threads: t.join()
say(caught)
assert len(rights) == 240 and all(rights)
assert os.environ["TC_NATIVE_CALLS"] == "1" or isinstance(pool(), ThreadPool)
"""

FORK = """
product()
forked()
assert (product() == expected).all()
"""

FORK_AMID_LAUNCHES = """
over = threading.Event()
rights = []
def work():
    while not over.is_set():
        rights.append((product() == expected).all())
thread = threading.Thread(target=work)
thread.start()
for _ in range(10):
    forked()
over.set()
thread.join()
assert rights and all(rights)
"""

FORK_IN_THREAD = "product()\nin_thread(forked)"

POOL = """
import multiprocessing
product()
def work(_):
    return bool((product() == expected).all())
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert all(pool.map(work, range(8)))
print("quiet")
"""

OTHERS_THREADS = """
import numba

@numba.njit(parallel=True)
def increment(x):
    for i in numba.prange(x.shape[0]):
        x[i] += 1

increment(np.zeros(100))
product()
forked()
"""

FORK_FIRST = "forked()"

SEVERAL_FIRST_CALLS = """
rights = []
threads = [
    threading.Thread(target=lambda: rights.append((product() == expected).all()))
    for _ in range(4)
]
for t in threads: t.start()
for t in threads: t.join()
assert rights == [True] * 4
print("quiet")
"""

END = """
sys.stdout.flush()
os._exit(0)  # with one processor, the end of numba's own threads may wait for ever after a fork
"""

POOLS = pytest.mark.parametrize("native", ["1", "0"], ids=["native", "python"])


def run_script(script: str, native: str) -> str:
    """What it prints on two threads, however many processors there are."""
    done = run_python(
        SETUP + script + END,
        flags=["-W", "error"],
        environment={"NUMBA_NUM_THREADS": "2", "TC_NATIVE_CALLS": native},
    )
    assert done.returncode == 0, told(done)
    return done.stdout.strip()


@pytest.mark.drawn(3)
@POOLS
@pytest.mark.parametrize("script", [HAMMER, SEVERAL_FIRST_CALLS], ids=["hammer", "first"])
def test_several_python_threads(native: str, script: str) -> None:
    assert run_script(script, native) == "quiet"


FORKS = {
    "fork": FORK,
    "pool": POOL,
    "in a thread": FORK_IN_THREAD,
    "amid launches": FORK_AMID_LAUNCHES,
    "numba's threads": OTHERS_THREADS,
    "first": FORK_FIRST,
}


@pytest.mark.drawn(3)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@POOLS
@pytest.mark.parametrize("case", FORKS)
def test_forked_children(native: str, case: str) -> None:
    assert set(run_script(FORKS[case], native).split("\n")) == {"quiet"}
