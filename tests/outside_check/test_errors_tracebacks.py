"""Tracebacks of tc's errors end at the line that called tc. (2.4)"""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.processes import run_python

DOUBLE = "def twice(float(N) x) -> (y) { y(i) = 2 * x(i) }"
WRONG = "def wrong(float(N) x) -> (y) { y(i) = x }"


def call_cold() -> None:
    tc.compile(DOUBLE, backend="interpret")(np.ones(3))


def call_warm() -> None:
    function = tc.compile(DOUBLE, backend="numba")
    for _ in range(3):
        function(np.ones(3, np.float32))
    function(np.ones(3))


CALLS: dict[str, Callable[[], Any]] = {
    "a call": call_cold,
    "a warm call": call_warm,
    "a name": lambda: tc.compile(DOUBLE)(z=np.ones(3, np.float32)),
    "compile": lambda: tc.compile(WRONG),
    "define": lambda: tc.define(WRONG),
    "interpret": lambda: tc.interpret(DOUBLE, [np.ones(3)]),
    "error_bound": lambda: tc.error_bound(DOUBLE, [np.ones(3)]),
    "explain": lambda: tc.explain(DOUBLE, [np.ones(3)]),
    "emit": lambda: tc.emit(DOUBLE, [np.ones(3)], backend="c"),
    "grad": lambda: tc.grad(WRONG, ["x"]),
    "jvp": lambda: tc.jvp(WRONG, ["x"]),
    "vjp": lambda: tc.vjp(WRONG, ["x"]),
    "batch": lambda: tc.batch(WRONG, (0,)),
    "autotune": lambda: tc.autotune(WRONG, [np.ones(3, np.float32)], max_seconds=1),
    "options": lambda: tc.Options(threads=-1),
    "a method": lambda: tc.compile(DOUBLE).explain(np.ones(3)),
    "a def that is not there": lambda: tc.define(DOUBLE)["triple"],
}


@pytest.fixture
def plainly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TC_STRICT")


@pytest.mark.usefixtures("plainly")
@pytest.mark.parametrize("kind", CALLS)
def test_the_last_line_is_the_callers(kind: str) -> None:
    with pytest.raises(tc.TCError) as caught:
        CALLS[kind]()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert frames[-1].filename == __file__
    shown = "".join(traceback.format_exception(caught.value))
    assert "/tc/" not in shown.partition(f"{type(caught.value).__name__}:")[0]
    assert str(caught.value) in shown


def test_all_lines_are_shown_for_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TC_STRICT", "1")
    with pytest.raises(tc.TCError) as caught:
        CALLS["compile"]()
    frames = traceback.extract_tb(caught.value.__traceback__)
    assert sum("/tc/" in frame.filename for frame in frames) > 3


@pytest.mark.usefixtures("plainly")
def test_errors_of_layers_end_at_the_call_of_the_network() -> None:
    torch: Any = pytest.importorskip("torch", reason="torch is not installed")
    import tc.torch

    net = torch.nn.Sequential(tc.torch.Module(DOUBLE))
    with pytest.raises(tc.InputError) as caught:
        net(torch.ones(3).double())
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == __file__


def test_a_script_that_ends_shows_one_frame_of_tc_at_most() -> None:
    """Up to Python 3.12 the interpreter prints tracebacks without asking the error."""
    script = f"import tc\nimport numpy as np\nf = tc.compile({DOUBLE!r})\nf(np.ones(3))\n"
    done = run_python(script, environment={"TC_STRICT": "0"})
    assert done.returncode == 1
    assert done.stderr.count('File "') <= 2, done.stderr
    assert "twice: x has dtype float64" in done.stderr


def test_public_functions_keep_their_signatures() -> None:
    assert next(iter(inspect.signature(tc.compile).parameters)) == "src"
    assert inspect.signature(tc.grad).parameters["wrt"].kind.name == "POSITIONAL_OR_KEYWORD"
