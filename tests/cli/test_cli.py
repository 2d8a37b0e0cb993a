"""The command line, run as a user would: output, files, exit status."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest

import tc
from tc.__main__ import main
from tests.support.opencl import on_pocl
from tests.support.pipeline import timeless

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) {\n  C(i,j) +=! A(i,k) * B(k,j)  # sum\n}\n"
BAD = "def f(float(N) a) -> (o) {\n  o(i) = a(j)\n}\n"


@pytest.fixture
def mm(tmp_path: Path) -> str:
    path = tmp_path / "mm.tc"
    path.write_text(MM)
    return str(path)


def test_check_good_and_bad(mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.tc"
    bad.write_text(BAD)
    assert main(["check", mm]) == 0
    assert capsys.readouterr().out == f"{mm}: mm: no errors\n"
    assert main(["check", mm, str(bad)]) == 1
    printed = capsys.readouterr()
    assert "[R1]" in printed.err
    assert f"{bad}:2:" in printed.err
    assert "o(i) = a(j)" in printed.err


def test_fmt(mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    messy = tmp_path / "messy.tc"
    messy.write_text(MM.replace("  C(i,j) +=! ", " C( i,j )   +=!\n"))
    assert main(["fmt", mm]) == 0
    printed = capsys.readouterr().out
    assert "# sum" in printed
    assert main(["fmt", "--check", str(messy)]) == 1
    assert main(["fmt", "--write", str(messy)]) == 0
    assert main(["fmt", "--check", str(messy)]) == 0
    assert messy.read_text() == printed


def test_run_saves_outputs(mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.save(tmp_path / "a.npy", a)
    out = tmp_path / "out"
    for backend in set(tc.backends()) - {"opencl"}:
        status = main(
            ["run", mm, f"A={tmp_path / 'a.npy'}", "B=ones:3x4", "--backend", backend,
             "--out", str(out)]
        )  # fmt: skip
        assert status == 0
        assert np.array_equal(np.load(out / "C.npy"), a @ np.ones((3, 4), np.float32))
        assert "C: float32 2x4" in capsys.readouterr().out


@on_pocl
def test_run_on_opencl() -> None:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "mm.tc"
        program.write_text(MM)
        given = ["A=ones:2x3", "B=ones:3x4", "--backend", "opencl", "--out", folder]
        assert main(["run", str(program), *given]) == 0
        assert np.array_equal(np.load(Path(folder) / "C.npy"), np.full((2, 4), 3))


def test_run_random_with_sizes_is_reproducible(
    mm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = []
    for _ in range(2):
        assert (
            main(
                ["run", mm, "A=random", "B=random:3x4", "M=2", "K=3", "--seed", "5",
                 "--out", str(tmp_path)]
            )
            == 0
        )  # fmt: skip
        results.append(np.load(tmp_path / "C.npy"))
    assert np.array_equal(*results)
    assert np.ptp(results[0]) > 0
    capsys.readouterr()


def test_values_before_and_after_options(mm: str, capsys: pytest.CaptureFixture[str]) -> None:
    for order in (
        ["--entry", "mm", "A=ones:2x3", "B=ones:3x4"],
        ["A=ones:2x3", "--entry", "mm", "B=ones:3x4"],
        ["A=ones:2x3", "B=ones:3x4", "--entry", "mm"],
    ):
        assert main(["run", mm, *order, "--backend", "interpret"]) == 0
        assert "C: float32 2x4" in capsys.readouterr().out
    for wrong in (["--entri", "mm"], ["A=ones:2x3", "--backend", "numba", "B"]):
        with pytest.raises(SystemExit) as stopped:
            main(["run", mm, *wrong])
        assert stopped.value.code == 2
    with pytest.raises(SystemExit) as stopped:
        main(["run", mm, "A=random:2x3", "B=ones:3x4", "--seed", "-1"])
    assert stopped.value.code == 2
    with pytest.raises(SystemExit) as stopped:
        main(["check", mm, "--what", "A=1"])
    assert stopped.value.code == 2
    capsys.readouterr()


def test_run_scalars_and_outputs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "axpy.tc"
    path.write_text("def axpy(float a, float(N) x) -> (y) { y(i) = y(i) + a * x(i) }")
    arguments = ["run", str(path), "a=2", "x=ones:3"]
    assert main(arguments) == 1
    assert "[R4]" in capsys.readouterr().err
    assert main([*arguments, "--outputs", "y=ones:3"]) == 0
    assert "y: float32 3 = [3., 3., 3.]" in capsys.readouterr().out


def test_outputs_of_what_only_looks_at_a_call(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Emit, explain and tune are of a call that passes them; they may say a size of their own."""
    path = tmp_path / "scatter.tc"
    path.write_text("def f(int(N) at, float(N) x) -> (float(M) o) { o(at(n)) += x(n) }")
    assert main(["emit", str(path), "N=10"]) == 1
    assert "M is the size of the output 'o' alone" in capsys.readouterr().err
    for verb, told in (("emit", "output float32(7) o"), ("explain", "sizes: M = 7, N = 10")):
        assert main([verb, str(path), "N=10", "--outputs", "o=zeros:7"]) == 0
        assert told in capsys.readouterr().out
    assert main(["explain", str(path), "N=10", "--outputs", "p=zeros:7"]) == 1
    assert "repair: --outputs o=zeros:7" in capsys.readouterr().err
    database = ["--database", str(tmp_path / "plans"), "--max-candidates", "1"]
    assert main(["tune", str(path), "N=500", "--outputs", "o=zeros:7", *database]) == 0
    assert "f on numba: N=500" in capsys.readouterr().out


