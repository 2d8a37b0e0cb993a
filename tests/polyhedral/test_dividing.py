"""Sums divided once: what is taken out of a sum, what is not, and that results stay (R5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tc.dtypes import FLOAT32
from tc.polyhedral.rewrite.coalescing import coalesce
from tc.polyhedral.rewrite.factoring import divide_last
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import interpret
from tests.support.interpreting import shaped_with
from tests.support.pipeline import checked, shaped
from tests.support.rewrites import assert_consistent, assert_same_results, changed_of_table, texts
from tests.support.sizes_of_call import shape

STEPS = 2
ROWS = "def f(float(N,D) x, float(N) y) -> (o)"


DIVIDED = {
    "by a size": (
        ROWS + " { o(n) +=! x(n,d) / D }",
        ["S0.sum: o.q0(n) +=! x(n, d)", "S0: o(n) = o.q0(n) / D"],
    ),
    "by what the rows have": (
        ROWS + " { o(n) +=! x(n,d) / exp(y(n)) }",
        ["S0.sum: o.q0(n) +=! x(n, d)", "S0: o(n) = o.q0(n) / exp(y(n))"],
    ),
    "by an index of the target": (
        ROWS + " { o(n) +=! x(n,d) / (n + 1) }",
        ["S0.sum: o.q0(n) +=! x(n, d)", "S0: o(n) = o.q0(n) / (n + 1)"],
    ),
    "of a sum": (
        ROWS + " { o(n) +=! (x(n,d) - y(n)) / 3.0 }",
        ["S0.sum: o.q0(n) +=! x(n, d) - y(n)", "S0: o(n) = o.q0(n) / 3.0"],
    ),
    "to one number": (
        ROWS + " { o +=! x(n,d) / y(0) }",
        ["S0.sum: o.q0 +=! x(n, d)", "S0: o = o.q0 / y(0)"],
    ),
    "from the caller's": (
        ROWS + " { o(n) += x(n,d) / D }",
        ["S0.sum: o.q0(n) +=! x(n, d)", "S0: o(n) += o.q0(n) / D"],
    ),
    "from an earlier statement's": (
        ROWS + " { o(n) = y(n)  o(n) += x(n,d) / D }",
        ["S0: o(n) = y(n)", "S1.sum: o.q0(n) +=! x(n, d)", "S1: o(n) += o.q0(n) / D"],
    ),
    "by other elements of the target": (
        ROWS + " { o(n) = y(n)  o(n) += x(n,d) / o(n+2) where n in 0:2 }",
        ["S0: o(n) = y(n)", "S1.sum: o.q0(n) +=! x(n, d)", "S1: o(n) += o.q0(n) / o(n + 2)"],
    ),
    "two to one target": (
        ROWS + " { o(n) +=! x(n,d) / D  o(n) += x(n,d) / y(n) }",
        [
            "S0.sum: o.q0(n) +=! x(n, d)",
            "S0: o(n) = o.q0(n) / D",
            "S1.sum: o.q1(n) +=! x(n, d)",
            "S1: o(n) += o.q1(n) / y(n)",
        ],
    ),
}


def inputs(rows: int = 5, columns: int = STEPS) -> dict[str, Any]:
    rng = np.random.default_rng(rows + columns)
    return {
        "x": rng.normal(size=(rows, columns)).astype(np.float32),
        "y": rng.uniform(0.5, 2, rows).astype(np.float32),
    }


@pytest.mark.parametrize("name", DIVIDED)
def test_divided(name: str) -> None:
    text, expected = DIVIDED[name]
    program, arrays = shaped_with(text, inputs())
    found = divide_last(program)
    assert [line.replace("#", "_") for line in texts(found)] == expected
    assert_consistent(found)
    assert_same_results(program, found, arrays)
    assert_same_results(program, coalesce(found, {})[0], arrays)
    given = np.full(program.shapes["o"], 100, np.float32)
    assert_same_results(program, found, arrays, {"o": given})


NOT_DIVIDED = {
    "by what the sum has": ROWS + " { o(n) +=! x(n,d) / x(n,d) }",
    "by an index of the sum": ROWS + " { o(n) +=! x(n,d) / (d + 1) }",
    "by the same row, but summed over rows": ROWS + " { o(d) +=! x(n,d) / y(n) }",
    "the divided does not depend on the sum": ROWS + " { o(n) +=! y(n) / D where d in 0:D }",
    "the quotient is no whole term": ROWS + " { o(n) +=! x(n,d) / D + 1 }",
    "times something": ROWS + " { o(n) +=! x(n,d) / D * x(n,d) }",
    "remainder": ROWS + " { o(n) +=! x(n,d) % D }",
    "maximum": ROWS + " { o(n) max=! x(n,d) / D }",
    "minimum": ROWS + " { o(n) min= x(n,d) / D }",
    "product": ROWS + " { o(n) *=! x(n,d) / D }",
    "no reduction": ROWS + " { o(n,d) = x(n,d) / D }",
    "integers": "def f(int(N,D) x, int(N) y) -> (o) { o(n) +=! x(n,d) / 7 }",
    "integers in float": "def f(int(N,D) x) -> (o) { o(n) +=! float(x(n,d) / 7) }",
    "reads with checks": ("def f(int(N,D) x, float(N) y) -> (o) { o(n) +=! y(x(n,d)) / 7 }"),
}


@pytest.mark.parametrize("name", NOT_DIVIDED)
def test_not_divided(name: str) -> None:
    program = shape(NOT_DIVIDED[name], N=STEPS, D=STEPS)
    assert divide_last(program) is program


@pytest.mark.parametrize(("n", "d"), [(5, 0), (0, 20), (5, 1), (5, STEPS - 1)])
def test_few_terms_stay(n: int, d: int) -> None:
    program = shape(ROWS + " { o(n) +=! x(n,d) / D }", N=n, D=d)
    assert divide_last(program) is program


def test_half_is_rounded_once() -> None:  # Y8
    text = "def f(half(N,D) x) -> (half(N) o) { o(n) +=! x(n,d) / half(D) }"
    x = np.full((3, 100), 1000, np.float16)
    program, arrays = shaped_with(text, {"x": x})
    found = divide_last(program)
    assert found.program.tensors["o.q0"].dtype == FLOAT32
    assert_same_results(program, found, arrays)
    assert interpret(found, arrays, {})["o"].tolist() == [1000] * 3  # the sum is beyond half


def test_rows_that_are_not_written_stay() -> None:
    text = ROWS + " { o(n) = y(n)  o(n) += x(n,d) / y(n) where n in 2:4, d in 1:D }"
    program, arrays = shaped_with(text, inputs(columns=2 * STEPS))
    found = divide_last(program)
    assert_same_results(program, found, arrays)


def test_names_that_are_taken() -> None:
    text = """
      def o(float(N,D) x) -> (r) { q0(n) = x(n,0)  r(n) = q0(n) }
      def g(float(N,D) x) -> (r) { r = o(x) }
      def f(float(N,D) x) -> (r, o) { r = g(x)  o(n) +=! x(n,d) / D }
    """
    program = shaped(checked(text, "f"), {"x": np.zeros((3, STEPS), np.float32)})
    assert "o.q0" in program.program.tensors
    assert divide_last(program).program.temporaries == (*program.program.temporaries, "o.q1")


def test_infinities_and_zeros() -> None:
    """What the docstring of `divide_last` says of them."""
    inf, nan = np.inf, np.nan
    first, second = [1, 1, 0, inf, inf, 1, 2e38], [2, -2, 1, 1, -inf, nan, 2e38]
    x = np.array([first, second], np.float32).T
    y = np.array([0, 0, 0, 2, 2, 2, 2], np.float32)
    program, arrays = shaped_with(ROWS + " { o(n) +=! x(n,d) / y(n) }", {"x": x, "y": y})
    found = divide_last(program)
    plain, divided = (interpret(p, arrays, {})["o"] for p in (program, found))
    np.testing.assert_array_equal(plain, [inf, nan, nan, inf, nan, nan, np.float32(2e38)])
    np.testing.assert_array_equal(divided, [inf, -inf, inf, inf, nan, nan, inf])
    assert error_bound(program, arrays, {})["o"].tolist() == [inf] * 7


def test_table_of_programs() -> None:
    assert "layernorm" in changed_of_table(divide_last)


@st.composite
def quotients(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A sum of quotients, over one or two variables, of any type."""
    spelling = draw(st.sampled_from(("float", "double", "half")))
    name = {"float": "float32", "double": "float64", "half": "float16"}[spelling]
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    n, d, k = (draw(st.integers(1, 5)) for _ in range(3))
    dividend = draw(
        st.sampled_from(("x(n,d)", "x(n,d) * z(k)", "(x(n,d) - y(n)) * z(k)", "x(n,d)/z(k)"))
    )
    divisor = draw(st.sampled_from(("y(n)", "3", "(n + 1)", "(y(n) * y(n))", "y(0)", "exp(y(n))")))
    target = draw(st.sampled_from(("o(n)", "o", "o(n,d)")))
    if target != "o(n)" and "n" in divisor and "(n" not in target:
        divisor = "y(0)"
    op = draw(st.sampled_from(("+=", "+=!")))
    head = f"def f({spelling}(N,D) x, {spelling}(N) y, {spelling}(K) z) -> (o)"
    text = f"{head} {{ {target} {op} {dividend} / {divisor} where k in 0:K }}"
    return text, {
        "x": rng.normal(size=(n, d)).astype(name),
        "y": rng.uniform(0.5, 2, n).astype(name),
        "z": rng.uniform(0.5, 2, k).astype(name),
    }


@settings(suppress_health_check=list(HealthCheck))
@given(quotients(), st.booleans())
def test_rule_R5_generated_quotients(case: tuple[str, dict[str, Any]], given_output: bool) -> None:
    program, arrays = shaped_with(*case)
    found = divide_last(program)
    event("left as written" if found is program else "divided")
    if found is program:
        return
    dtype = program.program.tensors["o"].dtype.numpy
    initial = {"o": np.full(program.shapes["o"], 3, dtype)} if given_output else {}
    assert_same_results(program, found, arrays, initial)
