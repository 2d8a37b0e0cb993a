"""tc explain --stage plan, and files of plans given back with --plan."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

import tc
from tc.cli import main

SIZES = ["M=20", "K=30", "N=40"]
RIGHT = "C: float32 20x40, min 30, mean 30, max 30"
VALUES = ["A=ones:20x30", "B=ones:30x40"]


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(list(words)) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def test_what_is_printed_is_given_back(
    mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = printed(capsys, "explain", mm, *SIZES, "--stage", "plan")
    file = tmp_path / "plan.json"
    file.write_text(text)
    given = ("--plan", str(file))
    assert printed(capsys, "explain", mm, *SIZES, "--stage", "plan", *given) == text
    assert printed(capsys, "emit", mm, *SIZES, *given) == printed(capsys, "emit", mm, *SIZES)
    assert "C: float32 20x40, min 30, mean 30, max 30" in printed(
        capsys, "run", mm, *VALUES, *given
    )


def test_a_plan_by_hand(mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = tc.plan.Part(("S0.init", "S0"), (tc.plan.Tile("j", (8,)),))
    file = tmp_path / "plan.json"
    file.write_text(tc.Plan((part,)).to_json())
    given = ("--plan", str(file))
    assert "band [i *, j div 8 *, j mod 8 *]" in printed(
        capsys, "explain", mm, *SIZES, "--stage", "mapping", "--preset", "naive", *given
    )
    assert "C: float32 20x40, min 30, mean 30, max 30" in printed(
        capsys, "run", mm, *VALUES, *given
    )
    inline = ("--options", json.dumps({"plan": json.loads(file.read_text())}))
    assert printed(capsys, "emit", mm, *SIZES, *inline) == printed(
        capsys, "emit", mm, *SIZES, *given
    )


@pytest.mark.parametrize(
    ("text", "status", "said"),
    [
        (None, 2, "tc: cannot read {file}: No such file or directory"),
        ("tile i by 8", 1, "the plan is no JSON: Expecting value: line 1 column 1 (char 0)\n"
         'repair: {{"version": 1, "parts": []}}'),
        ("", 1, "the plan is no JSON: Expecting value"),
        ('{"version": 7, "parts": []}', 1, "the plan has version 7, and this tc reads version 1\n"
         'repair: {{"version": 1, "parts": []}}'),
        ('{"version": 1, "parts": [{"statements": ["S1"]}]}', 1, "the program's parts, in order, "
         "are S0.init, S0"),
    ],
)  # fmt: skip
def test_files_that_are_no_plans(
    text: str | None,
    status: int,
    said: str,
    mm: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "plan.json"
    if text is not None:
        file.write_text(text)
    for command, values in (("run", VALUES), ("explain", SIZES), ("emit", SIZES)):
        assert main([command, mm, *values, "--plan", str(file)]) == status
        assert said.format(file=file) in capsys.readouterr().err


def test_binary_files_and_folders(
    mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan").write_bytes(b"\xff\xfe\x00")
    for name in ("plan", "."):
        assert main(["run", mm, *VALUES, "--plan", str(tmp_path / name)]) == 2
        assert "cannot read" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("others", "words"),
    [({}, []), ({"threads": 2}, ["--options", "'{\"threads\": 2}'"])],
)
def test_two_plans(
    others: dict[str, int],
    words: list[str],
    mm: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The repair, as a shell reads it, has the plan of the file and what else was asked for."""
    file = tmp_path / "plan.json"
    file.write_text('{"version": 1, "parts": []}')
    both = json.dumps({"plan": {"version": 1, "parts": []}, **others})
    repair = " ".join(["--plan", str(file), *words])
    for command, values in (("run", VALUES), ("explain", SIZES), ("emit", SIZES)):
        assert main([command, mm, *values, "--plan", str(file), "--options", both]) == 1
        assert capsys.readouterr().err == (
            "BackendError: there is a plan in --options, and one in --plan; a program has one\n"
            f"repair: {repair}\n"
        )
        printed(capsys, command, mm, *values, *shlex.split(repair))
    none = json.dumps({"plan": None, **others})
    printed(capsys, "emit", mm, *SIZES, "--plan", str(file), "--options", none)
