"""Which loops ask for blocks that are touched next, and for which: each condition alone decides."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT32, INT64
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Broadcast,
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
from tc.kernel.passes.prefetch import BLOCKS_IN_CACHE as PART
from tc.kernel.passes.prefetch import MAX_HINTS_PER_LINE as WASTE
from tc.kernel.passes.prefetch import MAX_LINES_AT_ONCE as BURST
from tc.kernel.passes.prefetch import MIN_BLOCK_LINES as MIN_LINES
from tc.kernel.passes.prefetch import OPERATIONS_PER_HINT as WORK
from tc.kernel.passes.prefetch import prefetch
from tests.kernel.hinted import hints_of
from tests.support.build import dense, integer, loop
from tests.support.kernels import Array
from tests.support.vectors import plus, ramp, times

BLOCKS, ROWS, WIDTH = 40, MIN_LINES, 16
B, I, K, Q = (Var(name, INT64) for name in "bikq")  # noqa: E741  # as in loops
VECTOR = FLOAT32.vector(16)
LINE, PAGE = 64, 4096
CACHE = PART * ROWS * LINE
"""Just enough for a block."""


def lanes(start: int = 0) -> Expr:
    return ramp(integer(start), 16)


def copies(block: Expr = B, row: Expr = I, source: str = "x") -> For:
    """Rows of a block to private memory."""
    read = Load(source, (block, row, lanes()), VECTOR)
    return loop("i", ROWS, Store("p", (I, lanes()), read))


def computes(
    sums: int = WORK,
    count: int = ROWS,
    variable: str = "k",
    reading: Expr | None = None,
) -> For:
    row = Load("p", (Var(variable, INT64), lanes()), VECTOR) if reading is None else reading
    body = (Set("s", Binary("+", Var("s", VECTOR), row, VECTOR)) for _ in range(sums))
    return loop(variable, count, *body)


def own_row(width: int = 1) -> Expr:
    """A read of another input in the computing loop: `width` elements of each row."""
    index: Expr = integer(0) if width == 1 else Binary("%", K, integer(width), INT64)
    return Broadcast(Load("y", (B, K, index), FLOAT32), VECTOR)


def results(*, non_temporal: bool = False) -> Stmt:
    store = Store("o", (B, I, lanes()), Var("s", VECTOR), non_temporal=non_temporal)
    return loop("i", ROWS, store)


def kernel_of(*body: Stmt, width: int = WIDTH, rows: int = ROWS) -> Kernel:
    buffers = (
        dense("x", FLOAT32, (BLOCKS, rows, width), "input"),
        dense("y", FLOAT32, (BLOCKS, rows, WIDTH), "input"),
        dense("table", INT64, (BLOCKS,), "input"),
        dense("o", FLOAT32, (BLOCKS, rows, WIDTH), "output"),
        dense("p", FLOAT32, (rows, WIDTH), "scratch"),
    )
    start = Let("s", Const(0.0, VECTOR))
    return Kernel("k", buffers, ((loop("b", BLOCKS, start, *body, parallel=True),),))


def hinted(kernel: Kernel, cache: int = CACHE) -> Kernel:
    return prefetch(kernel, cache, line=LINE, page=PAGE)


def hints(kernel: Kernel, cache: int = CACHE) -> list[str]:
    return hints_of(kernel, lambda each: hinted(each, cache))


INPUT, OUTPUT = "k: x[b + 1, 0, k * 16 + 15]", "k: o[b, 0, k * 16 + 15]"


# --- when -----------------------------------------------------------------------------------------


def test_what_is_touched_before_the_host_is_that_of_the_next_iteration() -> None:
    assert hints(kernel_of(copies(), computes())) == [INPUT]


def test_what_is_touched_behind_the_host_is_that_of_this_iteration() -> None:
    assert hints(kernel_of(computes(), copies())) == [INPUT.replace("b + 1", "b")]
    assert hints(kernel_of(computes(), results())) == [OUTPUT]


def test_blocks_before_and_behind_share_the_host() -> None:
    kernel = kernel_of(copies(), computes(2 * WORK), results())
    assert hints(kernel, 2 * CACHE) == [INPUT, OUTPUT]
    assert hints(kernel, 2 * CACHE - PART) == [INPUT]  # no room for both
    assert hints(kernel_of(copies(), computes(2 * WORK - 1), results()), 2 * CACHE) == [INPUT]


def test_only_the_first_that_touch_a_block_wait_for_it() -> None:
    assert hints(kernel_of(copies(), computes(), copies())) == [INPUT]
    both = Load("x", (B, K, lanes()), VECTOR)
    assert hints(kernel_of(copies(), computes(reading=both))) == [INPUT]
    assert hints(kernel_of(computes(reading=both), copies())) == [INPUT]


def test_results_stay() -> None:
    kernel = kernel_of(copies(), computes(2 * WORK), results())
    assert hints(kernel, 2 * CACHE) == [INPUT, OUTPUT]
    x = np.random.default_rng(0).random((BLOCKS, ROWS, WIDTH), np.float32)
    outputs = []
    for each in kernel, hinted(kernel, 2 * CACHE):
        o = np.zeros_like(x)
        arrays: dict[str, Array] = {"x": x, "y": x, "table": np.zeros(BLOCKS, np.int64), "o": o}
        assert evaluate(each, arrays) is None
        outputs.append(o)
    assert outputs[0].any()
    np.testing.assert_array_equal(outputs[0], outputs[1])


def test_the_first_block_of_the_next_iteration_of_the_loop_around() -> None:
    rows = plus(times(Q, ROWS), I)
    found = hints(kernel_of(loop("q", 2, copies(row=rows), computes()), rows=2 * ROWS))
    then = "q >= 1 ? b + 1 : b", "(q >= 1 ? 0 : q + 1) * 16", "k * 16 + 15"
    assert found == [f"k: x[{', '.join(then)}]"]


def test_what_an_outer_loop_asks_for_is_not_asked_for_inside() -> None:
    rows = plus(times(Q, ROWS), I)
    inner = loop("q", 2, copies(row=rows), computes())
    room = 2 * CACHE
    assert hints(kernel_of(inner, rows=2 * ROWS), room)[0].startswith("k: x[b + 1, 0, ")
    assert hints(kernel_of(inner, rows=2 * ROWS), room - PART)[0].startswith("k: x[q >= 1")


# --- of what --------------------------------------------------------------------------------------


def test_only_arguments_larger_than_the_cache() -> None:
    size = BLOCKS * ROWS * WIDTH * 4
    kernel = kernel_of(copies(), computes())
    assert hints(kernel, size - 1) == [INPUT]
    assert hints(kernel, size) == []
    assert hints(kernel, 0) == []
    private = loop("i", 999, Store("p", (integer(0), lanes()), Const(0.0, VECTOR)))
    assert hints(kernel_of(private, computes()), 1) == []


def test_blocks_that_fit_into_the_cache() -> None:
    assert hints(kernel_of(copies(), computes()), CACHE - 1) == []


def test_blocks_of_many_lines() -> None:
    few = replace(copies(), end=integer(MIN_LINES - 1))
    assert hints(kernel_of(few, computes())) == []


def test_what_the_host_reads_itself() -> None:
    """But for rows as long as a page, which hardware prefetches; what it stores is not waited
    for."""
    assert hints(kernel_of(computes(reading=own_row()))) == ["k: y[b + 1, 0, k * 16]"]
    busy = computes(2 * WORK)
    stored = replace(busy, body=(*busy.body, Store("o", (B, K, lanes()), Var("s", VECTOR))))
    assert hints(kernel_of(stored)) == []


@pytest.mark.parametrize("extent", [PAGE // 4 - 1, PAGE // 4])
def test_streams_of_the_host_are_left_to_hardware(extent: int) -> None:
    def reads(row: int) -> Stmt:
        load = Broadcast(Load("z", (B, integer(row), K), FLOAT32), VECTOR)
        return Set("s", Binary("+", Var("s", VECTOR), load, VECTOR))

    busy = loop("k", extent, *(stmt for row in range(2) for stmt in [reads(row)] * 2 * WORK))
    z = dense("z", FLOAT32, (BLOCKS, 2, 2 * extent), "input")
    kernel = kernel_of(busy)
    kernel = replace(kernel, buffers=(z, *kernel.buffers))
    assert bool(hints(kernel, 64 << 10)) is (extent < PAGE // 4)


def test_stores_past_the_caches_need_no_line() -> None:
    assert hints(kernel_of(computes(), results(non_temporal=True))) == []


def test_blocks_that_are_the_same_in_all_iterations() -> None:
    assert hints(kernel_of(copies(block=integer(3)), computes(), results())) == [OUTPUT]


def test_blocks_of_which_the_next_iteration_touches_a_part_again() -> None:
    kernel = kernel_of(copies(block=integer(0), row=plus(times(B, ROWS - 1), I)), computes())
    assert hints(kernel) == []
    kernel = kernel_of(copies(block=integer(0), row=plus(times(B, ROWS), I)), computes())
    assert hints(kernel) == ["k: x[0, (b + 1) * 16, k * 16 + 15]"]


@pytest.mark.parametrize(("op", "moves"), [("%", True), ("/", False)])
def test_digits_of_joined_loops(op: str, moves: bool) -> None:
    digit = Let("digit", Binary(op, B, integer(3), INT64))
    found = hints(kernel_of(digit, copies(block=Var("digit", INT64)), computes()))
    assert found == (["k: x[(b + 1) % 3, 0, k * 16 + 15]"] if moves else [])


@pytest.mark.parametrize(
    "block", [Load("table", (B,), INT64), Var("local", INT64)], ids=["memory", "local"]
)
def test_blocks_whose_place_is_not_known_then(block: Expr) -> None:
    local = Let("local", Load("table", (B,), INT64))
    assert hints(kernel_of(local, copies(block=block), computes())) == []


def test_locals_are_replaced_by_their_values() -> None:
    """Locals of statements before the host are replaced in the statements behind the host, too."""
    same = Let("same", plus(B, 0))
    assert hints(kernel_of(same, copies(block=Var("same", INT64)), computes())) == [INPUT]
    behind = copies(block=Var("same", INT64))
    assert hints(kernel_of(same, computes(), behind)) == [INPUT.replace("b + 1", "b")]


def test_places_that_change() -> None:
    moved = (Let("q", integer(0)), copies(block=Var("q", INT64)), computes())
    assert hints(kernel_of(*moved, Set("q", integer(2)))) == []


@pytest.mark.parametrize("strides", [(256, 16, -1), (-256, 16, 1), (512, 32, 2)])
def test_arguments_in_another_order(strides: tuple[int, int, int]) -> None:
    kernel = kernel_of(copies(), computes())
    x, *others = kernel.buffers
    assert hints(replace(kernel, buffers=(replace(x, strides=strides), *others))) == []


def test_elements_in_any_order_of_lanes() -> None:
    back = Ramp(integer(15), -1, INT64.vector(16))
    copy = loop("i", ROWS, Store("p", (I, lanes()), Load("x", (B, I, back), VECTOR)))
    assert hints(kernel_of(copy, computes())) == [INPUT]


def test_rows_that_are_masked_at_the_end_of_the_buffer() -> None:
    tail = replace(copies(row=plus(I, 8)), end=integer(2 * ROWS))
    assert hints(kernel_of(tail, computes(), rows=ROWS + 8)) == ["k: x[b + 1, 8, k * 16 + 15]"]


def test_conditions_around_copies() -> None:
    copy = copies()
    maybe = replace(copy, body=(If(Compare("<", I, integer(5), BOOL), copy.body),))
    assert hints(kernel_of(maybe, computes())) == [INPUT]


# --- where ----------------------------------------------------------------------------------------


def test_only_where_enough_is_computed() -> None:
    assert hints(kernel_of(copies(), computes(WORK - 1))) == []
    scalars = loop("k", ROWS, *(Let(f"t{n}", Load("table", (K,), INT64)) for n in range(99)))
    assert hints(kernel_of(copies(), scalars)) == []


def test_the_loop_that_computes_most_and_of_equals_the_last() -> None:
    other = computes(variable="l")
    assert hints(kernel_of(copies(), computes(), other)) == [INPUT.replace("k", "l")]
    assert hints(kernel_of(copies(), computes(WORK + 1), other)) == [INPUT]


def test_an_iteration_asks_for_several_lines() -> None:
    """At equal distances from each other, the last at the end of the block."""
    half = computes(2 * WORK, ROWS // 2)
    assert hints(kernel_of(copies(), half)) == [
        "k: x[b + 1, 0, k * 32 + 15]",
        "k: x[b + 1, 0, k * 32 + 31]",
    ]
    odd = hints(kernel_of(copies(), computes(9 * WORK, 3)))
    assert odd == [
        f"k: x[b + 1, 0, k * 90{at}]" for at in ("", *(f" + {n}" for n in range(15, 90, 15)))
    ]


@pytest.mark.parametrize("lines", [BURST, BURST + 1])
def test_as_many_lines_as_a_core_waits_for(lines: int) -> None:
    copy = replace(copies(), end=integer(2 * lines))
    found = hints(kernel_of(copy, computes(99 * WORK, 2), rows=2 * lines), 4 * CACHE + 9999)
    assert len(found) == (lines if lines == BURST else 0)


def test_iterations_share_lines_where_there_are_more() -> None:
    """Up to WASTE times as many, then the hints are in a loop around."""
    most = int(WASTE)
    assert hints(kernel_of(copies(), computes(count=ROWS * most))) == ["k: x[b + 1, 0, k * 8 + 7]"]
    nest = loop("q", ROWS, computes(count=most + 1))
    assert hints(kernel_of(copies(), nest)) == ["q: x[b + 1, 0, q * 16 + 15]"]


def test_more_often_where_there_is_no_other_loop() -> None:
    """As long as each iteration has an element for itself."""
    assert hints(kernel_of(copies(), computes(count=ROWS * 16))) == ["k: x[b + 1, 0, k]"]
    assert hints(kernel_of(copies(), computes(count=ROWS * 16 + 1))) == []


def test_nested_loops_share_the_block() -> None:
    nest = loop("q", 4, computes(count=4))
    assert hints(kernel_of(copies(), nest)) == ["k: x[b + 1, 0, (q * 4 + k) * 16 + 15]"]


def test_rows_with_gaps() -> None:
    """The outer loops share the rows, the inner ones the elements of each."""
    nest = loop("q", 8, computes(2 * WORK, 4))
    wide = hints(kernel_of(copies(), nest, width=99))
    assert wide == ["q: x[b + 1, q * 2, 15]", "q: x[b + 1, q * 2 + 1, 15]"]


def test_gaps_shorter_than_a_line_are_asked_for_too() -> None:
    nest = computes(count=2 * ROWS)
    kernel = kernel_of(copies(), nest, width=WIDTH + 15)
    size = -(-4 * ((ROWS - 1) * (WIDTH + 15) + WIDTH) // LINE) * LINE
    assert len(hints(kernel, PART * size)) == 1
    assert hints(kernel, PART * size - 1) == []


def test_rows_along_several_dimensions() -> None:
    x = dense("z", FLOAT32, (BLOCKS, 4, 8, 99), "input")
    read = Load("z", (B, I, Q, lanes()), VECTOR)
    nest = loop("i", 4, loop("q", 4, Store("p", (I, lanes()), read)))
    kernel = kernel_of(nest, computes(99))
    assert hints(replace(kernel, buffers=(x, *kernel.buffers))) == []


def test_loops_of_unknown_length() -> None:
    unknown = replace(copies(), end=plus(B, 1))
    assert hints(kernel_of(unknown, computes())) == []
    assert hints(kernel_of(copies(), replace(computes(), end=plus(B, 9)))) == []


def test_loops_however_long() -> None:
    """The pass does not visit the iterations of a loop one by one."""
    kernel, many = kernel_of(), 1 << 48
    x, *others = kernel.buffers
    blocks = loop("b", many, Let("s", Const(0.0, VECTOR)), copies(), computes())
    buffers = (replace(x, shape=(many, ROWS, WIDTH)), *others)
    assert hints(replace(kernel, buffers=buffers, regions=((blocks,),))) == [INPUT]


@pytest.mark.parametrize("line", [1, 2, 4])
def test_lines_no_longer_than_an_element(line: int) -> None:
    room = PART * ROWS * WIDTH * 4

    def change(kernel: Kernel) -> Kernel:
        return prefetch(kernel, room, line=line, page=PAGE)

    assert hints_of(kernel_of(copies(), computes(count=ROWS * WIDTH)), change) == [
        "k: x[b + 1, 0, k]"
    ]
