"""The command line speaks as a shell does: version, help, rules, options, repairs to paste."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tc
from tc import cache, rules
from tc.cli import main

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) {\n  C(i,j) +=! A(i,k) * B(k,j)\n}\n"
SCALE = "def scale(float b, float(N) X) -> (C) { C(i) = b * C(i) + X(i) }"
TABLE = ["M=2", "K=3", "N=4"]


def stopped(words: list[str]) -> int | str | None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    return caught.value.code


def test_the_version_needs_nothing_else() -> None:
    script = (
        "import sys; from tc.cli import main; main(['--version']); "
        "print([m for m in ('numpy', 'numba', 'islpy', 'argparse') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"tc {tc.__version__}\n[]\n"


def test_help_is_a_command_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert stopped(["help"]) == 0
    general = capsys.readouterr().out
    assert stopped(["--help"]) == 0
    assert capsys.readouterr().out == general
    assert "tensorc" in general
    for command in ("check", "fmt", "explain", "run", "emit", "cache"):
        assert command in general
        assert stopped(["help", command]) == 0
        assert f"usage: tc {command}" in capsys.readouterr().out
    assert stopped(["help", "frobnicate"]) == 2


@pytest.mark.parametrize("command", ["run", "explain", "emit"])
def test_every_argument_has_a_help_text(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert stopped([command, "--help"]) == 0
    text = capsys.readouterr().out.split("\n\n")
    listed = [part for part in text if part.startswith(("positional", "options"))]
    entries = re.split(r"\n  (?=\S)", "\n".join(listed).replace("\noptions:", ""))
    for entry in entries[1:]:
        assert len(re.split(r"\s{2,}|\n", entry, maxsplit=1)) == 2, entry
    assert "random:128x64" in "".join(text)


@pytest.mark.parametrize("name", [*rules.RULES, "g5"])
def test_explain_a_rule(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", name]) == 0
    assert capsys.readouterr().out == f"{rules.RULES[name.upper()]}\n"


def test_explain_no_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "G10"]) == 2
    assert capsys.readouterr().err.startswith("tc: there is no rule G10; the rules are T1, T2")


def test_a_file_comes_before_a_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "G5").write_text(MM)
    monkeypatch.chdir(tmp_path)
    assert main(["explain", "G5", *TABLE, "--stage", "ranges"]) == 0
    assert "def mm (G5)" in capsys.readouterr().out


def test_options_change_a_preset(
    mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = '{"mapping": {"vector_bits": 128}}'
    wanted = tc.Options.from_json(
        json.dumps(
            {**json.loads(tc.Options.preset("contraction").to_json()), "threads": 2}
            | {"mapping": {"pack": True, "vector_bits": 128}}
        )
    )
    (tmp_path / "options.json").write_text(given)
    for options in (given, str(tmp_path / "options.json")):
        words = ["--preset", "contraction", "--options", options, "--threads", "2"]
        assert main(["emit", mm, *TABLE, *words]) == 0
        text = tc.emit(tc.Source(MM, mm), {"M": 2, "K": 3, "N": 4}, options=wanted)
        assert capsys.readouterr().out == f"{text}\n"
        assert main(["run", mm, "A=ones:2x3", "B=ones:3x4", *words]) == 0
        assert "C: float32 2x4" in capsys.readouterr().out
    assert stopped(["run", mm, "A=ones:2x3", "B=ones:3x4", "--threads", "0"]) == 2


def test_run_says_where_its_kernel_came_from(
    mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache.enable(tmp_path / "kernels")
    words = ["run", mm, "A=ones:2x3", "B=ones:3x4"]
    for how in ("the kernel made for these sizes", "the kernel read from disk"):
        assert main(words) == 0
        assert capsys.readouterr().out.endswith(f" ms, {how}\n")
    assert main([*words, "--backend", "interpret"]) == 0
    assert capsys.readouterr().out.endswith(" ms, nothing is compiled\n")


def repair_of(words: list[str], capsys: pytest.CaptureFixture[str], status: int = 1) -> list[str]:
    """The words of the repair that a command prints."""
    assert main(words) == status
    repair = capsys.readouterr().err.rpartition("repair: ")[2]
    return shlex.split(repair.partition(", or ")[0])


def mended(words: list[str], found: list[str]) -> list[str]:
    """The words with a repair behind them, in place of what they said about the same name."""
    names = {word.partition("=")[0] for word in found if "=" in word}
    kept = [word for word in words if word.partition("=")[0] not in names]
    return [*(word for word in kept if word != "--outputs" or "C" not in names), *found]


def test_pasted_repairs_run(mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each repair, put behind the words that it is about, makes the command run."""
    scale = tmp_path / "scale.tc"
    scale.write_text(SCALE)
    two = tmp_path / "two.tc"
    two.write_text(
        "def g(float(N) a) -> (o) { o +=! a(i) } def 2x(float(N) a) -> (o) { o(i) = 2 * a(i) }"
    )
    scalar = tmp_path / "scalar.tc"
    scalar.write_text("def times(int n, float(N) x) -> (y) { y(i) = n * x(i) }")
    for words, repair in (
        (["run", mm, "A=ones:2x3"], ["B=random:3x64"]),
        (["run", str(scale), "b=2", "X=ones:3"], ["--outputs", "C=zeros:3"]),
        (["run", str(two), "a=ones:2"], ["--entry", "2x"]),
        (["explain", mm, "M=2", "--stage", "ranges"], ["M=2", "K=64", "N=64"]),
        (
            ["emit", mm, *TABLE, "--options", '{"mapping": {"rows": 99}}'],
            ["--options", '{"mapping": {"rows": 30, "vectors": 1}}'],
        ),
        (
            ["emit", mm, *TABLE, "--options", '{"mapping": {"row": 3}}'],
            ["--options", '{"mapping": {"rows": 3}}'],
        ),
        (["run", mm, "A=ones:3", "B=ones:3x4"], ["A=ones:64x3"]),
        (["run", mm, "A=2", "B=ones:3x4"], ["A=random:64x3"]),
        (["run", mm, "A=ones:2x3", "B=ones:3x4", "M=5"], ["M=2"]),
        (
            ["run", mm, "A=ones:2x3", "B=ones:3x4", "--outputs", "C=ones:3x3"],
            ["--outputs", "C=zeros:2x4"],
        ),
        (["run", str(scalar), "n=ones:2", "x=ones:3"], ["n=1"]),
    ):
        found = repair_of(words, capsys)
        if "99" not in words[-1]:  # the number of registers is the processor's
            assert found == repair
        assert main(mended(words, found)) == 0
        capsys.readouterr()


