"""Terms are skipped where their guard fails, except where skipping would change the sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
from tc.dtypes import FLOAT32
from tc.kernel import ir
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import binary, constant, integer, select
from tc.kernel.ir import Compare, Expr, For, Kernel, Load, Select, Store
from tc.kernel.passes.loop_splitting import MIN_GUARDED_ITERATIONS as MIN_ITERATIONS
from tc.kernel.passes.loop_splitting import skip_guarded_terms, split_at_edges
from tc.kernel.rebuild import substitute
from tests.kernel.marked import all_statements, assert_same, finish
from tests.support.build import add, dense, loop, times, var

ROWS, DEPTH, LANES = 3, 14, 2
HEIGHT = 4 * ROWS
ZERO = constant(0, FLOAT32)


def sums(
    guard: Expr,
    *,
    depth: int = DEPTH,
    op: str = "+",
    otherwise: Expr = ZERO,
    parallel: bool = False,
    initial: bool = True,
) -> Kernel:
    """Each element of `s[i0 * 3 + r, l]` with the terms of `a[.., k]` whose guard holds."""
    row = add(times(var("i0"), ROWS), var("r"))
    cell = (row, var("l"))
    term = select(guard, Load("a", (row, var("k")), FLOAT32), otherwise)
    store = Store("s", cell, binary(op, Load("s", cell, FLOAT32), term))
    tile = loop("r", ROWS, loop("l", LANES, store, mark="vector"), mark="unroll")
    nest = loop("i0", HEIGHT // ROWS, loop("k", depth, tile), parallel=parallel)
    buffers = (
        dense("a", FLOAT32, (HEIGHT, depth), "input"),
        dense("s", FLOAT32, (HEIGHT, LANES), "output"),
    )
    held = frozenset({"s"} if initial else ())
    return Kernel("sums", buffers, ((nest,),), initial=held)


def held(guard: Expr, *, otherwise: Expr = ZERO, begin: int = 0) -> Kernel:
    """As `sums`, but summed up in an array of each row's own, from 0 on."""
    cell = (var("r"), var("l"))
    total = Load("t", cell, FLOAT32)
    start = nested(Store("t", cell, ZERO))
    row = add(times(var("i0"), ROWS), var("r"))
    term = select(guard, Load("a", (row, var("k")), FLOAT32), otherwise)
    sum_ = nested(Store("t", cell, binary("+", total, term)))
    done = nested(Store("s", (row, var("l")), total))
    body = (start, For("k", integer(begin), integer(DEPTH), (sum_,)), done)
    nest = For("i0", integer(0), integer(HEIGHT // ROWS), body)
    buffers = (
        dense("a", FLOAT32, (HEIGHT, DEPTH), "input"),
        dense("s", FLOAT32, (HEIGHT, LANES), "output"),
        dense("t", FLOAT32, (ROWS, LANES), "register"),
    )
    return Kernel("held", buffers, ((nest,),))


def nested(store: Store) -> For:
    return loop("r", ROWS, loop("l", LANES, store, mark="vector"), mark="unroll")


def parts(kernel: Kernel) -> list[For]:
    return [s for s in all_statements(kernel) if isinstance(s, For) and s.var == "k"]


def conditions(loop: For) -> int:
    return sum(isinstance(e, Select) for s in ir.statements(loop.body) for e in ir.expressions(s))


ROW = add(times(var("i0"), ROWS), var("r"))


def numbers() -> st.SearchStrategy[int]:
    return st.integers(-3, 3)


@st.composite
def sides(draw: Any) -> Expr:
    """Sums of the variables of `sums`, and the lesser or the greater of two such."""
    names = st.sampled_from(("k", "i0", "r", "l"))
    chosen = draw(st.lists(st.tuples(names, numbers()), min_size=1, max_size=3))
    total = add(integer(draw(st.integers(-20, 20))), *(times(var(n), f) for n, f in chosen))
    if draw(st.integers(0, 3)) == 0:
        total = binary(draw(st.sampled_from(("min", "max"))), total, draw(sides()))
    if draw(st.integers(0, 3)) == 0:
        total = binary("/", total, integer(draw(st.integers(1, 4))))
    return total


@settings(max_examples=20)
@given(
    st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), sides(), sides(), st.booleans(),
    st.sampled_from((("+", 0.0), ("+", -0.0), ("*", 1.0), ("min", 1.0), ("max", 3.0), ("+", 1.0))),
)  # fmt: skip
def test_whatever_the_guard_sums_stay_the_same(
    op: str, left: Expr, right: Expr, parallel: bool, combined: tuple[str, float]
) -> None:
    kernel = sums(
        Compare(op, left, right),
        op=combined[0],
        otherwise=constant(combined[1], FLOAT32),
        parallel=parallel,
    )
    assert_same(kernel, skip_guarded_terms)
    assert_same(kernel, lambda k: finish(k, lanes_bits=64))


@settings(max_examples=40)
@given(
    st.sampled_from(("<", "<=", ">", ">=", "==", "!=")), sides(), sides(), st.integers(0, 5),
    st.sampled_from((0.0, -0.0, 1.0)),
)  # fmt: skip
def test_sums_of_a_row_stay_the_same(
    op: str, left: Expr, right: Expr, begin: int, otherwise: float
) -> None:
    kernel = held(Compare(op, left, right), otherwise=constant(otherwise, FLOAT32), begin=begin)
    assert_same(kernel, skip_guarded_terms)
    assert_same(kernel, split_at_edges)
    assert_same(kernel, lambda k: finish(k, lanes_bits=64))


def test_only_iterations_that_add_something_are_run() -> None:
    """The guard asks for nothing else: the loop has bounds of that, however short it is."""
    guard = Compare(">=", add(var("k"), times(var("i0"), -1)), integer(2))
    (only,) = parts(assert_same(held(guard), skip_guarded_terms))
    assert conditions(only) == 0
    assert str(only.begin) != str(integer(0))


def test_the_iteration_that_is_selected_is_the_loop() -> None:
    kernel = assert_same(
        held(Compare("==", var("k"), add(var("i0"), integer(7)))), skip_guarded_terms
    )
    assert parts(kernel) == []


def test_tests_are_made_at_the_edges() -> None:
    guard = Compare(
        ">=", add(times(var("i0"), ROWS), add(var("r"), times(var("k"), -1))), integer(-11)
    )
    kernel = assert_same(held(guard), split_at_edges)
    assert [conditions(each) for each in parts(kernel)] == [1, 0]


PLACE = add(times(var("k"), 4), var("l"))


def row_of_vectors(test: Expr, vectors: int = 9) -> Kernel:
    """Elements of a row in vectors of four: those of one array, or of another as a test says."""
    both = (Load(name, (PLACE,), FLOAT32) for name in "ab")
    store = Store("o", (PLACE,), select(test, *both))
    nest = loop("k", vectors, loop("l", 4, store, mark="vector"))
    roles = (("a", "input"), ("b", "input"), ("o", "output"))
    buffers = tuple(dense(name, FLOAT32, (4 * vectors,), role) for name, role in roles)
    return Kernel("row", buffers, ((nest,),))


@pytest.mark.parametrize(
    ("op", "end", "tests"),
    [
        (">", 2, [1, 0]),
        (">=", 4, [1, 0]),
        (">", 12, [1, 0]),
        ("<", 21, [0, 1]),
        (">", 21, [1]),  # fewer than half of the vectors are without a test
        ("<", 35, [1]),  # the mask of a last vector alone
    ],
)
def test_vectors_at_the_edges_alone_have_masks(op: str, end: int, tests: list[int]) -> None:
    kernel = assert_same(row_of_vectors(Compare(op, PLACE, integer(end))), split_at_edges)
    assert [conditions(each) for each in parts(kernel)] == tests


@settings(max_examples=40)
@given(
    st.sampled_from(("<", "<=", ">", ">=", "==", "!=")),
    st.integers(-40, 40),
    st.sampled_from((1, 2, -1)),
    st.integers(1, 9),
)
def test_rows_of_vectors_stay_the_same(op: str, end: int, factor: int, vectors: int) -> None:
    kernel = row_of_vectors(Compare(op, times(PLACE, factor), integer(end)), vectors)
    assert_same(kernel, split_at_edges)
    assert_same(kernel, lambda k: finish(k, lanes_bits=128))


def test_prefixes_by_doubling_have_masks_at_the_start_alone() -> None:
    """From end to end: sums of 2, 4 and 8 terms before each, one array after the other."""
    text = """def f(float(M,N) x) -> (s) {
        two(m,i) = i > 0 ? x(m,i) + x(m,i - 1) : x(m,i) where i in 0:N
        four(m,i) = i > 1 ? two(m,i) + two(m,i - 2) : two(m,i) where i in 0:N
        s(m,i) = i > 3 ? four(m,i) + four(m,i - 4) : four(m,i) where i in 0:N
    }"""
    device = tc.Device(vector_bits=512, vector_registers=32, threads=1)
    lines = tc.explain(text, {"M": 7, "N": 4000}, device=device).stages["kernel"].splitlines()
    loops = [n for n, line in enumerate(lines) if line.strip().startswith("for ")]
    whole = [n for n in loops if lines[n].endswith(" in 1:250")]
    assert len(whole) == len(loops) // 2
    assert not any(" ? " in lines[n + 1] for n in whole)
    numbers = np.arange(111, dtype=np.float32).reshape(3, 37)
    expected = [[row[max(0, i - 7) : i + 1].sum() for i in range(37)] for row in numbers]
    assert (tc.compile(text)(numbers) == expected).all()


@pytest.mark.parametrize(
    ("guard", "first", "last"),
    [
        (Compare("<=", var("k"), ROW), "certain", "partial"),
        (Compare("<", ROW, var("k")), "partial", "certain"),
        (Compare("<=", add(var("k"), var("l")), add(ROW, integer(2))), "certain", "partial"),
        (Compare(">=", add(ROW, times(var("k"), -2)), var("l")), "certain", "partial"),
        (Compare("<", ROW, add(times(var("l"), 3), integer(9))), "certain", "partial"),
    ],
)
def test_loops_have_a_part_without_the_guard(guard: Expr, first: str, last: str) -> None:
    found = parts(skip_guarded_terms(sums(guard)))
    assert [("partial" if conditions(each) else "certain") for each in found] == [first, last]


def test_two_guards_leave_a_part_without_any() -> None:
    low = Compare("<=", var("k"), ROW)
    both = ir.Logical("&&", (low, Compare("<=", ROW, add(var("k"), integer(9)))))
    found = parts(assert_same(sums(both), skip_guarded_terms))
    assert sorted(conditions(each) for each in found) == [0, 1, 1]


@pytest.mark.parametrize(
    "kernel",
    [
        sums(Compare("<=", var("k"), ROW), depth=MIN_ITERATIONS - 1),
        sums(Compare("<=", var("k"), ROW), otherwise=constant(1, FLOAT32)),
        sums(Compare("<=", var("k"), ROW), op="*"),
        sums(Compare("<", var("k"), integer(9))),
        sums(Compare("==", var("k"), ROW)),
        sums(Compare("<=", binary("*", var("k"), var("k")), ROW)),
        sums(Compare("<=", times(var("k"), 1 << 62), ROW)),
    ],
    ids=("few", "another term", "a product with 0", "an end", "equal", "a square", "wraps around"),
)
def test_other_loops_stay(kernel: Kernel) -> None:
    assert skip_guarded_terms(kernel) is kernel


def test_terms_that_are_skipped_are_not_read() -> None:
    """Of 12 rows, each reads as far as the last of its three, and the one 0 that is added."""
    kernel = skip_guarded_terms(sums(Compare("<=", var("k"), ROW)))
    loops = parts(kernel)
    steps = 0
    for i in range(HEIGHT // ROWS):
        values = {"i0": integer(i)}
        for each in loops:
            begin, end = (substitute(e, values, {}) for e in (each.begin, each.end))
            assert isinstance(begin, ir.Const)
            assert isinstance(end, ir.Const)
            steps += max(0, int(end.value) - int(begin.value))
    assert steps == sum(3 * i + 3 + 1 for i in range(HEIGHT // ROWS))


@pytest.mark.parametrize("row", [0, 1, 11])
def test_a_sum_of_minus_zero_and_skipped_zeros_is_zero(row: int) -> None:
    guard = Compare("<", add(var("k"), ROW), integer(-1))
    other = Compare("<", add(var("k"), ROW), times(var("l"), -1))
    for kernel in (sums(guard), sums(other)):
        arrays = {
            "a": np.full((HEIGHT, DEPTH), np.nan, np.float32),
            "s": np.full((HEIGHT, LANES), -0.0, np.float32),
        }
        evaluate(finish(kernel, lanes_bits=64), arrays)
        np.testing.assert_array_equal(np.signbit(arrays["s"][row]), False)


def test_threads_share_long_and_short_iterations() -> None:
    kernel = skip_guarded_terms(sums(Compare("<=", var("k"), ROW), parallel=True))
    shared, own, *_ = all_statements(kernel)
    assert isinstance(shared, For)
    assert shared.parallel
    assert isinstance(own, ir.Let)
    order = [substitute(own.value, {shared.var: integer(n)}, {}) for n in range(4)]
    assert order == [integer(n) for n in (0, 3, 1, 2)]


@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("size", [33])
def test_triangles_of_products(backend: str, size: int) -> None:
    """What the guard leaves out is NaN, and is not read."""
    random = np.random.default_rng(size)
    a, b = (random.integers(-4, 5, (size, size)).astype(np.float32) for _ in range(2))
    lower, upper = np.tril(a), np.triu(a, 1)
    text = "def f(float(N,N) A, float(N,N) B) -> (C) "
    holes = np.where(np.tri(size, dtype=bool), a, np.float32(np.nan))
    made = tc.define(text + "{ C(i,j) +=! k <= i ? A(i,k) * B(k,j) : 0 }", backend=backend)
    np.testing.assert_array_equal(made.f(holes, b), lower @ b)
    holes = np.where(np.tri(size, dtype=bool), np.float32(np.nan), a)
    made = tc.define(text + "{ C(i,j) +=! i < k ? A(i,k) * B(k,j) : 0 }", backend=backend)
    np.testing.assert_array_equal(made.f(holes, b), upper @ b)
    made = tc.define(text + "{ C(i,j) +=! j <= i ? A(i,k) * B(j,k) : 0 }", backend=backend)
    np.testing.assert_array_equal(made.f(a, b), np.tril(a @ b.T))
