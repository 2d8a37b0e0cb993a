"""Which loops ask for the rows of the others, and for which: each condition alone decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT32, INT64
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Compare,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Ramp,
    Set,
    Stmt,
    Store,
    Var,
)
from tc.kernel.passes.prefetch.busy_nests import LONG, PART, prefetch_sweeps
from tc.kernel.passes.prefetch.busy_nests import SWEEP_WORK as WORK
from tests.kernel.hinted import hints_of
from tests.support.kernels import dense, integer, loop
from tests.support.vectors import plus, ramp, times

N, M = Var("n", INT64), Var("m", INT64)
VECTOR = FLOAT32.vector(16)
ROWS, COUNT = 40, 9
COLUMNS = 16 * COUNT
CACHE = 2 * PART * COLUMNS * 4
"""Just enough for a row of x and one of o."""


def place(variable: str, row: Expr = N, vector: int = 0, vectors: int = 1) -> tuple[Expr, ...]:
    return row, ramp(plus(times(Var(variable, INT64), 16 * vectors), 16 * vector), 16)


def powers(term: Expr, work: int) -> Expr:
    """As many operations on vectors."""
    for _ in range(work):
        term = Binary("*", term, Const(0.5, VECTOR), VECTOR)
    return term


def reads(variable: str = "i", row: Expr = N, count: int = COUNT) -> For:
    return loop(variable, count, Set("s", Load("x", place(variable, row), VECTOR)))


def computes(
    work: int = 2 * WORK, count: int = COUNT, vectors: int = 1, variable: str = "j"
) -> For:
    """Goes over private memory alone."""
    where = [place(variable, N, vector, vectors)[1] for vector in range(vectors)]
    lanes = [Load("t", (at,), VECTOR) for at in where]
    stores = (Store("t", (at,), powers(load, work)) for at, load in zip(where, lanes, strict=True))
    return loop(variable, count, *stores)


def writes(row: Expr = N, *, non_temporal: bool = False) -> For:
    store = Store("o", place("k", row), Var("s", VECTOR))
    return loop("k", COUNT, replace(store, non_temporal=non_temporal))


def kernel_of(*body: Stmt, columns: int = COLUMNS) -> Kernel:
    buffers = (
        dense("x", FLOAT32, (ROWS, columns), "input"),
        dense("table", INT64, (ROWS,), "input"),
        dense("o", FLOAT32, (ROWS, columns), "output"),
        dense("t", FLOAT32, (columns,), "scratch"),
    )
    inside = (Let("s", Const(0.0, VECTOR)), *body)
    return Kernel("k", buffers, ((loop("n", ROWS, *inside, parallel=True),),))


def hints(kernel: Kernel, cache: int = CACHE) -> list[str]:
    return hints_of(kernel, lambda each: prefetch_sweeps(each, cache))


INPUT, OUTPUT = "j: x[n + 1, j * 16]", "j: o[n, j * 16]"


def test_rows_before_and_after_the_loop_that_computes() -> None:
    assert hints(kernel_of(reads(), computes(), writes())) == [INPUT, OUTPUT]


def test_a_row_that_is_read_behind_the_loop_is_one_of_this_iteration() -> None:
    assert hints(kernel_of(computes(), reads())) == ["j: x[n, j * 16]"]


def test_results_stay() -> None:
    row = Store("t", (place("i")[1],), Load("x", place("i"), VECTOR))
    out = Store("o", place("k"), Load("t", (place("k")[1],), VECTOR))
    kernel = kernel_of(loop("i", COUNT, row), computes(), loop("k", COUNT, out))
    assert hints(kernel) == [INPUT, OUTPUT]
    x = np.random.default_rng(0).random((ROWS, COLUMNS), np.float32)
    outputs = []
    for each in kernel, prefetch_sweeps(kernel, CACHE):
        o = np.zeros((ROWS, COLUMNS), np.float32)
        assert evaluate(each, {"x": x, "table": np.zeros(ROWS, np.int64), "o": o}) is None
        outputs.append(o)
    assert outputs[0].any()
    np.testing.assert_array_equal(outputs[0], outputs[1])


def test_only_buffers_larger_than_the_cache() -> None:
    size = ROWS * COLUMNS * 4
    kernel = kernel_of(reads(), computes(), writes())
    assert hints(kernel, size - 1) == [INPUT, OUTPUT]
    assert hints(kernel, size) == []
    assert hints(kernel, 0) == []


def test_rows_that_fit_into_the_cache() -> None:
    assert hints(kernel_of(reads(), computes(), writes()), CACHE - 1) == []


def test_only_where_enough_is_computed() -> None:
    assert hints(kernel_of(reads(), computes(2 * WORK - 1), writes())) == []
    assert hints(kernel_of(reads(), computes(WORK))) == [INPUT]


@pytest.mark.parametrize("size", [LONG, LONG - 64])
def test_long_rows_need_half_the_work(size: int) -> None:
    count = size // 64
    kernel = kernel_of(reads(count=count), computes(WORK // 2, count), columns=size // 4)
    assert hints(kernel, PART * LONG) == ([INPUT] if size == LONG else [])


def test_stores_past_the_caches_need_no_line() -> None:
    assert hints(kernel_of(reads(), computes(), writes(non_temporal=True))) == [INPUT]


def test_the_loop_that_computes_most_and_of_equals_the_last() -> None:
    other = computes(variable="l")
    assert hints(kernel_of(reads(), computes(), other)) == [INPUT.replace("j", "l")]
    assert hints(kernel_of(reads(), computes(2 * WORK + 1), other)) == [INPUT]


def test_a_loop_that_waits_itself_is_given_no_hints() -> None:
    busy = loop("j", COUNT, Store("o", place("j"), powers(Load("x", place("j"), VECTOR), 99)))
    assert hints(kernel_of(reads(), busy)) == []


def test_rows_that_are_alike_in_all_iterations() -> None:
    assert hints(kernel_of(reads(row=integer(3)), computes(), writes())) == [OUTPUT]


def test_the_loop_that_computes_may_take_other_steps() -> None:
    """Each of its iterations then asks for several lines, none twice."""
    found = hints(kernel_of(reads(), computes(2 * WORK, COUNT // 3, 3)))
    assert found == [f"j: x[n + 1, j * 48{shift}]" for shift in ("", " + 16", " + 32")]
    assert hints(kernel_of(reads(), computes(99, 5))) == [  # ten lines for nine
        "j: x[n + 1, j * 32]",
        "j: x[n + 1, j * 32 + 16]",
    ]
    assert hints(kernel_of(reads(), computes(99, 2 * COUNT))) == []


@pytest.mark.parametrize(
    "row",
    [Load("table", (N,), INT64), Var("local", INT64)],
    ids=["memory", "local"],
)
def test_rows_whose_place_is_not_known_then(row: Expr) -> None:
    local = Let("local", Load("table", (N,), INT64))
    assert hints(kernel_of(local, reads(row=row), computes())) == []


def test_locals_are_replaced_by_their_values() -> None:
    half = Let("half", Binary("/", N, integer(2), INT64))
    found = hints(kernel_of(half, reads(row=Var("half", INT64)), computes()))
    assert found == ["j: x[(n + 1) / 2, j * 16]"]


def test_rows_start_with_their_first_element_in_memory() -> None:
    back = Ramp(plus(times(Var("i", INT64), 16), 15), -1, INT64.vector(16))
    read = loop("i", COUNT, Set("s", Load("x", (N, back), VECTOR)))
    assert hints(kernel_of(read, computes())) == [INPUT]


def test_what_is_touched_in_steps_with_gaps_counts_as_a_row() -> None:
    gaps = loop("i", COUNT // 2, Set("s", Load("x", place("i", vectors=2), VECTOR)))
    found = hints(kernel_of(gaps, computes(count=COUNT // 2, work=99)))
    assert found == ["j: x[n + 1, j * 32]", "j: x[n + 1, j * 32 + 16]"]


def nested(kind: Callable[[str], For], outer: str, count: int) -> For:
    return loop(outer, count, kind(outer))


@pytest.mark.parametrize(("count", "step"), [(4, 16), (5, 13), (6, None)])
def test_nests_share_rows_of_all_their_loops(count: int, step: int | None) -> None:
    def block(variable: str) -> For:
        return reads(row=plus(times(N, 4), Var(variable, INT64)))

    first = nested(block, "a", 4)
    second = nested(lambda _: computes(), "b", count)
    made = kernel_of(first, second)
    (whole,) = made.regions[0]
    assert isinstance(whole, For)
    small = replace(whole, end=integer(ROWS // 4))
    found = hints(replace(made, regions=((small,),)), 2 * CACHE)
    assert found == ([f"j: x[(n + 1) * 4, (b * 9 + j) * {step}]"] if step else [])


def test_conditions_end_a_sweep() -> None:
    test = Compare("<", N, integer(5), BOOL)
    read = reads()
    maybe = replace(read, body=(If(test, read.body),))
    assert hints(kernel_of(maybe, computes())) == []
    assert hints(kernel_of(If(test, (reads(), computes())))) == []
