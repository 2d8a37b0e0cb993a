"""`tc.tuned`: functions that search for a plan when they meet new sizes, and remember it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

import tc
from tc.tuning.database import TuningDatabase
from tc.tuning.lookup import TunedOptions
from tests.support.tunings import MM, assert_multiplies, operands


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TC_TUNE_DB", str(tmp_path / "none" / "other.db"))
    return tmp_path / "tuned.db"


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The problems that were searched for."""
    problems = []
    search_for = TunedOptions.search_for

    def counted(self: TunedOptions, problem: Any, backend: Any) -> Any:
        problems.append(problem)
        return search_for(self, problem, backend)

    monkeypatch.setattr(TunedOptions, "search_for", counted)
    return problems


def options_of(path: Path) -> Any:
    return tc.tuned(max_seconds=120, max_candidates=1, search="random", database=path)


def test_it_searches_once_and_remembers(path: Path, searched: list[Any]) -> None:
    f = tc.define(MM, options=options_of(path)).mm
    for _ in range(2):
        assert_multiplies(f, *operands())
    assert len(searched) == 1
    kept = list(TuningDatabase(path).measurements())
    assert [each.confirmed for each in kept][-1]
    (told,) = f.explain(*operands()).trace.told  # type: ignore[union-attr]
    assert told.startswith(f"From {path}: ")
    again = pickle.loads(pickle.dumps(f))
    assert_multiplies(again, *operands())  # found in the database
    assert len(searched) == 1
    assert_multiplies(again, *operands(65))  # near is not the same
    assert len(searched) == 2


def test_a_program_with_one_plan_runs(path: Path, searched: list[Any]) -> None:
    text = "def one(float a) -> (b) { b = a + 1 }"
    for _ in range(2):
        assert tc.compile(text, options=options_of(path))(2.0) == 3
    assert len(searched) == 1  # that there is nothing to tune is remembered, too


def test_it_can_be_turned_off(
    path: Path, searched: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TC_TUNE", "0")
    assert_multiplies(tc.compile(MM, options=options_of(path)), *operands())
    assert searched == []
    assert not path.exists()


def test_an_interrupt_is_raised(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted:
        interrupted = True

    monkeypatch.setattr(TunedOptions, "search_for", lambda *_: Interrupted())
    with pytest.raises(KeyboardInterrupt):
        tc.compile(MM, options=options_of(path))(*operands())


@pytest.mark.parametrize(
    ("how", "cause"),
    [
        ({"max_seconds": 0}, "max_seconds=0: a search takes a positive number of seconds"),
        ({"search": "annealing"}, "no search 'annealing'; there are"),
        ({"options": tc.Options(plan=tc.Plan())}, "options= has a plan already"),
        ({"options": 3}, "options= is a tc.Options"),
    ],
)
def test_what_is_refused(how: dict[str, Any], cause: str) -> None:
    with pytest.raises(tc.TCError) as caught:
        tc.tuned(**how)
    assert caught.value.cause.startswith(cause)
