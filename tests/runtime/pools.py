"""Scripts about thread pools, each in a process of its own: the pool that is told, and regions that
count the runs of their parts."""

from __future__ import annotations

from tests.support.processes import ended_well, run_python, told

SETUP = """
import ctypes, os, random, sys, threading, time
import numpy as np
from tc.runtime.object_files import new_engine, parse_module
from tc.runtime.thread_pool import ALWAYS, SPIN_TICKS, SLOTS, NativePool, compile_pool
from tc.runtime.thread_pool import SPINNING_TRIALS, WAKING_TRIALS, Regions, ThreadPool

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
if sys.argv[1] == "native":
    pool, LAUNCHES = NativePool(compile_pool()), 100_000
else:
    pool, LAUNCHES = ThreadPool(), 3000

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

def number_of_workers():
    return pool.code.memory.workers if sys.argv[1] == "native" else pool._started

def workers():
    '''Threads of the pool, once the thread that has started them is gone.'''
    def found():
        return threads() - others - {os.getpid()}
    until(lambda: len(found()) == number_of_workers(), found)
    return found()

def until_all_sleep():
    if sys.argv[1] == "native":
        memory = pool.code.memory
        until(lambda: memory.asleep == memory.workers, lambda: memory.asleep)
    else:
        until(lambda: len(pool._idle) == pool._started)

stopped, finished = threading.Event(), []
"""


def run_script(script: str, pool: str, threads: int = 2, cpus: int | None = None) -> str:
    """Runs a script with a "native" or "python" pool of this many threads; `cpus` limits the
    processors."""
    limit = (
        "" if cpus is None else f"os.sched_setaffinity(0, list(os.sched_getaffinity(0))[:{cpus}])"
    )
    done = run_python(
        "import os\n" + limit + SETUP + script,
        pool,
        flags=["-W", "error"],
        environment={"NUMBA_NUM_THREADS": str(threads)},
    )
    assert ended_well(done), told(done)
    return done.stdout.strip()
