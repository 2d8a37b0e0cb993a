"""The thread pool: each part of each launch runs once, whoever launches, forks or ends.

Each case runs in a process of its own, as a process has one pool.
"""

from __future__ import annotations

import pytest

from tc.runtime.thread_pool import new_pool
from tests.support.processes import ended_well, run_python, told

pytestmark = pytest.mark.skipif(new_pool() is None, reason="no pool on this platform")

SETUP = """
import ctypes, os, random, sys, threading, time
import numpy as np
from tc.runtime.object_files import new_engine, parse_module
from tc.runtime.thread_pool import PATIENCE, SLOTS, ThreadPool

code = '''
declare i64 @llvm.readcyclecounter()
define void @count(i64 %counts, i64 %record, i64 %number, i64 %parts) {
start:
  %base = inttoptr i64 %counts to ptr
  %index = add i64 %number, 1
  %place = getelementptr i64, ptr %base, i64 %index
  %before = load i64, ptr %place
  %now = add i64 %before, 1
  store i64 %now, ptr %place
  %here = inttoptr i64 %record to ptr
  store i64 %number, ptr %here
  %second = getelementptr i64, ptr %here, i64 1
  %local = alloca i64
  %stack = ptrtoint ptr %local to i64
  store i64 %stack, ptr %second
  %ticks = load i64, ptr %base
  %began = call i64 @llvm.readcyclecounter()
  br label %look
look:
  %clock = call i64 @llvm.readcyclecounter()
  %passed = sub i64 %clock, %began
  %over = icmp uge i64 %passed, %ticks
  br i1 %over, label %end, label %look
end:
  %third = getelementptr i64, ptr %here, i64 2
  store i64 %now, ptr %third
  ret void
}

; counts a part
define void @first(i64 %counts, i64 %record, i64 %number, i64 %parts) {
  %base = inttoptr i64 %counts to ptr
  %index = add i64 %number, 1
  %place = getelementptr i64, ptr %base, i64 %index
  %before = load i64, ptr %place
  %now = add i64 %before, 1
  store i64 %now, ptr %place
  ret void
}

; the part whose number, from 1, is the first word records a failure
define void @fail(i64 %counts, i64 %record, i64 %number, i64 %parts) {
  %base = inttoptr i64 %counts to ptr
  %chosen = load i64, ptr %base
  %here = add i64 %number, 1
  %it = icmp eq i64 %here, %chosen
  br i1 %it, label %write, label %end
write:
  %word = inttoptr i64 %record to ptr
  store i64 1, ptr %word
  br label %end
end:
  ret void
}

define void @divide(i64 %numbers, i64 %record, i64 %number, i64 %parts) {
start:
  %began = call i64 @llvm.readcyclecounter()
  br label %look
look:
  %clock = call i64 @llvm.readcyclecounter()
  %passed = sub i64 %clock, %began
  %over = icmp uge i64 %passed, 300000
  br i1 %over, label %end, label %look
end:
  %base = inttoptr i64 %numbers to ptr
  %place = getelementptr double, ptr %base, i64 %number
  %value = load double, ptr %place
  %less = fmul double %value, 0.25
  store double %less, ptr %place
  ret void
}
'''
engine = new_engine(parse_module(code))
engine.finalize_object()
count, divide, first, fail = map(engine.get_function_address, ("count", "divide", "first", "fail"))
pool = ThreadPool()

class Work:
    '''A region that takes some ticks, counts the runs of each part and records where it ran.'''

    def __init__(self, parts, ticks=0):
        self.counts = np.zeros(1 + parts, np.int64)
        self.counts[0] = ticks
        self.records = np.full((parts, 3), -1, np.int64)
        self.parts = parts

    def launch(self):
        arguments, records = self.counts.ctypes.data, self.records.ctypes.data
        return pool.launch(count, arguments, records, 24, self.parts)

    def check(self, launches):
        assert (self.counts[1:] == launches).all(), (self.counts, launches)
        assert (self.records[:, 0] == np.arange(self.parts)).all()
        assert (self.records[:, 2] == launches).all()

    def on_two_stacks(self):
        return np.ptp(self.records[:, 1]) > 1 << 16

def check_launches(launches, parts=3, ticks=0):
    work = Work(parts, ticks)
    assert all(work.launch() for _ in range(launches))
    work.check(launches)

def check_many(parts, begun=None):
    '''Launches until stopped; those that found no slot do not count.'''
    work, launches = Work(parts, 1000), 0
    while not stopped.is_set():
        launches += work.launch()
        if launches and begun is not None:
            begun.set()
    work.check(launches)
    finished.append(launches)

def threads():
    return set(map(int, os.listdir("/proc/self/task")))

others = threads() - {os.getpid()}  # of numpy's library

def until(condition, about=lambda: None):
    end = time.monotonic() + 200
    while not condition():
        assert time.monotonic() < end, about()
        time.sleep(0.001)

def workers():
    '''Threads of the pool, once the thread that has started them is gone.'''
    def found():
        return threads() - others - {os.getpid()}
    until(lambda: len(found()) == pool.code.memory.workers, found)
    return found()

def until_all_sleep():
    memory = pool.code.memory
    until(lambda: memory.asleep == memory.workers, lambda: memory.asleep)

stopped, finished = threading.Event(), []
"""


