"""`tc tune db`, run as a user would."""

from __future__ import annotations

import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import tc
from tc.__main__ import main
from tc.device import host
from tc.tuning.database import TuningDatabase
from tc.tuning.exchange import to_line
from tc.tuning.machines import device_value
from tests.support.tunings import MM, measurement_of, problem_of, tiled


def measured(options: tc.Options | None = None, *seconds: float, **how: Any) -> Any:
    problem = how.pop("problem", None)
    found = {"device": device_value(host(), "numba"), **how}
    return measurement_of(problem, options, *seconds, **found)


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TuningDatabase:
    path = tmp_path / "tuned.db"
    monkeypatch.setenv("TC_TUNE_DB", str(path))
    return TuningDatabase(path)


@pytest.fixture
def full(database: TuningDatabase) -> TuningDatabase:
    database.add(
        [
            measured(tiled("i", 4), 0.25),
            measured(tiled("i", 8), 0.5),
            measured(tiled("i", 8), 0.5, confirmed=True),
            measured(tiled("i", 16), failure="is wrong"),
            measured(tiled("i", 16), 0.125),
            measured(tiled("i", 32), 0.75),
        ]
    )
    return database


def test_export_and_import(
    full: TuningDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines, other = tmp_path / "lines.jsonl", tmp_path / "other.db"
    assert main(["tune", "db", "export", str(lines)]) == 0
    assert capsys.readouterr().out == f"6 measurements in {lines}\n"
    assert main(["tune", "db", "export"]) == 0
    assert capsys.readouterr().out == lines.read_text()
    for new in (6, 0):
        assert main(["tune", "db", "import", str(lines), "--database", str(other)]) == 0
        said = f"6 of 6 measurements read, {new} of them new, in {other}\n"
        assert capsys.readouterr().out == said
    assert list(TuningDatabase(other).measurements()) == list(full.measurements())


def test_an_export_overwrites_no_database(
    full: TuningDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "lines.jsonl"
    link.symlink_to(full.path)
    before = list(full.measurements())
    for name in (full.path, link):
        assert main(["tune", "db", "export", str(name)]) == 1
        assert capsys.readouterr().err == (
            f"InputError: {name} is a database, and stays as it is\n"
            f"repair: tc tune db export {name}.jsonl\n"
        )
    assert list(full.measurements()) == before


def test_a_measurement_of_another_version_hides_no_other(
    full: TuningDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(sqlite3.connect(full.path)) as connection, connection:
        connection.execute(
            """UPDATE texts SET text = replace(text, '"version": 1', '"version": 7')
            WHERE text LIKE '%[8]%'"""
        )
    lines = tmp_path / "lines.jsonl"
    told = "2 measurements are passed over: the plan has version 7, and this tc reads version 1\n"
    assert main(["tune", "db", "export", str(lines)]) == 0
    assert capsys.readouterr() == (f"4 measurements in {lines}\n", told)
    assert main(["tune", "db", "show"]) == 0
    printed = capsys.readouterr()
    assert "measurements  4, of which 1 failed\n" in printed.out
    assert printed.err == told


def test_wrong_lines_are_told_by_their_numbers(
    database: TuningDatabase,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    good = to_line(measured(tiled("i", 4), 0.25))
    newer = json.dumps({**json.loads(good), "version": 2})
    wrong = good.replace('{"tile": "i"', '{"tyle": "i"')
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{newer}\n\n{good}\n{wrong}\n" + "x\n" * 30))
    assert main(["tune", "db", "import", "-"]) == 1
    printed = capsys.readouterr()
    said = printed.err.splitlines()
    assert said[:2] == [
        "<stdin>:1: refused: InputError: the line has version 2, and this tc reads version 1",
        "repair: pip install --upgrade tensor-comprehensions",
    ]
    assert said[2].startswith("<stdin>:4: refused: BackendError: action 1 of the part S0.init, S0,")
    assert "no action 'tyle'" in said[2]
    assert said[-1] == "and 12 more lines"
    where = database.path
    assert printed.out == f"1 of 33 measurements read, 1 of them new, in {where}\n"


def test_nothing_is_imported_into_what_is_no_database(
    database: TuningDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    database.path.write_bytes(b"something else" * 100)
    lines = tmp_path / "lines"
    lines.write_text(to_line(measured(tiled("i", 4), 0.25)))
    for words in (["import", str(lines)], ["show"], ["export"], ["prune"]):
        assert main(["tune", "db", *words]) == 1
        error = capsys.readouterr().err
        assert f"{database.path} is damaged, and stays as it is" in error
        assert f"repair: mv {database.path} {database.path}.damaged" in error
    assert database.path.read_bytes() == b"something else" * 100


def test_show(full: TuningDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "db", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"file          {full.path}"
    assert lines[2] == "measurements  6, of which 1 failed"
    row = lines[-1].split()
    assert row[:6] == ["mm", "A(64,", "48),", "B(48,", "40)", "numba"]
    assert " ".join(lines[-1].split("  ")[-9:]).split()[-6:] == [
        *("1", "125", "ms", "a", "plan", "2023-11-14")
    ]


def test_show_without_a_file(database: TuningDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", "db", "show"]) == 0
    assert capsys.readouterr().out == (
        f"file          {database.path}\nmeasurements  none yet: there is no such file\n"
    )
    assert not database.path.exists()
    for words in (["export"], ["prune"]):
        assert main(["tune", "db", *words]) == 1
        assert capsys.readouterr().err == (
            f"InputError: there is no tuning database {database.path}\nrepair: tc tune FILE\n"
        )


def test_best_is_what_options_takes(
    full: TuningDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, options = tmp_path / "mm.tc", tmp_path / "best.json"
    text.write_text(MM)
    sizes = ["M=64", "K=48", "N=40"]
    assert main(["tune", "db", "best", str(text), *sizes]) == 0
    printed = capsys.readouterr()
    assert tc.Options.from_json(printed.out) == tiled("i", 8)
    assert printed.err == (
        "the fastest of 4 plans measured for these sizes: 500 ms on 2023-11-14\n"
    )
    options.write_text(printed.out)
    assert main(["explain", str(text), *sizes, "--options", str(options), "--stage", "plan"]) == 0
    assert capsys.readouterr().out == f"{tiled('i', 8).plan}\n"
    assert main(["tune", "db", "best", str(text), "M=2", "K=3", "N=4"]) == 1
    assert capsys.readouterr().err == (
        f"InputError: {full.path} has no plan for mm at these sizes, or near ones, on the backend "
        f"numba\nrepair: tc tune {text} M=2 K=3 N=4\n"
    )


def test_best_of_outputs_that_are_passed(
    database: TuningDatabase, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plans are kept by the sizes of such outputs, too."""
    text = tmp_path / "row.tc"
    text.write_text("def row(float(N,M) hz) -> (ey) { ey(0,j) = hz(0,j) }")
    passed = ["--outputs", "ey=zeros:3x4"]
    assert main(["tune", str(text), "hz=ones:3x4", *passed, "--max-candidates", "3"]) == 0
    (problem, *_) = {each.problem for each in database.measurements()}
    assert dict(problem.shapes)["ey"] == (3, 4)
    capsys.readouterr()
    assert main(["tune", "db", "best", str(text), "hz=ones:3x4", *passed]) in (0, 1)
    found = capsys.readouterr()
    repair = f"repair: tc tune {text} hz=ones:3x4 --outputs ey=zeros:3x4\n"
    assert found.out.startswith("{") or found.err.endswith(repair)
    assert main(["tune", "db", "best", str(text), "hz=ones:3x4", "--outputs", "ey=zeros:3x5"]) == 1
    assert "ey" in capsys.readouterr().err


def test_prune(full: TuningDatabase, capsys: pytest.CaptureFixture[str]) -> None:
    far = measured(tiled("i", 2), 3.0, problem=problem_of(MM, {"M": 9, "K": 9, "N": 9}))
    full.add([far])
    assert main(["tune", "db", "prune", "--keep", "2"]) == 0
    assert capsys.readouterr().out == f"removed 3 of 7 measurements from {full.path}\n"
    left = [(each.trial.options, each.confirmed) for each in full.measurements()]
    assert left == [
        *((tiled("i", 4), False), (tiled("i", 8), False), (tiled("i", 8), True)),
        (tiled("i", 2), False),
    ]
    assert main(["tune", "db", "prune", "--keep", "1"]) == 0
    assert capsys.readouterr().out == f"removed 1 of 4 measurements from {full.path}\n"
    best = full.best(problem_of(), host())
    assert best is not None
    assert best.options == tiled("i", 8)


@pytest.mark.parametrize(
    "wrong",
    [["tune", "db", "drop"], ["tune", "db", "prune", "--keep", "0"],
     ["tune", "db", "show", "N=1"]],
)  # fmt: skip
def test_wrong_usage(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(wrong)
    assert stopped.value.code == 2
    assert "usage: tc tune db" in capsys.readouterr().err
