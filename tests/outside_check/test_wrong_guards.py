"""0.4: a read under a condition that decides the range, and yet cuts it, is told of, with the
`where` to write; and repairs of G5 mean what the text says by Python's rules."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import assert_computes

X = np.float32([1, 2, 4, 8, 16])
FORWARD = "def f(float(N) x) -> (o) { o(i) = i < N-1 ? x(i+1) - x(i) : 0 }"
MESSAGE = """\
warning [Y6]: 'x(i+1)' is read only where 'i < N-1' holds, and yet cuts the range of 'i' from 0:5 \
to 0:4, since ranges follow from the reads of both branches; where i in 0:N-1 says that this is \
meant
 --> <string>:1:45
  |
1 | def f(float(N) x) -> (o) { o(i) = i < N-1 ? x(i+1) - x(i) : 0 }
  |                                             ^^^^^^
repair: where i in 0:N"""


def told(call: Callable[[], Any]) -> tuple[Any, list[str]]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = call()
    assert all(issubclass(w.category, tc.TCWarning) for w in caught)
    return result, [str(w.message) for w in caught]


def without_place(message: str) -> str:
    """The message without the file that the text was found in."""
    lines = message.split("\n")
    return "\n".join(
        [lines[0], " --> <string>:1:45", "  |", f"1{lines[3][len('1') :]}", *lines[4:]]
    )


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_the_forward_difference_is_told_of_once(backend: str) -> None:
    """0.4: 4 of 5 elements, and nobody was told."""
    source = tc.Source(FORWARD)
    f = tc.compile(source, backend=backend)
    found, messages = told(lambda: f(X))
    assert found.shape == (4,)
    assert messages == [MESSAGE]
    assert told(lambda: f(X))[1] == []


def test_interpret_and_prepare_tell_it_too() -> None:
    """0.4."""
    assert told(lambda: tc.interpret(tc.Source(FORWARD), [X]))[1] == [MESSAGE]


REPAIRED = [
    ("i < N-1 ? x(i+1) - x(i) : 0", "np.append(x[1:] - x[:-1], 0)"),
    ("i < N-1 ? x(i+1) : x(0)", "np.roll(x, -1)"),
    ("i + 1 < N ? x(i+1) : 7", "np.append(x[1:], 7)"),
    ("N - 1 <= i ? 7 : x(i+1)", "np.append(x[1:], 7)"),
    ("!(i < N-1) ? 7 : x(i+1)", "np.append(x[1:], 7)"),
    ("i < N-1 && x(i+1) > 2 ? 1.0 : 0.5", "np.append(np.where(x[1:] > 2, 1, 0.5), 0.5)"),
    ("i >= N-1 || x(i+1) > 2 ? 1.0 : 0.5", "np.append(np.where(x[1:] > 2, 1, 0.5), 1)"),
    ("i < N-2 ? x(i+2) : x(i)", "np.append(x[2:], x[-2:])"),
    ("x(i) * (i < N-1 ? x(i+1) : 3)", "x * np.append(x[1:], 3)"),
    ("i == N-1 ? 0 : i < N-2 ? x(i+2) : x(i+1)", "np.append(x[2:], [x[-1], 0])"),
    ("exp(i < N-1 ? x(i+1) / 16 : 0)", "np.exp(np.append(x[1:] / 16, 0))"),
]


@pytest.mark.parametrize(("right", "meant"), REPAIRED, ids=lambda t: t)
def test_the_repair_of_the_warning_is_what_python_reads(right: str, meant: str) -> None:
    """0.4."""
    text = f"def f(float(N) x) -> (o) {{ o(i) = {right} }}"
    found, messages = told(lambda: tc.interpret(text, [X]))
    assert found.shape[0] < X.shape[0]
    where = messages[0].splitlines()[-1].removeprefix("repair: ")
    assert where == "where i in 0:N"
    repaired = f"{text.removesuffix('}')}{where} }}"
    found, again = told(lambda: tc.interpret(repaired, [X]))
    assert again == []
    assert_computes(repaired, [X], found, eval(meant, {"np": np, "x": X}))


SILENT = [
    "i < 3 ? x(i) : 0",
    "i % 2 == 0 ? x(i) : 0",
    "x(i) > 2 ? x(i+1) : x(i)",
    "pad(x(i+1), 0) + x(i)",
    "i < N ? x(i) : 0",
    "x(i+1) - x(i)",
    "i > 1 ? x(i+1) : x(i+1) * 2",
    "i < N-1 ? x(i+1) : 0 where i in 0:N",
    "i < N-1 ? x(i+1) : 0 where i in 0:N-1",
]


@pytest.mark.parametrize("right", SILENT)
def test_what_no_condition_cuts_is_not_told_of(right: str) -> None:
    """0.4: only a condition that excludes what would leave the tensor makes a read needless."""
    text = f"def f(float(N) x) -> (o) {{ o(i) = {right} }}"
    assert told(lambda: tc.interpret(text, [X]))[1] == []


def test_an_output_of_declared_shape_is_told_of() -> None:
    """0.4, next door: what the text says of the last element is not computed."""
    text = "def f(float(N) x) -> (float(N) o) { o(i) = i < N-1 ? x(i+1) : 7 }"
    found, messages = told(lambda: tc.interpret(text, [X]))
    assert found[-1] == 0
    assert len(messages) == 1
    assert messages[0].endswith("repair: where i in 0:N")


def test_a_reduction_is_told_of() -> None:
    """0.4, next door: terms are lost."""
    text = "def f(float(N) x) -> (o) { o +=! i < N-1 ? x(i+1) : 100 }"
    found, messages = told(lambda: tc.interpret(text, [X]))
    assert found == 30
    assert messages[0].endswith("repair: where i in 0:N")
    repaired = f"{text.removesuffix('}')}where i in 0:N }}"
    assert told(lambda: tc.interpret(repaired, [X])) == (130, [])


def test_each_variable_is_told_of_with_the_whole_where() -> None:
    """0.4, two dimensions, and a `where` that stands already."""
    text = (
        "def f(float(N,M) x, int(K) w) -> (o) { o(i,j) +=! i < N-1 && j < M-1 "
        "? x(i+1,j+1) * w(k) : x(i,j) where k in 0:K }"
    )
    messages = told(lambda: tc.interpret(text, [np.ones((3, 4), np.float32), np.int32([1, 2])]))[1]
    cut = [re.search(r"the range of '(\w)' from (\S+) to (\S+),", m) for m in messages]
    assert [m and m.groups() for m in cut] == [("i", "0:3", "0:2"), ("j", "0:4", "0:3")]
    assert {m.splitlines()[-1] for m in messages} == {"repair: where k in 0:K, i in 0:N, j in 0:M"}


DERIVED = "def f(double(N) x) -> (o) { o(i) = i < N-1 ? x(i+1) * x(i) : x(0) where i in 0:N }"


@pytest.mark.parametrize(
    "derive", [tc.grad, lambda f: tc.vjp(f).backward, tc.jvp, lambda f: tc.batch(f, [0])]
)
def test_derived_texts_do_not_warn_of_their_own_conditions(derive: Callable[[Any], str]) -> None:
    """0.4: conditions in derived texts decide no ranges, as tc writes these ranges out."""
    f = tc.compile(DERIVED, backend="interpret")
    x = X.astype(float)

    def run() -> None:
        g = tc.compile(derive(f), backend="interpret")
        shape = (2, 5) if g.text.startswith("def f_batch") else (5,)
        g(*(np.ones(shape) for _ in g.__signature__.parameters if _ != "outputs"))

    del x
    assert told(run)[1] == []


@pytest.mark.parametrize(
    ("right", "where"),
    [
        ("i % 2 == 0 ? x(i) : x(i-1)", "where i in 0:N"),
        ("i < N ? x(i) : y(i-N)", "where i in 0:M+N"),
        ("i < 2 ? x(i) : y(i-2)", "where i in 0:M+2"),
        ("i == 0 ? x(i) : x(i-1)", "where i in 0:N"),
        ("i > 0 ? x(i-1) : 0", "where i in 0:N"),
        ("i > 0 ? x(i-1) : x(N-1)", "where i in 0:N"),
        ("i > 0 && i < N-1 ? x(i-1) + x(i+1) : x(i)", "where i in 0:N"),
        ("i == 0 || i == N-1 ? x(i) : x(i-1) + x(i+1)", "where i in 0:N"),
        ("1 <= i && i < N+1 ? x(i-1) : 0", "where i in 0:N+2"),
        ("i < N ? x(i) : i < N+M ? y(i-N) : 0", "where i in 0:M+N"),
        ("y(i) + (i >= N ? x(i-N) : 0)", "where i in 0:M"),
    ],
    ids=lambda t: t,
)
def test_repairs_of_ranges_below_0_are_those_of_the_text(right: str, where: str) -> None:
    """0.4: not an empty range, nor the one that a guarded read alone asks for."""
    text = f"def f(float(N) x, float(M) y) -> (o) {{ o(i) = {right} }}"
    y = np.float32([3, 5, 7])
    with pytest.raises(tc.RangeError) as caught:
        tc.interpret(text, [X, y])
    error = caught.value
    assert error.rule == "G5"
    assert str(error).splitlines()[-1] == f"repair: say which values 'i' takes: {where}"
    repaired = error.repaired()
    assert repaired is not None
    assert where in repaired
    found = tc.interpret(repaired, [X, y])
    python = re.sub(r"([xy])\(([^)]*)\)", r"\1[\2]", right).replace("&&", "and")
    value = eval(f"lambda i, x, y, N, M: {choice(python.replace('||', 'or'))}")
    meant = [value(i, X.tolist(), y.tolist(), 5, 3) for i in range(len(found))]
    np.testing.assert_array_equal(found, np.float32(meant))


def choice(text: str) -> str:
    """A C choice as Python's."""
    if match := re.fullmatch(r"(.*)\((.*)\)", text):
        return f"{match[1]}({choice(match[2])})"
    head, question, rest = text.partition(" ? ")
    if not question:
        return text
    then, _, other = rest.partition(" : ")
    return f"({then} if {head} else {choice(other)})"


def test_where_no_value_serves_no_range_is_offered() -> None:
    """0.4: never an empty range."""
    text = "def f(float(N) x, float(M) y) -> (o) { o(i) = x(i) + y(i-N) }"
    with pytest.raises(tc.RangeError) as caught:
        tc.interpret(text, [X, X])
    assert "where" not in str(caught.value).splitlines()[-1].partition("0 where")[0]
    assert caught.value.repaired() is None
    assert caught.value.idiom == "pad(y(i-N), 0), for 0 where y has no element"
