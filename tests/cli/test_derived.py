"""tc grad, tc vjp, tc jvp and tc batch on the command line: they print what the functions give."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

import tc
from tc.cli import main

TEXT = """\
def scale(float(N,K) A, float s) -> (O, m) {
  m max=! A(i,k)
  O(i,k) = A(i,k) * s - m
}
def twice(float(N,K) A, float s, int(N) J) -> (Q, m) {
  (P, m) = scale(A, s)
  Q(i) +=! P(J(i),k) * P(i,k)
}
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "scale.tc"
    path.write_text(TEXT)
    return str(path)


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.err == ""
    return said.out


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(words) == 1
    said = capsys.readouterr()
    assert said.out == ""
    return said.err


def test_the_gradient_of_a_def(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain = printed(["grad", file, "--entry", "scale"], capsys)
    assert plain == tc.grad(TEXT, entry="scale")
    words = "--wrt s,A --constant m --ties first --save none --sizes N=3,K=2"
    some = printed(["grad", file, "--entry", "scale", *words.split()], capsys)
    assert some == tc.grad(
        TEXT,
        ["s", "A"],
        entry="scale",
        constant="m",
        ties="first",
        save="none",
        sizes={"N": 3, "K": 2},
    )
    assert "float(3, 2) d_A" in some


def test_a_def_that_saves_and_its_gradient(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    both = printed(["vjp", file, "--entry", "twice"], capsys)
    assert both == str(tc.vjp(TEXT, entry="twice"))
    words = "--wrt s,A --constant m --ties first --save outputs --sizes N=3,K=2"
    some = printed(["vjp", file, "--entry", "scale", *words.split()], capsys)
    options = {"constant": "m", "ties": "first", "save": "outputs", "sizes": {"N": 3, "K": 2}}
    assert some == str(tc.vjp(TEXT, ["s", "A"], entry="scale", **options))


def test_a_def_with_its_tangents(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain = printed(["jvp", file, "--entry", "twice"], capsys)
    assert plain == tc.jvp(TEXT, entry="twice")
    some = printed(["jvp", file, "--entry=twice", "--wrt=A", "--constant", "m,P"], capsys)
    assert some == tc.jvp(TEXT, "A", entry="twice", constant=("m", "P"))


def test_a_def_for_a_batch(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    made = printed(["batch", file, "--entry", "twice", "--in-axes", "A=2, s=none, J=0"], capsys)
    assert made == tc.batch(TEXT, {"A": 2, "s": None, "J": 0}, entry="twice")
    assert printed(["batch", file, "--entry=twice", "--in-axes=0"], capsys) == tc.batch(
        TEXT, 0, entry="twice"
    )
    assert printed(["batch", file, "--entry=twice", "--in-axes=-1"], capsys) == tc.batch(
        TEXT, -1, entry="twice"
    )


def test_one_reads_what_another_prints(
    file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = printed(["batch", file, "--entry", "scale", "--in-axes", "A=0"], capsys)
    monkeypatch.setattr(sys, "stdin", io.StringIO(first))
    assert printed(["jvp", "-", "--wrt", "A"], capsys) == tc.jvp(first, "A")


@pytest.mark.parametrize(
    ("words", "cause", "repair"),
    [
        ("grad --wrt x", "wrt names 'x'", "--wrt A,s"),
        ("vjp --wrt J", "wrt names 'J'", "--wrt A,s"),
        ("vjp --save inputs", "save is 'inputs'", "--save outputs"),
        ("jvp --wrt A,J", "wrt names 'J'", "--wrt A,s"),
        ("jvp --constant u", "constant names 'u'", "--constant P"),
        ("grad --ties last", "ties is 'last'", "--ties split"),
        ("batch --in-axes B=0", "in_axes names 'B'", "--in-axes A=0"),
        ("batch --in-axes s=1", "which has rank 0", "--in-axes s=0"),
        ("grad --sizes N=3", "twice: K does not follow", "--sizes N=3,K=64"),
        ("vjp --sizes N=3", "twice: K does not follow", "--sizes N=3,K=64"),
        ("grad --sizes K=2,n=3", "no input or size 'n'", "--sizes N=3,K=2"),
        ("grad --sizes N=-3,K=2", "the size N is -3", "--sizes N=64,K=2"),
        ("grad --sizes N=3,K=2,Q=4", "no input or size 'Q'", "--sizes N=3,K=2"),
        ("grad --sizes A=3x2,J=3", "J is the number 3", "--sizes N=3,K=2"),
        ("grad --sizes A=3", "A is the number 3", "--sizes N=64,K=64"),
        ("grad --sizes A=3x2,N=4", "N is given as 4", "--sizes N=4,K=2"),
        ("grad --sizes ,", "N, K do not follow", "--sizes N=64,K=64"),
        ("batch --in-axes A=none", "no input of 'twice' a batch", "--in-axes A=0"),
    ],
)
def test_repairs_are_words_to_paste(
    file: str, words: str, cause: str, repair: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command, *rest = words.split()
    said = refused([command, file, "--entry", "twice", *rest], capsys)
    assert cause in said
    assert said.endswith(f"repair: {repair}\n")
    assert f"{file}:5:1" in said or not re.search("wrt|constant|axes", words)
    printed([command, file, "--entry", "twice", *shlex.split(repair)], capsys)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("batch FILE", "--in-axes"),
        ("batch FILE --in-axes A=x", "A=0 or A=none, and not 'x'"),
        ("batch FILE --in-axes all", "A=0,B=none, or 0 for all inputs, and not 'all'"),
        ("batch FILE --in-axes A=0,B", "pairs such as A=0,B=none, and not 'B'"),
        ("grad FILE --sizes N=small", "N=3, or N=3x4 for an input, and not 'small'"),
        ("grad FILE --sizes A=3x", "A=3, or A=3x4 for an input, and not '3x'"),
        ("grad FILE --sizes N=3,N=4", "N is given twice in 'N=3,N=4'"),
        ("batch FILE --in-axes A=0,A=1", "A is given twice in 'A=0,A=1'"),
        ("grad FILE --sizes A=3x2 N=3", "arguments: N=3; sizes are --sizes A=3x2,N=3"),
        ("vjp FILE N=3 K=2", "arguments: N=3 K=2; sizes are --sizes N=3,K=2"),
        ("jvp FILE N=3", "unrecognized arguments: N=3"),
        ("jvp", "FILE"),
    ],
)
def test_wrong_words_are_wrong_usage(
    file: str, words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main([file if word == "FILE" else word for word in words.split()])
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


def test_shapes_are_sizes(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["grad", file, "--entry", "scale", "--sizes"]
    assert printed([*words, "A=3x2"], capsys) == printed([*words, "N=3,K=2"], capsys)


def test_a_repair_in_prose_stays_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.tc"
    path.write_text("def f(float(N) A) -> (O) { O(i) = lgamma(A(i)) }")
    assert "D10" in refused(["grad", str(path)], capsys)


def test_a_missing_file_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["jvp", "missing.tc"]) == 2
    assert "cannot read missing.tc" in capsys.readouterr().err
