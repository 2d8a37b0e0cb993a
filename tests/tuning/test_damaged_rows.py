"""Rows of the tuning database that something has changed: each is passed over by itself, told of
once, and removed by prune; never an error of a call, and never another result."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import warnings
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import host
from tc.tuning import lookup
from tc.tuning.database import TuningDatabase
from tc.tuning.exchange import RefusedLine, from_lines, to_line
from tc.tuning.machines import device_value
from tests.support.tunings import MM, SIZES, measurement_of, problem_of, tiled

NEAR = {**SIZES, "M": 60}
A, B = np.ones((64, 48), np.float32), np.ones((48, 40), np.float32)
C = np.full((64, 40), 48, np.float32)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database with a plan for the sizes of the call, and one for sizes near them."""
    path = tmp_path / "tuned.db"
    monkeypatch.setenv("TC_TUNE_DB", str(path))
    monkeypatch.setattr(lookup, "_WARNED", set())
    measured = partial(
        measurement_of, confirmed=True, device=device_value(host(), "numba"), search="random"
    )
    TuningDatabase(path).add(
        [
            measured(problem_of(MM, SIZES), tiled("i", 8), 1.0),
            measured(problem_of(MM, NEAR), tiled("i", 16), 1.0, at=1.6e9),
        ]
    )
    return path


