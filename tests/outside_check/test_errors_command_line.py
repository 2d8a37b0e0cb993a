"""Findings of section 2 about the command line."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import numpy as np
import pytest

from tc.cli import main

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mm.tc").write_text(MM)


def status(words: str) -> int:
    try:
        return main(shlex.split(words))
    except SystemExit as stopped:
        return int(stopped.code or 0)


@pytest.mark.parametrize(
    ("words", "shown"), [("", "tune"), ("cache", "clear"), ("tune db", "prune")]
)
def test_commands_that_have_others_show_them(
    words: str, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """2.6"""
    assert status(words) == 0
    alone = capsys.readouterr()
    assert status(f"{words} --help") == 0
    assert capsys.readouterr() == alone
    assert shown in alone.out
    assert alone.err == ""


@pytest.mark.parametrize(
    ("words", "repair", "mended"),
    [
        ("batch mm.tc", "--in-axes 0", "batch mm.tc --in-axes 0"),
        ("tune mm.tc --seconds 3", "--max-seconds 3", None),
        ("tune mm.tc --candidates 3", "--max-candidates 3", None),
        ("chekc mm.tc", "check", "check mm.tc"),
        ("cache shwo", "show", "cache show"),
        ("tune db shwo", "show", None),
        ("tune db prune --kep 3", "--keep 3", None),
        ("fmt --wirte mm.tc", "--write", "fmt --write mm.tc"),
        ("emit mm.tc --backend opnecl", "--backend opencl", None),
        ("emit mm.tc --backend gcc", "--backend c", "emit mm.tc M=2 K=2 N=2 --backend c"),
        ("emit mm.tc --backend cpu", "--backend numba", None),
        ("emit mm.tc --preset niave", "--preset naive", None),
        ("run mm.tc --thraeds 3", "--threads 3", None),
        ("run mm.tc --outputs", None, None),
        ("tune", None, None),
        ("nothing at all", None, None),
    ],
)  # fmt: skip
def test_wrong_words_have_repairs(
    words: str, repair: str | None, mended: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """2.6: to be typed in place of what is wrong, as elsewhere."""
    assert status(words) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("usage: ")
    assert "error: " in said.err
    assert (said.err.partition("\nrepair: ")[2].strip() or None) == repair
    if mended is not None:
        assert status(mended) == 0


def test_the_time_of_a_later_call(capsys: pytest.CaptureFixture[str]) -> None:
    """2.6: what is saved is the result of the first."""
    Path("add.tc").write_text("def add(float(N) x) -> (y) { y(i) = y(i) + x(i) }")
    words = "run add.tc x=ones:3 --outputs y=zeros:3 --backend interpret --out out --time"
    assert status(words) == 0
    *_, first, later = capsys.readouterr().out.splitlines()
    assert first.startswith("backend interpret, first call ")
    assert re.fullmatch(
        r"later calls \S+ [munµ]?s a call: the median of \d+ measurements .*", later
    )
    assert np.load("out/y.npy").tolist() == [1.0, 1.0, 1.0]
