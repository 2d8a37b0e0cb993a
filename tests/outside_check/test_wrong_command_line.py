"""Findings of section 0 about the command line: standard streams, words and files."""

from __future__ import annotations

import io
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import tc
from tc.cli import main
from tests.support.processes import ROOT

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }\n"
BAD = "def f(float(N) a) -> (o) { o(i) = a(j) }\n"
UMLAUT = "# ü\ndef f(float(N) a) -> (o) { o(i) = a(i) }\n"
FORMATTED = UMLAUT.replace("{ ", "{\n  ").replace(" }", "\n}")
posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="streams and signals of POSIX")
full = pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full on this system")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("mm.tc").write_text(MM)
    Path("bad.tc").write_text(BAD)
    Path("u.tc").write_text(UMLAUT, encoding="utf-8")


def shell(line: str) -> tuple[int, str, str]:
    """A line of the shell, in which `tc` is the command."""
    line = f'tc() {{ "$PYTHON" -m tc "$@"; }}; {line}'
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        ["sh", "-c", line], capture_output=True, env=environment, encoding="utf-8", timeout=300
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def npy(header: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.ljust(117) + "\n"
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text.encode() + content


def header(descr: object = "<f4", shape: object = (2, 3)) -> str:
    return f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"


def zipped() -> bytes:
    file = io.BytesIO()
    np.savez(file, A=np.ones((2, 3), np.float32))
    return file.getvalue()


GOOD = npy(header(), bytes(24))
FILES = {
    "many": npy(header(shape=(10**30, 3))),
    "more": npy(header(shape=(10**15, 3))),
    "negative": npy(header(shape=(-2, 3)), bytes(24)),
    "no shape": npy(header(shape=None)),
    "texts": npy(header(shape=("2", "3"))),
    "object": npy(header("|O"), b"\x80\x04N."),
    "record": npy(header([("a", "<f4")]), bytes(24)),
    "letters": npy(header("<U4"), bytes(96)),
    "moment": npy(header("<M8[s]"), bytes(48)),
    "zip": b"PK\x03\x04 and so on",
    "npz": zipped(),
    "pickle": b"\x80\x04cos\n_exit\n(I7\ntR.",
    "deep": npy("(" * 100 + ")" * 16),
    "call": npy("__import__('os').abort()"),
    "cut": GOOD[:-1],
    "head": GOOD[:20],
    "magic": GOOD[:6],
    "version": npy(header(), bytes(24), b"\x09\x00"),
    "empty": b"",
}


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_no_arrays(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """0.16: a shape of 10**30, and a file that begins with PK."""
    Path("a.npy").write_bytes(FILES[name])
    assert main(["run", "mm.tc", "A=a.npy", "B=ones:3x4", "--backend", "interpret"]) == 1
    said = capsys.readouterr()
    assert said.err.startswith("InputError")
    assert "A" in said.err.partition("\n")[0]
    assert said.out == ""


def test_a_good_one_is_read() -> None:
    Path("a.npy").write_bytes(GOOD)
    assert main(["run", "mm.tc", "A=a.npy", "B=ones:3x4", "--backend", "interpret"]) == 0


UNSEEN = "\x1b]0;title\x07\x1b[2J\r\x9b31m\u202e\u2066"
ESCAPED = r"\x1b]0;title\x07\x1b[2J\r\x9b31m\u202e\u2066"


@posix
def test_what_a_terminal_obeys_is_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """0.16: of texts, of names of files, and of words."""
    name = f"{UNSEEN}.tc"
    comment = UNSEEN.replace("\r", "")
    Path(name).write_text(BAD.replace("a(j)", f"a(j) # {comment}\n"), encoding="utf-8")
    assert main(["check", name]) == 1
    said = capsys.readouterr().err
    assert f"--> {ESCAPED}.tc:1:37\n" in said
    Path(name).write_text(MM)
    assert main(["check", name, f"missing{name}"]) == 2
    assert main(["fmt", "--check", name]) == 1
    assert main(["tune", "db", "best", "mm.tc", "M=2", "K=2", "N=2", "--database", name]) == 1
    for words in (
        ["check", f"--{name}"],
        [name],
        ["run", "mm.tc", name],
        ["run", "mm.tc", f"A={name}"],
    ):
        with pytest.MonkeyPatch.context(), __import__("contextlib").suppress(SystemExit):
            assert main(words) in (1, 2)
    said += "".join(capsys.readouterr())
    assert not set(said) & set("\x1b\x07\r\x9b\u202e\u2066")
    assert said.count(ESCAPED) >= 6


def test_errors_escape_in_python_too() -> None:
    """The carets stand below what is escaped."""
    with pytest.raises(tc.ParseError) as caught:
        tc.compile("def f(float(N) a) -> (o) { o(i) = a(i) \x1b[2J }")
    lines = str(caught.value).splitlines()
    assert lines[3:5] == [
        r"1 | def f(float(N) a) -> (o) { o(i) = a(i) \x1b[2J }",
        "  |                                        ^^^^",
    ]
    with pytest.raises(tc.CheckError) as checked:
        tc.compile(
            "def f(float(N) a) -> (o) { /* \x07 */ o(i) = a(j) }".replace("/*", "#\n#").replace(
                "*/", "\n"
            )
        )
    assert "\x07" not in str(checked.value)


@pytest.mark.drawn(4)
@posix
@pytest.mark.parametrize(
    ("line", "status", "output", "errors"),
    [
        ("tc emit bad.tc 2>&- > out.c", 1, "", ""),
        ("tc emit bad.tc --nothing 2>&- > out.c", 2, "", ""),
        ("tc check mm.tc >&-", 2, "", "tc: cannot write the output: Bad file descriptor\n"),
        ("tc --version >&-", 2, "", "tc: cannot write the output: Bad file descriptor\n"),
        ("tc help >&-", 2, "", "tc: cannot write the output: Bad file descriptor\n"),
        ("tc fmt --write mm.tc >&-", 0, "", ""),
        ("tc fmt --write mm.tc >&- 2>&- <&-", 0, "", ""),
        ("tc check mm.tc >&- 2>&-", 2, "", ""),
        ("tc check - <&-", 2, "", "tc: cannot read -: there is no standard input\n"),
        ("PYTHONIOENCODING=ascii tc fmt u.tc", 0, FORMATTED, ""),
        ("PYTHONIOENCODING=latin-1 tc fmt - < u.tc | tc fmt --check -", 0, "", ""),
        ("cp u.tc ü.tc; PYTHONIOENCODING=ascii tc check ü.tc", 0, "ü.tc: f: no errors\n", ""),
        ("PYTHONIOENCODING=ascii tc explain y6 | tc check - 2>&1 | head -c 5", 0, "Parse", ""),
        ("PYTHONIOENCODING=ascii LC_ALL=C tc check ü.tc", 2, "",
         r"tc: cannot read \xfc.tc: No such file or directory" + "\n"),
    ],
)  # fmt: skip
def test_streams(line: str, status: int, output: str, errors: str) -> None:
    """0.16: standard streams that are closed, or that have another encoding."""
    assert shell(line) == (status, output, errors)
    assert not Path("out.c").exists() or Path("out.c").read_text() == ""


@pytest.mark.drawn(3)
@posix
@full
@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("tc help > /dev/full", 2),
        ("tc help run > /dev/full", 2),
        ("tc > /dev/full", 2),
        ("tc fmt mm.tc > /dev/full", 2),
        ("tc check bad.tc 2> /dev/full", 1),
        ("tc check mm.tc > /dev/full 2> /dev/full", 2),
        ("tc nothing 2> /dev/full", 2),
    ],
)
def test_full_disks(line: str, status: int) -> None:
    """0.16: `tc help > /dev/full` was status 0."""
    found, output, errors = shell(line)
    assert (found, output) == (status, "")
    told = "tc: cannot write the output: No space left on device\n"
    assert errors == ("" if "2> /dev/full" in line else told)


