"""Sizes and inputs that a text states for the command line: `# tc: NAME=VALUE ...`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tc.__main__ import main

TEXT = """\
# rows of a table
# tc: E=50 D=3
# tc: B=2 L=4
def rows(float(E,D) T, int(B,L) I) -> (O) {
  O(i,j) +=! T(I(i,k),j)
}
# tc: N=7 s=0.5
def scaled(float(N) x, float s) -> (y) {
  y(i) = s * x(i)  # tc: N=9
}
def plain(float(N) x) -> (y) { y(i) = x(i) }
"""


@pytest.fixture
def text(tmp_path: Path) -> str:
    path = tmp_path / "text.tc"
    path.write_text(TEXT)
    return str(path)


def run(*words: str) -> int:
    return main(["run", *words, "--backend", "interpret"])


def shown(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.partition("\n")[0]


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        (("--entry", "rows"), "O: float32 2x3 ="),
        (("--entry", "rows", "B=1"), "O: float32 1x3 ="),
        (("--entry", "rows", "T=ones:9x2", "L=5"), "O: float32 2x2 = [[5., 5.],"),
        (("--entry", "rows", "T=ones"), "O: float32 2x3 = [[4., 4., 4.],"),
        (("--entry", "scaled"), "y: float32 7 ="),
        (("--entry", "scaled", "x=ones:3"), "y: float32 3 = [0.5, 0.5, 0.5]"),
        (("--entry", "scaled", "x=ones", "s=2"), "y: float32 7 = [2., 2., 2., 2., 2., 2., 2.]"),
    ],
)
def test_what_is_given_counts_before_what_is_stated(
    text: str, words: tuple[str, ...], begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(text, *words) == 0
    assert shown(capsys).startswith(begins)


def test_other_inputs_are_random_by_the_seed(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        out = str(tmp_path / name)
        assert run(text, "--entry", "rows", "--seed", seed, "--out", out) == 0
    a, b, c = (np.load(tmp_path / name / "O.npy") for name in "abc")
    assert (a == b).all()
    assert (a != c).any()
    capsys.readouterr()


def test_a_def_without_any_needs_them_all(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(text, "--entry", "plain") == 1
    assert capsys.readouterr().err.endswith("repair: x=random:64\n")


def test_explain_and_emit_take_them(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", text, "--entry", "rows"]) == 0
    assert "sizes: E = 50, D = 3, B = 2, L = 4" in capsys.readouterr().out
    assert main(["emit", text, "--entry", "scaled"]) == 0
    assert "7" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("N", "InputError: 'N' is not of the form NAME=VALUE"),
        ("N=1 N=2", "InputError: N is stated twice"),
        ("M=3", "InputError: f has no input or size 'M'; it has N, x"),
    ],
)
def test_faults_of_a_comment_have_a_place(
    line: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "f.tc"
    path.write_text(f"# first\n# tc: {line}\ndef f(float(N) x) -> (y) {{ y(i) = x(i) }}\n")
    assert run(str(path)) == 1
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert f"{path}:2:" in error
    assert "# tc: " in error


def test_a_name_of_a_size_and_a_tensor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.tc"
    path.write_text("# tc: W=5\ndef f(float(W) W) -> (y) { y(i) = 0 * W(i) + W }\n")
    assert run(str(path)) == 0
    assert shown(capsys) == "y: float32 5 = [5., 5., 5., 5., 5.]"
