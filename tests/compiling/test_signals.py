"""Signal handlers while the main thread compiles: they raise, or call the same function."""

from __future__ import annotations

import signal
import sys
from functools import partial

import pytest

from tc.errors import TCWarning
from tc.process.call_sites import warn
from tc.process.uninterrupted import uninterrupted
from tests.compiling.running import run_script

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX signals")

# `arrive` is called by a thread that compiles: the handler of the main thread runs meanwhile
ARRIVING = """
class Stop(Exception):
    pass
calls, ran = [], threading.Event()
def arrive():
    calls.append(threading.current_thread() is threading.main_thread())
    if len(calls) == 1:
        os.kill(os.getpid(), signal.SIGUSR1)
        wait(ran)
def handler(*_):
    ran.set()
    BODY
signal.signal(signal.SIGUSR1, handler)
f = tc.compile(TEXT, backend=BACKEND)
"""

PLACES = {
    "numba": """
from tc.runtime import object_files as module
name = "_compile_modules"
""",
    "c": """
from tc.backends.clike import backend as module
name = "_compile"
""",
    "import": """
from tc.process import uninterrupted as module
name = "import_module"
""",
    "library": """
from tc import specialiser as module
name = "shape_program"
""",
}
PATCH = """
real = getattr(module, name)
def patched(*arguments):
    arrive()
    return real(*arguments)
setattr(module, name, patched)
"""


def script(place: str, body: str, then: str) -> str:
    head = ARRIVING.replace("BODY", body).replace("BACKEND", repr(backend_of(place)))
    parts = [PLACES[place], PATCH, head] if place != "import" else [PLACES[place], head, PATCH]
    return "".join(parts) + then


def backend_of(place: str) -> str:
    return "c" if place == "c" else "numba"


@pytest.mark.drawn(2)
@pytest.mark.parametrize("place", ["numba", "c", "library"])
def test_what_a_handler_raises_comes_out_of_the_call(place: str) -> None:
    """And what was being compiled is there for the next call."""
    run_script(
        script(
            place,
            "raise Stop",
            """
try:
    f(np.ones(7, np.float32))
except Stop as error:
    assert error.__context__ is None
else:
    raise AssertionError("nothing was raised")
check(f, 7)
assert calls == [False], calls
check(f, 8)
assert calls == [False, False], calls
""",
        )
    )


def test_what_a_handler_raises_while_modules_are_loaded() -> None:
    run_script("""
class Stop(Exception):
    pass
raised = []
def handler(*_):
    raised.append(1)
    raise Stop
signal.signal(signal.SIGUSR1, handler)
from tc.process import uninterrupted
real = uninterrupted.import_module
def patched(name):
    os.kill(os.getpid(), signal.SIGUSR1)
    return real(name)
uninterrupted.import_module = patched
for turn in range(100):
    try:
        f = tc.compile(TEXT)
        check(f, 7)
    except Stop:
        continue
    break
assert 2 <= len(raised) < 50, raised
assert f is not None
""")


@pytest.mark.drawn(2)
@pytest.mark.parametrize("place", ["numba", "c", "library"])
def test_a_handler_that_calls_what_is_being_compiled(place: str) -> None:
    run_script(script(place, "check(f, 7)\n    check(f, 9)", "check(f, 7)\ncheck(f, 9)\n"))


def test_a_handler_that_calls_between_any_two_instructions() -> None:
    """Of first, repeated and refused calls: there is no lock of the main thread's that it meets."""
    run_script("""
functions = [tc.compile(TEXT) for _ in range(3)]
calls, over = [], []
def handler(*_):
    number = len(calls)
    calls.append(number)
    check(functions[number % 3], 3 + number % 5)
    if not over:
        signal.setitimer(signal.ITIMER_REAL, 0.003)  # handlers do not pile up
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.003)
end = time.monotonic() + 60
turn = 0
while len(calls) < 150 and time.monotonic() < end:
    turn += 1
    for function in functions:
        for _ in range(30):
            check(function, 3 + turn % 5)
        try:
            function(np.ones((2, 2), np.float32))
        except tc.InputError:
            pass
over.append(True)  # none is on its way when the process ends
signal.setitimer(signal.ITIMER_REAL, 0)
assert calls
""")


