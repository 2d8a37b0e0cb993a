"""Findings of section 0 about files: what a user had is never lost, and what is read is data."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from tc.cli import main
from tests.support.processes import run_python

needs_limits = pytest.mark.skipif(not hasattr(os, "fork"), reason="files have no limits here")

LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
from tc.cli import main
sys.exit(main(sys.argv[2:]))
"""
TEXT = (
    "def f(float(N) a) -> (o) {" + "  o(i) =   a(i) # kept\n" + "  # the user's words\n" * 300 + "}"
)


def limited(*words: str | Path, size: int) -> tuple[int, str, str]:
    """The result of a command for which the disk is full once a file has `size` bytes. The command
    has no database of plans, as SQLite writes beside a database even to read it."""
    environment = {"TC_CACHE_DIR": os.devnull, "TC_TUNE_DB": f"{words[1]}.none/tuned.db"}
    done = run_python(LIMITED, str(size), *map(str, words), environment=environment)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.drawn(3)
@needs_limits
@pytest.mark.parametrize("size", [0, 100, 4000])
def test_fmt_loses_nothing_when_the_disk_is_full(tmp_path: Path, size: int) -> None:
    """0.14"""
    path, link = tmp_path / "f.tc", tmp_path / "link.tc"
    path.write_text(TEXT)
    path.chmod(0o640)
    link.symlink_to(path)
    for name in (path, link):
        status, said, errors = limited("fmt", "--write", name, size=size)
        assert (status, said, errors) == (2, "", f"tc: cannot write {name}: File too large\n")
        assert path.read_text() == TEXT
    assert sorted(each.name for each in tmp_path.iterdir()) == ["f.tc", "link.tc"]
    assert limited("fmt", "--write", link, size=1 << 30) == (0, "", "")
    assert path.read_text() != TEXT
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert link.is_symlink()


@needs_limits
def test_neither_do_run_and_export(tmp_path: Path) -> None:
    """0.14"""
    (tmp_path / "f.tc").write_text(TEXT)
    out = tmp_path / "out"
    words = ("run", tmp_path / "f.tc", "a=ones:2000", "--backend", "interpret", "--out", out)
    assert limited(*words, size=1 << 30)[0] == 0
    before = (out / "o.npy").read_bytes()
    assert np.load(out / "o.npy").tolist() == [1.0] * 2000
    status, _, errors = limited(*words, size=500)
    assert (status, errors) == (2, f"tc: cannot write to {out}: File too large\n")
    assert (out / "o.npy").read_bytes() == before
    assert [each.name for each in out.iterdir()] == ["o.npy"]


MORE = {"emit": ["N=9", "--backend", "c"], "explain": ["N=9"], "batch": ["--in-axes", "0"]}


@needs_limits
def test_what_emit_prints_goes_into_a_file_whole(tmp_path: Path) -> None:
    """0.14"""
    program, out = tmp_path / "f.tc", tmp_path / "out"
    program.write_text(TEXT)
    out.write_text("before")
    status, said, errors = limited("emit", program, *MORE["emit"], "-o", out, size=10)
    assert (status, said, errors) == (2, "", f"tc: cannot write {out}: File too large\n")
    assert out.read_text() == "before"


@pytest.mark.parametrize("command", ["emit", "explain", "grad", "vjp", "jvp", "batch"])
def test_what_is_printed_goes_into_a_file(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program, out = tmp_path / "f.tc", tmp_path / "out"
    program.write_text(TEXT)
    words = [command, str(program), *MORE.get(command, [])]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert main([*words, "-o", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert out.read_text() == said
    program.write_text("def f(")
    assert main([*words, "--output", str(out)]) == 1
    assert out.read_text() == said
