"""Where a pass of tc breaks its contract: plain code or the interpreter, one warning, a report."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc import api
from tc.errors import InternalError
from tc.kernel.ir import Kernel, Site
from tc.kernel.pass_manager import Pass, PassContext, PassResult
from tc.polyhedral import lowering
from tc.runtime.fallback import is_fault
from tc.semantics.reference import arithmetic
from tests.api.evaluating import NEEDS_C

SUM = "def f(float(N,M) a, int n) -> (o) { o(i) +=! a(i,j) * n where i in 0:n }"
A = np.arange(12, dtype=np.float32).reshape(3, 4)
RIGHT = (2 * A.sum(1))[:2]
BACKENDS = ("numba", NEEDS_C)

Break = Callable[..., list[int]]


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Break:
    """Makes a pass fail with an exception; returns the widths of vectors it was called with."""

    def inject(error: Exception, *, plain: bool = False) -> list[int]:
        calls: list[int] = []
        right = lowering.trace_passes

        def wrong(
            kernel: Kernel, context: PassContext, *passes: Sequence[Pass]
        ) -> Iterator[PassResult]:
            calls.append(context.lanes_bits)
            if context.lanes_bits or plain:
                raise error
            return right(kernel, context, *passes)

        monkeypatch.setattr(lowering, "trace_passes", wrong)
        return calls

    monkeypatch.delenv("TC_STRICT")
    return inject


@pytest.fixture(autouse=True)
def strict_again() -> Iterator[None]:
    before = os.environ.get("TC_STRICT")
    yield
    assert before == "1" == os.environ.get("TC_STRICT")


@pytest.mark.parametrize(
    ("backend", "error"),
    [
        ("numba", InternalError("no loop")),
        ("numba", KeyError(-1)),
        ("numba", RecursionError()),
        pytest.param("c", IndexError(), marks=NEEDS_C.marks),
    ],
)
def test_plain_code_stands_in(breaking: Break, backend: str, error: Exception) -> None:
    calls = breaking(error)
    f = tc.compile(SUM, backend=backend)
    with pytest.warns(tc.TCWarning, match="f is run by plain code") as caught:
        np.testing.assert_array_equal(f(A, 2), RIGHT)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    made = len(calls)
    assert made == 2
    for _ in range(3):  # without a warning, which would fail
        np.testing.assert_array_equal(f(A, 2), RIGHT)
    out = np.zeros(2, np.float32)
    assert f(A, 2, outputs=out) is out
    np.testing.assert_array_equal(out, RIGHT)
    assert f.source(A, 2) == tc.compile(
        SUM, backend=backend, options=tc.Options.preset("naive")
    ).source(A, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_interpreter_stands_in_where_plain_code_fails_too(
    breaking: Break, backend: str
) -> None:
    calls = breaking(KeyError(-1), plain=True)
    f = tc.compile(SUM, backend=backend)
    with pytest.warns(tc.TCWarning, match="f is run by the interpreter") as caught:
        np.testing.assert_array_equal(f(A, 2), RIGHT)
    assert (len(caught), len(calls)) == (1, 2)
    np.testing.assert_array_equal(f(A[::-1], 2), (2 * A.sum(1))[:0:-1])
    out = np.zeros(2, np.float32)
    assert f(A, 2, outputs=[out]) is out
    np.testing.assert_array_equal(out, RIGHT)
    with pytest.raises(tc.BackendError, match="no code to show"):
        f.source(A, 2)


def test_naive_code_is_not_tried_twice(breaking: Break) -> None:
    calls = breaking(KeyError(-1), plain=True)
    f = tc.compile(SUM, options=tc.Options.preset("naive"))
    with pytest.warns(tc.TCWarning, match="by the interpreter"):
        np.testing.assert_array_equal(f(A, 2), RIGHT)
    assert calls == [0]


def test_ahead_of_time(breaking: Break) -> None:
    calls = breaking(InternalError("no loop"))
    f = tc.compile(SUM)
    with pytest.warns(tc.TCWarning, match="plain code") as caught:
        f.prepare((3, 4), 2)
    assert len(caught) == 1
    assert caught[0].filename == __file__
    made = len(calls)
    np.testing.assert_array_equal(f(A, 2), RIGHT)
    assert len(calls) == made


def test_outputs_that_are_read_and_half_of_those_that_are_passed(breaking: Break) -> None:
    breaking(InternalError("no loop"), plain=True)
    f = tc.compile("def f(float(N) a) -> (o, p) { o(i) += a(i)  p(i) = 2 * o(i) }")
    o, a = np.ones(4, np.float32), np.arange(4, dtype=np.float32)
    with pytest.warns(tc.TCWarning, match="the interpreter"):
        got = f(a, outputs={"o": o})
    assert got.o is o
    np.testing.assert_array_equal(o, a + 1)
    np.testing.assert_array_equal(got.p, 2 * a + 2)


def test_strict(breaking: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    breaking(KeyError(-1))
    monkeypatch.setenv("TC_STRICT", "1")
    with pytest.raises(KeyError):
        tc.compile(SUM)(A, 2)
    with pytest.raises(KeyError):
        tc.emit(SUM, [A, 2])


@pytest.mark.parametrize("how", [tc.emit, tc.explain, lambda text, n: tc.compile(text).explain(*n)])
def test_emit_and_explain_say_it(breaking: Break, how: Callable[..., object]) -> None:
    breaking(KeyError(-1))
    with pytest.raises(InternalError, match="tc itself is at fault, not f") as caught:
        how(SUM, [A, 2])
    assert caught.value.repair == 'options=tc.Options.preset("naive")'
    assert "KeyError: -1" in caught.value.cause
    tc.emit(SUM, [A, 2], options=tc.Options.preset("naive"))  # the repair


@pytest.fixture
def breaking_runs(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exception], None]:
    """Makes the interpreter fail in the midst of a run."""

    def inject(error: Exception) -> None:
        def wrong(*_: Any) -> Any:
            raise error

        monkeypatch.setattr(arithmetic, "UFUNCS", {**arithmetic.UFUNCS, "*": wrong})

    monkeypatch.delenv("TC_STRICT", raising=False)
    return inject


@pytest.mark.parametrize("outputs", [None, np.zeros(2, np.float32)], ids=["fresh", "given"])
def test_faults_of_the_interpreter(
    breaking_runs: Callable[[Exception], None], outputs: np.ndarray | None
) -> None:
    """They say so, with a text that shows them again; the caller's arrays are as they were."""
    fault = KeyError("no such table")
    breaking_runs(fault)
    with pytest.raises(InternalError, match="tc itself is at fault, not f") as caught:
        tc.interpret(SUM, A, 2, outputs=outputs)
    assert caught.value.__cause__ is fault
    assert caught.value.repair == 'backend="numba"'
    text = caught.value.cause.partition("Please report this text:\n\n")[2]
    assert "KeyError: 'no such table'" in text
    assert "numpy.zeros((3, 4), 'float32'), 2" in text
    assert outputs is None or not outputs.any()
    with pytest.raises(KeyError) as again:
        exec(text, {})
    assert again.value is fault
    os.environ["TC_STRICT"] = "1"
    with pytest.raises(KeyError):
        tc.interpret(SUM, A, 2)
    del os.environ["TC_STRICT"]


