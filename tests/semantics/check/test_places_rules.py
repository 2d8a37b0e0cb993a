"""Numbers by name (E4), defaults (E5), and what alone is a condition (W1)."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import tc

X = np.float32([1, -2, 4])
SCALED = "def f(float(N) x, float a = 2, int n = -1) -> (o) { o(i) = a * x(i) + n }"


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_rule_E4_numbers_by_name(backend: str) -> None:
    text = "def f(float(N) x) -> (o, p, q) { o(i) = x(i) < 0 ? -inf() : inf()  p(i) = nan() "
    text += "where i in 0:N  q(i) = pi() * x(i) }"
    f = tc.compile(text, backend=backend)
    o, p, q = f(X)
    assert o.tolist() == [math.inf, -math.inf, math.inf]
    assert np.isnan(p).all()
    assert q.tolist() == (np.float32(math.pi) * X).tolist()
    assert {each.dtype for each in (o, q)} == {np.dtype(np.float32)}  # weak, as literals are


def test_rule_E4_a_tensor_of_the_name_comes_first() -> None:
    assert tc.interpret("def f(float(N) inf) -> (o) { o(i) = 2 * inf(i) }", [X]).tolist() == [
        2,
        -4,
        8,
    ]


@pytest.mark.parametrize("backend", ["interpret", "numba"])
def test_rule_E5_calls_may_leave_defaults_out(backend: str) -> None:
    f = tc.compile(SCALED, backend=backend)
    want = (2 * X - 1).tolist()
    assert f(X).tolist() == f(x=X).tolist() == f([X]).tolist() == f({"x": X}).tolist() == want
    assert f(X, 3).tolist() == f(X, a=3).tolist() == (3 * X - 1).tolist()
    assert f(X, n=5).tolist() == (2 * X + 5).tolist()
    assert inspect.signature(f).parameters["n"].default == -1
    with pytest.raises(tc.InputError, match=r"takes 3 inputs.* but x is missing"):
        f(a=3)


def test_rule_E5_defs_may_leave_defaults_out() -> None:
    text = f"{SCALED} def g(float(N) y) -> (z) {{ t = f(y)  z(i) = t(i) + 1 }}"
    assert tc.interpret(text, [X], entry="g").tolist() == (2 * X).tolist()
    with pytest.raises(tc.CheckError, match="takes 3 arguments and is given 0"):
        tc.compile(f"{SCALED} def g(float(N) y) -> (z) {{ z = f() }}", entry="g")


@pytest.mark.parametrize(
    ("declared", "value"), [("int", "0.5"), ("uint8", "300"), ("uint8", "-1"), ("bool", "2")]
)
def test_rule_E5_a_default_fits_its_type(declared: str, value: str) -> None:
    with pytest.raises(tc.CheckError, match="does not fit"):
        tc.compile(f"def f(float(N) x, {declared} n = {value}) -> (o) {{ o(i) = x(i) }}")


def test_rule_W1_a_variable_alone_is_told() -> None:
    text = "def f(float(N,M) A) -> (o) { o(i,j) = A(i,j) where i, j in 0:2 }"
    with pytest.warns(tc.TCWarning, match="'i' alone is a condition"):
        tc.interpret(text, [np.ones((3, 3), np.float32)])