def test_a_file_of_another_type_is_repaired_by_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("scale.tc").write_text(SCALE)
    np.save("X.npy", np.ones(3))
    words = ["run", "scale.tc", "b=2", "X=X.npy", "--outputs", "C=ones:3"]
    command = repair_of(words, capsys)
    assert command[:2] == ["python", "-c"]
    subprocess.run([sys.executable, *command[1:]], check=True)
    assert main(words) == 0
    assert "C: float32 3 = [3., 3., 3.]" in capsys.readouterr().out


@pytest.mark.parametrize("shape", [(1, 3), (3, 1)])
def test_a_file_of_another_rank_is_repaired_by_a_command(
    shape: tuple[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("sum.tc").write_text("def total(float(N) X) -> (o) { o +=! X(i) }")
    np.save("X.npy", np.ones(shape, np.float32))
    assert main(["run", "sum.tc", "X=X.npy"]) == 1
    assert "repair: python -c " in capsys.readouterr().err


def test_a_misspelt_name_is_repaired(mm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert repair_of(["run", mm, "A=ones:2x3", "b=ones:3x4"], capsys) == ["B=ones:3x4"]
    words = ["run", mm, "A=ones:2x3", "B=ones:3x4", "--outputs", "c=zeros:2x4"]
    assert repair_of(words, capsys) == ["--outputs", "C=zeros:2x4"]


def test_warnings_speak_so_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sum.tc"
    path.write_text("def total(float(N,M) A) -> (o) { o(i) += A(i,j) }")
    assert main(["run", str(path), "A=ones:2x3", "--backend", "interpret"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("warning [R3]: ")
    assert said.endswith("or pass --outputs o=zeros:2\n")


def test_both_names_are_one_entry() -> None:
    text = (Path(tc.__file__).parent.parent / "pyproject.toml").read_text(encoding="utf-8")
    scripts = text.partition("[project.scripts]\n")[2].partition("\n[")[0]
    assert re.findall(r'^(\w+) = "(tc\..*)"$', scripts, re.MULTILINE) == [
        ("tc", "tc.cli:main"),
        ("tensorc", "tc.cli:main"),
    ]
