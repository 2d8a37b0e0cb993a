"""The programs of `bench.broad` at tiny sizes: texts, torch's formulas and loops agree. And what
the harness makes of a run."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc

pytest.importorskip("torch", reason="torch is not installed")

from bench import broad
from bench.broad_programs.program import ROUNDING, Drawn, Program, product
from bench.broad_programs.table import FAMILIES, PROGRAMS
from bench.broad_report import BroadRow, failures, means, row_of, table
from bench.cpu_measure import Timing
from bench.peers.process import ROOT

SEED = 20_261


def tuple_of(values: Any) -> tuple[Any, ...]:
    return tuple(map(np.asarray, values if isinstance(values, tuple) else (values,)))


def rounded(values: Any, expected: Any) -> Any:
    """How far the exact value may be from what its type holds."""
    return ROUNDING.get(values.dtype, 0.0) * np.abs(expected)


@pytest.mark.parametrize("key", PROGRAMS)
def test_text_formula_and_loops_agree(key: str) -> None:
    drawn = PROGRAMS[key].tiny(SEED)
    case = drawn.case()
    expected = case.expected()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        results = tuple_of(tc.interpret(drawn.text, case.inputs))
        bounds = tuple_of(tc.error_bound(drawn.text, case.inputs))
    for value, exact, bound in zip(results, expected, bounds, strict=True):
        assert value.shape == exact.shape
        assert np.isfinite(exact).all()
        assert (np.abs(value - exact) <= 1.001 * bound + rounded(value, exact)).all(), drawn.sizes
    check_loops(drawn, expected)


def check_loops(drawn: Drawn, expected: tuple[Any, ...]) -> None:
    """As plain Python; numba's compiler would take a minute for all."""
    if drawn.program.loops is None:
        return
    results = tuple_of(drawn.program.loops(*drawn.case().inputs))
    for value, exact in zip(results, expected, strict=True):
        assert (value.shape, value.dtype.kind in "fu") == (exact.shape, True)
        assert np.abs(value - exact).max() <= drawn.tolerance(exact)


def test_programs_load_no_torch() -> None:
    """PyTorch with places for its threads would bind the process of tc to one core."""
    code = "import sys, bench.broad_programs.process; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_torch_itself_is_there_for_compilers_of_formulas() -> None:
    code = "from bench.broad_programs import grids, lazy_torch; lazy_torch.load([grids])\n"
    code += "import sys, torch; sys.exit(grids.torch is not torch)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0


def test_enough_programs_of_enough_families() -> None:
    assert len(PROGRAMS) >= 60
    assert len(FAMILIES) >= 12


@pytest.mark.parametrize("key", PROGRAMS)
def test_sizes_are_of_the_seed_and_within_bounds(key: str) -> None:
    program = PROGRAMS[key]
    drawn = [program.drawn(seed).sizes for seed in range(4)]
    assert drawn == [program.drawn(seed).sizes for seed in range(4)]
    assert len({str(sizes) for sizes in drawn}) > 1
    low, high = program.within
    for sizes in drawn:
        assert low <= product(program.work, sizes) <= high
        assert all(first <= sizes[n] <= last for n, (first, last) in program.sizes.items())


def test_work_that_no_sizes_do_is_an_error() -> None:
    program = Program("f", "p", "", {"N": (1, 3)}, "N", id, None, within=(5, 9))
    with pytest.raises(ValueError, match="f: p: no sizes within"):
        program.drawn(0)


def record(**seconds: float | None) -> dict[str, Any]:
    timings = {
        name: vars(Timing(reason="absent") if s is None else Timing(s, s))
        for name, s in seconds.items()
    }
    return {"program": "f: p", "family": "f", "sizes": {"N": 3}, "timings": timings}


def test_ratios_of_a_record() -> None:
    row = row_of(record(tc=2.0, tuned=1.0, torch=3.0, numba=4.0, compile=None))
    assert row.fastest == "torch"
    assert row.ratios == (0.5, 1.5, 3.0)
    assert failures([row]) == "- f: p: compile: absent"


def test_the_worst_stands_first_and_those_behind_are_counted() -> None:
    fast = BroadRow("f: fast", "f", {}, {"tc": 1.0, "numba": 4.0})
    slow = BroadRow("g: slow", "g", {}, {"tc": 4.0, "torch": 1.0})
    lines = table([fast, slow], ["tc", "torch", "numba"]).splitlines()
    assert ["slow" in line for line in lines[2:]] == [True, False]
    last = [cell.strip() for cell in means([fast, slow]).splitlines()[-1].split("|")]
    assert last[1:-1] == ["all", "2", "-", "1.00", "-", "1"]


def test_a_run_goes_on_where_it_ended(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--families", "pointwise", "--peers", "torch", "--rounds", "1"]
    broad.main([*given, "--programs", "gate", "--seed", "7", "--out", str(tmp_path / "run")])
    path = tmp_path / "run.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write('{"program": "pointwise: ad')
    broad.main([*given, "--programs", "gate,adam", "--resume", str(path)])
    heading, records = broad.read_run(path)
    assert heading["seed"] == 7
    assert [r["program"] for r in records] == ["pointwise: gate", "pointwise: adam"]
    assert all(r["timings"]["torch"]["seconds"] > 0 for r in records)
    assert records[0]["sizes"] == PROGRAMS["pointwise: gate"].drawn(7).sizes
    assert json.loads(path.read_text(encoding="utf-8").splitlines()[0]) == heading
    assert "seed 7, 1 programs" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--families", "sum"], "no family 'sum'"),
        (["--programs", "sofmax"], "no program with 'sofmax'"),
        (["--peers", "jax"], "no peer jax; there are tc, tuned, torch, compile, numba"),
    ],
)
def test_unknown_names(given: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        broad.main(given)
    assert told in capsys.readouterr().err
