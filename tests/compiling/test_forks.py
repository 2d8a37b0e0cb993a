"""Forks while other threads compile: the child compiles, too, or says why it cannot."""

from __future__ import annotations

import os

import pytest

from tests.compiling.running import run_script

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")

BESIDE = """
import tc.process.forks
tc.process.forks.FORK_WAIT_SECONDS = 400
failures = []
def use():
    try:
        check(tc.compile(TEXT), 7)
    except BaseException as error:
        failures.append(error)
thread = threading.Thread(target=use)
thread.start()
until(lambda: WHEN)
child = os.fork()
if child == 0:
    check(tc.compile(TEXT), 7)
    check(tc.compile(TEXT), 9)
    os._exit(0)
assert status_of(child) == 0
thread.join()
assert not failures, failures
"""


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    "module", ["tc.api", "llvmlite.binding", "tc.pipeline", "tc.polyhedral.lowering"]
)
def test_a_fork_while_another_thread_imports(module: str) -> None:
    """The first call, as far as it has loaded such a module, and is loading others."""
    run_script(BESIDE.replace("WHEN", f"{module!r} in sys.modules"))


@pytest.mark.slow
@pytest.mark.parametrize("turn", range(60))
def test_a_fork_at_any_moment_of_a_first_use(turn: int) -> None:
    run_script(BESIDE.replace("until(lambda: WHEN)", f"time.sleep({turn} * 0.02)"))


def test_a_fork_while_another_thread_imports_numba_itself() -> None:
    """Without tc: what it needs is half loaded all the same."""
    run_script("""
tc.compile  # what is in front of the backend
thread = threading.Thread(target=lambda: __import__("numba"))
thread.start()
until(lambda: "numba" in sys.modules or not thread.is_alive())
child = os.fork()
if child == 0:
    check(tc.compile(TEXT), 7)
    os._exit(0)
assert status_of(child) == 0
thread.join()
""")


STRANDED = """
import tc.process.forks
tc.process.forks.FORK_WAIT_SECONDS = 0.2
f = tc.compile(TEXT)
for _ in range(4):
    check(f, 7)
g = tc.compile(TEXT)
check(g, 7)
from numba.core.compiler_lock import global_compiler_lock as numba_lock
from llvmlite.binding.ffi import lib
llvm_lock = lib._lock
held, over = threading.Event(), threading.Event()
def hold():
    with LOCK:
        held.set()
        wait(over)
thread = threading.Thread(target=hold)
thread.start()
wait(held)
child = os.fork()
if child == 0:
    for _ in range(4):  # compiled before the fork, called often or once
        check(f, 7)
        check(g, 7)
    check(tc.compile(TEXT, backend="interpret"), 8)
    for backend in None, "numba", "c":
        start = time.monotonic()
        try:
            function = f if backend is None else tc.compile(TEXT, backend=backend)
            function(np.ones(9, np.float32))
        except tc.BackendError as error:
            assert error.cause.startswith("this process was forked while another thread"), error
        else:
            os._exit(3)
        assert time.monotonic() - start < 200  # at once, but for a machine under load
    del f, g  # nothing is freed that would have to wait
    import gc; gc.collect()
    if os.fork() == 0:  # its children are no better
        try:
            check(tc.compile(TEXT), 9)
        except tc.BackendError:
            os._exit(0)
        os._exit(4)
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
over.set()
assert status_of(child) == 0
thread.join()
check(f, 9)
tc.process.forks.FORK_WAIT_SECONDS = 400
child = os.fork()
if child == 0:
    check(f, 11)
    os._exit(0)
assert status_of(child) == 0
"""


@pytest.mark.drawn(3)
@pytest.mark.parametrize("lock", ["numba_lock", "llvm_lock", "tc.process.forks.step()"])
def test_a_child_of_which_a_compiler_is_locked_says_so(lock: str) -> None:
    run_script(STRANDED.replace("LOCK", lock))


def test_a_fork_waits_for_a_step_to_end() -> None:
    """And no other begins meanwhile."""
    run_script("""
from tc.process import forks
forks.FORK_WAIT_SECONDS = 400
steps = []
inside, seen = threading.Event(), threading.Event()
def first():
    with forks.step():
        with forks.step():
            inside.set()
            wait(seen)
            steps.append("first")
def second():
    wait(inside)
    until(lambda: forks._GATE.forking)
    seen.set()
    with forks.step():
        steps.append("second")
threads = [threading.Thread(target=work) for work in (first, second)]
for thread in threads: thread.start()
wait(inside)
child = os.fork()
if child == 0:
    assert steps == ["first"], steps
    with forks.step():
        pass
    os._exit(0)
assert status_of(child) == 0
for thread in threads: thread.join()
assert steps == ["first", "second"]
""")


def test_the_lock_of_the_log_is_as_it_was() -> None:
    """The hook of `logging` has taken the lock; a compiler that logs during the fork needs the
    lock."""
    run_script("""
from tc.process import forks
assert "logging" not in sys.modules or forks._LOG_FIRST
import logging
inside = threading.Event()
def work():
    with forks.step():
        inside.set()
        until(lambda: forks._GATE.forking)
        with logging._lock:
            pass
thread = threading.Thread(target=work)
thread.start()
wait(inside)
child = os.fork()
free = []
def ask():
    free.append(logging._lock.acquire(timeout=300))
    logging._lock.release()
other = threading.Thread(target=ask)
other.start(); other.join()
assert free == [True]
if child == 0:
    os._exit(0)
assert status_of(child) == 0
""")


