"""Files, standard input and output of commands: missing, no text, not to be written."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tc
from tc.__main__ import main
from tests.cli.test_cli import BAD, MM

COPY = "def f(float(N) a) -> (o) { o(i) = a(i) }\n"
FULL = Path("/dev/full")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mm.tc").write_text(MM)
    Path("bad.tc").write_text(BAD)
    Path("latin.tc").write_bytes(COPY.encode() + b"# \xe9\n")
    Path("marked.tc").write_bytes(b"\xef\xbb\xbf" + COPY.replace("\n", "\r\n").encode())
    Path("folder").mkdir()
    return tmp_path


@pytest.mark.parametrize("command", [["check"], ["fmt"], ["fmt", "--check"]])
def test_all_files_have_their_turn(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """The worst status counts."""
    assert main([*command, "missing.tc", "folder", "latin.tc", "bad.tc", "mm.tc"]) == 2
    said = capsys.readouterr()
    assert "cannot read missing.tc: No such file or directory" in said.err
    assert "cannot read folder: Is a directory" in said.err
    assert "cannot read latin.tc: it is no text in UTF-8, as byte 43 is 233" in said.err
    assert "mm" in said.out
    if command == ["check"]:
        assert main(["check", "bad.tc", "mm.tc"]) == 1
        assert "bad.tc:2:" in capsys.readouterr().err


def test_a_mark_of_the_encoding_is_no_part_of_a_text(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Editors on Windows write it at the front of UTF-8."""
    assert main(["check", "marked.tc"]) == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("\ufeff" + COPY))
    assert main(["check", "-"]) == 0
    assert tc.interpret(folder / "marked.tc", [np.ones(2, np.float32)]).tolist() == [1, 1]
    assert main(["fmt", "--write", "marked.tc"]) == 0
    assert Path("marked.tc").read_bytes().startswith(b"def f(")
    capsys.readouterr()


def test_no_standard_input(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert main(["check", "-"]) == 2
    assert "there is no standard input" in capsys.readouterr().err


def test_an_output_that_is_no_directory_is_found_before_anything_runs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["run", "mm.tc", "A=ones:2x3", "B=ones:3x4", "--out", "mm.tc"]) == 2
    said = capsys.readouterr()
    assert "a directory is asked for" in said.err
    assert not said.out


@pytest.mark.parametrize("words", [["--version"], ["explain", "G5"], ["check", "mm.tc"]])
def test_nobody_reads_what_is_printed(words: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "tc", *words], stdout=writing, stderr=subprocess.PIPE, text=True
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("words", [["--version"], ["check", "mm.tc"]])
def test_a_full_disk_is_said(words: list[str]) -> None:
    with FULL.open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "tc", *words], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2
    assert done.stderr == "tc: cannot write the output: No space left on device\n"


def test_an_interruption_leaves_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while a command waits for standard input."""

    class Waiting:
        def read(self) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stdin", Waiting())
    assert main(["check", "-"]) == 130
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("value", "said", "repair"),
    [
        ("A=rand:2x3", "none of random", "A=random:2x3"),
        ("A=zreos:2x3", "none of random", "A=zeros:2x3"),
        ("A=here.np", "nor a file that is there", "A=here.npy"),
        ("A=elsewhere.npy", "nor a file that is there", None),
        ("A=mm.tc", "mm.tc cannot be read: it is no .npy file", None),
        ("A=folder", "folder cannot be read: Is a directory", None),
    ],
)
def test_values_that_cannot_be_read(
    value: str, said: str, repair: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """What stands in place of a file that is not there would be other data: none is offered."""
    np.save("here.npy", np.ones((2, 3), np.float32))
    words = ["run", "mm.tc", "B=ones:3x4", "--backend", "interpret"]
    assert main([*words, value]) == 1
    printed = capsys.readouterr().err
    assert said in printed
    found = printed.partition("repair: ")[2].strip() or None
    assert found == repair
    if found is not None:
        assert main([*words, found]) == 0


@pytest.mark.parametrize("size", ["3.5", "-3", "true", "random:3"])
def test_sizes_are_whole_numbers(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["run", "mm.tc", "A=random", "B=random"], ["explain", "mm.tc"]):
        assert main([*words, f"M={size}", "K=3", "N=4"]) == 1
        assert f"a whole number of at least 0, and not {size!r}" in capsys.readouterr().err


@pytest.mark.parametrize("number", ["0", "-1", "two", "1.5"])
def test_numbers_of_threads(number: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["run", "mm.tc", "--threads", number])
    assert stopped.value.code == 2
    assert f"a whole number of at least 1, and not '{number}'" in capsys.readouterr().err


def test_a_value_for_a_scalar(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "scalar.tc"
    path.write_text("def times(float n, float(N) x) -> (y) { y(i) = n * x(i) }")
    assert main(["run", str(path), "n=two", "x=ones:3"]) == 1
    assert capsys.readouterr().err.endswith("repair: n=1\n")


def test_the_name_of_a_file_is_no_text() -> None:
    with pytest.raises(tc.InputError, match=r"'mm\.tc' is the name of a file") as caught:
        tc.compile("mm.tc")
    assert caught.value.repair == "pathlib.Path('mm.tc')"
