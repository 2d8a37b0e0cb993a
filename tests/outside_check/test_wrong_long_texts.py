"""0.18: length is not depth, and messages about long texts are short."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends import registry
from tc.backends.base import Backend
from tc.polyhedral.rewrite.thresholds import MOST_FUSED
from tests.support.bounds import assert_computes

X = np.array([-1.5, 0.25, 2.0])


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["interpret", "numba"])
def test_a_flat_sum_is_not_deep(backend: str) -> None:
    """0.18: 201 terms were "more than 200 operations deep"."""
    rng = np.random.default_rng(1)
    factors = np.round(rng.uniform(-2, 2, 450), 3)
    terms = "".join(f" {'-' if c < 0 else '+'} {abs(c)} * x(i)" for c in factors)
    text = f"def f(double(N) x) -> (o) {{ o(i) = 1.5{terms} }}"
    found = tc.compile(text, backend=backend)(X)
    assert_computes(text, [X], found, 1.5 + factors.sum() * X)


def test_chains_of_conditions_are_not_deep() -> None:
    """0.18, next door."""
    below = " && ".join(f"x(i) < {k + 1}" for k in range(400))
    equal = " || ".join(f"x(i) == {k}" for k in range(400))
    text = f"def f(double(N) x) -> (a, b) {{ a(i) = {below} ? 1 : 0  b(i) = {equal} ? 1 : 0 }}"
    a, b = tc.interpret(text, [np.array([0.5, 1.0, 399.0, 400.0])])
    np.testing.assert_array_equal(a, [1, 0, 0, 0])
    np.testing.assert_array_equal(b, [0, 1, 1, 0])


@pytest.mark.parametrize("chain", [" + ".join(["k(i)"] * 300), " * ".join(["x(i)"] * 300)])
def test_what_is_not_grouped_says_so(chain: str) -> None:
    """0.18: integers may wrap around in another order, and products overflow."""
    text = f"def f(double(N) x, int(N) k) -> (o) {{ o(i) = {chain} }}"
    with pytest.raises(tc.ParseError, match="more than 200 operations stand in a row") as caught:
        tc.compile(text)
    assert caught.value.repair == "split the expression into several statements"


LONG = 300_000 * "a"


@pytest.mark.parametrize(
    "call",
    [
        lambda: tc.compile(f"def f(float(N) x) -> (o) {{ o(i) = {LONG}(i) }}"),
        lambda: tc.compile(f"def f(float(N) x) -> (o) {{ o(i) = x(i) + {LONG} }}"),
        lambda: tc.compile(f"def f(float(N) x) -> ({LONG}) {{ o(i) = x(i) }}"),
        lambda: tc.compile(f"def f(float(N) x) -> (o) {{ o(i) = x(i) where i in 0:{LONG} }}"),
        lambda: tc.compile("def f(float(N) x) -> (o) { o(i) = x(i) }", entry=LONG),
        lambda: tc.compile("def f(float(N) x) -> (o) { o(i) = x(i) }", backend=LONG),
        lambda: tc.interpret("def f(float(N) x) -> (o) { o(i) = x(i) }", {LONG: X}),
    ],
)
def test_messages_about_long_names_are_short(call: Callable[[], Any]) -> None:
    """0.18: an unknown name of 1 MB gave a message of 2 MB."""
    with pytest.raises(tc.TCError) as caught:
        call()
    assert len(str(caught.value)) < 1500


def test_many_statements_without_a_call_are_no_calls() -> None:
    """0.18: the repair was to call fewer defs."""
    statements = " ".join(f"t{k}(i) = x(i)" for k in range(10_000))
    with pytest.raises(tc.CheckError) as caught:
        tc.compile(f"def f(float(N) x) -> (o) {{ {statements} o(i) = x(i) }}")
    assert caught.value.cause == "'f' has more than 10000 statements"
    assert caught.value.repair == "divide it into several defs, which the host language calls"


# --- Texts of gradients of choices in choices (0.11).


FOUR = "max(abs(max(abs(max(abs(max(abs(e), x(i))), x(i))), x(i))), x(i))"


def test_four_choices_in_one_another() -> None:
    """0.11: the gradient of these 105 characters had 62,878, and the second one 236,294."""
    text = f"def f(float e, float(N) x) -> (y) {{ y(i) = {FOUR} }}"
    first = tc.grad(text)
    assert len(first) < 25 * len(text)
    assert len(tc.grad(first, ("e", "x"))) < 12 * len(first)
    tangent = tc.jvp(text)  # was refused: more than 20,000 operations
    assert len(tangent) < 25 * len(text)
    assert len(tc.jvp(first, ("e", "x"))) < 12 * len(first)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_ten_choices_in_one_another(backend: str) -> None:
    """0.11: the length is linear, and the values are those of e and x, whichever is the larger."""
    inner = "e(i)"
    for _ in range(10):
        inner = f"max(abs({inner}), x(i))"
    text = f"def f(double(N) e, double(N) x) -> (y) {{ y(i) = {inner} }}"
    gradient = tc.grad(text)
    assert len(gradient) < 25 * len(text)
    e, x = np.array([-3.0, 2.0, 0.5, -0.5]), np.array([1.0, -5.0, 0.75, 4.0])
    d = np.array([1.0, 2.0, 3.0, 4.0])
    found = tc.compile(gradient, backend=backend)(e, x, d)
    # |e| against x; once the larger of them is taken, all else are ties of that with x or none
    np.testing.assert_array_equal(found.d_e, np.where(np.abs(e) > x, np.sign(e) * d, 0))
    np.testing.assert_array_equal(found.d_x, np.where(np.abs(e) > x, 0, d))


@pytest.mark.drawn(3)
@pytest.mark.parametrize("outer", ["0", "y(i)", "0 without where"])
def test_choices_in_one_another_inside_of_a_pad(outer: str) -> None:
    """0.11, next door: a pad was derived as a whole, 14,443 characters for 131."""
    inner = "x(i)"
    for _ in range(20):
        inner = f"max(abs({inner}), y(i+1))"
    outer, without, _ = outer.partition(" without where")
    value = f"pad({inner}, {outer}){'' if without else ' where i in 0:M'}"
    text = f"def f(double(N) x, double(M) y) -> (o) {{ o(i) = {value} }}"
    for made in (tc.grad(text), tc.jvp(text)):
        assert len(made) < 30 * len(text)
    x, y = np.array([-3.0, 2.0, 0.5, -0.5, 7.0]), np.array([9.0, 1.0, -5.0, 0.75, 4.0, 6.0])
    d = np.arange(1.0, 7.0)
    inside = np.array([True] * 5 + [False])  # x(5) and y(6) are beyond
    taken = np.abs(x) > y[1:]
    d_y = np.where(inside, 0.0, d if outer == "y(i)" else 0)
    d_y[1:] += np.where(taken, 0, d[:5])
    gradient = tc.compile(tc.grad(text), backend="numba")
    found = gradient(x, y, d[:5] if without else d)
    np.testing.assert_array_equal(found.d_x, np.where(taken, np.sign(x) * d[:5], 0))
    np.testing.assert_array_equal(found.d_y, d_y)
    t_x, t_y = np.arange(2.0, 7.0), np.arange(11.0, 17.0)
    tangent = tc.compile(tc.jvp(text), backend="numba")(x, y, t_x, t_y)
    due = np.append(np.where(taken, np.sign(x) * t_x, t_y[1:]), t_y[5] if outer == "y(i)" else 0)
    np.testing.assert_array_equal(tangent.t_o, due[: len(tangent.t_o)])


# --- 0.18: a first call takes time in proportion to the statements of a program.


CHAIN = ("t0(i) = x(i) + 1", "t{0}(i) = t{1}(i) * 0.5 + x(i)", "t{1}")
PROGRAMS: dict[str, tuple[str, str, str]] = {
    "each reads the last": CHAIN,
    "each reads its neighbours": ("t0(i) = x(i)", "t{0}(i) = t{1}(i) + t{1}(i+1)", "t{1}"),
    "one tensor": ("t(i) = x(i)", "t(i) += x(i) * {0}", "t"),
    "sums": ("t0 +=! x(i)", "t{0} +=! x(i) * t{1}", "t{1}"),
}
"""The first statement, the others with their number and that of the last, and what is returned."""


def program(kind: tuple[str, str, str], count: int) -> str:
    first, other, result = kind
    lines = [first, *(other.format(k, k - 1) for k in range(1, count))]
    returned = result.format(count, count - 1)
    return f"def f(float(N) x) -> ({returned}) {{ {'  '.join(lines)} }}"


def calls_of(work: Callable[[], Any]) -> int:
    """The calls of functions of Python while it works: their number does not depend on what else
    a machine does."""
    count = 0

    def called(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


@pytest.mark.drawn(4)
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("each reads the last", MOST_FUSED),
        ("each reads its neighbours", MOST_FUSED),
        ("one tensor", 2 * MOST_FUSED),
        ("sums", 12),
    ],
)
def test_work_is_linear_in_statements(name: str, count: int) -> None:
    """All stages but the compilers: three times the statements, three times the calls. (A square
    would be nine times.) The smaller program has whole groups of those that share loops."""
    few, many = (program(PROGRAMS[name], count * times) for times in (1, 3))
    tc.emit(program(PROGRAMS[name], 3), N=300)  # what is made once in a process
    work = [calls_of(lambda text=text: tc.emit(text, N=300)) for text in (few, many)]
    assert work[1] < 4 * work[0]


@pytest.mark.drawn(3)
@pytest.mark.parametrize("backend", ["numba", "c", "interpret"])
def test_a_thousand_statements(backend: str) -> None:
    """Of one tensor: their boxes were subtracted from each other 1,000 generators deep."""
    if backend not in registry.usable_names():
        pytest.skip(f"backend {backend} is not usable here")
    found = registry.get(backend)
    text = program(("t(i) = x(i)", "t(i) += {0}", "t"), 1000)
    if isinstance(found, Backend):
        assert str(tc.emit(text, N=3, backend=backend)).count("+") > 900
    else:
        result = tc.compile(text, backend=backend)(np.zeros(3, np.float32))
        np.testing.assert_array_equal(result, np.full(3, 999 * 1000 / 2, np.float32))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["numba", "c"])
def test_what_shares_loops_no_more_has_its_values(backend: str) -> None:
    """Chains of just as many statements as share loops, and of one more, in three parts."""
    if backend not in registry.usable_names():
        pytest.skip(f"backend {backend} is not usable here")
    x = np.linspace(-1, 1, 37).astype(np.float32)
    for count in (MOST_FUSED, MOST_FUSED + 1, 2 * MOST_FUSED + 1):
        due = x.astype(np.float64) + 1
        for _ in range(1, count):
            due = due * 0.5 + x
        text = program(CHAIN, count)
        assert_computes(text, [x], tc.compile(text, backend=backend)(x), due)
