"""The tuning database where processes write at once, or are killed, and where the disk is full."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

import tc
from tc.tuning import database as module
from tc.tuning import database_file
from tc.tuning.database import TuningDatabase
from tc.tuning.problem import Trial
from tests.support.tunings import DEVICE, measurement_of, problem_of, tiled

ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from pathlib import Path
from tc.tuning.database import TuningDatabase
from tests.support.tunings import measurement_of, tiled
database, first, count = TuningDatabase(Path(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for number in range(first, first + count):
    database.add([measurement_of(None, tiled("i", number), 1.0)])
    print(number, flush=True)
"""


@contextmanager
def writer(path: Path, first: int, count: int) -> Iterator[subprocess.Popen[str]]:
    """A process that waits for a line, and then keeps plans with `count` tile sizes, each once."""
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path), str(first), str(count)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def begin(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def kept(path: Path) -> list[int]:
    """The sizes of the tiles that are in a file, which is whole."""
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    found = []
    for each in TuningDatabase(path).measurements():
        assert each.trial.options.plan is not None
        (action,) = each.trial.options.plan.parts[0].actions
        assert isinstance(action, tc.plan.Tile)
        found += action.sizes
    return found


def test_two_processes_make_and_write_one_file(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    with writer(path, 1, 30) as one, writer(path, 101, 30) as other:
        for process in (one, other):
            begin(process)
        assert [process.wait(120) for process in (one, other)] == [0, 0]
    assert sorted(kept(path)) == [*range(1, 31), *range(101, 131)]


def test_what_was_kept_survives_kill_9(tmp_path: Path) -> None:
    path, first = tmp_path / "tuned.db", 1
    for lines in (1, 7, 3):
        with writer(path, first, 10_000) as process:
            begin(process)
            assert process.stdout is not None
            told = [int(process.stdout.readline()) for _ in range(lines)]
            process.send_signal(signal.SIGKILL)
            told += map(int, process.stdout.read().split())
        found = kept(path)
        assert told[-1] in found
        assert found == list(range(1, len(found) + 1))  # at most the one in flight is more
        assert found[-1] - told[-1] in (0, 1)
        first = found[-1] + 1


def test_a_full_disk_is_told_of_once_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = TuningDatabase(tmp_path / "tuned.db")
    device = DEVICE
    assert database.record(problem_of(), device, Trial(tiled("i", 8), (1.0,)))
    insert = module._insert

    def full(*given: Any) -> int:
        insert(*given)
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(module, "_insert", full)
    with pytest.warns(tc.TCWarning) as caught:
        assert not database.record(problem_of(), device, Trial(tiled("i", 4), (0.5,)))
    (warning,) = caught
    assert str(warning.message) == (
        f"tune: what is measured is not kept, as there is no space left for {database.path}\n"
        f"repair: TC_TUNE_DB={database.path} tc tune db prune --keep 10"
    )
    assert not database.record(problem_of(), device, Trial(tiled("i", 2), (0.5,)))  # said before
    with pytest.raises(tc.InputError, match="there is no space left"):
        database.add([measurement_of(None, None, 1.0), measurement_of(None, tiled("i", 4), 1.0)])
    assert kept(database.path) == [8]
    monkeypatch.setattr(module, "_insert", insert)
    assert database.record(problem_of(), device, Trial(tiled("i", 4), (0.5,)))
    assert kept(database.path) == [8, 4]


def test_a_file_of_version_1_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "tuned.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(database_file.MIGRATIONS[0])
        connection.execute(f"PRAGMA application_id={database_file.APPLICATION}")
        connection.execute("PRAGMA user_version=1")
        columns = (
            "INSERT INTO texts VALUES (1, '{\"a\": 1}'), (2, '{}'), (3, ?)",
            "INSERT INTO problems VALUES (1, 'p', 'numba', 0, '[]', '[]', '[]', '[]', '[]', ?)",
        )
        connection.execute(columns[0], (tiled("i", 8).to_json(),))
        connection.execute(columns[1], (problem_of().to_json(),))
        connection.execute(
            "INSERT INTO trials VALUES (1, 1, 1, 2, 3, 1.0, 1, '[1.0]', NULL, 5.0, 'random', '7')"
        )
        connection.commit()
    (found,) = TuningDatabase(path).measurements()
    assert (found.base, found.trial) == (tc.Options(), Trial(tiled("i", 8), (1.0,)))
    assert TuningDatabase(path).record(problem_of(), DEVICE, Trial(tiled("i", 4), (0.5,)))
    assert kept(path) == [8, 4]
