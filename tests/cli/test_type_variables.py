"""Defs with type variables on the command line: NAME=TYPE, or the types of files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tc.__main__ import main

TEXT = "def mv<T: half | float, U>(T(M,K) A, U(K) x, int n) -> (C) { C(i) +=! A(i,k) * x(k) * n }\n"


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "mv.tc"
    path.write_text(TEXT)
    return str(path)


def saved(folder: Path, name: str, array: np.ndarray) -> str:
    np.save(folder / f"{name}.npy", array)
    return f"{name}={folder / name}.npy"


def test_types_are_given_by_name(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["T=half", "U=double", "A=ones:2x3", "x=ones:3", "n=2"]
    assert main(["run", text, *given, "--backend", "interpret"]) == 0
    assert capsys.readouterr().out.startswith("C: float64 2 = [6., 6.]")


def test_files_give_their_types(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = saved(tmp_path, "A", np.ones((2, 3), np.float32))
    x = saved(tmp_path, "x", np.ones(3, np.float64))
    assert main(["run", text, a, x, "n=2", "--backend", "interpret"]) == 0
    assert capsys.readouterr().out.startswith("C: float64 2 = [6., 6.]")
    a = saved(tmp_path, "A", np.ones((2, 3), np.float64))
    assert main(["run", text, a, x, "n=2"]) == 1
    assert "A has dtype float64, and 'T' is one of half | float" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["emit", "explain"])
def test_other_commands(command: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, text, "T=float", "U=double", "M=2", "K=3", "n=1"]) == 0
    out = capsys.readouterr().out
    assert "float32" in out
    assert "float64" in out


@pytest.mark.parametrize(
    ("given", "says", "repair"),
    [
        (["M=2", "K=3"], "'mv' has the type variables 'T' and 'U'", "T=half U=float"),
        (["T=double", "U=half"], "T='double': 'T' is one of half | float", 'T="half"'),
        (["T=half"], "no type is given for 'U' of 'mv'", 'U="float"'),
        (["T=half", "U=3"], "U='3': it is the name of a type", 'U="float"'),
    ],
    ids=["none", "another", "one", "no type"],
)
def test_mistakes(
    given: list[str], says: str, repair: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["emit", text, *given]) == 1
    told = capsys.readouterr().err
    assert says in told
    assert told.splitlines()[-1] == f"repair: {repair}"
