"""The reports about processes that fail or hang."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from tests.support.processes import ended_well, processor_seconds, run_python, told

HANGS = """
import os, time
if os.fork() == 0:
    print("child", flush=True)
    def waits_in_child(): time.sleep(1000)
    waits_in_child()
def waits(): os.wait()
print("parent", flush=True)
waits()
"""


def test_a_process_that_ends_well() -> None:
    done = run_python(
        "import sys; print(sys.argv[1:], sys.flags.dev_mode)", "a", flags=["-X", "dev"]
    )
    assert ended_well(done)
    assert done.stdout == "['a'] True\n"


def test_lines_of_the_script_are_shown() -> None:
    done = run_python("x = 3\nassert x == 4, x\n")
    assert not ended_well(done)
    assert 'File "<string>", line 2: assert x == 4, x, in <module>' in told(done)
    assert told(done).startswith("status 1\n")


def test_words_on_stderr_are_no_good_end() -> None:
    assert not ended_well(run_python("import sys; print('odd', file=sys.stderr)"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_what_hangs_is_ended_with_its_stacks() -> None:
    """Processes that a hanging process has started are ended too, as their pipes would never
    close."""
    for limit in (1, 10, 100):  # one of these is long enough to get there
        done = run_python(HANGS, limit=limit)
        assert done.stderr.startswith(f"no end within {limit} s\n")
        if done.returncode == -signal.SIGABRT and told(done).count(" in waits") == 2:
            break
    assert done.returncode == -signal.SIGABRT
    assert done.stderr.count("Fatal Python error: Aborted") == 2
    assert ": def waits(): os.wait() in waits" in told(done)
    assert ": def waits_in_child(): time.sleep(1000) in waits_in_child" in told(done)


WORKS = """
import os, sys, time
def work():
    while time.process_time() < 0.3: pass
if os.fork() == 0:
    work()
    print(flush=True)
    sys.stdin.read()
    os._exit(0)
work()
print(flush=True)
sys.stdin.read()
"""


def test_times_of_processes_that_were_started_count() -> None:
    command = [sys.executable, "-c", WORKS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert [process.stdout.readline() for _ in range(2)] == [b"\n"] * 2
        used = processor_seconds(process.pid)
        assert used is None if sys.platform != "linux" else used is not None and used >= 0.5
        process.communicate()
    assert processor_seconds(process.pid) is None
