"""Code for every instruction set that a `tc.Device` can describe: compiled, and run where this
machine has it. In a process of its own, as LLVM ends it over code that it cannot take."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.instruction_sets import SETS

ROOT = Path(__file__).parents[3]


@pytest.mark.drawn(4)
@pytest.mark.skipif(platform.machine() != "x86_64", reason="these are instruction sets of x86-64")
@pytest.mark.parametrize("name", SETS)
def test_instruction_set(name: str) -> None:
    wanted = SETS[name]
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.instruction_sets", name],
        cwd=ROOT,
        env=wanted.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"status {done.returncode}\n{done.stderr[-4000:]}"
    assert done.stdout == ("ran\n" if wanted.runs_here else "compiled\n")