@posix
def test_nobody_reads_the_error() -> None:
    """The status is that of the command all the same."""
    line = 'exec 3>&1; { tc check bad.tc 2>&1; echo "status $?" >&3; } | (exec <&-; sleep 2)'
    assert "status 1" in shell(line)[1]


@posix
def test_an_interruption_while_modules_are_imported() -> None:
    """0.16: no traceback, from the first line of tc on."""
    script = (
        "import sys, runpy\n"
        "sys.orig_argv = [sys.executable, '-m', 'tc']; sys.argv = ['-m', 'check', 'mm.tc']\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == NAME:\n"
        "            import os, signal, time\n"
        "            os.kill(os.getpid(), signal.SIGINT); time.sleep(5)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "import tc\n"
        "sys.argv[0] = 'tc'\n"
        "from tc.cli import main\n"
        "sys.exit(main())\n"
    )
    for name in (
        "tc.process.uninterrupted",
        "tc.cli",
        "tc.cli.dispatch",
        "tc.cli.commands",
        "numpy",
    ):
        done = subprocess.run(
            [sys.executable, "-c", script.replace("NAME", repr(name))],
            capture_output=True,
            text=True,
        )
        assert done.returncode in (-signal.SIGINT, 130), (name, done)
        assert done.stderr == "", (name, done.stderr)


@posix
def test_programs_that_use_tc_keep_their_interruptions() -> None:
    script = (
        "import signal, tc; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "True\n"


@posix
def test_who_ignores_interruptions_goes_on() -> None:
    """As nohup and jobs in the background do."""
    process = subprocess.Popen(
        ["sh", "-c", f'trap "" INT; "{sys.executable}" -m tc check mm.tc'],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    for _ in range(5):
        time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
    assert process.communicate()[0] == "mm.tc: mm: no errors\n"
