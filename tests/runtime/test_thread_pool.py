"""The thread pools, in machine code and in Python: each part of each launch runs once, whoever
launches, forks or ends.

Each case runs in a process of its own.
"""

from __future__ import annotations

import pytest

from tc.runtime import loaded, thread_pool
from tests.runtime.pools import run_script

NATIVE = pytest.mark.skipif(
    not loaded.is_allowed(thread_pool.MACHINES), reason="no machine code for pools here"
)
POOLS = pytest.mark.parametrize("pool", [pytest.param("native", marks=NATIVE), "python"])


@pytest.mark.drawn(3)
@POOLS
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_each_part_of_many_launches_runs_once(pool: str, threads: int) -> None:
    """Many launches, the workers spinning or not; then more parts than threads, and one."""
    run_script(
        "check_launches(LAUNCHES)\ncheck_launches(2000, 50)\ncheck_launches(10, 1)", pool, threads
    )


@POOLS
def test_regions_run_in_order_until_one_fails(pool: str) -> None:
    """Shared and alone; a record that is not empty stops them, whichever part wrote it."""
    run_script(
        """
def perform(regions, work):
    work.records[:] = 0
    arguments, records = work.counts.ctypes.data, work.records.ctypes.data
    lasting = [(region, kind * ALWAYS) for region, kind in regions]
    return pool.perform(Regions(lasting), arguments, records, 24, work.parts)

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
""",
        pool,
    )


@pytest.mark.drawn(3)
@POOLS
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_several_python_threads(pool: str, threads: int) -> None:
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
if sys.argv[1] == "native":
    assert not any(slot.taken or slot.left or slot.waiting for slot in pool.code.memory.slots)
""",
        pool,
        threads,
    )


@pytest.mark.drawn(3)
@POOLS
@pytest.mark.parametrize("threads", [2, 4])
def test_fork_between_and_during_launches(pool: str, threads: int) -> None:
    """The child has a pool of its own, also where a thread of the parent was launching."""
    run_script(
        """
def fork(function):
    child = os.fork()
    if child == 0:
        pool.after_fork_in_child()
        function()
        assert number_of_workers() == int(os.environ["NUMBA_NUM_THREADS"]) - 1
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
        pool,
        threads,
    )


@POOLS
def test_fork_that_nobody_told_the_pool_of(pool: str) -> None:
    """A fork by a library: the launching thread runs all parts."""
    run_script(
        """
check_launches(100)
child = os.fork()
if child == 0:
    check_launches(1000)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
""",
        pool,
    )


@pytest.mark.drawn(4)
@POOLS
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
def test_the_process_ends(pool: str, last: str, threads: int) -> None:
    run_script(last, pool, threads)


@POOLS
def test_floating_point_modes_are_those_of_the_launching_thread(pool: str) -> None:
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
""",
        pool,
    )


@POOLS
def test_signals_go_to_python(pool: str) -> None:
    run_script(
        """
import signal
from pathlib import Path
check_launches(10)
assert len(workers()) == 3
until_all_sleep()

def blocked(worker, number):
    lines = Path(f"/proc/self/task/{worker}/status").read_text().splitlines()
    mask = int(next(line for line in lines if line.startswith("SigBlk")).split()[1], 16)
    return bool(mask >> (number - 1) & 1)

# a thread that has not begun yet blocks all of them
until(lambda: not any(blocked(worker, signal.SIGSEGV) for worker in workers()))
assert all(blocked(worker, signal.SIGINT) for worker in workers())
assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
""",
        pool,
        threads=4,
    )


@POOLS
def test_a_launch_that_a_signal_handler_breaks_off_has_ended(pool: str) -> None:
    """The caller of the launch frees the memory that its parts write, so no part may go on."""
    run_script(
        """
import signal

class Broken(Exception):
    pass

def broken_off(*_):
    fired.set()
    raise Broken

work = Work(4, 20_000)
work.launch()
fired = threading.Event()
signal.signal(signal.SIGALRM, broken_off)
random.seed(0)
for begun in range(2, 302):
    try:
        signal.setitimer(signal.ITIMER_REAL, random.random() * 2e-4 + 1e-6)
        work.launch()
        until(fired.is_set)  # at the latest here
    except Broken:
        fired.clear()
        counts = work.counts[1:].tolist()
        assert min(counts) == max(counts) <= begun, counts

def launches(*_):
    launched.append(other.launch())

launched, other = [], Work(3)
signal.signal(signal.SIGALRM, launches)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while len(launched) < 100: work.launch()
signal.setitimer(signal.ITIMER_REAL, 0)
assert np.ptp(work.counts[1:]) == 0
other.check(sum(launched))
""",
        pool,
    )
