"""The tuner, where an outside check found it wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.__main__ import main
from tc.tuning.problem import Problem
from tc.tuning.reporting.report import report
from tc.tuning.search import SEARCHES
from tc.tuning.tuner import Budget, TuningResult, tune
from tests.soak.tuners import FaultySearch, problem_of
from tests.soak.tunings import TuningCampaign
from tests.support.faulty_backend import FaultyBackend, while_running
from tests.support.programs import CASES
from tests.support.trials import Trials, trials

EXAMPLES = Path(__file__).parents[2] / "examples"

pytestmark = pytest.mark.filterwarnings("ignore::tc.TCWarning")


@pytest.fixture(scope="module")
def on_c() -> Iterator[Trials]:
    with trials("c") as made:
        yield made


def test_the_program_of_the_check_is_tuned(tmp_path: Path) -> None:
    """0.3: dimensions of the input are joined."""
    x = np.arange(120, dtype=np.float32).reshape(40, 3)
    function, result = tc.autotune(
        "def f(float(N,C) x) -> (o) { o(n,c) = 2 * x(n,c) }", [x],
        max_seconds=60, max_candidates=1, database=tmp_path / "tuned.db",
    )  # fmt: skip
    assert len(result.trials) == 1
    assert result.failures == ()
    np.testing.assert_array_equal(function(x), 2 * x)


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.tc")), ids=lambda path: path.stem)
def test_shipped_examples_are_tuned(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0.3: at the sizes that they state."""
    words = ("--max-seconds", "1", "--database", str(tmp_path / "tuned.db"))
    assert main(["tune", str(path), "--entry", path.stem, *words]) == 0
    assert ", 0 failed" in capsys.readouterr().out


DRAWN = ("sgemm", "maxpool2x2", "half_dot", "kronecker")
"""`tests/verbs` tunes all programs, each for a second."""


@pytest.mark.drawn(3)
@pytest.mark.parametrize("name", DRAWN)
def test_the_table_has_trials(name: str, on_c: Trials) -> None:
    """0.3: what tc chooses itself and one candidate, on the inputs of the table."""
    case = next(case for case in CASES if case.name == name)
    inputs = case.inputs(np.random.default_rng(len(name)))
    problem = on_c.problem(case.text, inputs, entry=case.def_name)
    assert_tried(on_c, problem, inputs, candidates=1)


def assert_tried(
    trials: Trials, problem: Problem, inputs: dict[str, Any], candidates: int = 0
) -> None:
    """On these inputs and on drawn ones."""
    found = list(trials.failures(problem, inputs, None, candidates=candidates))
    assert found
    assert [failure for _, failure in found] == [None] * len(found)


NUMBERS = np.random.default_rng(3)
MATRIX = NUMBERS.standard_normal((20, 60)).astype(np.float32)
LAYOUTS = {
    "row-major": MATRIX,
    "every second column": MATRIX[:, ::2],
    "every second row": MATRIX[::2],
    "every second element": MATRIX.reshape(-1)[::2].reshape(10, 60),
    "transposed": MATRIX.T,
    "backwards": MATRIX[::-1, ::-1],
    "one row": MATRIX[:1],
    "one column": MATRIX[:, :1],
    "no rows": MATRIX[:0],
    "no columns": MATRIX[:, :0],
    "a row, broadcast": np.broadcast_to(MATRIX[0], (20, 60)),
    "an element, broadcast": np.broadcast_to(MATRIX[0, 0], (20, 60)),
    "windows": np.lib.stride_tricks.sliding_window_view(MATRIX[0], 10),
    "between other bytes": np.zeros((20, 3), np.dtype([("a", "i1"), ("x", "f4")]))["x"],
}
"""The second and the fifth that are listed here are joined as well as the first, but to steps of
more than one element."""


@pytest.mark.drawn(7)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_of_what_is_joined(layout: str, on_c: Trials) -> None:
    """0.3, next door: inputs that are not row-major."""
    text = "def f(float(N,C) x) -> (o, s) { o(n,c) = 2 * x(n,c)  s(n) +=! x(n,c) }"
    inputs = {"x": LAYOUTS[layout]}
    problem = on_c.problem(text, inputs)
    assert_tried(on_c, problem, inputs)


