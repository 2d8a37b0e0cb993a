"""Long reductions to few elements in parts: what is split, what is not, and the results (R5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings

import tc
from tc.dtypes import FLOAT32
from tc.polyhedral.rewrite.splitting import split
from tc.polyhedral.rewrite.thresholds import Thresholds
from tc.semantics.program import ShapedProgram
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import interpret
from tests.fuzz.legal import Call
from tests.fuzz.strategies import calls
from tests.support.bounds import assert_within
from tests.support.interpreting import shaped_with
from tests.support.pipeline import checked, shaped
from tests.support.rewrites import (
    assert_consistent,
    assert_same_results,
    changed_of_table,
    run_kernel,
    runnable,
    texts,
)
from tests.support.sizes_of_call import shape

LONG = 200
"""Values of each of two variables, more than enough steps to be split."""


EAGER = Thresholds(few=1 << 40, shared=1 << 40, parts=1, left=1, long=1)
"""Whatever may be split is."""
CUT = Thresholds(few=1 << 40, shared=1 << 40, parts=1, left=1 << 40, long=1, strips=2, strip=2)
"""Whatever may be cut into strips is, with something left of odd numbers."""
EACH = pytest.mark.parametrize("limits", [EAGER, CUT], ids=["split", "cut"])


def split_eagerly(program: ShapedProgram, limits: Thresholds = EAGER) -> ShapedProgram:
    return split(program, limits)


# --- what is split ----------------------------------------------------------------------------

SPLIT = {
    "a product": (
        "def f(float(I,J) X, float(J,I) Y) -> (s) { s +=! X(i,j) * Y(j,i) }",
        ["S0.part: s.p0(i) +=! X(i, j) * Y(j, i)", "S0: s +=! s.p0(i)"],
    ),
    "a few elements": (
        "def f(float(I,J,N) X) -> (s) { s(n) +=! X(i,j,n) }",
        ["S0.part: s.p0(n, i) +=! X(i, j, n)", "S0: s(n) +=! s.p0(n, i)"],
    ),
    "the maximum": (
        "def f(float(I,J) X) -> (s) { s max=! X(i,j) }",
        ["S0.part: s.p0(i) max=! X(i, j)", "S0: s max=! s.p0(i)"],
    ),
    "from the caller's": (
        "def f(float(I,J) X) -> (s) { s += X(i,j) }",
        ["S0.part: s.p0(i) +=! X(i, j)", "S0: s += s.p0(i)"],
    ),
    "from an earlier statement's": (
        "def f(float(I,J) X, float b) -> (s) { s = b  s min= X(i,j) }",
        ["S0: s = b", "S1.part: s.p0(i) min=! X(i, j)", "S1: s min= s.p0(i)"],
    ),
    "the first variable has too few values": (
        "def f(float(N,I,J) X) -> (s) { s +=! X(n,i,j) }",
        ["S0.part: s.p0(i) +=! X(n, i, j)", "S0: s +=! s.p0(i)"],
    ),
    "the first variable does not start at 0": (
        "def f(float(I,J) X) -> (s) { s +=! X(i,j) where i in 1:I, j in 0:J }",
        ["S0.part: s.p0(j) +=! X(i, j)", "S0: s +=! s.p0(j)"],
    ),
    "the first variable has too many values": (
        "def f(float(K,L) X) -> (s) { s +=! X(k,l) }",
        ["S0.part: s.p0(l) +=! X(k, l)", "S0: s +=! s.p0(l)"],
    ),
    "one variable, in strips": (
        "def f(float(A) X, float(A) Y) -> (s) { s +=! X(i) * Y(i) }",
        [
            "S0.part: s.p0(i_part) +=! X(576 * i_part + i) * Y(576 * i_part + i)",
            "S0: s +=! s.p0(i_part)",
            "S0.rest: s += X(i) * Y(i)",
        ],
    ),
    "strips with nothing left": (
        "def f(float(B) X) -> (s) { s max= X(B - 1 - i) where i in 0:B }",
        ["S0.part: s.p0(i_part) max=! X(B - 1 - (576 * i_part + i))", "S0: s max= s.p0(i_part)"],
    ),
    "the longest of several in strips": (
        "def f(float(N,C) X) -> (s) { s +=! X(n,c) * n }",
        [
            "S0.part: s.p0(c_part) +=! X(n, 192 * c_part + c) * n",
            "S0: s +=! s.p0(c_part)",
            "S0.rest: s += X(n, c) * n",
        ],
    ),
    "more elements that read the same": (
        "def f(float(A,N) X, float(A,N) Y) -> (s) { s(i,j) +=! X(k,i) * Y(k,j) }",
        [
            "S0.part: s.p0(k_part, i, j) +=! X(576 * k_part + k, i) * Y(576 * k_part + k, j)",
            "S0: s(i, j) +=! s.p0(k_part, i, j)",
            "S0.rest: s(i, j) += X(k, i) * Y(k, j)",
        ],
    ),
    "two to one target": (
        "def f(float(I,J) X) -> (s) { s +=! X(i,j)  s += X(i,j) * X(i,j) }",
        [
            "S0.part: s.p0(i) +=! X(i, j)",
            "S1.part: s.p1(i) +=! X(i, j) * X(i, j)",
            "S0: s +=! s.p0(i)",
            "S1: s += s.p1(i)",
        ],
    ),
}


@pytest.mark.parametrize("name", SPLIT)
def test_split(name: str) -> None:
    text, expected = SPLIT[name]
    sizes = {"A": 40_001, "B": 64 * 576, "C": 13_333, "I": LONG, "J": LONG, "K": 10_000, "L": 20}
    found = split(shape(text, **sizes, N=3))
    assert texts(found) == expected
    assert_consistent(found)


NOT_SPLIT: dict[str, tuple[str, dict[str, Any]]] = {
    "many elements": ("def f(float(N,I,J) X) -> (s) { s(n) +=! X(n,i,j) }", {"N": 9}),
    "few steps": ("def f(float(I,J) X) -> (s) { s +=! X(i,j) }", {"I": 181, "J": 181}),
    "one variable, rounded when stored": (
        "def f(half(I) X) -> (s) { s +=! X(i) }",
        {"I": LONG * LONG},
    ),
    "one variable that does not start at 0": (
        "def f(float(I) X) -> (s) { s +=! X(i) where i in 1:I }",
        {"I": LONG * LONG},
    ),
    "few values of each": (
        "def f(float(I,J,K,L) X) -> (s) { s +=! X(i,j,k,l) }",
        {"I": 15, "J": 15, "K": 15, "L": 15},
    ),
    "no variable starts at 0": (
        "def f(float(I,J) X) -> (s) { s +=! X(i,j) where i in 1:I, j in 1:J }",
        {},
    ),
    "no reduction": ("def f(float(I,J) X) -> (o) { o(i,j) = X(i,j) }", {}),
    "reads with checks": (
        "def f(int(I,J) X, float(N) t) -> (s) { s +=! t(X(i,j)) }",
        {"N": 4},
    ),
    "divisions with checks": ("def f(int(I,J) X) -> (s) { s +=! 7 / X(i,j) }", {}),
    "no terms": ("def f(float(I,J,K) X) -> (s) { s +=! X(i,j,k) }", {"K": 0}),
    "no elements": ("def f(float(N,I,J) X) -> (s) { s(n) +=! X(n,i,j) }", {"N": 0}),
}


@pytest.mark.parametrize("name", NOT_SPLIT)
def test_not_split(name: str) -> None:
    text, given = NOT_SPLIT[name]
    sizes: dict[str, Any] = {"I": LONG, "J": LONG, **given}
    program = shape(text, **sizes)
    assert split(program) is program


def test_few_steps_are_just_too_few() -> None:
    """182 * 182 steps are enough, 181 * 181 are not; nor are 31 in each part."""
    text = NOT_SPLIT["few steps"][0]
    for i, j in ((182, 182), (10_000, 32)):
        program = shape(text, I=i, J=j)
        assert split(program).shapes["s.p0"] == (i,)


def test_what_belongs_to_a_temporary() -> None:
    text = "def f(half(I,J,N) X) -> (half(N) s) { s(n) +=! X(i,j,n) }"
    found = split(shape(text, I=LONG, J=LONG, N=3))
    assert found.program.temporaries == ("s.p0",)
    assert found.shapes["s.p0"] == (3, LONG)
    assert found.program.tensors["s.p0"].dtype == FLOAT32  # rounded once, at the end (Y8)


def test_parts_of_shared_reads_are_few() -> None:
    """Each holds all elements of the target: 64 values of `i` are parts, 65 are not."""
    text = "def f(float(I,J,N) X, float(I,J,N) Y) -> (s) { s(n,m) +=! X(i,j,n) * Y(i,j,m) }"
    for i, parts in ((64, 64), (65, 78)):
        found = split(shape(text, I=i, J=5000, N=3))
        assert found.shapes["s.p0"] == (parts, 3, 3)


@pytest.mark.parametrize(("n", "is_split"), [(128, True), (129, False)])
def test_how_many_elements_are_few(n: int, is_split: bool) -> None:
    """A sum is split while all parts of its elements fit the cache; a sum whose elements have reads
    of their own is not."""
    product = "def f(float(K,N) X, float(K,N) Y) -> (s) { s(i,j) +=! X(k,i) * Y(k,j) }"
    assert (len(split(shape(product, K=40_000, N=n)).statements) > 1) == is_split
    rows = "def f(float(K,N) X, float(K) y) -> (s) { s(i) +=! X(k,i) * X(k,i) }"
    assert len(split(shape(rows, K=40_000, N=n)).statements) == 1


def test_threads_share_the_parts() -> None:
    """Those of a product with fewer elements than registers hold, too: what adds the parts up has
    loops of its own, and does not bring its few iterations around them."""
    text = "def f(float(K,M) A, float(K,N) B) -> (C) { C(i,j) +=! A(k,i) * B(k,j) }"
    mapped = str(tc.explain(text, K=40_000, M=21, N=11))
    assert "band [k_part parallel *" in mapped
    assert "S0.part, S0.init, S0" not in mapped  # of what shares loops


def test_names_that_are_taken() -> None:
    text = """
      def s(float(I,J) X) -> (q) { p0(i) = X(i,0)  q(i) = p0(i) }
      def f(float(I,J) X) -> (q, s) { q = g(X)  s +=! X(i,j) }
      def g(float(I,J) X) -> (q) { q = s(X) }
    """
    program = shaped(checked(text, "f"), {"X": np.zeros((LONG, LONG), np.float32)})
    assert "s.p0" in program.program.tensors
    assert split(program).program.temporaries == (*program.program.temporaries, "s.p1")


# --- results ----------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("name", SPLIT)
def test_rule_R5_results(name: str, limits: Thresholds) -> None:
    rng = np.random.default_rng(7)
    text = SPLIT[name][0]
    program = shape(text, A=7, B=8, C=9, N=3, I=4, J=6, K=5, L=2)
    arrays = {
        n: rng.normal(size=program.shapes[n]).astype(np.float32) for n in program.program.inputs
    }
    found = split_eagerly(program, limits)
    assert found is not program
    assert_same_results(program, found, arrays)
    target = {"s": np.full(program.shapes["s"], 100, np.float32)}
    assert_same_results(program, found, arrays, target)


@EACH
def test_rows_that_are_not_written_stay(limits: Thresholds) -> None:
    """The target starts at 2, and so does the part of the temporary that is used."""
    text = (
        "def f(float(N) z, float(N,I,J) X) -> (o)"
        " { o(n) = z(n)  o(n) += X(n,i,j) * o(n-2) where n in 2:4 }"
    )
    rng = np.random.default_rng(2)
    program, arrays = shaped_with(
        text,
        {
            "z": rng.normal(size=5).astype(np.float32),
            "X": rng.normal(size=(5, 3, 4)).astype(np.float32),
        },
    )
    found = split_eagerly(program, limits)
    part = "i" if limits is EAGER else "j_part"
    assert texts(found)[1].startswith(f"S1.part: o.p0(n, {part}) +=! X(n, i, ")
    assert_same_results(program, found, arrays)


@pytest.mark.parametrize("op", ["+", "*", "min", "max"])
@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
@EACH
def test_integers_stay_the_same_bits(limits: Thresholds, op: str, dtype: type[Any]) -> None:
    """They wrap around, and overflow here."""
    info = np.iinfo(dtype)
    x = np.random.default_rng(4).integers(info.min, info.max, (5, 30), dtype, endpoint=True)
    name = np.dtype(dtype).name
    program, arrays = shaped_with(f"def f({name}(I,J) X) -> (s) {{ s {op}=! X(i,j) }}", {"X": x})
    found = split_eagerly(program, limits)
    assert found is not program
    expected = interpret(program, arrays, {})["s"]
    assert interpret(found, arrays, {})["s"] == expected
    assert run_kernel(program, arrays, {}, limits)["s"] == expected


@pytest.mark.parametrize("op", ["min", "max"])
def test_bools_and_nan(op: str) -> None:
    x = np.random.default_rng(4).normal(size=(5, 30)) > 0.5
    x[3] = op == "max"
    nan = np.where(x, np.nan, 1).astype(np.float32)
    for array, name in ((x, "bool"), (nan, "float")):
        text = f"def f({name}(I,J) X) -> (s) {{ s {op}=! X(i,j) }}"
        program, arrays = shaped_with(text, {"X": array})
        found = split_eagerly(program)
        expected, got = (interpret(p, arrays, {})["s"] for p in (program, found))
        assert got.tobytes() == expected.tobytes()
        assert run_kernel(program, arrays, {}, EAGER)["s"].tobytes() == expected.tobytes()


def test_the_parts_do_not_depend_on_threads() -> None:
    """The same bits for any number of them: the program alone says what is summed with what."""
    program = shape(SPLIT["a product"][0], I=LONG, J=LONG)
    assert texts(split(program)) == texts(split(program))
    assert split(program).shapes["s.p0"] == (LONG,)


def test_table_of_programs() -> None:
    assert "conv2d" in changed_of_table(split_eagerly)


@EACH
@settings(suppress_health_check=list(HealthCheck))
@given(case=calls())
def test_rule_R5_generated_programs(limits: Thresholds, case: Call) -> None:
    program, arrays = runnable(case)
    found = split_eagerly(program, limits)
    event("left as written" if found is program else "split")
    if found is program:
        return
    assert_consistent(found)
    bounds, overflows = (error_bound(p, arrays, {}) for p in (program, found))
    got = interpret(found, arrays, {})
    for name, want in interpret(program, arrays, {}).items():
        bound = np.where(np.isinf(overflows[name]), np.inf, bounds[name])
        assert_within(got[name], want, bound)