def test_faults_of_the_interpreter_that_stands_in(
    breaking: Break, breaking_runs: Callable[[Exception], None]
) -> None:
    breaking(KeyError(-1), plain=True)
    breaking_runs(ValueError("no value"))
    f = tc.compile(SUM)
    with (
        pytest.warns(tc.TCWarning, match="f is run by the interpreter"),
        pytest.raises(InternalError, match="ValueError: no value") as caught,
    ):
        f(A, 2)
    assert caught.value.repair is None
    assert "backend='interpret'" in caught.value.cause


@pytest.mark.parametrize("error", [MemoryError(), tc.AccessError("beyond", rule="G7")])
def test_other_errors_of_the_interpreter_are_raised(
    breaking_runs: Callable[[Exception], None], error: Exception
) -> None:
    breaking_runs(error)
    with pytest.raises(tc.TCError) as caught:
        tc.interpret(SUM, A, 2)
    assert not isinstance(caught.value, InternalError)


@pytest.mark.parametrize(
    "error", [OSError("full"), MemoryError(), tc.BackendError("no compiler"), UserWarning("w")]
)
def test_other_errors_are_raised(breaking: Break, error: Exception) -> None:
    calls = breaking(error)
    with pytest.raises(type(error)):
        tc.compile(SUM)(A, 2)
    assert len(calls) == 1