JOINED = {
    "an output that holds something": (
        "def f(float(N,C) x, float(N,C) w) -> (o) { o(n,c) = o(n,c) + x(n,c) * w(n,c) }",
        {"x": MATRIX, "w": MATRIX},
    ),
    "halves": (
        "def f(half(N,C) x, half(N,C) w) -> (o) { o(n,c) = x(n,c) * w(n,c) }",
        {"x": MATRIX.astype(np.float16), "w": MATRIX.astype(np.float16)},
    ),
    "bytes that wrap": (
        "def f(int8(N,C) x) -> (o) { o(n,c) = x(n,c) * x(n,c) }",
        {"x": NUMBERS.integers(-128, 128, (7, 30)).astype(np.int8)},
    ),
    "large integers": (
        "def f(uint64(N,C) x) -> (o) { o(n,c) = x(n,c) * x(n,c) }",
        {"x": NUMBERS.integers(0, 1 << 63, (7, 30)).astype(np.uint64)},
    ),
    "truth values": (
        "def f(bool(N,C) x, bool(N,C) w) -> (o) { o(n,c) = x(n,c) && !w(n,c) }",
        {"x": MATRIX > 0, "w": MATRIX > 0.5},
    ),
    "what is gathered": (
        "def f(float(V,C,D) x, int(M) at) -> (o) { o(m,c,d) = x(at(m),c,d) }",
        {
            "x": MATRIX.reshape(10, 6, 20),
            "at": NUMBERS.integers(0, 10, 13).astype(np.int32),
        },
    ),
    "places of two dimensions": (
        "def f(float(V) x, int(M,K) at) -> (o) { o(m,k) = x(at(m,k)) }",
        {"x": MATRIX[0], "at": NUMBERS.integers(0, 60, (13, 4)).astype(np.int32)},
    ),
    "scalars beside": (
        "def f(float(N,C) x, float s, int k) -> (o) { o(n,c) = s * x(n,c) + k }",
        {"x": MATRIX, "s": np.float32(2.5), "k": np.int32(3)},
    ),
    "three of four": (
        "def f(float(N,C,H,W) x, float(C) b) -> (o) { o(n,c,h,w) = x(n,c,h,w) + b(c) }",
        {"x": MATRIX.reshape(2, 3, 10, 20), "b": MATRIX[0, :3]},
    ),
    "a temporary": (
        "def f(float(N,C) x) -> (o) { t(n,c) = exp(x(n,c))  o(n,c) = t(n,c) * t(n,c) }",
        {"x": MATRIX},
    ),
}


@pytest.mark.drawn(5)
@pytest.mark.parametrize("name", JOINED)
def test_whatever_is_joined(name: str, on_c: Trials) -> None:
    text, inputs = JOINED[name]
    problem = on_c.problem(text, inputs)
    assert problem.given == (("o",) if name == "an output that holds something" else ())
    assert_tried(on_c, problem, inputs)


def test_a_short_campaign(on_c: Trials) -> None:
    """0.3: `make soak` has a long one."""
    campaign = TuningCampaign(2, "c", on_c)
    for number in range(3):
        campaign.judge(number)
    assert campaign.findings == []
    assert campaign.counts["candidates"] >= campaign.counts["tunings"] > 0


def test_wrong_numbers_are_found_counted_and_told() -> None:
    """Apart from other failures, as they are faults of tc's; where the inputs are all alike, too:
    on ones a candidate that takes one element for another gives what is due."""
    asked = [while_running(name) for name in ("be_wrong", "be_turned", "raise_error")]
    result = searched(asked, {"x": np.ones(40, np.float32)})
    trials = {trial.options: trial.is_wrong for trial in result.trials}
    assert [trials[options] for options in asked] == [True, True, False]
    assert result.default.failure is None
    assert len(result.wrong) == 2
    assert str(result).endswith("3 candidates, of which 3 failed, 2 of them with wrong numbers")
    assert "3 failed, 2 of them with wrong numbers" in report(result)
    right = replace(result, trials=tuple(t for t in result.trials if not t.is_wrong))
    assert str(right).endswith("1 candidates, of which 1 failed")


def searched(asked: list[tc.Options], inputs: dict[str, np.ndarray[Any, Any]]) -> TuningResult:
    """The result of a search that asks for these options."""
    backend = FaultyBackend()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(SEARCHES, "faulty", FaultySearch)
        patch.setattr(FaultySearch, "asked", asked)
        return tune(
            problem_of(backend),
            backend,
            search="faulty",
            workers=1,
            budget=Budget(max_seconds=60),
            inputs=inputs,
        )
