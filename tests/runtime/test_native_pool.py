"""The thread pool in machine code: when its threads sleep, and on which processors they are.

Each case runs in a process of its own; see also `test_thread_pool`.
"""

from __future__ import annotations

import pytest

from tc.runtime import loaded, thread_pool
from tc.runtime.thread_pool import SPIN_TICKS
from tests.runtime.pools import run_script
from tests.support.processes import ended_well, run_python, told

pytestmark = pytest.mark.skipif(
    not loaded.is_allowed(thread_pool.MACHINES), reason="no machine code for pools here"
)


def test_one_processor_for_all_threads() -> None:
    run_script(
        """
check_launches(3000)
check_launches(20, 3, 10_000_000)
assert pool.code.memory.patience == 0
""",
        "native",
        threads=4,
        cpus=1,
    )


def test_launches_at_all_distances() -> None:
    """Around the time when the workers go to sleep, where a call might be missed."""
    run_script(
        """
pool.launch(count, *[Work(2).counts.ctypes.data] * 2, 0, 2)
pool.code.memory.patience = 2000
random.seed(0)
work = Work(3)
for _ in range(20_000):
    end = time.perf_counter() + random.random() * 4e-6
    while time.perf_counter() < end: pass
    assert work.launch()
work.check(20_000)
""",
        "native",
    )


def test_the_work_is_shared() -> None:
    """Two parts of some 10 ms, from sleep: the worker takes one, if it gets to run by then."""
    run_script(
        """
check_launches(1)
memory = pool.code.memory

def shared(ticks):
    until_all_sleep()
    work = Work(2, ticks)
    work.launch()
    work.check(1)
    return work.on_two_stacks()

assert any(shared(30_000_000) for _ in range(100))
for _ in range(300): shared(300_000)
""",
        "native",
    )


def test_no_slot_is_left() -> None:
    run_script(
        """
check_launches(1)
for slot in pool.code.memory.slots: slot.taken = 1
work = Work(2)
assert not work.launch()
assert (work.counts == 0).all()
pool.code.memory.slots[SLOTS - 1].taken = 0
assert work.launch()
work.check(1)
""",
        "native",
    )


def test_no_time_is_spent_at_rest() -> None:
    spent = run_script(
        """
check_launches(100)
until_all_sleep()

def spent():
    before = time.process_time()
    time.sleep(0.5)
    return time.process_time() - before

print(min(spent() for _ in range(3)))  # they say that they sleep just before they do
""",
        "native",
        threads=2,
    )
    assert float(spent) < 0.02


def test_the_workers_sleep_only_after_a_while() -> None:
    """As long as launches follow each other, no worker has to be woken."""
    run_script(
        """
pool.launch(count, *[Work(2).counts.ctypes.data] * 2, 0, 2)
memory = pool.code.memory
assert memory.patience == (SPIN_TICKS if len(os.sched_getaffinity(0)) >= 2 else 0)
assert memory.workers == 1
until_all_sleep()
if memory.patience:
    memory.patience = 1 << 40

    def stays_awake():
        check_launches(1, 2, 1000)
        time.sleep(0.01)
        return memory.asleep == 0

    until(stays_awake)  # once it has been scheduled in time to help
    time.sleep(0.05)
    assert memory.asleep == 0
    memory.patience = SPIN_TICKS
    until_all_sleep()
""",
        "native",
    )


PAYING = """
check_launches(1)
memory = pool.code.memory

def runs(ticks, parts=2):
    # whether a launch runs anything, which takes one thread some ticks
    work = Work(parts)
    arguments, records = work.counts.ctypes.data, work.records.ctypes.data
    ran = pool.launch(count, arguments, records, 24, parts, ticks)
    assert (work.counts[1:] == ran).all()
    return ran

memory.waking, memory.spinning = 1000, 10
"""


def test_launches_pay_by_the_time_in_which_workers_begin() -> None:
    """Of two parts one half is saved, of four three quarters."""
    run_script(
        PAYING
        + """
memory.asleep, memory.workers = 1, 1  # which do not exist
for ticks, parts, pays in [(1998, 2, 0), (2000, 2, 1), (1332, 4, 0), (1336, 4, 1)]:
    memory.last = 0
    assert runs(ticks, parts) == pays, (ticks, parts)
memory.asleep = 0
for ticks, parts, pays in [(18, 2, 0), (20, 2, 1), (12, 4, 0), (16, 4, 1), (0, 2, 0)]:
    assert runs(ticks, parts) == pays, (ticks, parts)
""",
        "native",
        threads=1,
    )


