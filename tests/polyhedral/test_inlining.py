"""Inlining: which temporaries are computed where they are read, which stay, and the results."""

from __future__ import annotations

import random
from math import inf

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from tc.polyhedral.rewrite.inlining import inline
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import ShapedProgram
from tc.semantics.reference.interpreter import interpret
from tests.fuzz.legal import Call
from tests.fuzz.strategies import calls
from tests.support.interpreting import shaped_with
from tests.support.lowering import trace_lowering
from tests.support.rewrites import assert_same_results, changed_of_table, runnable, texts
from tests.support.sizes_of_call import shape

HEAD = "def f(float(N) x, float(N) y) -> (o)"


def inlined(program: ShapedProgram, operations: float = 1e9) -> ShapedProgram:
    """The program where to store an element takes as long as these operations."""
    return inline(program, Thresholds(stored=((1 << 62, operations),)))


INLINED = {
    "a difference of differences": (
        HEAD + " { d(i) = x(i+1) - x(i)  o(i) = d(i+1) - d(i) }",
        ["S1: o(i) = x(i + 2) - x(i + 1) - (x(i + 1) - x(i))"],
    ),
    "a chain, from its end": (
        HEAD + " { a(i) = x(i) * 2  b(i) = a(i+1) + a(i)  o(i) = b(i) - b(i+1) }",
        ["S2: o(i) = x(i + 1) * 2.0 + x(i) * 2.0 - (x(i + 2) * 2.0 + x(i + 1) * 2.0)"],
    ),
    "backwards, and its index": (
        HEAD + " { d(i) = x(N-1-i) * i  o(j) = d(N-1-j) }",
        ["S1: o(j) = x(j) * (N - 1 - j)"],
    ),
    "by two statements": (
        HEAD + " { d(i) = x(i) * y(i)  o(i) = d(i+1) + d(i)  o(i) += d(N-1-i) where i in 0:N-1 }",
        ["S1: o(i) = x(i + 1) * y(i + 1) + x(i) * y(i)", "S2: o(i) += x(-i + 6) * y(-i + 6)"],
    ),
    "under a condition": (
        HEAD + " { d(i) = x(i) * y(i)  o(i) = i > 0 ? d(i-1) : 0 where i in 0:N }",
        ["S1: o(i) = i > 0 ? x(i - 1) * y(i - 1) : 0.0"],
    ),
}


@pytest.mark.parametrize("name", INLINED)
def test_inlined(name: str) -> None:
    text, expected = INLINED[name]
    rng = np.random.default_rng(3)
    program, arrays = shaped_with(text, {n: rng.normal(size=7).astype("f4") for n in "xy"})
    found = inlined(program)
    assert texts(found) == expected
    assert_same_results(program, found, arrays)
    wanted = interpret(program, arrays, {})["o"]
    np.testing.assert_array_equal(interpret(found, arrays, {})["o"], wanted)


