"""Small operands that sums read across their rows: which are transposed, and the results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.polyhedral.rewrite.transposed_operands import transpose_operands
from tc.semantics.program import ShapedProgram
from tests.support.interpreting import shaped_with
from tests.support.rewrites import assert_same_results, changed_of_table, texts
from tests.support.sizes_of_call import shape

ALWAYS = Thresholds(across=1, smaller=1)
SIZES = {"N": 9, "J": 4, "K": 5, "M": 3}
HEAD = "def f(float(N,J,K) A, float(K,J) B) -> (o)"


def transposed(program: ShapedProgram, limits: Thresholds = ALWAYS) -> ShapedProgram:
    return transpose_operands(program, limits, {})


CHANGED = {
    "a sum along rows": (
        HEAD + " { o(i) +=! A(i,j,k) * B(k,j) }",
        ["S0.across0: o.a0(j, k) = B(k, j)", "S0: o(i) +=! A(i, j, k) * o.a0(j, k)"],
    ),
    "a maximum, with a start": (
        HEAD + " { o(i) = 1.0 o(i) max= A(i,j,k) - B(k,j) }",
        [
            "S0: o(i) = 1.0",
            "S1.across0: o.a0(j, k) = B(k, j)",
            "S1: o(i) max= A(i, j, k) - o.a0(j, k)",
        ],
    ),
    "rows of several dimensions, which are then one": (
        "def f(float(N,J,M,K) A, float(K,M,J) B) -> (o) { o(i) +=! A(i,j,m,k) * B(k,m,j) }",
        ["S0.across0: o.a0(j, m, k) = B(k, m, j)", "S0: o(i) +=! A(i, j, m, k) * o.a0(j, m, k)"],
    ),
    "twice, in one of two ways": (
        HEAD + " { o(i) +=! A(i,j,k) * B(k,j) * B(k,j) * B(j,k) where j in 0:4, k in 0:4 }",
        [
            "S0.across0: o.a0(j, k) = B(k, j)",
            "S0.across1: o.a1(j, k) = B(k, j)",
            "S0: o(i) +=! A(i, j, k) * o.a0(j, k) * o.a1(j, k) * B(j, k)",
        ],
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_is_read_across_rows(name: str) -> None:
    text, expected = CHANGED[name]
    assert texts(transposed(shape(text, **SIZES))) == expected


STAYS = {
    "what is read along rows": HEAD + " { o(i) +=! A(i,j,k) * B(j,k) where j in 0:4, k in 0:4 }",
    "columns": HEAD + " { o(k) +=! A(i,j,k) * B(k,j) }",
    "a product of matrices": HEAD + " { o(i,m) +=! A(i,0,k) * B(k,m) }",
    "no sum": HEAD + " { o(i,j,k) = A(i,j,k) * B(k,j) }",
    "other subscripts": HEAD + " { o(i) +=! A(i,j,k) * B(k,2*j) where j in 0:2 }",
    "a part of it": HEAD + " { o(i) +=! A(i,j,k) * B(k,j) where k in 1:4 }",
    "more than there is": HEAD + " { o(i) +=! j < 4 ? A(i,j,k) * B(k,j) : 0 where j in 0:6 }",
}


@pytest.mark.parametrize("name", STAYS)
def test_stays(name: str) -> None:
    program = shape(STAYS[name], **SIZES)
    assert transposed(program) is program


def test_limits() -> None:
    """Of steps, of what is smaller, and of inputs that lie elsewhere than in rows."""
    program = shape(CHANGED["a sum along rows"][0], **SIZES)
    for limits, is_changed in (
        (Thresholds(across=180, smaller=9), True),
        (Thresholds(across=181, smaller=9), False),
        (Thresholds(across=180, smaller=10), False),
        (Thresholds(), False),
    ):
        assert (transposed(program, limits) is not program) == is_changed
    assert transpose_operands(program, ALWAYS, {"B": (1, 5)}) is program


def test_table_of_programs() -> None:
    changed_of_table(transposed)


@given(st.permutations("ijk"), st.permutations("jk"), st.sampled_from(("+", "max", "*")))
@settings(max_examples=30, deadline=None)
def test_same_results(left: list[str], right: list[str], op: str) -> None:
    sizes = {"i": 7, "j": 4, "k": 5}
    a, b = ([sizes[index] for index in indices] for indices in (left, right))
    types = [", ".join(map(str.upper, indices)) for indices in (left, right)]
    text = (
        f"def f(float({types[0]}) A, float({types[1]}) B) -> (o)"
        f" {{ o(i) {op}=! A({','.join(left)}) * B({','.join(right)}) }}"
    )
    rng = np.random.default_rng(len(text))
    arrays: dict[str, Any] = {
        "A": rng.normal(size=a).astype(np.float32),
        "B": rng.normal(size=b).astype(np.float32),
    }
    program, own = shaped_with(text, arrays)
    assert_same_results(program, transposed(program), own)


@pytest.mark.parametrize(("rows", "copies"), [(32, 1), (31, 0)])
def test_gpus_transpose_for_long_sums(rows: int, copies: int) -> None:
    sizes = {"N": rows, "J": 128, "K": 128}
    text = HEAD + " { o(i) +=! A(i,j,k) * B(k,j) }"
    trace = tc.explain(text, sizes, backend="cuda", device=tc.Gpu.named("sm_90")).trace
    found = [s.name for s in trace.lowering.shaped.program.statements]
    assert sum(name.endswith("across0") for name in found) == copies


def test_launches_of_their_own() -> None:
    """Though the copy and the sum have a loop in common: rows that are split, or that threads share
    in other ways than the elements of the copy, are no part of its tiles."""
    sizes = {"A": 22, "G": 483, "E": 7, "B": 104}
    text = "def f(float(A,G,E) x, float(A,B,E,G) y) -> (o) { o(b,a) +=! x(a,g,e) * y(a,b,e,g) }"
    code = tc.emit(text, sizes, backend="cuda", device=tc.Gpu.named("sm_90"))
    assert len(code.launches) == 2
