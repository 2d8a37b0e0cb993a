"""The reports about processes that fail or hang."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.processes import ended_well, run_python, told

PREPARED = pytest.mark.parametrize("prepared", [False, True], ids=["new", "prepared"])

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


def test_a_prepared_process_is_like_a_new_one(tmp_path: Path) -> None:
    leads = "os.getsid(0) == os.getpid()"
    script = f"import os, sys; print(sys.argv, os.getcwd(), os.environ['ABOUT'], {leads})"
    how: dict[str, Any] = {"environment": {"ABOUT": "é"}, "cwd": tmp_path}
    new, forked = (run_python(script, "a", prepared=each, **how) for each in (False, True))
    assert ended_well(new)
    assert ended_well(forked)
    assert new.stdout == forked.stdout == f"['-c', 'a'] {tmp_path} é True\n"
    leaving = "import atexit, sys; atexit.register(print, 'end'); sys.exit(3)"
    done = run_python(leaving, prepared=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "end\n", "")
    assert run_python("import sys; print('numba' in sys.modules)", prepared=True).stdout == "True\n"


@PREPARED
def test_lines_of_the_script_are_shown(prepared: bool) -> None:
    done = run_python("x = 3\nassert x == 4, x\n", prepared=prepared)
    assert not ended_well(done)
    assert 'File "<string>", line 2: assert x == 4, x, in <module>' in told(done)
    assert told(done).startswith("status 1\n")


def test_words_on_stderr_are_no_good_end() -> None:
    assert not ended_well(run_python("import sys; print('odd', file=sys.stderr)"))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@PREPARED
def test_what_hangs_is_ended_with_its_stacks(prepared: bool) -> None:
    """Processes that a hanging process has started are ended too, as their pipes would never
    close."""
    for limit in (1, 10, 100):  # one of these is long enough to get there
        done = run_python(HANGS, limit=limit, prepared=prepared)
        assert done.stderr.startswith(f"no end within {limit} s\n")
        if done.returncode == -signal.SIGABRT and told(done).count(" in waits") == 2:
            break
    assert done.returncode == -signal.SIGABRT
    assert done.stderr.count("Fatal Python error: Aborted") == 2
    assert ": def waits(): os.wait() in waits" in told(done)
    assert ": def waits_in_child(): time.sleep(1000) in waits_in_child" in told(done)
