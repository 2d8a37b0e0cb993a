"""`tc.autotune` from end to end, in seconds: what it returns is right, and not slower."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import InternalError, TCError
from tc.pipeline import lower_for
from tc.polyhedral.lowering import Lowering
from tc.tuning import space
from tc.tuning.database import TuningDatabase
from tc.tuning.reporting.report import report

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


def test_a_contraction(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((40, 30), np.float32), rng.random((30, 50), np.float32)
    path = tmp_path / "tuned.db"
    function, result = tc.autotune(
        MM, a, b, search="random", max_candidates=3, max_seconds=120, database=path
    )
    assert abs(function(a, b) - tc.interpret(MM, a, b)).max() <= tc.error_bound(MM, a, b).max()
    assert function.options == result.best.options
    assert result.default.options.plan is not None
    assert result.best.time <= result.default.time or result.best == result.default
    assert len(result.trials) == 3
    kept = list(TuningDatabase(path).measurements())
    assert len(kept) >= 4
    assert {m.search for m in kept} == {"random"}
    assert str(result).startswith(f"mm: {1e3 * result.best.time:.4g} ms, the default ")


@pytest.mark.drawn(3)
@pytest.mark.parametrize("search", ["genetic", "guided", "random"])
def test_candidates_of_which_no_kernel_is_made(
    search: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every second candidate meets a fault of tc's: each has its reason, and the search goes on."""
    seen = []

    def faulty(*arguments: Any) -> Lowering:
        seen.append(arguments)
        if len(seen) % 2 == 0:
            raise (InternalError("no such panels") if len(seen) % 4 else KeyError("l"))
        return lower_for(*arguments)

    monkeypatch.setattr(space, "lower_for", faulty)
    path = tmp_path / "tuned.db"
    _, result = tc.autotune(
        MM, M=40, K=30, N=50, search=search, max_candidates=4, max_seconds=120, database=path
    )
    reasons = [str(trial.failure) for trial in result.failures]
    own = "tc makes no kernel of it: "
    told = {reason.splitlines()[0] for reason in reasons}
    assert told == {f"{own}InternalError: no such panels", f"{own}KeyError: 'l'"}
    assert all(" = " in reason for reason in reasons)  # what was decided
    assert len(result.trials) == len(result.moments) == 4 + len(reasons)
    assert "no such panels" in report(result)
    assert {m.trial.failure for m in TuningDatabase(path).measurements()} == {None}


def test_a_default_of_which_no_kernel_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def faulty(*_: Any) -> Lowering:
        raise InternalError("no such panels")

    monkeypatch.setattr(space, "lower_for", faulty)
    with pytest.raises(InternalError, match="no such panels"):
        tc.autotune(MM, M=4, K=3, N=5, database=tmp_path / "tuned.db")


def test_it_ends_in_time(tmp_path: Path) -> None:
    begin = time.perf_counter()
    sizes = {"M": 40, "K": 30, "N": 50}
    _, result = tc.autotune(MM, sizes, max_seconds=1.5, database=tmp_path / "tuned.db")
    assert time.perf_counter() - begin < 60  # what the default takes comes before
    assert not result.interrupted


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"max_seconds": -1},
            "InputError: max_seconds=-1: a search takes a positive number of seconds\n"
            "repair: max_seconds=60",
        ),
        (
            {"max_candidates": 0},
            "InputError: max_candidates=0: it is an integer of at least 1, or None\n"
            "repair: max_candidates=100",
        ),
        (
            {"generations": 1.5},
            "InputError: generations=1.5: it is an integer of at least 1, or None\n"
            "repair: generations=10",
        ),
        (
            {"max_seconds": None},
            "InputError: a search without a bound would never end\nrepair: max_seconds=60",
        ),
        (
            {"search": "annealing"},
            "BackendError: no search 'annealing'; there are 'genetic', 'guided', 'random'\n"
            'repair: search="guided"',
        ),
        (
            {"backend": "interpret"},
            "BackendError: the backend 'interpret' runs the text itself: it has no plans to try\n"
            'repair: backend="c"',
        ),
        *(
            (
                {"seed": seed},
                f"InputError: seed={seed!r}: it is an integer of at least 0\nrepair: seed=0",
            )
            for seed in (-1, 1.5, "x")
        ),
        (
            {"executor": 3},
            "InputError: executor=3: it is an executor of concurrent.futures, or None\n"
            "repair: executor=None",
        ),
        (
            {"options": tc.Options(plan=tc.Plan())},
            "BackendError: options= has a plan already: tuning looks for one\nrepair: plan=None",
        ),
    ],
)
def test_what_is_refused(how: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(TCError) as caught:
        tc.autotune(MM, M=4, K=3, N=5, database=tmp_path / "tuned.db", **how)
    assert str(caught.value) == message
    assert not (tmp_path / "tuned.db").exists()


@pytest.mark.parametrize("database", [3, ""])
def test_a_database_that_is_no_path(database: Any) -> None:
    for refused in (partial(tc.autotune, MM, M=4, K=3, N=5), tc.tuned):
        with pytest.raises(tc.InputError) as caught:
            refused(database=database)
        assert str(caught.value) == (
            f"InputError: database={database!r}: it is the path of a file, or None\n"
            'repair: database="tuned.db"'
        )


def test_a_program_without_a_choice(tmp_path: Path) -> None:
    with pytest.raises(tc.BackendError) as caught:
        tc.autotune("def one(float a) -> (b) { b = a + 1 }", {}, database=tmp_path / "tuned.db")
    assert str(caught.value) == (
        "BackendError: one: there is nothing to tune at these sizes: one plan\n"
        "repair: tc.compile, which chooses it"
    )


def test_inputs_on_which_the_program_fails(tmp_path: Path) -> None:
    text = "def g(float(N) x, int32(M) at) -> (y) { y(i) = x(at(i)) }"
    x, at = np.ones(4, np.float32), np.array([1, 9], np.int32)
    with pytest.raises(tc.AccessError):
        tc.autotune(text, x, at, database=tmp_path / "tuned.db")
