"""In CI a test is skipped for listed reasons alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import ROOT

SKIPPING = """
import pytest

@pytest.mark.skip(reason="no GPU: there is none")
def test_listed(): ...

@pytest.mark.skipif(True, reason="it was too hard")
def test_marked(): ...

def test_in_the_middle():
    pytest.importorskip("absent_library")

@pytest.mark.xfail(reason="not yet")
def test_expected_to_fail():
    assert False

def test_good(): ...
"""
WHOLE = "import pytest\npytest.skip('nobody has one', allow_module_level=True)\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ((), {"passed": 1, "skipped": 4, "xfailed": 1}),
        (
            ("--only-listed-skips", "--continue-on-collection-errors", "-n", "1"),
            {"passed": 1, "skipped": 1, "xfailed": 1, "failed": 1, "errors": 2},
        ),
    ],
)
def test_what_is_not_listed_fails(
    options: tuple[str, ...], expected: dict[str, int], tmp_path: Path
) -> None:
    (tmp_path / "test_some.py").write_text(SKIPPING, encoding="utf-8")
    (tmp_path / "test_whole.py").write_text(WHOLE, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.support.skips", "-c", os.devnull]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), *options, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    counts = re.findall(r"(\d+) (failed|passed|skipped|xfailed|errors?)", done.stdout)
    assert {what: int(count) for count, what in counts} == expected, done.stdout + done.stderr
    assert bool(done.returncode) == bool(options)
    reasons = [line.strip() for line in re.findall("not listed: (.*)", done.stdout)]
    told = ["could not import 'absent_library'", "it was too hard", "nobody has one"]
    found = {begin for begin in told for reason in reasons if reason.startswith(begin)}
    assert found == ({*told} if options else set())