def test_little_work_wakes_workers_where_launches_follow_each_other() -> None:
    run_script(
        PAYING
        + """
memory.asleep, memory.workers = 1, 1  # which do not exist
for patience, pays in [(1 << 40, 1), (1, 0), (0, 0)]:
    memory.patience = patience
    runs(100)
    assert runs(100) == pays
memory.patience, memory.last = 1 << 20, 0
assert not runs(100)  # the first after a pause: the clock of a processor is never so near to 0
assert not runs(8)
""",
        "native",
        threads=1,
    )


def test_the_pool_finds_out_in_what_time_its_workers_begin() -> None:
    """Within the time for which they spin; those that spin sooner than those that sleep."""
    run_script(
        """
pool.launch(count, *[Work(3).counts.ctypes.data] * 2, 0, 2)
memory = pool.code.memory
assert 0 < memory.spinning <= memory.waking < SPIN_TICKS
""",
        "native",
    )


@pytest.mark.parametrize(("spins", "sleeps"), [(20, 30), (30, 20), (SPIN_TICKS, 20),
    (SPIN_TICKS // 2, SPIN_TICKS), (SPIN_TICKS, SPIN_TICKS)])  # fmt: skip
def test_workers_that_were_kept_from_their_processors(spins: int, sleeps: int) -> None:
    """In what time they begin is what was found elsewhere; never sooner if they sleep."""
    run_script(
        f"""
from dataclasses import replace
pool.launch(count, *[Work(3).counts.ctypes.data] * 2, 0, 2)
found = iter([{spins}] * SPINNING_TRIALS + [{sleeps}] * WAKING_TRIALS)
pool.code = replace(pool.code, measure=lambda threads: next(found))
pool._measure()
memory = pool.code.memory
assert 0 < memory.spinning <= memory.waking < SPIN_TICKS, (memory.spinning, memory.waking)
""",
        "native",
    )


CONFINED = """
def confined():
    '''Which processors the threads of the pool, and that which launches, may use.'''
    return {thread: os.sched_getaffinity(thread) for thread in workers() | {os.getpid()}}

everywhere = os.sched_getaffinity(0)
if len(everywhere) < 2:
    print("one processor")
    sys.exit()
check_launches(100, 3, 1000)
one = {min(everywhere)}
"""


def test_a_process_that_is_confined_while_it_runs_stays_so() -> None:
    """All its threads, as `taskset -a -p` does it; a worker that shares the processor of the
    launching thread would like another."""
    run_script(
        CONFINED
        + """
for thread in confined(): os.sched_setaffinity(thread, one)
for _ in range(300): check_launches(1, 3, 100_000)
assert set(map(frozenset, confined().values())) == {frozenset(one)}, confined()
""",
        "native",
        threads=4,
    )


def test_workers_follow_the_first_thread() -> None:
    """`os.sched_setaffinity(0, ...)` confines that alone."""
    run_script(
        CONFINED
        + """
def follow(processors):
    os.sched_setaffinity(0, processors)

    def all_follow():
        check_launches(20, 4, 100_000)
        return all(allowed == processors for allowed in confined().values())

    until(all_follow, confined)

follow(one)
assert pool.code.memory.patience == 0
follow(everywhere)
assert pool.code.memory.patience == (SPIN_TICKS if len(everywhere) >= 4 else 0)
""",
        "native",
        threads=4,
    )


RIVALS = (
    CONFINED
    + """
from tc.runtime.thread_pool import SENT, Worker
until_all_sleep()
(worker,) = workers()
memory = pool.code.memory
here = memory.places[0] - 1
others = everywhere - {here}

def beside_the_worker(function):
    # calls a function on a thread of its own, on the processor on which the worker sleeps
    def confined():
        os.sched_setaffinity(0, {here})
        function()
    thread = threading.Thread(target=confined)
    thread.start()
    thread.join()

woken = threading.Event()
sleeper = threading.Thread(target=woken.wait, daemon=True)
sleeper.start()
record = Worker(1, sleeper.native_id)
memory.records[1], memory.places[1], memory.begun = ctypes.addressof(record), 1 + here, 2

def sleeps(allowed, place):
    # makes the pool take a thread, which may use some processors, for a worker asleep on one
    until_all_sleep()
    os.sched_setaffinity(sleeper.native_id, allowed)
    memory.places[1] = 1 + place

def launch():
    assert Work(3).launch()
"""
)


def test_a_worker_that_sleeps_beside_the_launching_thread_is_sent_away() -> None:
    """To the other processors, and no worker that sleeps elsewhere, or may only run there."""
    run_script(
        RIVALS
        + """
for allowed, place, after in [
    (everywhere, here, others), (everywhere, min(others), everywhere), ({here}, here, {here})
]:
    sleeps(allowed, place)
    beside_the_worker(launch)
    assert os.sched_getaffinity(sleeper.native_id) == after
    assert record.state == (SENT if allowed != after else 0)
    record.state = 0
woken.set()
""",
        "native",
    )


def test_a_worker_that_was_sent_away_gets_its_processor_back() -> None:
    """Unless it has been confined meanwhile."""
    run_script(
        RIVALS
        + """
real = Worker.from_address(memory.records[0])
assert real.thread == worker
mask = sum(1 << number for number in everywhere).to_bytes(128, "little")
for allowed, after in [(others, everywhere), ({here}, {here})]:
    until_all_sleep()
    os.sched_setaffinity(worker, allowed)
    real.processor, real.allowed[:], real.state = here, mask, SENT
    launch()
    until(lambda: real.state == 0)
    until_all_sleep()
    assert os.sched_getaffinity(worker) == after
woken.set()
""",
        "native",
    )


def test_workers_of_another_process_are_left_alone() -> None:
    """A fork by a library knows the workers of its parent, which sleep there."""
    run_script(
        RIVALS
        + """
child = os.fork()
if child == 0:
    os.sched_setaffinity(0, {here})
    launch()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert os.sched_getaffinity(sleeper.native_id) == everywhere
assert os.sched_getaffinity(worker) == everywhere
woken.set()
""",
        "native",
    )


def test_workers_begin_where_the_process_may_run() -> None:
    """Also where the thread that starts them is confined to one processor."""
    run_script(
        CONFINED.replace("check_launches(100, 3, 1000)\n", "")
        + """
def launch_confined():
    os.sched_setaffinity(0, one)
    check_launches(1)

launching = threading.Thread(target=launch_confined)
launching.start()
launching.join()
until(lambda: all(os.sched_getaffinity(worker) == everywhere for worker in workers()))
""",
        "native",
    )


# --- filters of system calls ------------------------------------------------------------------

FILTERED = """
import ctypes, os, struct, sys
import numba  # which asks for the processors when it is imported
import numpy as np
import tc
from tc.runtime.thread_pool import NativePool, pool
from tc.runtime.thread_pool import ThreadPool

SETAFFINITY, GETAFFINITY, GETPRIORITY = 203, 204, 140
ERRNO, TRAP, KILL_THREAD, KILL_PROCESS = 0x50001, 0x30000, 0, 0x80000000

def refuse(action, *calls):
    '''From now on, for this thread and those that it starts.'''
    checks = [(0x15, 0, 1, number, 0x6, 0, 0, action) for number in calls]
    words = [0x20, 0, 0, 0, *(word for check in checks for word in check), 0x6, 0, 0, 0x7FFF0000]
    program = struct.pack("<" + "HBBI" * (len(words) // 4), *words)
    body = ctypes.create_string_buffer(program, len(program))
    place = ctypes.addressof(body)
    head = ctypes.create_string_buffer(struct.pack("<H6xQ", len(words) // 4, place))
    control = ctypes.CDLL(None, use_errno=True).prctl
    if control(38, 1, 0, 0, 0) or control(22, 2, head, 0, 0):
        print("no filters here")
        sys.exit()

def product():
    mm = tc.compile("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }")
    a = np.eye(300, dtype=np.float32)
    assert all((mm(a, a) == a).all() for _ in range(4))
    assert any(s.runner.shared for s in mm._specialiser.made.values())
"""


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("filtered", "kind"),
    [
        ("ERRNO, SETAFFINITY", "ThreadPool"),
        ("ERRNO, SETAFFINITY, GETAFFINITY", "ThreadPool"),
        ("TRAP, SETAFFINITY", "ThreadPool"),
        ("KILL_THREAD, SETAFFINITY", "ThreadPool"),
        ("KILL_PROCESS, SETAFFINITY", "ThreadPool"),
        ("KILL_PROCESS, GETPRIORITY", "NativePool"),
    ],
)
def test_filters_that_refuse_system_calls(filtered: str, kind: str) -> None:
    """They are tried once, by another process, of whose end no handler is told."""
    script = f"""
import signal
signal.signal(signal.SIGCHLD, lambda *_: print("a child has ended"))
refuse({filtered})
product()
print(type(pool()).__name__)
"""
    done = run_python(FILTERED + script, environment={"NUMBA_NUM_THREADS": "2"})
    assert ended_well(done), told(done)
    if done.stdout.strip() == "no filters here":
        pytest.skip(done.stdout.strip())
    assert done.stdout.split() == [kind]