STAYS = {
    "at its own place": HEAD + " { d(i) = x(i) + 1  o(i) = d(i) * d(i) }",
    "a sum": HEAD + " { d(i) +=! x(j) * y(i)  o(i) = d(i+1) - d(i) }",
    "read in a sum": HEAD + " { d(i) = x(i) * y(i)  o(i) +=! d(j) * y(i) }",
    "an output": "def f(float(N) x) -> (d, o) { d(i) = x(i) + 1  o(i) = d(i+1) - d(i) }",
    "started twice": HEAD + " { d(i) = x(i)  d(i) += y(i)  o(i) = d(i+1) - d(i) }",
    "half of it": HEAD + " { d(i) = x(i)  d(i) = y(i) where i in 0:2  o(i) = d(i+1) - d(i) }",
    "what it reads changes": (
        "def f(float(N) x) -> (o) "
        "{ o(i) = x(i)  d(i) = o(i) + 1  o(i) = 2 * o(i)  o(i) += d(N-1-i) where i in 0:N }"
    ),
    "what it reads changes in the statement": (
        "def f(float(N) x) -> (o) { o(i) = x(i)  d(i) = o(i) + 1  o(i) = d(N-1-i) where i in 0:N }"
    ),
    "its size is asked for": HEAD + " { d(i) = x(i) * y(i)  o(i) = pad(d(i-1), 0) where i in 0:N }",
    "at data": "def f(float(N) x, int(N) k) -> (o) { d(i) = x(i) + 1  o(i) = d(k(i)) }",
    "of data": "def f(float(N) x, int(N) k) -> (o) { d(i) = x(k(i)) + 1  o(i) = d(N-1-i) }",
    "a half": "def f(half(N) x) -> (o) { d(i) = x(i) * x(i)  o(i) = d(i+1) - d(i) }",
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    program = shape(STAYS[name], N=6)
    assert inlined(program) is program


def test_what_it_costs() -> None:
    """Three operations twice are three more than once; a store is worth more, or it is not."""
    text = HEAD + " { d(i) = x(i+1) * y(i) - x(i) * y(i+1)  o(i) = d(i+1) - d(i) }"
    program = shape(text, N=1001)
    assert inlined(program, 2.9) is program
    assert inlined(program, 3.1) is not program


@pytest.mark.parametrize(
    ("read", "tile_rows", "least", "most"),
    [
        ("x(i,j)", 0, 3.9, 4.1),  # twice more for each element
        ("x(i,j)", 8, 0.6, 0.7),  # 8 rows for each 6
        ("x(i,j)", 4, 1.9, 2.1),  # 4 for each 2
        ("x(i,j)", 2, 3.9, 4.1),
        ("y(i,j)", 8, 1.9, 2.1),  # two rows of tensors for each row: 4 for each 2
        ("x(i+1,j)", 8, 1.9, 2.1),
    ],
)
def test_rows_of_a_register_tile_share_what_they_compute(
    read: str, tile_rows: int, least: float, most: float
) -> None:
    text = (
        f"def f(float(N,N) x, float(N,N) y) -> (o) {{ d(i,j) = x(i,j+1) + x(i,j+2) + {read}"
        "  o(i,j) = d(i,j) + d(i+1,j) + d(i+2,j) }"
    )
    program = shape(text, N=2000)
    for stored, is_inlined in ((least, False), (most, True)):
        limits = Thresholds(stored=((inf, stored),), tile_rows=tile_rows)
        assert (inline(program, limits) is not program) is is_inlined


def test_columns_are_computed_again() -> None:
    """Neighbours in a row are not in one vector."""
    text = "def f(float(N,N) x) -> (o) { d(i,j) = x(i,j) + 1  o(i,j) = d(i,j) + d(i,j+2) }"
    program = shape(text, N=2000)
    for stored, is_inlined in ((0.9, False), (1.1, True)):
        limits = Thresholds(stored=((inf, stored),), tile_rows=8)
        assert (inline(program, limits) is not program) is is_inlined


def test_a_blur_computes_its_rows_in_registers() -> None:
    """In the whole pipeline."""
    text = "def blur(float(H,W) x) -> (o) { h(i,j) = x(i,j) + x(i,j+1) + x(i,j+2)  "
    text += "o(i,j) = h(i,j) + h(i+1,j) + h(i+2,j) }"
    device = tc.Device(vector_bits=256, l1=32 << 10, threads=2)
    stages = tc.explain(text, {"H": 602, "W": 602}, device=device).stages
    assert "h.tile" not in stages["rewrite"]
    assert "S0" not in stages["scop"]
    assert "a register tile of 6 i x" in stages["mapping"]


def test_expressions_do_not_grow_without_end() -> None:
    steps = "".join(f" a{n + 1}(i) = a{n}(i) + a{n}(i+1)" for n in range(30))
    program = shape(f"def f(float(N) x) -> (a30) {{ a0(i) = x(i) * 2{steps} }}", N=100)
    longest = max(len(text) for text in texts(inlined(program)))
    assert longest < 10_000


def test_a_chain_of_stencils_larger_than_the_caches_is_one_loop() -> None:
    """In the whole pipeline; a small chain is no cheaper where the cache holds what it stores."""
    device = tc.Device(vector_bits=256, l2=1 << 18, l3=1 << 20, threads=2)
    text = HEAD + (
        " { a(i) = x(i+1) - 2 * x(i) + y(i)  b(i) = a(i) + a(i+1) + a(i+2) + a(i+3)"
        "  o(i) = b(i) - b(i+1) }"
    )
    kept = {}
    for size in (1 << 9, 1 << 20):
        lowering = trace_lowering(
            shape(text, N=size), {}, device=device, initial=frozenset(), check=True
        )
        kept[size] = lowering.shaped.program.temporaries
    assert kept == {1 << 9: ("a", "b"), 1 << 20: ()}


def test_table_of_programs() -> None:
    changed_of_table(inlined)


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(calls())
def test_generated_programs(case: Call) -> None:
    program, arrays = runnable(case)
    assert_same_results(program, inlined(program), arrays)


@settings(deadline=None)
@given(st.integers(0, 2**30))
def test_chains_of_stencils(seed: int) -> None:
    """Chains of up to 4 stencils of rank 1 or 2, each of tensors before it, compiled."""
    rng = random.Random(seed)
    variables = "ij"[: rng.randint(1, 2)]
    size = rng.randint(9, 40)
    dims = ",".join("N" for _ in variables)
    names, statements = ["x"], []
    for step in range(rng.randint(2, 4)):
        terms = []
        for _ in range(rng.randint(1, 3)):
            shifts = (f"{v}+{rng.randint(0, 2)}" for v in variables)
            read = f"{rng.choice(names)}({','.join(shifts)})"
            terms.append(f"{rng.choice(('2', '-1', '3'))} * {read}")
        body = f" {rng.choice(('+', '-', '*'))} ".join(terms)
        if rng.random() < 0.3:
            body = f"{terms[0]} > 1 ? {body} : {terms[-1]}"
        names.append(f"t{step}")
        statements.append(f"{names[-1]}({','.join(variables)}) = {body}")
    text = f"def f(int({dims}) x) -> ({names[-1]}) {{ {'  '.join(statements)} }}"
    x = np.random.default_rng(seed).integers(-3, 4, [size] * len(variables), np.int32)
    wanted = tc.interpret(text, [x])
    found = tc.compile(text, backend="c")(x)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "statements",
    [
        "d(j,i) = x(i,j)  o = concat(d, d, d)",
        "d(i,j) = x(i,j)  o = concat(d, d)",
        "d(i,j) = x(i,j+1) * 2  e(j,i) = x(i,j)  c(i,j) = e(j,i)  o = concat(d, c, d)",
    ],
)
def test_pieces_of_a_concat_stand_where_they_stood(statements: str) -> None:
    """The places of pieces are sums of sizes, of temporaries that are gone, too."""
    text = f"def f(double(N,M) x) -> (o) {{ {statements} }}"
    x = np.arange(15.0).reshape(5, 3)
    expected = tc.interpret(text, [x])
    for fusion in ("auto", "max", "min"):
        options = tc.Options(schedule=tc.ScheduleOptions(fusion=fusion))
        np.testing.assert_array_equal(tc.compile(text, options=options)(x), expected)


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_what_asks_for_its_own_size(backend: str) -> None:
    """Without the temporary, its size is a number (an internal error before)."""
    text = """def f(int(N) at) -> (int p) {
      o(b) = N + at(j) where b < o.0, b = 2 * at(j), at(j) >= 2, j in 0:5, o.0 = 1
      p += o(0)
    }"""
    at, p = np.zeros(5, np.int32), np.array(4, np.int32)
    assert tc.compile(text, backend=backend)(at, outputs={"p": p}) == 4
