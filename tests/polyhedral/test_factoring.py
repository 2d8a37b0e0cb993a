"""Sums of products in fewer operations: what is factored, how, and that the results stay (R5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from tc.dtypes import FLOAT32
from tc.polyhedral.rewrite.coalescing import coalesce
from tc.polyhedral.rewrite.factoring import factor
from tc.polyhedral.rewrite.product_order import OrderCosts
from tc.semantics.program import ShapedProgram
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import interpret
from tests.fuzz.legal import Call
from tests.fuzz.strategies import calls
from tests.support.interpreting import shaped_with
from tests.support.pipeline import checked, shaped
from tests.support.rewrites import (
    assert_consistent,
    assert_same_results,
    changed_of_table,
    runnable,
)

EAGER = OrderCosts(gain=1.0, moved=0.0, statement=0.0)
MTTKRP = (
    "def f(float(I,J,K) X, float(J,R) B, float(K,R) C) -> (O)"
    " { O(i,r) +=! X(i,j,k) * B(j,r) * C(k,r) }"
)


def shape(text: str, **inputs: Any) -> ShapedProgram:
    """An input is a shape, or a number."""
    program = checked(text)
    arrays = {
        name: np.broadcast_to(np.zeros((), program.tensors[name].dtype.numpy), a)
        if isinstance(a, tuple)
        else np.asarray(a)
        for name, a in inputs.items()
    }
    return shaped(program, arrays)


def texts(shaped_program: ShapedProgram) -> list[str]:
    return [statement.text for statement in shaped_program.program.statements]


# --- what is factored -------------------------------------------------------------------------

N = 100
FACTORED: dict[str, tuple[str, dict[str, Any], list[str]]] = {
    "mttkrp": (
        MTTKRP,
        {"X": (128, 128, 128), "B": (128, 32), "C": (128, 32)},
        [
            "O.t0(i, j, r) +=! X(i, j, k) * C(k, r)",
            "O(i, r) +=! O.t0(i, j, r) * B(j, r)",
        ],
    ),
    "mttkrp in another order, not all extents the same": (
        MTTKRP.replace("X(i,j,k) * B(j,r) * C(k,r)", "C(k,r) * B(j,r) * X(i,j,k)"),
        {"X": (64, 129, 128), "B": (129, 32), "C": (128, 32)},
        [
            "O.t0(i, j, r) +=! C(k, r) * X(i, j, k)",
            "O(i, r) +=! O.t0(i, j, r) * B(j, r)",
        ],
    ),
    "chain from the left": (
        "def f(float(I,J) A, float(J,K) B, float(K,L) C) -> (O)"
        " { O(i,l) +=! A(i,j) * B(j,k) * C(k,l) }",
        {"A": (10, N), "B": (N, N), "C": (N, N)},
        ["O.t0(i, k) +=! A(i, j) * B(j, k)", "O(i, l) +=! O.t0(i, k) * C(k, l)"],
    ),
    "chain from the right": (
        "def f(float(I,J) A, float(J,K) B, float(K,L) C) -> (O)"
        " { O(i,l) +=! A(i,j) * B(j,k) * C(k,l) }",
        {"A": (N, N), "B": (N, N), "C": (N, 10)},
        ["O.t0(j, l) +=! B(j, k) * C(k, l)", "O(i, l) +=! A(i, j) * O.t0(j, l)"],
    ),
    "chain of four": (
        "def f(float(I,J) A, float(J,K) B, float(K,L) C, float(L) x) -> (O)"
        " { O(i) +=! A(i,j) * B(j,k) * C(k,l) * x(l) }",
        {"A": (N, N), "B": (N, N), "C": (N, N), "x": (N,)},
        [
            "O.t0(k) +=! C(k, l) * x(l)",
            "O.t1(j) +=! B(j, k) * O.t0(k)",
            "O(i) +=! A(i, j) * O.t1(j)",
        ],
    ),
    "row factor": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) +=! s(i) * A(i,k) }",
        {"s": (1000,), "A": (1000, N)},
        ["O.t0(i) +=! A(i, k)", "O(i) = s(i) * O.t0(i)"],
    ),
    "continues from the caller's": (
        "def f(float a, float(I,K) A, float(K,J) B) -> (O) { O(i,j) += a * A(i,k) * B(k,j) }",
        {"a": 2.0, "A": (N, N), "B": (N, N)},
        ["O.t0(i, j) +=! A(i, k) * B(k, j)", "O(i, j) += a * O.t0(i, j)"],
    ),
    "to one number": (
        "def f(float s, float(K) a) -> (o) { o +=! s * a(k) }",
        {"s": 2.0, "a": (100_000,)},
        ["o.t0 +=! a(k)", "o = s * o.t0"],
    ),
    "factors of one variable": (
        "def f(float(K) v, float(I,K) A, float(K) w) -> (O) { O(i) +=! v(k) * A(i,k) * w(k) }",
        {"v": (1000,), "A": (N, 1000), "w": (1000,)},
        ["O.t0(k) = v(k) * w(k)", "O(i) +=! O.t0(k) * A(i, k)"],
    ),
    "sums and calls are factors": (
        "def f(float(I) s, float(I,K) A, float(K) b) -> (O)"
        " { O(i) +=! (A(i,k) - b(k)) * exp(s(i)) * -2 }",
        {"s": (1000,), "A": (1000, N), "b": (N,)},
        ["O.t0(i) +=! A(i, k) - b(k)", "O(i) = O.t0(i) * exp(s(i)) * -2.0"],
    ),
    "a sum of its own": (
        "def f(float(I,J) A, float(I,K) B) -> (O) { O(i) +=! A(i,j) * B(i,k) }",
        {"A": (N, 10 * N), "B": (N, 10 * N)},
        ["O.t0(i) +=! A(i, j)", "O.t1(i) +=! B(i, k)", "O(i) = O.t0(i) * O.t1(i)"],
    ),
    "integers": (
        "def f(int8(I) s, int8(I,K) A) -> (O) { O(i) +=! s(i) * A(i,k) }",
        {"s": (1000,), "A": (1000, N)},
        ["O.t0(i) +=! A(i, k)", "O(i) = s(i) * O.t0(i)"],
    ),
    "elements of the target that it does not write": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) = s(i)"
        " O(i) += O(i + I/2) * A(i,k) where i in 0:I/2 }",
        {"s": (1000,), "A": (1000, N)},
        ["O(i) = s(i)", "O.t0(i) +=! A(i, k)", "O(i) += O(i + I / 2) * O.t0(i)"],
    ),
    "nothing on the right depends on a left-hand variable": (
        "def f(float(J) a, float(J,K) B) -> (O) { O(i) +=! a(j) * B(j,k) where i in 0:50 }",
        {"a": (10 * N,), "B": (10 * N, N)},
        ["O.t0(j) +=! B(j, k)", "O(i) +=! a(j) * O.t0(j)"],
    ),
}


@pytest.mark.parametrize("name", FACTORED)
def test_factored(name: str) -> None:
    text, inputs, expected = FACTORED[name]
    assert texts(factor(shape(text, **inputs))) == expected


@pytest.mark.parametrize("swapped", [False, True])
def test_order_of_ties_is_that_of_memory(swapped: bool) -> None:
    """Both orders cost the same; the sum runs along the last subscript of the large factor."""
    text = MTTKRP.replace("X(i,j,k)", "X(i,k,j)") if swapped else MTTKRP
    first, _ = texts(factor(shape(text, X=(N, N, N), B=(N, 32), C=(N, 32))))
    assert first == (
        "O.t0(i, k, r) +=! X(i, k, j) * B(j, r)"
        if swapped
        else "O.t0(i, j, r) +=! X(i, j, k) * C(k, r)"
    )


PLAIN: dict[str, tuple[str, dict[str, Any]]] = {
    "matrix product": (
        "def f(float(I,K) A, float(K,J) B) -> (O) { O(i,j) +=! A(i,k) * B(k,j) }",
        {"A": (N, N), "B": (N, N)},
    ),
    "one factor": (
        "def f(float(I,J,K) A) -> (O) { O(i) +=! A(i,j,k) }",
        {"A": (N, N, N)},
    ),
    "differences are not expanded": (
        "def f(float(I,D) A, float(J,D) B) -> (O)"
        " { O(i,j) +=! (A(i,d) - B(j,d)) * (A(i,d) - B(j,d)) }",
        {"A": (N, N), "B": (N, N)},
    ),
    "maximum": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) max=! s(i) * A(i,k) }",
        {"s": (1000,), "A": (1000, N)},
    ),
    "product": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) *=! s(i) * A(i,k) }",
        {"s": (1000,), "A": (1000, N)},
    ),
    "no reduction": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i,k) = s(i) * A(i,k) * s(i) }",
        {"s": (1000,), "A": (1000, N)},
    ),
    "reads with checks": (
        "def f(float(I) s, int(I,K) A, float(L) x) -> (O) { O(i) +=! s(i) * x(A(i,k)) }",
        {"s": (1000,), "A": (1000, N), "x": (5,)},
    ),
    "divisions with checks": (
        "def f(int(I) s, int(I,K) A) -> (O) { O(i) +=! s(i) * (7 / A(i,k)) }",
        {"s": (1000,), "A": (1000, N)},
    ),
    "a factor is not the last operation": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) +=! s(i) * A(i,k) + 1 }",
        {"s": (1000,), "A": (1000, N)},
    ),
    "a variable in no factor": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) +=! s(i) * A(i,k) where r in 0:3 }",
        {"s": (1000,), "A": (1000, N)},
    ),
    "no instances": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) +=! s(i) * A(i,k) }",
        {"s": (1000,), "A": (1000, 0)},
    ),
    "a temporary that does not start at 0": (
        MTTKRP.replace(" }", " where j in 1:J, k in 1:K }"),
        {"X": (128, 128, 128), "B": (128, 32), "C": (128, 32)},
    ),
    "seven factors": (
        "def f(float(A) a, float(A,B) b, float(B,C) c, float(C,D) d, float(D,E) e, float(E,F) g,"
        " float(F,G) h) -> (O)"
        " { O(i) +=! a(i) * b(i,j) * c(j,k) * d(k,l) * e(l,m) * g(m,n) * h(n,o) }",
        {"a": (9,), **dict.fromkeys("bcdegh", (9, 9))},
    ),
}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("costs", [OrderCosts(), EAGER])
def test_left_as_written(name: str, costs: OrderCosts) -> None:
    text, inputs = PLAIN[name]
    program = shape(text, **inputs)
    assert factor(program, costs) is program


CHEAP: dict[str, tuple[str, dict[str, Any]]] = {
    "too few operations to matter": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) +=! s(i) * A(i,k) }",
        {"s": (20,), "A": (20, 100)},
    ),
    "too little saved for the memory": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) +=! s(i) * A(i,k) }",
        {"s": (100_000,), "A": (100_000, 8)},
    ),
    "the call costs more than is saved": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) +=! s(i) * exp(A(i,k)) }",
        {"s": (1000,), "A": (1000, 1000)},
    ),
    "the division costs more than is saved": (
        "def f(float(I) s, float(I,K) A) -> (O) { O(i) +=! s(i) * (1 / A(i,k)) }",
        {"s": (1000,), "A": (1000, 1000)},
    ),
}


@pytest.mark.parametrize("name", CHEAP)
def test_left_as_cheap_enough(name: str) -> None:
    text, inputs = CHEAP[name]
    program = shape(text, **inputs)
    assert factor(program) is program
    assert factor(program, EAGER) is not program


@pytest.mark.parametrize(("extent", "is_stored"), [(300, True), (3000, False)])
def test_temporaries_much_larger_than_the_tensors(extent: int, is_stored: bool) -> None:
    """The sum over k takes the fewest operations; that over j is the next."""
    text = (
        "def f(float(I,K) A, float(J,K) B, float(I) c, float(J) d) -> (O)"
        " { O(i) +=! A(i,k) * B(j,k) * (c(i) - d(j)) }"
    )
    program = shape(text, A=(extent, 40), B=(extent, 40), c=(extent,), d=(extent,))
    stored = factor(program).shapes["O.t0"]
    assert stored == ((extent, extent) if is_stored else (40, extent))


def test_clauses_are_settled() -> None:
    text = (
        "def f(float(I) s, float(I,K) A) -> (O)"
        " { O(i) +=! s(i) * A(i,k) where i in 0:I, k in 1:K, exists s(k) }"
    )
    *_, last = factor(shape(text, s=(1000,), A=(1000, N))).program.statements
    assert (last.where, last.exists) == ((), ())


def test_statements_around_stay() -> None:
    text = (
        "def f(float(I) s, float(I,K) A) -> (P, O, Q) {"
        " P(i) = s(i) + 1  O(i) +=! P(i) * A(i,k)  Q(i) = O(i) * 2 }"
    )
    program = shape(text, s=(1000,), A=(1000, N))
    factored = factor(program)
    assert [s.name for s in factored.program.statements] == ["S0", "S1.a", "S1", "S2"]
    assert factored.statements[0] is program.statements[0]
    assert factored.statements[3] is program.statements[2]
    assert factored.program.temporaries == ("O.t0",)
    assert factored.shapes["O.t0"] == (1000,)
    assert_consistent(factored)


def test_names_that_are_taken() -> None:
    """A def of the name of the target has a local of the name of a temporary."""
    text = """
      def O(float(I) s) -> (q) { t0(i) = s(i)  q(i) = t0(i) }
      def g(float(I) s) -> (q) { q = O(s) }
      def f(float(I) s, float(I,K) A) -> (q, O) { q = g(s)  O(i) +=! s(i) * A(i,k) }
    """
    program = shaped(
        checked(text, "f"), {"s": np.zeros(1000, np.float32), "A": np.zeros((1000, N), np.float32)}
    )
    assert "O.t0" in program.program.tensors
    assert factor(program).program.temporaries == (*program.program.temporaries, "O.t1")


def test_text_of_an_inlined_def_is_no_comment() -> None:
    text = """
      def g(float(I) s, float(I,K) A) -> (q) { t(i) +=! s(i) * A(i,k)  q(i) = t(i) }
      def f(float(I) s, float(I,K) A) -> (p, q) { p = g(s, A)  q = g(s, A) }
    """
    arrays = {"s": np.zeros(1000, np.float32), "A": np.zeros((1000, N), np.float32)}
    factored = factor(shaped(checked(text, "f"), arrays))
    assert texts(factored)[3:5] == ["g_2.t.t0(i) +=! A(i, k)", "g_2.t(i) = s(i) * g_2.t.t0(i)"]
    assert_consistent(factored)


def test_half_is_rounded_once() -> None:  # Y8
    text = "def f(half(I) s, half(I,K) A) -> (O) { O(i) +=! s(i) * A(i,k) }"
    factored = factor(shape(text, s=(1000,), A=(1000, N)))
    assert factored.program.tensors["O.t0"].dtype == FLOAT32


# --- results ----------------------------------------------------------------------------------


def small(inputs: dict[str, Any], rng: np.random.Generator, text: str) -> dict[str, Any]:
    """Arguments for a text of the tables with every extent cut down to a few."""
    program = checked(text)
    limit = {extent: 2 + n % 4 for n, extent in enumerate((32, 64, 128, 129, 10, 100, 1000))}
    arrays = {}
    for name, a in inputs.items():
        dtype = program.tensors[name].dtype.numpy
        shape = tuple(limit.get(e, 5) for e in a) if isinstance(a, tuple) else ()
        values = rng.integers(-128, 128, shape) if dtype.kind == "i" else rng.normal(size=shape)
        arrays[name] = np.asarray(values).astype(dtype)
    return arrays


@pytest.mark.parametrize("name", FACTORED)
def test_rule_R5_factored_results(name: str) -> None:
    text, inputs, _ = FACTORED[name]
    arrays = small(inputs, np.random.default_rng(3), text)
    program, arrays = shaped_with(text, arrays)
    factored = factor(program, EAGER)
    assert factored is not program
    assert_same_results(program, factored, arrays)


def test_table_of_programs() -> None:
    assert "sgemm" in changed_of_table(lambda program: factor(program, EAGER))


def test_integers_wrap_around_to_the_same_bits() -> None:
    text = FACTORED["integers"][0]
    rng = np.random.default_rng(8)
    arrays = {
        "s": rng.integers(-128, 128, 5, dtype=np.int8),
        "A": rng.integers(-128, 128, (5, 300), dtype=np.int8),
    }
    program, _ = shaped_with(text, arrays)
    plain, factored = (interpret(p, arrays, {})["O"] for p in (program, factor(program, EAGER)))
    assert factored.tolist() == plain.tolist()
    exact = (arrays["s"].astype(int)[:, None] * arrays["A"].astype(int)).sum(1)
    assert (np.abs(exact) > 127).all()


@pytest.mark.parametrize("op", ["+=", "+=!"])
def test_rule_R3_continues_or_starts_afresh(op: str) -> None:
    text = f"def f(float(I) s, float(I,K) A) -> (O) {{ O(i) {op} s(i) * A(i,k) }}"
    rng = np.random.default_rng(1)
    program, arrays = shaped_with(
        text,
        {
            "s": rng.normal(size=3).astype(np.float32),
            "A": rng.normal(size=(3, 4)).astype(np.float32),
        },
    )
    factored = factor(program, EAGER)
    assert factored is not program
    assert_same_results(program, factored, arrays)
    assert_same_results(program, factored, arrays, {"O": np.full(3, 100, np.float32)})


def test_infinities_among_the_factors() -> None:
    """What the docstring of `factor` says: NaN may become infinite, under an infinite bound."""
    text = "def f(float(I) s, float(I,K) A) -> (O) { O(i) +=! s(i) * A(i,k) }"
    inf, nan = np.inf, np.nan
    arrays = {
        "s": np.array([inf, inf, 2, 0, nan, 2], np.float32),
        "A": np.array([[1, 2], [1, -2], [inf, 1], [inf, 1], [1, 2], [1, 2]], np.float32),
    }
    program, _ = shaped_with(text, arrays)
    plain, factored = (interpret(p, arrays, {})["O"] for p in (program, factor(program, EAGER)))
    np.testing.assert_array_equal(plain, [inf, nan, inf, nan, nan, 6])
    np.testing.assert_array_equal(factored, [inf, -inf, inf, nan, nan, 6])
    bounds = error_bound(program, arrays, {})["O"]
    assert bounds[:5].tolist() == [inf] * 5
    assert bounds[5] < 1e-5


@settings(suppress_health_check=list(HealthCheck))
@given(calls())
def test_rule_R5_generated_programs_factored(case: Call) -> None:
    program, arrays = runnable(case)
    factored = factor(program, EAGER)
    event("left as written" if factored is program else "factored")
    if factored is not program:
        assert_same_results(program, factored, arrays)


@st.composite
def products(draw: st.DrawFn) -> tuple[str, dict[str, Any]]:
    """A sum of a product of two to five factors over up to five variables."""
    names = "ijklm"[: draw(st.integers(2, 5))]
    extents = {v: draw(st.sampled_from((1, 2, 3, 3, 4))) for v in names}
    outer = names[: draw(st.integers(0, min(3, len(names) - 1)))]
    spelling = draw(st.sampled_from(("float", "float", "double", "half", "int32", "int8")))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    params, factors, inputs = [], [], {}
    missing = set(names)
    for position in range(draw(st.integers(2, 5))):
        used = [
            v for v in names if draw(st.integers(0, 2)) == 0 or (position == 0 and v in missing)
        ]
        order = draw(st.permutations(used))
        missing -= set(used)
        sizes = ",".join(v.upper() for v in order)
        params.append(f"{spelling}({sizes}) A{position}" if order else f"{spelling} A{position}")
        read = f"A{position}({','.join(order)})" if order else f"A{position}"
        factors.append(
            draw(st.sampled_from(("{}", "{}", "({} + 1)", "{} * 3", "-{}"))).format(read)
        )
        whole = draw(st.booleans())
        values = rng.normal(size=[extents[v] for v in order]) * 10
        dtype = {"float": "float32", "double": "float64", "half": "float16"}.get(spelling, spelling)
        inputs[f"A{position}"] = np.asarray(np.rint(values) if whole else values).astype(dtype)
    target = f"O({','.join(outer)})" if outer else "O"
    op = draw(st.sampled_from(("+=!", "+=!", "+=")))
    text = f"def f({', '.join(params)}) -> (O) {{ {target} {op} {' * '.join(factors)} }}"
    return text, inputs


@settings(suppress_health_check=list(HealthCheck))
@given(products(), st.booleans())
def test_rule_R5_generated_products(case: tuple[str, dict[str, Any]], given_output: bool) -> None:
    text, inputs = case
    program, arrays = shaped_with(text, inputs)
    factored = factor(program, EAGER)
    assume(factored is not program)
    event(f"{len(factored.statements)} statements")
    initial = {}
    if given_output:
        dtype = program.program.tensors["O"].dtype.numpy
        initial["O"] = np.arange(1, 1 + np.prod(program.shapes["O"], dtype=int)).astype(dtype)
        initial["O"] = initial["O"].reshape(program.shapes["O"])
    assert_same_results(program, factored, arrays, initial)
    assert_same_results(program, coalesce(factored, {})[0], arrays, initial)