def execute(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA foreign_keys=OFF")
        assert connection.execute(statement, values).rowcount
        connection.commit()


def explained() -> tuple[list[str], str]:
    """The warnings of two explanations of the call, and the words of the second about plans."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            explanation = tc.explain(MM, [A, B])
        assert explanation.trace is not None
    assert all(each.category is tc.TCWarning for each in caught)
    return [str(each.message) for each in caught], "\n".join(explanation.trace.told)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE problems SET shapes = '{', strides = 'null' WHERE id = 2",
        "UPDATE problems SET names = '[' WHERE id = 2",
        "UPDATE trials SET at = 1e300",
        "UPDATE trials SET time = 'fast'",
        "UPDATE texts SET text = text || '}'",
        "UPDATE texts SET text = CAST(text || x'ff00' AS TEXT)",
    ],
)
def test_calls_are_right_whatever_is_damaged(path: Path, statement: str) -> None:
    """0.15: each call was an error, or ran slow code as if tc were at fault."""
    forget_exact(path)
    execute(path, statement)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for options in (None, tc.Options(threads=1)):
            assert (tc.compile(MM, options=options)(A, B) == C).all()
    assert [each.category for each in caught] in ([], [tc.TCWarning])
    assert all("cannot be read" in str(each.message) for each in caught)


def test_whole_rows_are_used_without_a_word(path: Path) -> None:
    said, told = explained()
    assert said == []
    assert told == f"From {path}: the only plan measured for these sizes: 1 s on 2023-11-14."


WHERE_NEAR = "WHERE id = 2"
UNREADABLE: list[Any] = [
    "",
    "{",
    "null",
    "[null, null]",
    "[[null], [48, 40]]",
    "[[60, 48]]",
    "[[60], [48, 40]]",
    "[[60, -48], [48, 40]]",
    "[[6e1, 48], [48, 40]]",
    "[[true, 48], [48, 40]]",
    "[[60, 48], [48, 40], [1]]",
    "[[60, 1" + "0" * 400 + "], [48, 40]]",
    '["60", "48"]',
    '{"A": [60, 48]}',
    "[" * 100_000,
    "NaN",
    b"\xff\xfe",
    b"[[60, 48], [48, 40]]",
    "[[60, 48], [48, 40]]\0",
    7,
    1e300,
]


def forget_exact(path: Path) -> None:
    """Removes the plans for the exact sizes, so that a call looks at sizes near its own."""
    execute(path, "DELETE FROM trials WHERE problem = 1")


def assert_passed_over(path: Path, *, plan: str = "") -> None:
    """By calls, show, export and best, until prune has removed it."""
    (said,), told = explained()
    assert said.startswith(
        "tune: plans that were tuned are passed over, as a row of the tuning database "
        f"{path} cannot be read ("
    )
    repair = f"repair: TC_TUNE_DB={path} tc tune db prune --keep 1000"
    assert said.endswith(f"; it is passed over, and so are others like it\n{repair}")
    assert f"Passed over in {path}: what cannot be read (" in told
    assert (plan in told) if plan else ("From " not in told)
    database = TuningDatabase(path)
    removed, _ = database.prune(1000)
    assert removed == 1
    lookup._WARNED.clear()
    assert explained()[0] == []
    list(database.measurements())


@pytest.mark.drawn(3)
@pytest.mark.parametrize("value", UNREADABLE, ids=lambda value: str(value)[:25])
@pytest.mark.parametrize("column", ["shapes", "strides"])
def test_shapes_and_strides(path: Path, column: str, value: object) -> None:
    """0.15: of a problem that has other sizes than the call."""
    forget_exact(path)
    execute(path, f"UPDATE problems SET {column} = ? {WHERE_NEAR}", value)
    assert_passed_over(path)


@pytest.mark.parametrize(
    "value",
    [
        *("", "{", "null", "[]", "[[], []]", '[["A", "B"], [["i", "j", "k"]]]', "[1, 2]"),
        *('[["A", "B", 3], [["i", "j", "k"]]]', '{"A": 1}', b"\xff", "[" * 100_000, 5),
        '[["A", "B", "C"], [["i", "j"]]]',
    ],
    ids=lambda value: str(value)[:25],
)
def test_names(path: Path, value: object) -> None:
    execute(path, "UPDATE problems SET names = ? WHERE id = 1", value)
    execute(path, "DELETE FROM trials WHERE problem = 2")
    assert_passed_over(path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("at", value) for value in (1e300, -1.0, -1e300, "never", b"\0", float("inf"), 10**18)),
        *(("time", value) for value in (0.0, -1.0, float("inf"), "fast", b"\0", 1e300)),
        *(("confirmed", value) for value in (7, -1, 1.5)),
    ],
)
def test_numbers_of_trials(path: Path, column: str, value: object) -> None:
    execute(path, f"UPDATE trials SET {column} = ? WHERE problem = 1", value)
    nearest = "measured for A(60, 48), B(48, 40), the nearest sizes that were tuned"
    assert_passed_over(path, plan=nearest)


@pytest.mark.parametrize(
    "value",
    ["", "{", "[" * 100_000, b"\xff\xfe", b"{}", '{"plan": NaN}', '{"plan": "\udcff"}'],
    ids=lambda value: ascii(value)[:25],
)
def test_options_that_are_no_text_of_json(path: Path, value: str | bytes) -> None:
    content: object = value
    if isinstance(value, str):
        content = value.encode(errors="surrogateescape")
    cast = "CAST(? AS TEXT)" if isinstance(value, str) else "?"
    where = "WHERE id = (SELECT options FROM trials WHERE problem = 1)"
    execute(path, f"UPDATE texts SET text = {cast} {where}", content)
    execute(path, "DELETE FROM trials WHERE problem = 2")
    assert_passed_over(path)


@pytest.mark.parametrize(
    "value",
    [
        *("null", "[]", "7", '"x"', "{}", '{"plan": null}', '{"plan": []}', '{"plan": {}}'),
        *('{"threads": 1e300}', '{"plan": {"version": 1, "parts": [7]}}'),
        '{"plan": {"version": 1, "parts": [{"statements": ["S9"], "actions": [{"tile": "i", '
        '"sizes": [8]}]}]}}',
        '{"plan": {"version": 1, "parts": [{"statements": ["S0.init", "S0"], "actions": [{"tile": '
        '"i", "sizes": [1e300]}]}]}}',
    ],
)
def test_options_that_say_something_else(path: Path, value: str) -> None:
    """As those of another tc: a plan that cannot be done is passed over without a warning."""
    where = "WHERE id = (SELECT options FROM trials WHERE problem = 1)"
    execute(path, f"UPDATE texts SET text = ? {where}", value)
    said, _ = explained()
    assert said == []
    passed_over: list[tc.TCError] = []
    list(TuningDatabase(path).measurements(passed_over.append))


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("table", "column"),
    [
        ("trials", "samples"), ("trials", "failure"), ("trials", "search"), ("trials", "seed"),
        ("trials", "at"), ("trials", "confirmed"), ("problems", "problem"), ("texts", "text"),
        ("trials", "problem"), ("trials", "device"), ("trials", "versions"), ("trials", "options"),
        ("trials", "base"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("value", ["", "null", '["1"]', b"\xff", 10**15, "\x1b[2J"])
def test_every_column(
    path: Path, table: str, column: str, value: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """All that reads rows reads the others, and tells how many it has passed over."""
    from tc.cli import main

    name = "rowid" if table == "texts" else "id"
    execute(path, f"UPDATE {table} SET {column} = ? WHERE {name} = 1", value)
    said, _ = explained()
    assert len(said) <= 1
    passed_over: list[tc.TCError] = []
    found = list(TuningDatabase(path).measurements(passed_over.append))
    if table != "texts":  # which both rows refer to
        assert len(found) + len(passed_over) == 2
        assert found
    for action in ("show", "export", "prune"):
        assert main(["tune", "db", action, "--database", str(path)]) == 0
        printed = capsys.readouterr()
        assert ("passed over" in printed.err) == (bool(passed_over) and action != "prune")
    if passed_over:
        assert len(list(TuningDatabase(path).measurements())) == len(found)


def lines() -> list[str]:
    return [to_line(measurement_of(None, tiled("i", size), 1.0)) for size in (2, 4, 8)]


@pytest.mark.parametrize(
    "change",
    [
        {"device": {"kind": ["i"]}},
        {"device": {"kind": {"i": 1}}},
        {"device": {"kind": None}},
        {"device": [["kind", "processor"]]},
        {"versions": [["tc"]]},
        {"base": ["x"]},
        {"options": [[]]},
        {"seed": {}},
        {"at": [1]},
        {"search": {"a": 1}},
        {"failure": ["i"]},
        {"seconds": {"1": 1}},
        {"problem": []},
        {"version": []},
    ],
    ids=str,
)
def test_a_bad_line_loses_no_good_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], change: dict[str, Any]
) -> None:
    """0.15"""
    from tc.cli import main

    first, second, third = lines()
    bad = json.dumps({**json.loads(second), **change})
    (tmp_path / "lines").write_text("\n".join((first, bad, third)))
    words = ["import", str(tmp_path / "lines"), "--database", str(tmp_path / "tuned.db")]
    assert main(["tune", "db", *words]) == 1
    printed = capsys.readouterr()
    assert f"{tmp_path / 'lines'}:2: refused: " in printed.err
    assert printed.out.startswith("2 of 3 measurements read, 2 of them new, in ")
    assert len(list(TuningDatabase(tmp_path / "tuned.db").measurements())) == 2


@pytest.mark.parametrize("key", list(measurement_of().problem.__slots__))
@pytest.mark.parametrize(
    "value", [None, 7, -1, 1.5, True, "", "123", [], [[]], [["A"]], [["A", "12"]], {}, {"A": [1]},
              [["A", [1.5, 2]], ["B", [2, 3]]], [["A", [2**70, 2]], ["B", [2, 3]]]],
    ids=str,
)  # fmt: skip
def test_a_problem_of_another_form(key: str, value: object) -> None:
    found = json.loads(lines()[0])
    if found["problem"][key] == value:
        return
    found["problem"][key] = value
    results = list(from_lines([json.dumps(found), lines()[1]]))
    assert isinstance(results[0], RefusedLine), results[0]
    assert not isinstance(results[1], RefusedLine)


@pytest.mark.skipif(not hasattr(__import__("os"), "mkfifo"), reason="no pipes with names here")
@pytest.mark.parametrize("end", ["", "-wal", "-journal"])
def test_a_pipe_is_no_database(path: Path, capsys: pytest.CaptureFixture[str], end: str) -> None:
    """0.15: whoever opens it would wait for a writer."""
    import os

    from tc.cli import main

    pipe = Path(f"{path}{end}")
    pipe.unlink(missing_ok=True)
    os.mkfifo(pipe)
    (said,), _ = explained()
    assert f"{pipe} is no regular file, and cannot be a database" in said
    for action in ("show", "export", "prune"):
        assert main(["tune", "db", action]) == 1
        assert "is no regular file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "old", "new"),
    [
        ("texts", "id INTEGER PRIMARY KEY", "id INTEGER PRIMARZ KEY"),
        ("texts", "id INTEGER PRIMARY KEY", "id INTEGEQ PRIMARY KEY"),
        ("trials", "REFERENCES problems", "REFERENCES problemz"),
        ("trials", "REFERENCES texts", "REFERENCES problems"),
        ("problems", "shapes TEXT", "shapez TEXT"),
        ("problems", "CREATE TABLE", "CREATE TABL\x94"),
    ],
)
def test_declarations_of_tables(path: Path, table: str, old: str, new: str) -> None:
    """Found by `python -m tests.damaged`: ids that are null, constraints that nothing keeps, and
    words of SQLite that are no text."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema=ON")
        content = new.encode("latin-1")
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, ?, CAST(? AS TEXT)) WHERE name = ?",
            (old, content, table),
        )
        connection.commit()
    said, _ = explained()
    assert len(said) <= 1
    database = TuningDatabase(path)
    with contextlib.suppress(tc.InputError):
        list(database.measurements([].append))
    with contextlib.suppress(tc.InputError):
        database.add([measurement_of(None, tiled("i", 2), 1.0)])
    with contextlib.suppress(tc.InputError):
        database.prune(1)
