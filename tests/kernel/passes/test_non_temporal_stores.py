"""Which stores are streamed: each condition alone decides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT64, UINT8, DType
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Buffer,
    Cast,
    Const,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Ramp,
    Stmt,
    Store,
    Var,
    statements,
)
from tc.kernel.passes.stores import store_whole_lines
from tc.kernel.printer import to_text
from tc.kernel.verify import verify
from tc.kernel.walk import has_non_temporal_stores
from tests.support.build import I, dense, integer, loop
from tests.support.vectors import plus, ramp, times

J = Var("j", INT64)
ROWS, COLUMNS = 6, 96


def copy(
    place: Sequence[Expr], lanes: int = 16, dtype: DType = FLOAT32, *, source: str = "a"
) -> Store:
    """A store of `lanes` elements of the row of `source` at the same place."""
    *rows, last = place
    indices = (*rows, ramp(last, lanes))
    return Store("o", indices, Load(source, indices, dtype.vector(lanes)))


def kernel_of(
    *region: Stmt, dtype: DType = FLOAT32, columns: int = COLUMNS, more: tuple[Buffer, ...] = ()
) -> Kernel:
    buffers = (
        dense("a", dtype, (ROWS, columns), "input"),
        dense("o", dtype, (ROWS, columns), "output"),
        *more,
    )
    return Kernel("k", buffers, (region,))


def rows(*body: Stmt) -> For:
    return loop("i", ROWS, *body)


def streamed(kernel: Kernel, cache: int = 1) -> list[bool]:
    """Of each store; what the kernel computes stays."""
    verify(kernel)
    found = store_whole_lines(kernel, cache)
    verify(found)
    stores = [s for r in found.regions for s in statements(r) if isinstance(s, Store)]
    assert has_non_temporal_stores(found) is any(s.non_temporal for s in stores)
    assert to_text(found).replace("stream ", "") == to_text(kernel)
    return [s.non_temporal for s in stores]


WHOLE = rows(loop("j", COLUMNS // 16, copy((I, times(J, 16)))))


def test_a_copy() -> None:
    assert streamed(kernel_of(WHOLE)) == [True]
    assert not has_non_temporal_stores(kernel_of(WHOLE))


def test_results_stay() -> None:
    kernel = kernel_of(WHOLE)
    a = np.random.default_rng(0).random((ROWS, COLUMNS), np.float32)
    found = {"a": a, "o": np.zeros_like(a)}
    assert evaluate(store_whole_lines(kernel, 1), found) is None
    np.testing.assert_array_equal(found["o"], a)


def test_only_beyond_the_caches() -> None:
    touched = 2 * ROWS * COLUMNS * 4
    kernel = kernel_of(WHOLE, more=(dense("t", FLOAT32, (1 << 20,), "temporary"),))  # not used
    assert streamed(kernel, touched * 8 // 7 - 1) == [True]
    assert streamed(kernel, touched * 8 // 7 + 1) == [False]
    assert streamed(kernel, 0) == [False]  # nothing is known of the caches


def test_repeated_elements_take_no_memory() -> None:
    kernel = kernel_of(WHOLE)
    repeated = replace(kernel.buffer("a"), strides=(0, 1))
    kernel = replace(kernel, buffers=(repeated, kernel.buffer("o")))
    touched = (ROWS + 1) * COLUMNS * 4
    assert streamed(kernel, touched * 8 // 7 - 1) == [True]
    assert streamed(kernel, touched * 8 // 7 + 1) == [False]


@pytest.mark.parametrize(("extent", "expected"), [(6 * ROWS * COLUMNS, True), (7 * 576, False)])
def test_only_outputs_that_are_a_large_part(extent: int, expected: bool) -> None:
    more = (dense("t", FLOAT32, (extent,), "temporary"),)
    writing = loop("x", extent, Store("t", (Var("x", INT64),), Const(0.0, FLOAT32)))
    assert streamed(kernel_of(WHOLE, writing, more=more)) == [expected, False]


def test_an_output_that_is_read_is_not_streamed() -> None:
    reading = Store("p", (I,), Load("o", (I, integer(0)), FLOAT32))
    kernel = kernel_of(WHOLE, more=(dense("p", FLOAT32, (ROWS,), "output"),))
    first, then = WHOLE, rows(reading)
    for regions in ((first,), (then,)), ((then,), (first,)), ((first, then),):
        assert streamed(replace(kernel, regions=regions)) == [False, False]


def test_an_accumulator_is_not_streamed() -> None:
    place = (I, ramp(times(J, 16), 16))
    f16 = FLOAT32.vector(16)
    total = Binary("+", Load("o", place, f16), Load("a", place, f16), f16)
    update = rows(loop("j", COLUMNS // 16, Store("o", place, total)))
    kernel = kernel_of(update)
    assert streamed(replace(kernel, initial=frozenset("o"))) == [False]


def test_an_output_of_two_regions_is_not_streamed() -> None:
    kernel = kernel_of(WHOLE)
    assert streamed(replace(kernel, regions=((WHOLE,), (WHOLE,)))) == [False, False]


@pytest.mark.parametrize(("count", "expected"), [(2, True), (3, False)])
def test_other_regions_may_write_a_few_elements(count: int, expected: bool) -> None:
    """No more than a sixteenth: 36 of 576."""
    edges = loop("e", count, copy((integer(5), times(Var("e", INT64), 16))))
    regions = ((WHOLE,), (edges,))
    assert streamed(replace(kernel_of(), regions=regions)) == [expected, False]


def test_other_regions_of_unknown_size_write_much() -> None:
    start = Load("p", (), INT64)
    edges = For("e", start, integer(2), (copy((integer(5), times(Var("e", INT64), 16))),))
    buffers = (dense("p", INT64, (), "input"), *kernel_of().buffers)
    kernel = Kernel("k", buffers, ((WHOLE,), (edges,)))
    assert streamed(kernel) == [False, False]


def test_temporaries_are_not_streamed() -> None:
    temporary = replace(kernel_of().buffer("o"), role="temporary")
    kernel = kernel_of(WHOLE)
    assert streamed(replace(kernel, buffers=(kernel.buffer("a"), temporary))) == [False]


def test_only_elements_that_are_stored_once() -> None:
    vector = copy((I, times(J, 16)))
    again = loop("k", 3, rows(loop("j", COLUMNS // 16, vector)))
    assert streamed(kernel_of(again)) == [False]
    twice = rows(loop("j", COLUMNS // 16, vector, vector))
    assert streamed(kernel_of(twice)) == [False, False]
    overlapping = rows(loop("j", 3, copy((I, times(J, 32))), copy((I, plus(times(J, 32), 8)))))
    assert streamed(kernel_of(overlapping)) == [False, False]


def test_loops_may_be_in_locals_that_index() -> None:
    row, column = Binary("/", J, integer(6), INT64), Binary("%", J, integer(6), INT64)
    place = Var("r", INT64), times(Var("c", INT64), 16)
    body = (Let("r", row), Let("c", column), copy(place))
    assert streamed(kernel_of(loop("j", 36, *body))) == [True]
    assert streamed(kernel_of(loop("k", 2, loop("j", 36, *body)))) == [False]


def test_stores_below_a_condition() -> None:
    inside = If(Const(True, BOOL), (copy((I, times(J, 16))),), (copy((I, times(J, 16))),))
    assert streamed(kernel_of(rows(loop("j", COLUMNS // 16, inside)))) == [True, True]


def test_masked_scattered_and_scalar_stores_are_not_streamed() -> None:
    whole = copy((I, times(J, 16)))
    masked = replace(whole, mask=Const(True, BOOL.vector(16)))
    across = Store("o", (ramp(integer(0), 4), J), Const(1.0, FLOAT32.vector(4)))
    apart = Store("o", (I, ramp(times(J, 32), 16, 2)), whole.value)
    one = Store("o", (I, J), Const(1.0, FLOAT32))
    for stmt in masked, across, apart, one:
        assert streamed(kernel_of(rows(loop("j", 3, stmt)))) == [False]


@pytest.mark.parametrize(
    ("dtype", "lanes", "expected"),
    [
        (FLOAT64, 8, True),
        (FLOAT64, 4, True),
        (FLOAT32, 16, True),
        (FLOAT32, 8, True),
        (FLOAT32, 4, False),
        (FLOAT32, 12, False),
        (UINT8, 32, True),
        (UINT8, 16, False),
        (FLOAT16, 16, True),
    ],
    ids=str,
)
def test_vectors_that_fill_lines_soon(dtype: DType, lanes: int, expected: bool) -> None:
    columns = lanes * 16
    body = rows(loop("j", 16, copy((I, times(J, lanes)), lanes, dtype)))
    kernel = kernel_of(body, dtype=dtype, columns=columns)
    if dtype == FLOAT16:  # which a store takes from a cast only
        half = Cast(Const(1.0, FLOAT32.vector(lanes)), FLOAT16.vector(lanes))
        body = rows(loop("j", 16, Store("o", (I, ramp(times(J, lanes), lanes)), half)))
        kernel = replace(kernel, regions=((body,),))
    assert streamed(kernel) == [expected]


def half_lines(*starts: Expr) -> list[bool]:
    return streamed(kernel_of(rows(loop("j", 3, *(copy((I, start), 8) for start in starts)))))


def test_half_lines_need_their_neighbours() -> None:
    tile = times(J, 32)
    assert half_lines(tile, plus(tile, 8)) == [True, True]
    assert half_lines(plus(tile, 8), tile) == [True, True]
    assert half_lines(plus(tile, 8), plus(tile, 16)) == [False, False]  # of two lines
    assert half_lines(tile) == [False]
    assert half_lines(tile, plus(tile, 8), plus(tile, 16)) == [False] * 3
    assert half_lines(tile, plus(tile, 8), plus(tile, 24)) == [True, True, False]


def test_half_lines_one_after_the_other() -> None:
    assert half_lines(times(J, 8)) == [True]
    assert half_lines(plus(times(J, 8), 16)) == [True]
    assert half_lines(plus(times(J, 8), 8)) == [False]
    step = rows(loop("j", 12, Let("x", times(J, 8)), copy((I, Var("x", INT64)), 8)))
    assert streamed(kernel_of(step)) == [False]  # its form does not show the step


@pytest.mark.parametrize(("columns", "expected"), [(96, True), (104, False), (97, False)])
def test_rows_must_start_with_lines(columns: int, expected: bool) -> None:
    assert streamed(kernel_of(WHOLE, columns=columns)) == [expected]


def test_transposed_tiles() -> None:
    """Half lines of eight rows, whose other halves come with the next tile."""
    tile = times(J, 8)
    stores = [copy((plus(times(I, 2), row), tile), 8) for row in range(2)]
    kernel = kernel_of(loop("j", COLUMNS // 8, loop("i", ROWS // 2, *stores)))
    assert streamed(kernel) == [False, False]
    lines = [copy((plus(times(I, 2), row), times(J, 16))) for row in range(2)]
    kernel = kernel_of(loop("j", COLUMNS // 16, loop("i", ROWS // 2, *lines)))
    assert streamed(kernel) == [True, True]


def test_a_single_vector() -> None:
    assert streamed(kernel_of(copy((integer(0), integer(0))))) == [True]
    assert streamed(kernel_of(copy((integer(0), integer(8))))) == [False]


def test_places_in_locals() -> None:
    lines = rows(loop("j", 6, Let("x", times(J, 16)), copy((I, Var("x", INT64)))))
    assert streamed(kernel_of(lines)) == [True]
    others = rows(loop("j", 6, Let("x", times(J, 15)), copy((I, Var("x", INT64)))))
    assert streamed(kernel_of(others)) == [False]


def test_lanes_that_are_moved_apart() -> None:
    lanes = INT64.vector(16)
    apart = Binary("*", Load("p", (Ramp(times(J, 16), 1, lanes),), lanes), Const(2, lanes), lanes)
    place = Binary("+", Ramp(times(J, 16), 1, lanes), apart, lanes)
    store = Store("o", (I, place), Const(0.0, FLOAT32.vector(16)))
    kernel = kernel_of(rows(loop("j", 6, store)), more=())
    kernel = replace(kernel, buffers=(dense("p", INT64, (96,), "input"), *kernel.buffers))
    assert streamed(kernel) == [False]