def run_script(script: str, threads: int = 2, cpus: int | None = None) -> str:
    """Runs a script in a new process with this many threads; `cpus` limits the processors."""
    limit = (
        "" if cpus is None else f"os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:{cpus}])"
    )
    done = run_python(
        "import os\n" + limit + SETUP + script,
        flags=["-W", "error"],
        environment={"NUMBA_NUM_THREADS": str(threads)},
    )
    assert ended_well(done), told(done)
    return done.stdout.strip()


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_each_part_of_many_launches_runs_once(threads: int) -> None:
    """10^5 launches, the workers spinning or not; then more parts than threads, and one."""
    run_script("check_launches(100_000)\ncheck_launches(2000, 50)\ncheck_launches(10, 1)", threads)


def test_regions_run_in_order_until_one_fails() -> None:
    """Shared and alone; a record that is not empty stops them, whichever part wrote it."""
    run_script(
        """
def perform(regions, work):
    work.records[:] = 0
    table = np.array(regions, np.int64)
    arguments, records = work.counts.ctypes.data, work.records.ctypes.data
    return pool.perform(table.ctypes.data, len(table), arguments, records, 24, work.parts)

for kinds in ([1, 0, 1], [0, 0], [1], []):
    work = Work(3)
    assert not perform([(first, kind) for kind in kinds], work)
    assert work.counts[1:].tolist() == [len(kinds), sum(kinds), sum(kinds)]
for failing in range(3):
    work = Work(3)
    work.counts[0] = failing + 1
    assert perform([(first, 1), (fail, 1), (first, 1)], work)
    assert work.counts[1:].tolist() == [1, 1, 1]
work = Work(3)
work.counts[0] = 1
assert perform([(first, 0), (fail, 0), (first, 1)], work)
assert work.counts[1:].tolist() == [1, 0, 0]
assert Work(1).launch()
"""
    )


