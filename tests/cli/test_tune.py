"""`tc tune`: the report, the picture, the database, what is refused, and an interrupt."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tc.__main__ import main
from tc.tuning.database import TuningDatabase

ROOT = Path(__file__).parents[2]
TEXT = """\
# tc: M=40 K=30 N=50
def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
"""


@pytest.fixture
def mm(tmp_path: Path) -> str:
    path = tmp_path / "mm.tc"
    path.write_text(TEXT)
    return str(path)


def test_a_search_ends_with_a_report(
    mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tuned.db"
    words = ("--max-candidates", "2", "--search", "random", "--database", str(path))
    assert main(["tune", mm, *words]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""  # no terminal
    lines = printed.out.splitlines()
    assert lines[0] == "mm on numba: M=40 K=30 N=50"
    assert re.fullmatch(r"default     \S+ ms \(\S+ ms to \S+ ms\)", lines[1])
    assert re.match(r"best        (the default: no|\S+ ms \(.*\): \S+ times as fast)", lines[2])
    assert re.fullmatch(r"candidates  2 in \S+ s, \d failed", lines[3])
    assert f"kept        {path}" in lines
    assert len(list(TuningDatabase(path).measurements())) >= 3


def test_what_cannot_be_kept_is_not_said_to_be(
    mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "tuned.db"
    path.write_text("no database")
    assert main(["tune", mm, "--max-candidates", "1", "--database", str(path)]) == 0
    printed = capsys.readouterr()
    assert f"what is measured is not kept, as {path} is damaged" in printed.err
    assert printed.out.endswith("not kept    3 measurements, as said above\n")
    assert path.read_text() == "no database"


def test_a_picture(mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = tmp_path / "search.png"
    words = ("--max-candidates", "1", "--database", str(tmp_path / "t.db"), "--plot", str(picture))
    assert main(["tune", mm, *words, "M=9"]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"picture     {picture}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--max-seconds", "0"), 2, "argument --max-seconds: a positive number, and not '0'"),
        (("--max-candidates", "-1"), 2, "a whole number of at least 1, and not '-1'"),
        (("--search", "annealing"), 1, "repair: --search guided"),
        (("--plot", "a.txt"), 1, "repair: --plot a.png"),
        (("--plot", "nowhere/a.png"), 1, "repair: --plot a.png"),
        (("--backend", "interpret"), 1, "repair: --backend c"),
        (("K=x",), 1, "K is a size of mm"),
    ],
)
def test_what_is_refused(
    mm: str,
    words: tuple[str, ...],
    status: int,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "tuned.db"
    try:
        found = main(["tune", mm, *words, "--database", str(path)])
    except SystemExit as error:  # of argparse
        found = int(error.code or 0)
    assert found == status
    assert said in capsys.readouterr().err
    assert not path.exists()


def children_of(process: int) -> list[str]:
    """The command lines of processes that name it as their parent."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text()
            words = (folder / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if stat.rpartition(")")[2].split()[1] == str(process) or f'"parent": {process},' in words:
            found.append(words)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="no processes of a /proc")
def test_an_interrupt_ends_it_with_what_was_found(mm: str, tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    command = [sys.executable, "-m", "tc", "tune", mm, "--database", str(path),
               "--max-seconds", "600", "--search", "random"]  # fmt: skip
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while process.poll() is None and not (path.exists() and kept(path) >= 2):
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert re.search(r"candidates  \d+ in \S+ s, \d+ failed, until it was interrupted", out)
    assert children_of(process.pid) == []
    tried = re.search(r"candidates  (\d+)", out)
    assert tried is not None
    assert kept(path) == int(tried[1]) + 1  # and the default


def kept(path: Path) -> int:
    """The trials in a database; a winner that was confirmed stands there once more."""
    try:
        return sum(not found.confirmed for found in TuningDatabase(path).measurements())
    except Exception:  # while it is being made
        return 0
