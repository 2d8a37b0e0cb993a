"""Threads and processes, each case in a process of its own: results right, never an abort.

The threads are those of the pool, or of one of numba's layers, of which a process has one; what
this machine lacks is skipped.
"""

from __future__ import annotations

import os

import pytest

from tc.runtime.thread_pool import new_pool
from tests.support.processes import run_python, told

SETUP = """
import os, sys, threading, warnings
import numba
import numpy as np
from tc.backends.numba.backend import NumbaBackend
from tc.backends.numba.threads import LAUNCHER
from tc.errors import TCWarning
from tests.support.kernels import load, matmul, run

if sys.argv[1] == "pool":
    assert LAUNCHER.pool is not None
else:
    LAUNCHER.pool = None
    numba.config.THREADING_LAYER = sys.argv[1]

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
assert sys.argv[1] == "pool" or numba.threading_layer() == sys.argv[1]
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
from tc.backends.numba.threads import _preload_tbb
_preload_tbb()

@numba.njit(parallel=True)
def increment(x):
    for i in numba.prange(x.shape[0]):
        x[i] += 1

increment(np.zeros(100))
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

GNU = "this call runs serially: GNU OpenMP cannot run in a forked child; install tbb, or spawn"
TBB = (
    "this call runs serially: TBB cannot run in this forked child; "
    "fork from the main thread, or spawn"
)


END = """
sys.stdout.flush()
os._exit(0)  # with one processor, TBB's own end waits for ever after a fork
"""


def run_script(script: str, layer: str) -> str:
    """What it prints on two threads, however many processors there are."""
    if layer == "pool" and new_pool() is None:
        pytest.skip("no pool on this platform")
    done = run_python(
        SETUP + script + END,
        layer,
        flags=["-W", "error"],
        environment={"NUMBA_NUM_THREADS": "2"},
    )
    if layer != "nonsense" and "numba has no threads here" in done.stdout + done.stderr:
        pytest.skip(f"numba has no {layer} here")
    assert done.returncode == 0, told(done)
    return done.stdout.strip()


@pytest.mark.parametrize("layer", ["pool", "tbb", "omp"])
@pytest.mark.parametrize("script", [HAMMER, SEVERAL_FIRST_CALLS], ids=["hammer", "first"])
def test_several_python_threads(layer: str, script: str) -> None:
    assert run_script(script, layer) == "quiet"


def test_several_python_threads_on_the_workqueue() -> None:
    """numba would end the process."""
    assert run_script(HAMMER, "workqueue") in (
        "this call runs serially: numba's workqueue serves one Python thread at a time; "
        "install tbb",
        "quiet",  # where no two calls met
    )


fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@fork
@pytest.mark.parametrize(
    ("layer", "script", "said"),
    [
        ("pool", FORK, "quiet"),
        ("pool", POOL, "quiet"),
        ("pool", FORK_IN_THREAD, "quiet"),
        ("pool", FORK_AMID_LAUNCHES, "\n".join(["quiet"] * 10)),
        ("pool", OTHERS_THREADS, "quiet"),
        ("pool", FORK_FIRST, "quiet"),
        ("tbb", FORK, "quiet"),
        ("tbb", POOL, "quiet"),
        ("tbb", FORK_IN_THREAD, TBB),
        ("tbb", OTHERS_THREADS, TBB),
        ("omp", FORK, GNU),
        ("omp", OTHERS_THREADS, GNU),
        ("omp", FORK_FIRST, "quiet"),
        ("workqueue", FORK, "quiet"),
        ("workqueue", FORK_IN_THREAD, "quiet"),
    ],
)
def test_forked_children(layer: str, script: str, said: str) -> None:
    """numba would end a child after OpenMP, and TBB's might wait for threads that are gone."""
    assert run_script(script, layer) == said


def test_no_layer_at_all_runs_serially() -> None:
    script = """
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert (product() == expected).all()
say(caught)
"""
    assert run_script(script, "nonsense").startswith("this call runs serially: numba has no")