def test_one_processor_for_all_threads() -> None:
    run_script(
        """
check_launches(3000)
check_launches(20, 3, 10_000_000)
assert pool.code.memory.patience == 0
""",
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
"""
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
"""
    )


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_several_python_threads(threads: int) -> None:
    """Four at once find a slot; what eight cannot run they are told."""
    run_script(
        """
for number in (SLOTS, 2 * SLOTS):
    stopped.clear()
    finished.clear()
    begun = [threading.Event() for _ in range(number)]
    launching = [threading.Thread(target=check_many, args=(2 + i, begun[i])) for i in range(number)]
    for thread in launching: thread.start()
    time.sleep(0.2)
    for event in begun: assert event.wait(200)
    stopped.set()
    for thread in launching: thread.join()
    assert len(finished) == number and min(finished) > 0
assert not any(slot.taken or slot.left or slot.waiting for slot in pool.code.memory.slots)
""",
        threads,
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
"""
    )


@pytest.mark.parametrize("threads", [2, 4])
def test_fork_between_and_during_launches(threads: int) -> None:
    """The child has a pool of its own, also where a thread of the parent was launching."""
    run_script(
        """
def fork(function):
    child = os.fork()
    if child == 0:
        pool.after_fork_in_child()
        function()
        memory = pool.code.memory
        assert memory.workers == int(os.environ["NUMBA_NUM_THREADS"]) - 1
        until_all_sleep()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0

fork(lambda: check_launches(100))
check_launches(100)
fork(lambda: (check_launches(100), fork(lambda: check_launches(100))))
check_launches(100)
busy = threading.Thread(target=check_many, args=(4,))
busy.start()
for _ in range(30):
    fork(lambda: check_launches(100, 5, 1000))
stopped.set()
busy.join()
assert finished
""",
        threads,
    )


def test_fork_that_nobody_told_the_team_of() -> None:
    """A fork by a library: the launching thread runs all parts."""
    run_script(
        """
check_launches(100)
child = os.fork()
if child == 0:
    check_launches(1000)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
    )


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize(
    "last",
    [
        "check_launches(50)",
        "check_launches(50); time.sleep(0.02)",
        "check_launches(50); sys.exit()",
        "threading.Thread(target=check_many, args=(4,), daemon=True).start(); time.sleep(0.02)",
    ],
    ids=["spinning", "sleeping", "sys.exit", "launching"],
)
def test_the_process_ends(last: str, threads: int) -> None:
    run_script(last, threads)


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
        threads=2,
    )
    assert float(spent) < 0.02


def test_the_workers_sleep_only_after_a_while() -> None:
    """As long as launches follow each other, no worker has to be woken."""
    run_script(
        """
pool.launch(count, *[Work(2).counts.ctypes.data] * 2, 0, 2)
memory = pool.code.memory
assert memory.patience == (PATIENCE if len(os.sched_getaffinity(0)) >= 2 else 0)
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
    memory.patience = PATIENCE
    until_all_sleep()
"""
    )


def test_floating_point_modes_are_those_of_the_launching_thread() -> None:
    """Results would depend on the number of threads if only some parts flushed subnormals."""
    run_script(
        """
check_launches(10)
modes = new_engine(parse_module('''
declare void @llvm.x86.sse.ldmxcsr(ptr)
define void @set(ptr %modes) {
  call void @llvm.x86.sse.ldmxcsr(ptr %modes)
  ret void
}
'''))
modes.finalize_object()
change = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(modes.get_function_address("set"))
flush, usual = (ctypes.c_uint32(bits) for bits in (0x9FC0, 0x1F80))
smallest = np.finfo(np.float64).smallest_normal
for bits, expected in ((flush, 0.0), (usual, smallest / 4)) * 20:
    numbers = np.full(64, smallest)
    change(ctypes.addressof(bits))
    assert pool.launch(divide, numbers.ctypes.data, 0, 0, 64)
    change(ctypes.addressof(usual))
    assert (numbers == expected).all()
"""
    )


def test_signals_go_to_python() -> None:
    run_script(
        """
import signal
from pathlib import Path
check_launches(10)
assert len(workers()) == 3
until_all_sleep()
for worker in workers():
    lines = Path(f"/proc/self/task/{worker}/status").read_text().splitlines()
    blocked = int(next(line for line in lines if line.startswith("SigBlk")).split()[1], 16)
    assert blocked >> (signal.SIGINT - 1) & 1
    assert not blocked >> (signal.SIGSEGV - 1) & 1
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
""",
        threads=4,
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
assert pool.code.memory.patience == (PATIENCE if len(everywhere) >= 4 else 0)
""",
        threads=4,
    )