RAISING = """
import random
class Stop(Exception):
    pass
def handler(*_):
    raise Stop
signal.signal(signal.SIGALRM, handler)
tries, chance = int(sys.argv[1]), random.Random(int(sys.argv[2]))
stopped = 0
f = tc.compile(TEXT)
for number in range(tries):
    if number % 40 == 0:
        f = tc.compile(TEXT if number % 80 else "def f(float(N) x) -> (y) { y(i) = exp(x(i)) }")
    x = np.zeros(1 + number % 40, np.float32)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0005, 0.12))
            f(x)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Stop:
        stopped += 1
    assert (f(x) == 1).all()
until(lambda: threading.active_count() == 1)  # no helper is left behind
print(stopped)
"""


def test_what_a_handler_raises_while_a_helper_begins() -> None:
    """`Thread.start` takes it for a failure of the thread, which is there all the same."""
    run_script("""
class Stop(Exception):
    pass
f = tc.compile(TEXT)
check(f, 3)
def handler(*_):
    raise Stop
signal.signal(signal.SIGUSR1, handler)
(name,) = {"_start_joinable_thread", "_start_new_thread"} & {*vars(threading)}
real = getattr(threading, name)
def starting(*arguments, **named):
    setattr(threading, name, real)
    real(*arguments, **named)
    os.kill(os.getpid(), signal.SIGUSR1)
setattr(threading, name, starting)
try:
    f(np.ones(7, np.float32))
except Stop as error:
    assert error.__context__ is None
else:
    raise AssertionError("nothing was raised")
until(lambda: threading.active_count() == 1)
check(f, 7)
""")


def test_what_a_handler_raises_at_moments_all_over_a_helper() -> None:
    """No thread is left behind half begun, and others' stacks are of the size that they were."""
    out = run_script("""
from tc.process.uninterrupted import uninterrupted
class Stop(Exception):
    pass
def handler(*_):
    raise Stop
signal.signal(signal.SIGALRM, handler)
stopped = 0
for number in range(600):
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-6 * (1 + number))
            uninterrupted(lambda: None)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Stop:
        stopped += 1
until(lambda: threading.active_count() == 1)
until(lambda: threading.stack_size() == 0)
print(stopped)
""")
    assert int(out) > 0


def test_exceptions_at_random_moments() -> None:
    assert int(run_script(RAISING, "20", "1")) > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_exceptions_at_many_random_moments(seed: int) -> None:
    assert int(run_script(RAISING, "400", str(seed))) > 50


def test_without_threads_the_call_is_served_all_the_same() -> None:
    """Where the system gives no more of them, or the process ends."""
    out = run_script("""
import atexit
f = tc.compile(TEXT)
def none(*_, **__):
    raise RuntimeError("can't start new thread")
start, threading.Thread.start = threading.Thread.start, none
check(f, 7)
threading.Thread.start = start
import _thread
start, _thread.start_new_thread = _thread.start_new_thread, none
check(f, 9)
_thread.start_new_thread = start
atexit.register(lambda: (check(f, 8), print("served")))
""")
    assert out == "served\n"


def test_a_helper_that_lingers_keeps_nothing_alive() -> None:
    """It has still to end when the main thread goes on with what it has made."""
    run_script("""
import weakref
from tc.process import uninterrupted as module
class Made:
    pass
over = threading.Event()
real = module._Helper._run
def lingering(self):
    real(self)
    wait(over)
module._Helper._run = lingering
made = weakref.ref(module.uninterrupted(Made))
assert threading.active_count() == 2
assert made() is None
over.set()
""")


def test_errors_are_those_of_the_work() -> None:
    run_script("""
from tc.process.uninterrupted import uninterrupted
for error in (ValueError("no"), SystemExit(3), KeyboardInterrupt(), StopIteration()):
    def work():
        assert threading.current_thread() is not threading.main_thread()
        raise error
    try:
        uninterrupted(work)
    except BaseException as found:
        assert found is error
    else:
        raise AssertionError
""")


def test_a_warning_is_at_the_line_that_called() -> None:
    """Though the thread that warns is a helper's."""
    line = sys._getframe().f_lineno + 2
    with pytest.warns(TCWarning) as caught:
        uninterrupted(partial(warn, "it takes long"))
    assert (caught[0].filename, caught[0].lineno) == (__file__, line)
