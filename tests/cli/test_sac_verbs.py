"""run, explain, emit and tune of files in SaC's notation: on every program of the rules, and what
is printed for some."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import tc.sac
from tc.cli import main
from tc.sac.program import Program
from tc.source import Source
from tests.sac.rule_table import CASES, RuleCase
from tests.support.sac_cases import assert_result

EXPECTED = Path(__file__).parents[1] / "expected" / "sac_command_line"
VALUES = [case for case in CASES if case.want is not None]
OF_PYTHON = ("positional inputs of an expression", "a list of rows of two lengths")
"""What only Python can be asked for, or what the command line refuses in words of its own."""
REFUSED = [case for case in CASES if case.error and case.name not in OF_PYTHON]


def words_of(case: RuleCase, folder: Path) -> list[str]:
    """FILE.sac, NAME=VALUE for each input, and --entry."""
    file = folder / "program.sac"
    file.write_text(case.src, encoding="utf-8")
    given = case.inputs
    if not isinstance(given, dict):
        try:
            names = Program.of(Source(case.src), case.entry).inputs
        except Exception:  # a text that the command refuses, too
            names = ()
        given = dict(zip(names, given, strict=False))
    words = [str(file)]
    for name, value in given.items():
        if isinstance(value, np.ndarray | np.generic):
            np.save(folder / f"{name}.npy", np.asarray(value))
            words.append(f"{name}={folder / name}.npy")
        else:
            words.append(f"{name}={json.dumps(value)}")
    return words + ([] if case.entry is None else ["--entry", case.entry])


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", VALUES, ids=lambda case: case.name)
def test_run_saves_what_is_due(
    case: RuleCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = words_of(case, tmp_path)
    out = ["--backend", "interpret", "--out", str(tmp_path / "out")]
    assert main(["run", *words, *out]) == 0
    shown = capsys.readouterr().out
    found = sorted((tmp_path / "out").glob("*.npy"))
    results = [np.load(path) for path in found]
    assert_result(results[0] if len(results) == 1 else tuple(results), case.want)
    assert all(f"{path.stem}: " in shown for path in found)


@pytest.mark.drawn(10)
@pytest.mark.parametrize("case", VALUES, ids=lambda case: case.name)
def test_explain_and_emit_show_every_program(
    case: RuleCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = words_of(case, tmp_path)
    assert main(["explain", *words]) == 0
    shown = capsys.readouterr().out
    titles = ("result ", "=== bounds: ", "=== desugared: ", "=== def: ", "=== ranges: ")
    assert [title for title in titles if title not in shown] == []
    assert "->" not in shown.partition("=== desugared: ")[2].partition("=== def: ")[0]
    assert main(["emit", *words]) == 0
    assert "void " in capsys.readouterr().out


@pytest.mark.drawn(4)
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_a_refusal_is_told_with_its_rule(
    case: RuleCase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = words_of(case, tmp_path)
    assert main(["run", *words, "--backend", "interpret"]) == 1
    told = capsys.readouterr().err
    assert any(f"[{rule}]" in told for rule in (*case.error.split(), "C25"))
    assert "Traceback" not in told


CONV = """\
// a convolution of any rank
// tc: x=random:6x5 w=[[1,2],[3,4]]
float[*] conv(float[*] x, float[*] w) {
  return { iv -> sum({ ov -> x[iv+ov] * w[ov] }) | iv < shape(x) - shape(w) + 1 };
}
// tc: n=4 k=2
int[n] scaled(int[n] v, int k) {
  return k * v;
}
"""


@pytest.fixture
def conv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("conv.sac").write_text(CONV, encoding="utf-8")
    Path("sums.sac").write_text("// tc: v=[1,2,3]\n{ [i] -> sum(take([i + 1], v)) | [i] < 3 }")
    return "conv.sac"


def first_line(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out.partition("\n")[0]


@pytest.mark.parametrize(
    ("words", "begins"),
    [
        ("conv.sac --entry conv", "result: float32 5x4, min "),
        ("conv.sac --entry conv x=ones:3x3", "result: float32 2x2 = [[10., 10.],"),
        ("conv.sac --entry conv x=[1,2,4] w=[1,1]", "result: float32 2 = [3., 6.]"),
        ("conv.sac --entry scaled", "result: int32 4 = "),
        ("conv.sac --entry scaled v=[1,2]", "result: int32 2 = [2, 4]"),
        ("conv.sac --entry scaled v=zeros n=3 k=-1", "result: int32 3 = [0, 0, 0]"),
        ("sums.sac", "result: int32 3 = [1, 3, 6]"),
        ("sums.sac v=[1,2,0.5]", "result: float64 3 = [1. , 3. , 3.5]"),
        ("sums.sac v=ones:3:float", "result: float32 3 = [1., 2., 3.]"),
        ("sums.sac v=ones:3x0", "result: float64 3 = [0., 0., 0.]"),
    ],
)
@pytest.mark.usefixtures("conv")
def test_run_takes_values_and_pragmas(
    words: str, begins: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["run", *words.split(), "--backend", "interpret"]) == 0
    assert first_line(capsys).startswith(begins)


EXPLAINED = {
    "conv": "conv.sac --entry conv",
    "scaled": "conv.sac --entry scaled",
    "sums": "sums.sac",
    "partitions": "partitions.sac",
}
PARTITIONS = """\
// tc: a=ones:3x4:int b=ones:2x4:int n=[1,2,0]
t = { [i] -> sum({ [j] -> a[i,j] | [j] < n[i] }) | [i] < 3 };
{ [i,.] -> b[i] + t[i] | [1] <= [i] < [2]; [.,i] -> a[.,i]; iv -> a[iv] | iv < [3] }
"""


@pytest.mark.parametrize("name", EXPLAINED)
@pytest.mark.usefixtures("conv")
def test_explain_begins_with_the_notation(
    name: str, capsys: pytest.CaptureFixture[str], golden: Callable[[Path, str], None]
) -> None:
    """Levels, inferred bounds and why, the program without comprehensions, the def of tc."""
    Path("partitions.sac").write_text(PARTITIONS)
    words = ["explain", *EXPLAINED[name].split(), "--backend", "interpret"]
    assert main(words) == 0
    shown = capsys.readouterr().out
    own, mark, behind = shown.partition("\n\n=== desugared: ")
    golden(EXPECTED / f"{name}.txt", f"{own}\n")
    file = Path(EXPLAINED[name].split()[0])
    desugared = behind.partition("\n\n")[2].partition("\n\n=== def: ")[0]
    assert tc.sac.desugar(desugared) == tc.sac.desugar(file)
    assert "def " in behind
    assert mark


@pytest.mark.usefixtures("conv")
def test_a_stage_alone_and_its_def_as_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "conv.sac", "--entry", "conv", "--stage", "def", "-o", "f.tc"]) == 0
    assert main(["check", "f.tc"]) == 0
    assert main(["grad", "f.tc"]) == 0
    assert "def conv_grad" in capsys.readouterr().out
    assert main(["explain", "conv.sac", "--entry", "conv", "--stage", "kernel"]) == 0
    assert "kernel conv" in capsys.readouterr().out


def test_tune_keeps_a_plan_that_the_next_run_takes(
    conv: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TC_TUNE_DB", "tuned.db")
    words = [conv, "--entry", "conv", "x=random:40x40"]
    assert main(["tune", *words, "--max-candidates", "2", "--search", "random"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("conv on numba: w='[[1,2],[3,4]]' x=random:40x40\n")
    assert main(["run", *words]) == 0
    assert "result: float32 39x39" in capsys.readouterr().out
    assert main(["tune", "db", "show"]) == 0
    assert "conv" in capsys.readouterr().out
    assert main(["tune", "db", "best", *words]) in (0, 1)  # 1 where tc's own choice was best
    told = capsys.readouterr()
    assert '"plan"' in told.out or "tuned.db has no plan for conv at these sizes" in told.err


WRONG: dict[str, str] = {
    "missing": "run plain.sac",
    "missing_of_open_rank": "run plain.sac x=ones:2",
    "unknown": "run conv.sac --entry conv y=3",
    "no_entry": "run conv.sac",
    "wrong_entry": "run conv.sac --entry cnov",
    "no_list": "run sums.sac v=[1,2",
    "two_lengths": "run sums.sac v=[[1],[2,3]]",
    "floats_for_int": "run conv.sac --entry scaled v=[1.5]",
    "too_large": "run conv.sac --entry scaled v=[9999999999]",
    "other_type": "run conv.sac --entry scaled v=floats.npy",
    "no_such_file": "run conv.sac --entry scaled v=float.npy",
    "size_differs": "run conv.sac --entry scaled v=[1,2] n=3",
    "rank_open": "run conv.sac --entry conv x=random",
    "too_short": "run sums.sac v=[1,2]",
    "outputs": "run conv.sac --entry conv --outputs result=zeros:3",
    "outputs_unknown": "run conv.sac --entry conv --outputs y=zeros:3",
    "grad": "grad conv.sac",
    "stage_of_sac": "explain plain.tc x=ones:3 --stage levels",
    "text_of_tc": "run tc.sac x=ones:3",
    "pragma": "run stated.sac",
    "type_declared": "run conv.sac --entry scaled v=ones:3:float",
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.usefixtures("conv")
def test_a_bad_command_line_is_told(
    name: str, capsys: pytest.CaptureFixture[str], golden: Callable[[Path, str], None]
) -> None:
    Path("plain.sac").write_text("float[n] f(float[n] x, float[+] y) { return x; }")
    tc_text = "def f(float(N) x) -> (y) { y(i) = 2 * x(i) }"
    Path("plain.tc").write_text(tc_text)
    Path("tc.sac").write_text(tc_text)
    Path("stated.sac").write_text("// tc: m=3\n{ iv -> a[iv] }")
    np.save("floats.npy", np.ones(3))
    assert main(WRONG[name].split()) in (1, 2)
    golden(EXPECTED / "errors" / f"{name}.txt", capsys.readouterr().err)


def test_lists_of_inputs_of_tc(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.tc"
    path.write_text("def f(int(N,M) x) -> (y) { y(i,j) = 2 * x(i,j) }")
    assert main(["run", str(path), "x=[[1,2],[3,4]]", "--backend", "interpret"]) == 0
    assert "y: int32 2x2 = [[2, 4],\n [6, 8]]" in capsys.readouterr().out
    for wrong, told in {
        "x=[[1.5]]": "a list of numbers that are not whole, for int32",
        "x=[[true]]": "a list of bools, and int32 is asked for",
        "x=[1]": "x has rank 1 and shape (1,), but int32(N, M) x asks for rank 2",
    }.items():
        assert main(["run", str(path), wrong]) == 1
        assert told in capsys.readouterr().err
