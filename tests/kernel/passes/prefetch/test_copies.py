"""Which loops ask for blocks that are copied next, and for which: each condition alone decides."""

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
from tc.kernel.passes.prefetch.busy_nests import COPY_WORK as WORK
from tc.kernel.passes.prefetch.busy_nests import PART, prefetch_copies
from tests.kernel.hinted import hints_of
from tests.support.kernels import Array, dense, integer, loop
from tests.support.vectors import plus, ramp, times

BLOCKS, ROWS, WIDTH = 6, 12, 16
B, I, K, Q = (Var(name, INT64) for name in "bikq")  # noqa: E741  # as in loops
VECTOR = FLOAT32.vector(16)
CACHE = PART * ROWS * WIDTH * 4
"""Just enough for a block."""


def lanes(start: int = 0) -> Expr:
    return ramp(integer(start), 16)


def copies(block: Expr = B, row: Expr = I, to: str = "p", source: str = "x") -> For:
    """Rows of a block to private memory, or elsewhere."""
    place = (I, lanes()) if to == "p" else (block, I, lanes())
    return loop("i", ROWS, Store(to, place, Load(source, (block, row, lanes()), VECTOR)))


def computes(
    sums: int = WORK, count: int = ROWS, variable: str = "k", reading: Expr | None = None
) -> For:
    row = Load("p", (Var(variable, INT64), lanes()), VECTOR) if reading is None else reading
    body = (Set(f"s{n}", Binary("+", Var(f"s{n}", VECTOR), row, VECTOR)) for n in range(sums))
    return loop(variable, count, *body)


def own_row() -> Expr:
    """What a loop that computes reads of another input."""
    return Broadcast(Load("y", (B, K, integer(0)), FLOAT32), VECTOR)


def results() -> Stmt:
    return loop("i", ROWS, Store("o", (B, I, lanes()), Var("s0", VECTOR)))


def kernel_of(*body: Stmt, width: int = WIDTH, sums: int = 2 * WORK) -> Kernel:
    buffers = (
        dense("x", FLOAT32, (BLOCKS, ROWS, width), "input"),
        dense("y", FLOAT32, (BLOCKS, ROWS, WIDTH), "input"),
        dense("table", INT64, (BLOCKS,), "input"),
        dense("o", FLOAT32, (BLOCKS, ROWS, WIDTH), "output"),
        dense("p", FLOAT32, (ROWS, WIDTH), "scratch"),
    )
    start = (Let(f"s{n}", Const(0.0, VECTOR)) for n in range(sums))
    return Kernel("k", buffers, ((loop("b", BLOCKS, *start, *body, parallel=True),),))


def hints(kernel: Kernel, cache: int = CACHE) -> list[str]:
    return hints_of(kernel, lambda each: prefetch_copies(each, cache))


HINT = "k: x[b + 1, 0, k * 16]"


def test_the_block_of_the_next_iteration() -> None:
    assert hints(kernel_of(copies(), computes())) == [HINT]
    assert hints(kernel_of(computes(), copies())) == [HINT]


def test_results_stay() -> None:
    kernel = kernel_of(copies(), computes(), results())
    assert hints(kernel) == [HINT]
    x = np.random.default_rng(0).random((BLOCKS, ROWS, WIDTH), np.float32)
    outputs = []
    for each in kernel, prefetch_copies(kernel, CACHE):
        o = np.zeros_like(x)
        arrays: dict[str, Array] = {"x": x, "y": x, "table": np.zeros(BLOCKS, np.int64), "o": o}
        assert evaluate(each, arrays) is None
        outputs.append(o)
    assert outputs[0].any()
    np.testing.assert_array_equal(outputs[0], outputs[1])


def test_only_inputs_larger_than_the_cache() -> None:
    size = BLOCKS * ROWS * WIDTH * 4
    kernel = kernel_of(copies(), computes())
    assert hints(kernel, size - 1) == [HINT]
    assert hints(kernel, size) == []
    assert hints(kernel, 0) == []


def test_blocks_that_fit_into_the_cache() -> None:
    assert hints(kernel_of(copies(), computes()), CACHE - 1) == []