def test_exceptions_of_signal_handlers_are_no_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    class TooLateError(Exception):
        pass

    def handler(*_: object) -> None:
        raise RuntimeError("too late")

    assert not is_fault(TooLateError())
    monkeypatch.setattr("signal.getsignal", lambda _: handler)
    with pytest.raises(RuntimeError) as caught:
        handler()
    assert not is_fault(caught.value)
    assert is_fault(RuntimeError("too late"))


REQUESTS = {
    "shapes": lambda f: f(A, 2),
    "strides": lambda f: f(A[::-1, ::2], 2),
    "options": lambda f: f(A, 2),
    "output": lambda f: f(A, 2, outputs=np.zeros(2, np.float32)),
    "emit": lambda _: tc.emit(SUM, [A, 2], device=tc.Device(vector_bits=512)),
}


@pytest.mark.parametrize("kind", REQUESTS)
def test_what_is_to_be_reported_shows_the_fault(
    breaking: Break, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    calls = breaking(KeyError("no such loop"))
    options = tc.Options(mapping=tc.MappingOptions(rows=2), threads=1)
    f = tc.compile(SUM, options=options if kind == "options" else None)
    if kind == "emit":
        with pytest.raises(InternalError) as caught:
            REQUESTS[kind](f)
        text = caught.value.cause
    else:
        with pytest.warns(tc.TCWarning) as warned:
            REQUESTS[kind](f)
        text = str(warned[0].message)
    begin, _, rest = text.partition("Please report this text:\n\n")
    assert "tc itself is at fault" in begin
    lines = rest.partition("\n\n")[0].splitlines()
    assert any(line.startswith("# KeyError: 'no such loop'") for line in lines)
    before = list(calls)
    calls.clear()
    monkeypatch.setenv("TC_STRICT", "0")  # so that the text's own setting is taken back
    with pytest.raises(KeyError, match="no such loop"), warnings.catch_warnings():
        exec("\n".join(lines), {})
    assert calls == before[:1]


def test_a_later_process_finds_the_plain_code_on_disk(tmp_path: Path) -> None:
    """And tells again: it tries again, as another version may do better."""
    script = f"""
import warnings
import numpy as np
import tc
from tc.kernel.ir import Site
from tc.polyhedral import lowering
from tc.semantics.reference import arithmetic
right = lowering.trace_passes
def wrong(kernel, context, *passes):
    print("passes", context.lanes_bits)
    if context.lanes_bits:
        raise KeyError(-1)
    return right(kernel, context, *passes)
lowering.trace_passes = wrong
tc.cache.enable({str(tmp_path)!r})
f = tc.compile({SUM!r})
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    for _ in range(3):
        print(f(np.ones((3, 4), np.float32), 2).tolist())
print(len(caught), "plain code" in str(caught[0].message))
"""
    outputs = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "TC_STRICT": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout.splitlines())
    first, second = outputs
    assert [line for line in first if line.startswith("passes")][1:] == ["passes 0"]
    assert [line for line in second if line.startswith("passes")][1:] == []
    for lines in outputs:
        assert lines[-4:] == ["[8.0, 8.0]"] * 3 + ["1 True"]


def always_wrong(*_: object, **__: object) -> object:
    raise KeyError("no such variable")


SHAPED: dict[str, Callable[[tc.Compiled], object]] = {
    "call": lambda f: f(A, 2),
    "prepare": lambda f: f.prepare((3, 4), 2),
    "infer": lambda f: f.infer((3, 4), 2),
    "explain": lambda f: f.explain((3, 4), 2),
    "emit": lambda _: tc.emit(SUM, [A, 2]),
    "bound": lambda _: tc.error_bound(SUM, A, 2),
}


def reported(error: InternalError) -> list[str]:
    """The lines of the text to report."""
    assert "tc itself is at fault" in error.cause
    return error.cause.partition("Please report this text:\n\n")[2].splitlines()


