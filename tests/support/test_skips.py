"""In CI a test is skipped for listed reasons alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.drawn import LONG_TESTS
from tests.support.processes import ROOT


def pytest_of(folder: Path, plugin: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs the tests in a folder with a plugin of ours, and of others with xdist alone."""
    command = [sys.executable, "-m", "pytest", "-p", f"tests.support.{plugin}", "-p", "xdist"]
    return subprocess.run(
        [*command, "-c", os.devnull, "--rootdir", str(folder), *options, str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


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
    done = pytest_of(tmp_path, "skips", "-q", *options)
    counts = re.findall(r"(\d+) (failed|passed|skipped|xfailed|errors?)", done.stdout)
    assert {what: int(count) for count, what in counts} == expected, done.stdout + done.stderr
    assert bool(done.returncode) == bool(options)
    reasons = [line.strip() for line in re.findall("not listed: (.*)", done.stdout)]
    told = ["could not import 'absent_library'", "it was too hard", "nobody has one"]
    found = {begin for begin in told for reason in reasons if reason.startswith(begin)}
    assert found == ({*told} if options else set())


FRAMEWORKS = """
import pytest

def test_torch():
    pytest.importorskip("torch", reason="torch is not installed")

@pytest.mark.skip(reason="jax is not installed")
def test_jax(): ...

@pytest.mark.skip(reason="could not import 'torch': No module named 'torch'")
def test_unnamed(): ...

@pytest.mark.skip(reason="no GPU: there is none")
def test_device(): ...
"""


def test_what_needs_frameworks_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(FRAMEWORKS.replace('"torch",', '"absent_torch",'))
    (tmp_path / "test_whole.py").write_text(
        "import pytest\npytest.skip('torch is not installed', allow_module_level=True)\n"
    )
    done = pytest_of(tmp_path, "skips", "-q", "-ra")
    lines = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert len(lines) == 2, done.stdout
    told = next(line for line in lines if "GPU" not in line)
    assert told.startswith("SKIPPED [4] ")
    assert told.endswith(" -m pip install --editable '.[torch,jax]'")


def test_a_seed_draws_the_same_tenth_of_all(tmp_path: Path) -> None:
    """And a later run has all but what passed then: what failed or was skipped runs again."""
    (tmp_path / "test_some.py").write_text(
        "import pytest\n@pytest.mark.parametrize('n', range(500))\n"
        "def test(n):\n    if n % 10 == 5: pytest.skip('why')\n    assert n % 10 != 7\n"
    )

    def tests(*options: str) -> set[str]:
        done = pytest_of(tmp_path, "drawn", "-v", *options)
        return set(re.findall(r"test_some\.py::test\[\d+\]", done.stdout))

    passed = str(tmp_path / "passed")
    first, other = tests("--tenth", "a"), tests("--tenth", "b")
    assert first == tests("--tenth", "a", "-n", "2", "--note-passed", passed)
    assert first != other
    assert 30 < len(first) < 75
    assert 30 < len(other) < 75
    good = {test for test in first if test[-2] not in "57"}
    every = {f"test_some.py::test[{n}]" for n in range(500)}
    assert good < first
    assert tests("--leave-out", passed) == every - good


def test_what_takes_long_is_there() -> None:
    for test in LONG_TESTS.read_text().splitlines():
        file, _, name = test.partition("::")
        assert re.search(rf"def {name}\(", (ROOT / file).read_text()), test


def test_one_in_so_many_cases_is_drawn(tmp_path: Path) -> None:
    """Of tests that are marked, or have many cases, and never none; without the option, all. Of
    those that take long one in four, or none."""
    (tmp_path / "test_some.py").write_text(
        "import pytest\ncases = pytest.mark.parametrize('n', range(20))\n"
        "@cases\n@pytest.mark.drawn(4)\ndef test_long(n): ...\n"
        "@pytest.mark.drawn(4)\ndef test_one(): ...\n"
        "@cases\ndef test_short(n): ...\n"
    )
    for options, passed in (((), 41), (("--draw", "a"), 16)):
        done = pytest_of(tmp_path, "drawn", "-q", "--strict-markers", *options)
        assert re.search(rf"^{passed} passed", done.stdout, re.MULTILINE), done.stdout
    long = tmp_path / "long"
    (tmp_path / "test_slow.py").write_text(
        "import time\ndef test_quick(): ...\ndef test_slow(): time.sleep(1.01)\n"
    )
    pytest_of(tmp_path, "drawn", "-q", "--note-long", str(long))
    assert long.read_text() == "test_slow.py::test_slow\n"
