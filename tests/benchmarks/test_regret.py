"""How far the chosen plan is from the best of a search: one short search, a run that goes on, and
its table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import regret

PRODUCT = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"


def test_a_search() -> None:
    inputs = [np.ones((9, 17), np.float32), np.ones((17, 33), np.float32)]
    found = regret.regret(PRODUCT, inputs, 3, seed=1)
    assert (found["tried"], found["failed"]) == (4, 0)
    assert 0 < found["best"] <= found["chosen"]


def test_a_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[tuple[str, int]] = []

    def search(text: str, inputs: list[Any], plans: int, _seed: int) -> dict[str, Any]:
        assert len(inputs) == text.count("float(") + text.count("double(")
        searched.append((text, plans))
        return {"tried": plans, "failed": 0, "chosen": 2.0, "best": 1.0, "owed": {"rows = 3": 2.0}}

    def programs(count: int, seed: int) -> list[tuple[str, str, list[Any]]]:
        assert seed == 7
        return [(f"product {n}", PRODUCT, [n, n]) for n in range(count)]

    monkeypatch.setattr(regret, "regret", search)
    monkeypatch.setattr(regret, "programs", programs)
    monkeypatch.setattr(regret, "with_one_thread", lambda _: None)
    file = tmp_path / "run.jsonl"
    given = ["--records", str(file), "--seed", "7", "--plans", "5", "--programs"]
    assert regret.main([*given, "1"]) == 0
    file.write_text(file.read_text() + '{"name": "prod')
    assert regret.main([*given, "2"]) == 0
    assert len(searched) == 2
    records = [json.loads(line) for line in file.read_text().splitlines()]
    assert [record["name"] for record in records] == ["product 0", "product 1"]
    assert "rows = 3 2.00" in regret.report(records)
    assert regret.report(records).endswith("beyond 1.15: 2 of 2.")


def test_programs_are_drawn() -> None:
    names = [name for name, _, _ in regret.programs(4, 1)]
    assert len({*names}) == 4
    assert names == [name for name, _, _ in regret.programs(4, 1)]