@pytest.mark.parametrize("backend", ["numba", "interpret"])
@pytest.mark.parametrize("how", SHAPED)
def test_faults_of_ranges_are_to_be_reported(
    monkeypatch: pytest.MonkeyPatch, how: str, backend: str
) -> None:
    options = tc.Options(threads=1)
    f = tc.compile(SUM, backend=backend, options=options)
    monkeypatch.setattr("tc.pipeline.infer_ranges", always_wrong)
    with pytest.raises(KeyError):
        SHAPED[how](f)
    monkeypatch.delenv("TC_STRICT")
    with pytest.raises(InternalError, match="not f") as caught:
        SHAPED[how](f)
    assert caught.value.repair is None
    assert isinstance(caught.value.__cause__, KeyError)
    lines = reported(caught.value)
    text = "\n".join(lines)
    assert "# KeyError: 'no such variable'" in lines
    assert SUM in text
    assert "(3, 4), 2" in text
    if how not in ("emit", "bound"):
        assert f"backend={backend!r}" in text
        assert options.to_json() in text
    monkeypatch.setenv("TC_STRICT", "0")
    with pytest.raises(KeyError, match="no such variable"):
        exec(text, {})


@pytest.mark.parametrize("stage", ["parse", "check", "check_all"])
@pytest.mark.parametrize("error", [KeyError(-1), RecursionError("too deep")])
def test_faults_of_reading_a_text_are_to_be_reported(
    monkeypatch: pytest.MonkeyPatch, stage: str, error: Exception
) -> None:
    def wrong(*_: object) -> object:
        raise error

    monkeypatch.setattr(f"tc.pipeline.{stage}", wrong)
    api._checked.cache_clear()  # a text that was read before is not read again
    read = tc.define if stage == "check_all" else tc.compile
    with pytest.raises(type(error)):
        read(SUM)
    monkeypatch.delenv("TC_STRICT")
    with pytest.raises(InternalError, match="not the text") as caught:
        read(SUM)
    lines = reported(caught.value)
    assert any(line.startswith(f"# {type(error).__name__}: ") for line in lines)
    if stage == "check":
        assert any(SUM in line for line in lines)
        return
    monkeypatch.setenv("TC_STRICT", "0")
    with pytest.raises(type(error)):
        exec("\n".join(lines), {})


def test_errors_of_texts_and_sizes_are_raised_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TC_STRICT")
    with pytest.raises(tc.ParseError):
        tc.compile("def f(")
    with pytest.raises(tc.CheckError):
        tc.compile("def f(float(N) a) -> (o) { o(i) = b(i) }")
    with pytest.raises(tc.InputError):
        tc.compile(SUM)(A)


CHECKED = "def f(float(N) x, int(M) i, int(M) d) -> (y, q) { y(k) = x(i(k))  q(k) = i(k) / d(k) }"
X, OUT, IN = np.ones(3, np.float32), np.int32([0, 7]), np.int32([0, 1])


@pytest.mark.drawn(3)
@pytest.mark.parametrize(
    ("sites", "says", "rule"),
    [
        (lambda s: replace(s, expression=99), "S., .*, (a read leaves|.* is by zero)", True),
        (lambda s: replace(s, statement=99), "in f, (a read leaves|.* is by zero)", True),
        (lambda s: replace(s, variables=("a", "b", "c", "d", "e")), "S., .* does not find", True),
        (lambda _: None, "in f, a read leaves its tensor, or", False),
    ],
    ids=["expression", "statement", "variables", "site"],
)
@pytest.mark.parametrize("kind", ["read", "division"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_check_that_fails_says_what_is_known(
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    kind: str,
    sites: Callable[[Site], Site | None],
    says: str,
    rule: bool,
) -> None:
    f = tc.compile(CHECKED, backend=backend)
    f(X, IN, IN + 1)
    (special,) = f._specialiser.made.values()
    assert special.runner is not None
    changed = tuple(s for site in special.runner.kernel.sites if (s := sites(site)) is not None)
    object.__setattr__(special.runner, "kernel", replace(special.runner.kernel, sites=changed))
    arguments = (X, OUT, IN + 1) if kind == "read" else (X, IN, IN)
    with pytest.raises((InternalError, IndexError)):
        f(*arguments)
    monkeypatch.delenv("TC_STRICT")
    for _ in range(3):  # the repeated call, too
        with pytest.raises(tc.AccessError, match=says) as caught:
            f(*arguments)
        assert (caught.value.rule is not None) is rule
        assert "report this" in caught.value.cause
        if rule:
            assert caught.value.rule == {"read": "G7", "division": "Y4"}[kind]
    with pytest.raises(tc.AccessError) as caught:  # the repair
        tc.compile(CHECKED, backend="interpret")(*arguments)
    assert "report" not in caught.value.cause
