"""Sums in place: which temporaries go, which stay, and that results are the same bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from tc.polyhedral.rewrite.factoring import divide_last
from tc.polyhedral.rewrite.sums_in_place import sum_in_place
from tc.semantics.reference.interpreter import interpret
from tests.support.interpreting import shaped_with
from tests.support.rewrites import (
    assert_consistent,
    assert_same_results,
    changed_of_table,
    run_kernel,
    texts,
)
from tests.support.sizes_of_call import shape

HEAD = "def f(float(N,D) x, float(N) y) -> (o)"


PLACED = {
    "a sum and its epilogue": (
        HEAD + " { t(n) +=! x(n,d)  o(n) = fmax(t(n) + y(n), 0) }",
        ["S0: o(n) +=! x(n, d)", "S1: o(n) = fmax(o(n) + y(n), 0.0)"],
    ),
    "a product of matrices": (
        HEAD + " { t(n,m) +=! x(n,d) * x(m,d)  o(n,m) = t(n,m) + y(m) }",
        ["S0: o(n, m) +=! x(n, d) * x(m, d)", "S1: o(n, m) = o(n, m) + y(m)"],
    ),
    "with a start, an update and other names": (
        HEAD + " { t(n) = y(n)  t(n) max= x(n,d)  o(i) = t(i) * t(i) }",
        ["S0: o(n) = y(n)", "S1: o(n) max= x(n, d)", "S2: o(i) = o(i) * o(i)"],
    ),
    "to one number": (
        HEAD + " { t +=! x(n,d)  o = sqrt(t) }",
        ["S0: o +=! x(n, d)", "S1: o = sqrt(o)"],
    ),
    "two, one after the other": (
        HEAD + " { t(n) +=! x(n,d)  u(n) = t(n) + y(n)  u(n) *= x(n,d)  o(n) = u(n) - 1 }",
        [
            "S0: o(n) +=! x(n, d)",
            "S1: o(n) = o(n) + y(n)",
            "S2: o(n) *= x(n, d)",
            "S3: o(n) = o(n) - 1.0",
        ],
    ),
    "another one is read elsewhere": (
        HEAD + " { s(n) +=! x(n,d)  t(n) min=! x(n,d)  o(n) = t(n) / s(n)  o(n) += s(n) }",
        [
            "S0: s(n) +=! x(n,d)",
            "S1: o(n) min=! x(n, d)",
            "S2: o(n) = o(n) / s(n)",
            "S3: o(n) += s(n)",
        ],
    ),
    "its size counts": (
        HEAD + " { t(n) +=! x(n,d)  o(n) = pad(t(n), 7) where n in 0:N }",
        ["S0: o(n) +=! x(n, d)", "S1: o(n) = 0 <= n && n < 5 ? o(n) : 7.0"],
    ),
    "the first of two that could be": (
        HEAD + " { s(n) +=! x(n,d)  t(n) min=! x(n,d)  o(n) = t(n) / s(n) }",
        ["S0: o(n) +=! x(n, d)", "S1: t(n) min=! x(n,d)", "S2: o(n) = t(n) / o(n)"],
    ),
}


def inputs(rows: int = 5, columns: int = 3) -> dict[str, Any]:
    rng = np.random.default_rng(rows + columns)
    return {
        "x": rng.normal(size=(rows, columns)).astype(np.float32),
        "y": rng.uniform(0.5, 2, rows).astype(np.float32),
    }


@pytest.mark.parametrize("name", PLACED)
def test_placed(name: str) -> None:
    text, expected = PLACED[name]
    program, arrays = shaped_with(text, inputs())
    found = sum_in_place(program)
    assert texts(found) == expected
    assert_consistent(found)
    assert_same_results(program, found, arrays)
    wanted = interpret(program, arrays, {})
    for results in (interpret(found, arrays, {}), run_kernel(found, arrays, {})):
        np.testing.assert_allclose(results["o"], wanted["o"], rtol=1e-6)
    np.testing.assert_array_equal(interpret(found, arrays, {})["o"], wanted["o"])


NOT_PLACED = {
    "a copy of other elements": HEAD + " { t(n) +=! x(n,d)  o(n) = t(N-1-n) }",
    "transposed": HEAD + " { t(n,m) +=! x(n,d) * x(m,d)  o(m,n) = t(n,m) + y(m) }",
    "its neighbours, too": HEAD + " { t(n) +=! x(n,d)  o(n) = t(n) + t(N-1-n) }",
    "for more elements": HEAD + " { t(n) +=! x(n,d)  o(n,d) = t(n) * x(n,d) }",
    "read by two statements": HEAD + " { t(n) +=! x(n,d)  o(n) = t(n)  o(n) += t(n) }",
    "added to what is there": HEAD + " { o(n) = y(n)  t(n) +=! x(n,d)  o(n) += t(n) }",
    "the tensor is in use": HEAD + " { o(n) = y(n)  t(n) +=! x(n,d) * o(n)  o(n) = t(n) }",
    "it is written again behind": HEAD + " { t(n) +=! x(n,d)  o(n) = t(n)  t(n) max=! x(n,d) }",
    "no sum": HEAD + " { t(n) = exp(y(n))  o(n) = t(n) + 1 }",
    "another type": "def f(float(N,D) x) -> (double(N) o) { t(n) +=! x(n,d)  o(n) = t(n) }",
    "what the output held": (
        "def f(float(N,D) x) -> (float(N) o) { t(n) +=! x(n,d)  o(n) = o(n) * t(n) }"
    ),
    "an output": "def f(float(N,D) x) -> (o, t) { t(n) +=! x(n,d)  o(n) = t(n) + 1 }",
    "with checks": (
        "def f(int(N,D) x, float(M) y) -> (o) { t(n) +=! y(x(n,d))  o(n) = t(n) + 1 }"
    ),
    "a subscript": "def f(int(N,D) x) -> (o) { t(n) max=! x(n,d)  o(n) = x(t(n), 0) }",
    "some of it": (
        HEAD + " { t(n) +=! x(n,d)  o(n) = y(n)  o(n) = t(n) where n in 0:2 }"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NOT_PLACED)
def test_not_placed(name: str) -> None:
    program = shape(NOT_PLACED[name], N=4, D=4, M=3)
    assert sum_in_place(program) is program


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize(
    "reader", ["o(n) * t(n)", "t(n) > 5 ? t(n) : o(n)", "o(n)", "fmax(o(n) - 2, t(n)) + o(n)"]
)
def test_what_outputs_held(reader: str, backend: str) -> None:
    """A sum into the place of an output loses what the caller passed: such sums stayed there."""
    text = f"def f(double(N,D) x) -> (double(N) o) {{ t(n) +=! x(n,d)  o(n) = {reader} }}"
    x, o = np.arange(15.0).reshape(5, 3), np.arange(5.0) + 2
    t, expression = x.sum(1), reader.replace("(n)", "").replace("fmax", "np.maximum")
    if "?" in expression:
        expression = "np.where(t > 5, t, o)"
    due = eval(expression, {"np": np, "t": t, "o": o})
    found = tc.compile(text, backend=backend)(x, outputs=[o.copy()])
    np.testing.assert_array_equal(found, due)


def test_halves_are_rounded_as_before() -> None:  # Y8
    text = "def f(half(N,D) x) -> (half(N) o) { t(n) +=! x(n,d)  o(n) = t(n) / half(D) }"
    program, arrays = shaped_with(text, {"x": np.full((3, 7), 0.1, np.float16)})
    found = sum_in_place(program)
    wanted = interpret(program, arrays, {})["o"]
    assert len(found.program.temporaries) == 0
    np.testing.assert_array_equal(interpret(found, arrays, {})["o"], wanted)
    np.testing.assert_array_equal(run_kernel(found, arrays, {})["o"], wanted)


def test_table_of_programs() -> None:
    assert "repeated_sums" in changed_of_table(sum_in_place)


@given(
    st.integers(1, 5), st.integers(1, 5), st.sampled_from(["+", "*", "min", "max"]), st.booleans()
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_same_results(rows: int, columns: int, op: str, divided: bool) -> None:
    text = HEAD + f" {{ t(n) {op}=! x(n,d) / y(n)  o(n) = fmax(t(n), y(n)) - t(n) }}"
    program, arrays = shaped_with(text, inputs(rows, columns))
    found = sum_in_place(program)
    assert found is not program
    assert_same_results(program, divide_last(found) if divided else found, arrays)
