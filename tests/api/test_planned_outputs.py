"""`outputs=` of what looks at a call without making it: emit, explain, autotune."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc

OPEN = "def f(int(N) at, float(N) x) -> (float(M) o) { o(at(n)) += x(n) }"
CLOSED = "def f(float(N) x) -> (o, p) { o(i) += x(i)  p(i) = 2 * x(i) }"


def test_code_goes_on_from_outputs_that_are_passed() -> None:
    fresh = tc.emit(CLOSED, N=10).source
    for outputs in ({"o": (10,)}, {"o": np.zeros(10, np.float32)}):
        assert tc.emit(CLOSED, N=10, outputs=outputs).source != fresh
    assert "continues from outputs=" in str(tc.explain(CLOSED, N=10, outputs={"o": (10,)}))


def test_outputs_say_sizes_of_their_own() -> None:
    assert "output float32(7) o" in tc.emit(OPEN, N=10, outputs=[(7,)]).source
    for backend in ("numba", "interpret"):
        told = str(tc.explain(OPEN, N=10, outputs={"o": (7,)}, backend=backend))
        assert "sizes: M = 7, N = 10" in told
    function = tc.compile(OPEN)
    assert "sizes: M = 7" in str(function.explain(N=10, outputs={"o": (7,)}))


@pytest.mark.parametrize(
    ("outputs", "cause"),
    [
        ({"q": (3,)}, "f has no output 'q'; it returns o, p"),
        ({"o": (11,)}, "o in outputs= has shape (11,), but the output has shape (10,)"),
        ([(10,)], "f returns 2 outputs (o, p), but outputs= has 1"),
        ({"o": np.zeros(10)}, "has dtype float64, but the output has dtype float32"),
        ({"o": "ten"}, "o in outputs= is of type str, which is no array"),
        ({"o": (-1,)}, "o in outputs= is of type tuple, which is no array"),
    ],
)
@pytest.mark.parametrize("verb", [tc.emit, tc.explain])
def test_outputs_that_no_call_may_pass(verb: Any, outputs: Any, cause: str) -> None:
    with pytest.raises(tc.InputError) as told:
        verb(CLOSED, N=10, outputs=outputs)
    assert cause in told.value.cause


def test_tuning_for_outputs_that_are_passed(tmp_path: Path) -> None:
    """The plan is for calls that pass them, of these sizes; the lines of the database keep both."""
    path = tmp_path / "plans"
    _, result = tc.autotune(
        *(OPEN,), N=5000, outputs={"o": (40,)}, max_candidates=2, database=path, progress=False
    )
    problem = result.problem
    assert problem.given == ("o",)
    assert dict(problem.shapes)["o"] == (40,)
    assert type(problem).from_json(problem.to_json()).sizes.outputs == {"o": (40,)}