def test_forks_in_several_threads() -> None:
    run_script("""
f = tc.compile(TEXT)
check(f, 3)
wrong = []
def fork(number):
    for turn in range(5):
        child = os.fork()
        if child == 0:
            check(f, 10 + number)
            os._exit(0)
        if status_of(child):
            wrong.append(number)
def compile(number):
    for turn in range(5):
        check(f, 100 * number + turn)
threads = [threading.Thread(target=work, args=(n,)) for n in (1, 2) for work in (fork, compile)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert not wrong
""")


def test_a_fork_while_another_thread_computes_a_cached_property() -> None:
    """Of Python before 3.12, which has a lock for each such property."""
    run_script("""
from functools import cached_property
from tc.polyhedral.scop import scop
class Slow:
    @cached_property
    def value(self):
        inside.set()
        wait(done)
        return 7
scop.Slow = Slow  # as if it were tc's own
inside, done = threading.Event(), threading.Event()
thread = threading.Thread(target=lambda: Slow().value)
thread.start()
wait(inside)
child = os.fork()
if child == 0:
    done.set()
    assert Slow().value == 7
    os._exit(0)
done.set()
assert status_of(child) == 0
thread.join()
""")


def test_a_handler_that_forks_while_its_thread_waits_for_a_compiler() -> None:
    """The helper is not in the child, where the interrupted call goes on."""
    run_script("""
from tc.runtime import object_files
f = tc.compile(TEXT)
parent, children = os.getpid(), []
signal.signal(signal.SIGUSR1, lambda *_: children.append(os.fork()))
real = object_files._compile_modules
def compiling(*arguments):
    return real(*arguments)
def signalled(*arguments):
    if os.getpid() == parent and not children:
        os.kill(parent, signal.SIGUSR1)
    return real(*arguments)
object_files._compile_modules = signalled
check(f, 7)
check(f, 8)
if os.getpid() != parent:
    os._exit(0)
assert len(children) == 1
assert status_of(children[0]) == 0
""")


def test_a_handler_that_compiles_while_a_fork_waits() -> None:
    """For another thread; what the handler compiles does not wait for that fork in turn."""
    run_script("""
from tc.process import forks
forks.FORK_WAIT_SECONDS = 150
f = tc.compile(TEXT)
check(f, 3)
inside, served = threading.Event(), threading.Event()
def hold():
    with forks.step():
        inside.set()
        wait(served)
def handler(*_):
    check(f, 9)
    served.set()
def ask():
    until(lambda: forks._GATE.forking)
    os.kill(os.getpid(), signal.SIGUSR1)
signal.signal(signal.SIGUSR1, handler)
threads = [threading.Thread(target=work) for work in (hold, ask)]
threads[0].start()
wait(inside)
threads[1].start()
child = os.fork()
if child == 0:
    check(f, 11)
    os._exit(0)
assert status_of(child) == 0
for thread in threads: thread.join()
check(f, 12)
assert not forks._GATE.working_for
""")


def test_what_a_handler_raises_around_a_fork() -> None:
    """Python forks all the same, and says what was raised; nothing stays locked in either
    process."""
    run_script("""
import random
class Stop(Exception):
    pass
def handler(*_):
    raise Stop
f = tc.compile(TEXT)
check(f, 3)
signal.signal(signal.SIGALRM, handler)
told = []
sys.unraisablehook = lambda found: told.append(found.exc_type)
chance, end = random.Random(7), time.monotonic() + 60
while told.count(Stop) < 100 and time.monotonic() < end:
    child = None
    try:
        signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.003))
        child = os.fork()
        if child == 0:
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        os.waitpid(child, 0)
    except Stop:
        if child == 0:
            os._exit(0)
    assert not tc.process.forks._GATE.forking
    while True:
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
assert Stop in told
thread = threading.Thread(target=check, args=(f, 9))
thread.start()
thread.join()
check(f, 10)
child = os.fork()
if child == 0:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    check(f, 11)
    os._exit(0)
assert status_of(child) == 0
""")


def test_what_is_raised_where_functions_begin_and_end_leaves_no_lock() -> None:
    """There signal handlers run: at each such place around forks, one after the other."""
    run_script("""
from tc.process.forks import _GATE
class Stop(Exception):
    pass
def stopping(place):  # raises at the place of that number
    places = iter(range(place + 1))
    def trace(frame, event, value):
        if event in ("call", "return") and next(places) == place:
            sys.settrace(None)
            raise Stop
        frame.f_trace_lines = False
        return trace
    return trace
def is_free():
    found = []
    def ask():
        found.append(_GATE.lock.acquire(timeout=5))
        found[0] and _GATE.lock.release()
    other = threading.Thread(target=ask)
    other.start()
    other.join()
    return found[0]
def around():
    _GATE.before()
    _GATE.after_in_parent()
for place in range(1000):
    stopped = False
    sys.settrace(stopping(place))
    try:
        around()
    except Stop:
        stopped = True
    finally:
        sys.settrace(None)
    assert is_free(), place
    around()
    assert is_free() and not _GATE.forking, place
    if not stopped:
        break
assert 10 < place < 999, place
""")
