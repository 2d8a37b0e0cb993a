"""The comparison of searches: one short run, gone on with, and its tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import searches


def record(search: str, seed: int, best: float) -> dict[str, Any]:
    return {
        "program": "sums: middle",
        "sizes": {"A": 2},
        "search": search,
        "seed": seed,
        "default": 8.0,
        "best": best,
        "failed": 1,
        "moments": [(1.0, 8.0), (4.0, best)],
    }


def test_tables() -> None:
    records = [record("random", 0, 4.0), record("random", 1, 8.0), record("guided", 0, 2.0)]
    whole, each = searches.tables(records, 8.0).split("\n\n")
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in whole.splitlines()]
    assert rows[2] == ["random", "2", "2", "1.0", "1.00", "1.41", "1.41", "1.41"]
    assert rows[3] == ["guided", "1", "2", "1.0", "1.00", "4.00", "4.00", "4.00"]
    assert "| sums: middle | 1.41 | 4.00 |" in " ".join(each.splitlines()[2].split())


def test_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = []

    def run(program: Any, search: str, seed: int, _: Any) -> dict[str, Any]:
        ran.append((program.key, search, seed))
        return record(search, seed, 4.0)

    monkeypatch.setattr(searches, "run", run)
    file = tmp_path / "run.jsonl"
    given = ["--out", str(file), "--programs", "sums: middle", "--seeds", "2", "--seconds", "8"]
    assert searches.main([*given, "--searches", "random,guided"]) == 0
    assert len(ran) == 4
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[:3]) + "\n" + lines[3][:9])
    assert searches.main(["--resume", str(file)]) == 0
    assert ran[4:] == ran[2:4]
    assert [json.loads(line).get("seed") for line in file.read_text().splitlines()][1:] == [
        0,
        0,
        1,
        1,
    ]
    assert "geometric means" in file.with_suffix(".md").read_text()


def test_unknown_programs_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        searches.arguments_of(["--programs", "sums: nothing"])
    assert "no program sums: nothing in bench.broad" in capsys.readouterr().err