def test_only_where_enough_is_computed() -> None:
    assert hints(kernel_of(copies(), computes(WORK - 1))) == []
    assert hints(kernel_of(copies(), computes(2 * WORK, ROWS // 2))) == [
        "k: x[b + 1, 0, k * 32]",
        "k: x[b + 1, 0, k * 32 + 16]",
    ]
    assert hints(kernel_of(copies(), computes(2 * WORK - 1, ROWS // 2))) == []


def test_short_steps_where_there_are_more_iterations_than_lines() -> None:
    assert hints(kernel_of(copies(), computes(count=ROWS * 4))) == ["k: x[b + 1, 0, k * 4]"]


def test_nested_loops_share_the_block() -> None:
    nest = loop("q", 3, computes(count=4))
    assert hints(kernel_of(copies(), nest)) == ["k: x[b + 1, 0, (q * 4 + k) * 16]"]


def test_rows_with_gaps() -> None:
    """Each iteration of the outer loops asks for as many of them."""
    nest = loop("q", 6, computes(2 * WORK, 4))
    assert hints(kernel_of(copies(), nest, width=99)) == [
        "k: x[b + 1, q * 2, k * 4]",
        "k: x[b + 1, q * 2 + 1, k * 4]",
    ]
    few = loop("q", 5, computes(2 * WORK, 4))
    assert hints(kernel_of(copies(), few, width=99)) == []


def test_gaps_shorter_than_a_line_are_asked_for_too() -> None:
    nest = loop("q", 6, computes(count=4))
    kernel = kernel_of(copies(), nest, width=WIDTH + 15)
    size = 4 * (11 * (WIDTH + 15) + WIDTH)
    assert hints(kernel, PART * size) == ["k: x[b + 1, 0, (q * 4 + k) * 15]"]
    assert hints(kernel, PART * size - 1) == []


def test_the_first_block_of_the_next_iteration_of_the_loop_around() -> None:
    half = plus(times(Q, 6), I)
    inner = loop("q", 2, replace(copies(row=half), end=integer(6)), computes(count=6))
    assert hints(kernel_of(inner)) == ["k: x[q >= 1 ? b + 1 : b, (q >= 1 ? 0 : q + 1) * 6, k * 16]"]


def test_rows_behind_the_end_are_not_read() -> None:
    """Their loads are masked."""
    tail = replace(copies(row=plus(I, 8)), end=integer(9))
    assert hints(kernel_of(tail, computes(count=4)))[0] == "k: x[b + 1, 8, k * 16]"


def test_what_the_loop_that_computes_reads_itself() -> None:
    """It is asked for if other blocks are, too, and if there is room."""
    assert hints(kernel_of(copies(), computes(2 * WORK, reading=own_row()))) == [
        HINT,
        "k: y[b + 1, 0, k * 15]",
    ]
    assert hints(kernel_of(copies(), computes(2 * WORK - 1, reading=own_row()))) == [HINT]
    nothing = loop("i", ROWS, Store("p", (I, lanes()), Const(0.0, VECTOR)))
    assert hints(kernel_of(nothing, computes(2 * WORK, reading=own_row()))) == []


def test_locals_of_what_the_loop_that_computes_reads() -> None:
    row = Broadcast(Load("y", (Var("same", INT64), K, integer(0)), FLOAT32), VECTOR)
    busy = computes(2 * WORK, reading=row)
    same = Let("same", plus(B, 0))
    assert hints(kernel_of(same, copies(), busy)) == [HINT, "k: y[b + 1, 0, k * 15]"]
    local = Let("same", Load("table", (B,), INT64))
    assert hints(kernel_of(local, copies(), busy)) == [HINT]


def test_blocks_that_both_loops_read() -> None:
    both = Load("x", (B, K, lanes()), VECTOR)
    assert hints(kernel_of(copies(), computes(reading=both))) == []


def test_what_is_copied_to_other_arguments() -> None:
    assert hints(kernel_of(copies(to="o"), computes())) == []


def test_blocks_that_overlap() -> None:
    shifted = copies(block=integer(0), row=plus(times(B, 11), I))
    assert hints(kernel_of(shifted, computes())) == []
    assert hints(kernel_of(replace(shifted, end=integer(11)), computes())) == [
        "k: x[0, (b + 1) * 11, k * 15]"
    ]


@pytest.mark.parametrize(
    "block",
    [Load("table", (B,), INT64), Var("local", INT64), Binary("/", B, integer(2), INT64)],
    ids=["memory", "local", "half"],
)
def test_blocks_whose_place_is_not_known_then(block: Expr) -> None:
    local = Let("local", Load("table", (B,), INT64))
    assert hints(kernel_of(local, copies(block=block), computes())) == []


def test_locals_are_replaced_by_their_values() -> None:
    same = Let("same", plus(B, 0))
    assert hints(kernel_of(same, copies(block=Var("same", INT64)), computes())) == [HINT]


def test_conditions_around_copies_and_computations() -> None:
    test = Compare("<", I, integer(5), BOOL)
    copy = copies()
    maybe = replace(copy, body=(If(test, copy.body),))
    assert hints(kernel_of(maybe, computes())) == [HINT]
    late = Compare("<", K, integer(5), BOOL)
    busy = computes()
    assert hints(kernel_of(copies(), replace(busy, body=(*busy.body, If(late, ()))))) == []


@pytest.mark.parametrize("strides", [(192, 16, -1), (-192, 16, 1), (384, 32, 2)])
def test_inputs_in_another_order(strides: tuple[int, int, int]) -> None:
    kernel = kernel_of(copies(), computes())
    x, *others = kernel.buffers
    assert hints(replace(kernel, buffers=(replace(x, strides=strides), *others))) == []


def test_elements_in_any_order_of_lanes() -> None:
    back = Ramp(integer(15), -1, INT64.vector(16))
    copy = loop("i", ROWS, Store("p", (I, lanes()), Load("x", (B, I, back), VECTOR)))
    assert hints(kernel_of(copy, computes())) == [HINT]