NUMBERS = [
    (["a=ones:4", "--outputs", "o=300"], "o is 300, but uint8 holds 0 to 255"),
    (["a=ones:4", "--outputs", "o=1.5"], "o is 1.5, but uint8 o asks for an integer"),
    (["a=random:4:0:257"], "a=random:SHAPE:0:257: uint8 holds 0 to 255"),
    (["a=random:4:-1:2"], "uint8 holds 0 to 255"),
    (["a=random:4:250:256"], None),
    (["a=ones:4", "--outputs", "o=5"], None),
]


@pytest.mark.parametrize(("words", "refused"), NUMBERS)
def test_numbers_fit_their_types(
    words: list[str], refused: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rule Y3; fills do not wrap around either."""
    path = tmp_path / "sum.tc"
    path.write_text("def total(uint8(N) a) -> (uint8 o) { o += a(i) }")
    status = main(["run", str(path), *words, "--backend", "interpret"])
    told = capsys.readouterr()
    if refused is None:
        assert status == 0
        assert "o: uint8 scalar = " in told.out
    else:
        assert status > 0
        assert refused in told.err


def test_bool_scalars_and_shell_repairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "two.tc"
    path.write_text(
        "def 2x(bool b) -> (o) { o = b ? 1 : 0 }def g(float(N) a, float(M) b) -> (o) { o +=! a(i) }"
    )
    for text, value in (("1", 1), ("true", 1), ("False", 0)):
        assert main(["run", str(path), "--entry", "2x", f"b={text}", "--backend", "interpret"]) == 0
        assert f"o: int32 scalar = {value}" in capsys.readouterr().out
    assert main(["explain", str(path)]) == 1
    assert "repair: --entry " in capsys.readouterr().err
    assert main(["explain", str(path), "--entry", "g", "N=2"]) == 1
    assert "repair: N=2 M=" in capsys.readouterr().err


def test_explain_and_emit(mm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", mm, "M=2", "K=3", "N=4"]) == 0
    assert "0:3" in capsys.readouterr().out
    assert main(["emit", mm, "M=2", "K=3", "N=4"]) == 0
    assert "void mm(" in capsys.readouterr().out
    assert main(["emit", mm, "M=2", "K=3", "N=4", "--preset", "naive"]) == 0
    assert "for (int64_t k = 0; k < 3; k++)" in capsys.readouterr().out
    assert main(["emit", mm, "M=2", "K=3", "N=4", "--backend", "numba"]) == 0
    assert "def mm_0(" in capsys.readouterr().out


@pytest.mark.parametrize("stage", [*tc.explain(MM, {"M": 1, "K": 1, "N": 1}).stages, "all"])
def test_explain_a_stage(mm: str, stage: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [mm, "M=2", "K=3", "N=4", "--stage", stage, "--backend", "c"]
    assert main(["explain", *arguments]) == 0
    wanted = tc.explain(tc.Source(MM, mm), {"M": 2, "K": 3, "N": 4}, stage=stage, backend="c")
    assert timeless(capsys.readouterr().out) == timeless(f"{wanted}\n")


def test_explain_with_a_preset(mm: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", mm, "M=2", "K=3", "N=4", "--preset", "naive"]) == 0
    assert "Nothing is tiled." in capsys.readouterr().out
    assert main(["explain", mm, "M=2", "--backend", "interpret", "--stage", "loops"]) == 1
    assert "repair: --backend c" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stopped:
        main(["explain", mm, "M=2", "--stage", "magic"])
    assert stopped.value.code == 2
    capsys.readouterr()


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["A"], "not of the form NAME=VALUE"),
        (["A=ones:2xq", "B=ones:3x4"], "is not a shape"),
        (["A=ones:2x3", "A=ones:2x3"], "given twice"),
        (["A=random:2x3:5:1", "B=ones:3x4"], "LOW not above HIGH"),
        (["A=zeros:2x3:3", "B=ones:3x4"], "takes no bounds"),
    ],
)
def test_usage_errors(
    mm: str, arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", mm, *arguments]) == 2
    assert part in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["A=nothing.npy", "B=ones:3x4"], "nothing.npy"),
        (["A=ones:2x3", "B=ones:4x4"], "3"),
        (["A=ones:2x3"], "B"),
        (["A=ones:2x3", "X=3"], "'X'"),
        (["A=random", "B=ones:3x4"], "the size M"),
        (["A=zeros:999999999999x999999", "B=ones:3x4"], "does not fit into memory"),
    ],
)
def test_input_errors(
    mm: str, arguments: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", mm, *arguments]) == 1
    assert part in capsys.readouterr().err


def test_missing_file_and_unknown_command() -> None:
    assert main(["check", "no_such.tc"]) == 2
    with pytest.raises(SystemExit) as stopped:
        main(["frobnicate"])
    assert stopped.value.code == 2


def test_as_a_module(mm: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tc", "check", mm], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0
    assert "no errors" in done.stdout
