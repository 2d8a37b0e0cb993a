"""Passes on blocks and threads: nothing that is known of memory outlives a barrier, and barriers
stay where they are."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.dtypes import FLOAT32, INT64
from tc.kernel.folding import binary, integer, negation
from tc.kernel.ir import (
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Fail,
    Grid,
    If,
    Kernel,
    LaunchIndex,
    Let,
    Load,
    Set,
    Site,
    Stmt,
    Store,
    Var,
)
from tc.kernel.pass_manager import PassContext, run_passes, trace_passes
from tc.kernel.passes.dead_code import eliminate_dead_code
from tc.kernel.passes.pass_list import PASSES
from tc.kernel.passes.scalar_replacement import replace_by_scalars
from tc.kernel.passes.unroll import unroll
from tc.kernel.passes.value_numbering import (
    eliminate_common_subexpressions,
    hoist_invariant_calls,
    merge_locals,
)
from tc.kernel.printer import statement_lines
from tests.kernel.grid_strategies import tame_grids
from tests.kernel.grids import B0, BARRIER, T0, T1, equal, grid, launches, tmm
from tests.kernel.marked import assert_same, lines, run
from tests.support.build import add, dense, less, loop, times, var

ZERO, ONE = integer(0), integer(1)
MIRRORED = add(negation(T0), integer(3))
X = var("x")
BUFFERS = (
    dense("a", INT64, (4,), "input"),
    dense("f", FLOAT32, (4,), "input"),
    dense("o", INT64, (2, 4), "output"),
    dense("q", FLOAT32, (4,), "output"),
    dense("s", INT64, (4,), "shared"),
    dense("u", FLOAT32, (4,), "shared"),
    dense("p", INT64, (4,), "scratch"),
    dense("r", INT64, (2,), "register"),
)


def kernel_of(*grids: Grid) -> Kernel:
    kernel = launches(*grids, buffers=BUFFERS, sites=(Site("division", 0, 0, ("t",)),))
    return Kernel("k", BUFFERS, kernel.regions, kernel.sites, frozenset(("o", "q")))


def launch(*body: Stmt) -> Kernel:
    """One block of four threads."""
    return kernel_of(grid((), (4,), *body))


def body_lines(kernel: Kernel) -> list[str]:
    """The statements in the first launch, without their indent."""
    (made,) = kernel.regions[0]
    assert isinstance(made, Grid)
    return [line for stmt in made.body for line in statement_lines(stmt)]


def load(name: str, at: Expr = T0) -> Load:
    return Load(name, (at,), INT64)


def give(value: Expr, row: Expr = ZERO) -> Store:
    return Store("o", (row, T0), value)


@pytest.mark.parametrize("bits", [0, 256])
@given(kernel=tame_grids())
def test_each_pass_gives_the_same(bits: int, kernel: Kernel) -> None:
    expected = run(kernel)
    for result in trace_passes(kernel, PassContext(lanes_bits=bits, fma=True), PASSES):
        if result.is_changed:
            failure, outputs = run(result.kernel)
            assert failure == expected[0]
            for name, output in outputs.items():
                np.testing.assert_array_equal(output, expected[1][name])


@given(kernel=tame_grids(), limit=st.sampled_from([1, 6, 20]))
def test_loops_that_stay_give_the_same(kernel: Kernel, limit: int) -> None:
    context = PassContext(lanes_bits=0, unroll_limit=limit)
    assert_same(kernel, lambda k: run_passes(k, context, PASSES))


def test_paper_s_matrix_product() -> None:
    """Its accumulators become locals only where the loop over them is unrolled."""
    made = assert_same(tmm(), lambda k: run_passes(k, PassContext(lanes_bits=0), PASSES))
    assert [b.role for b in made.buffers] == [*["input"] * 2, "output", *["shared"] * 2, "scratch"]
    assert "private_C[c2, 0] = 0.0f" in "\n".join(body_lines(made))


# --- unrolling --------------------------------------------------------------------------------


def test_unrolling_copies_barriers_for_all_threads() -> None:
    i = var("i")
    step = Store("s", (T0,), add(T0, i)), BARRIER, Set("x", load("s", MIRRORED)), BARRIER
    made = assert_same(launch(Let("x", ZERO), loop("i", 2, *step, mark="unroll"), give(X)), unroll)
    assert body_lines(made) == [
        "let x: int64 = 0",
        "s[t0] = t0",
        "barrier",
        "x = s[-t0 + 3]",
        "barrier",
        "s[t0] = t0 + 1",
        "barrier",
        "x = s[-t0 + 3]",
        "barrier",
        "o[0, t0] = x",
    ]


def test_numbers_of_blocks_and_threads_have_bounds() -> None:
    """Conditions that the bounds decide are gone, and the index of a single block or thread is
    0."""
    row = add(times(B0, 4), T1, T0)
    body = (
        If(less(row, 8), (Store("s", (T1,), add(T0, B0)),)),
        If(less(row, 7), (Store("p", (T0,), ONE),)),
        If(less(row, 0), (BARRIER,)),
        Store("o", (B0, T1), binary("%", add(times(T0, 9), T1), integer(4))),
    )
    made = assert_same(kernel_of(grid((2,), (1, 4), *body)), unroll)
    assert body_lines(made) == [
        "s[t1] = b0",
        "if b0 * 4 + t1 < 7",
        "  p[0] = 1",
        "o[b0, t1] = t1",
    ]


# --- scalar replacement -----------------------------------------------------------------------


def test_registers_are_locals_of_each_thread_and_launch() -> None:
    store, cell = Store("r", (ZERO,), T0), load("r", ZERO)
    first, second = (store, BARRIER, give(cell)), (store, give(cell, ONE))
    kernel = kernel_of(grid((), (4,), *first), grid((), (4,), *second))
    made = assert_same(kernel, replace_by_scalars)
    assert all(buffer.name != "r" for buffer in made.buffers)
    assert lines(made) == [
        "one block of threads t0 in 0:4",
        "  let r_0: int64 = t0",
        "  barrier",
        "  o[0, t0] = r_0",
        "one block of threads t0 in 0:4",
        "  let r_0_1: int64 = t0",
        "  o[1, t0] = r_0_1",
    ]


def test_registers_that_are_written_in_part_are_declared_in_the_launch() -> None:
    write = If(less(T0, 4), (Store("r", (ZERO,), T0),))
    made = assert_same(launch(write, give(load("r", ZERO))), replace_by_scalars)
    assert body_lines(made) == [
        "let r_0: int64 = 0",
        "if t0 < 4",
        "  r_0 = t0",
        "o[0, t0] = r_0",
    ]


def test_new_names_are_not_those_of_numbers() -> None:
    store = Store("q", (T0,), Call("sqrt", (Load("f", (ZERO,), FLOAT32),), FLOAT32))
    ids = Grid((), (LaunchIndex("sqrt", 4),), (Let("t0", var("sqrt")), loop("i", 2, store)))
    assert body_lines(assert_same(kernel_of(ids), hoist_invariant_calls)) == [
        "let t0: int64 = sqrt",
        "let sqrt_1: float32 = sqrt(f[0])",
        "for i in 0:2",
        "  q[t0] = sqrt_1",
    ]


# --- dead code, first terms, checks -----------------------------------------------------------


def test_barriers_act() -> None:
    body = (
        Store("s", (T0,), T0),
        Let("unused", load("s")),
        loop("i", 2, BARRIER, Let("idle", T0)),
        If(equal(B0, ZERO), (BARRIER,)),
        If(less(T0, 2), (Let("idle", T0),)),
        give(load("s", MIRRORED)),
    )
    made = assert_same(kernel_of(grid((1,), (4,), *body)), eliminate_dead_code)
    assert body_lines(made) == [
        "s[t0] = t0",
        "for i in 0:2",
        "  barrier",
        "if b0 == 0",
        "  barrier",
        "o[0, t0] = s[-t0 + 3]",
    ]


def test_branches_around_a_barrier_stay_two() -> None:
    low = less(T0, 2)
    body = (
        If(low, (Store("s", (T0,), T0),)),
        BARRIER,
        If(low, (give(load("s", add(negation(T0), ONE))),)),
    )
    kernel = launch(*body)
    assert assert_same(kernel, eliminate_dead_code) is kernel


def test_first_terms_are_read_where_they_were() -> None:
    x, own = Var("x", FLOAT32), Store("u", (T0,), Cast(T0, FLOAT32))
    term = Load("u", (MIRRORED,), FLOAT32)
    start = Let("x", Const(-math.inf, FLOAT32))
    body = start, own, BARRIER, Set("x", Binary("max", x, term, FLOAT32)), Store("q", (T0,), x)
    assert body_lines(assert_same(launch(*body), eliminate_dead_code)) == [
        "u[t0] = float32(t0)",
        "barrier",
        "let x: float32 = u[-t0 + 3]",
        "q[t0] = x",
    ]


def test_checks_of_a_thread_are_made_once() -> None:
    check = If(equal(T0, integer(2)), (Fail(0, (T0,)),))
    made = assert_same(launch(check, BARRIER, check, give(ZERO)), merge_locals)
    assert body_lines(made) == ["if t0 == 2", "  fail 0 (t0)", "barrier", "o[0, t0] = 0"]


# --- what is known of memory ------------------------------------------------------------------


def test_values_of_inputs_are_known_behind_barriers() -> None:
    lets = (
        Store("s", (T0,), T0),
        BARRIER,
        Let("x", load("a")),
        Let("y", load("s", MIRRORED)),
        BARRIER,
        Store("s", (T0,), ZERO),
        BARRIER,
        Let("z", load("a")),
        Let("w", load("s", MIRRORED)),
        give(add(*map(var, "xyzw"))),
    )
    made = assert_same(launch(*lets), merge_locals)
    assert body_lines(made)[-2:] == [
        "let w: int64 = s[-t0 + 3]",
        "o[0, t0] = x + y + x + w",
    ]


SWAPPED = load("s", MIRRORED)


def test_what_others_write_is_read_again_behind_a_barrier() -> None:
    """Another thread may have written the element in a branch that this thread does not take."""
    write = If(equal(T0, ZERO), (Store("s", (integer(3),), integer(7)),))
    square = Binary("*", SWAPPED, SWAPPED, INT64)
    both = add(square, load("a"), load("a"), load("p"), load("p"))
    start = Store("s", (T0,), T0), Store("p", (T0,), ONE), BARRIER
    body = *start, Let("x", both), BARRIER, write, BARRIER, give(add(both, X))
    made = assert_same(launch(*body), eliminate_common_subexpressions)
    assert body_lines(made) == [
        "s[t0] = t0",
        "p[t0] = 1",
        "barrier",
        "let s_1: int64 = s[-t0 + 3]",
        "let a_1: int64 = a[t0]",
        "let p_1: int64 = p[t0]",
        "let x: int64 = s_1 * s_1 + a_1 + a_1 + p_1 + p_1",
        "barrier",
        "if t0 == 0",
        "  s[3] = 7",
        "barrier",
        "let s_2: int64 = s[-t0 + 3]",
        "o[0, t0] = s_2 * s_2 + a_1 + a_1 + p_1 + p_1 + x",
    ]


def test_nothing_is_known_behind_a_barrier_in_loops_and_branches() -> None:
    """Whether the statements in between write it or not."""
    step = If(less(B0, 1), (BARRIER,))
    for around in (BARRIER, step, loop("i", 2, step)):
        body = Store("s", (T0,), T0), BARRIER, Let("x", SWAPPED), around, give(add(X, SWAPPED))
        kernel = kernel_of(grid((1,), (4,), *body))
        assert assert_same(kernel, eliminate_common_subexpressions) is kernel


def test_what_is_known_before_a_loop_with_a_barrier_is_not_known_in_it() -> None:
    step = Set("x", add(X, SWAPPED)), BARRIER
    body = Store("s", (T0,), T0), BARRIER, Let("x", SWAPPED), loop("i", 3, *step), give(X)
    kernel = launch(*body)
    assert assert_same(kernel, eliminate_common_subexpressions) is kernel


def root(name: str, at: Expr) -> Call:
    return Call("sqrt", (Call("abs", (Load(name, (at,), FLOAT32),), FLOAT32),), FLOAT32)


def test_calls_on_what_others_write_stay_in_loops_with_barriers() -> None:
    """Though nothing in the loop writes it: it may be written before the barrier in it."""
    value = Binary("+", root("u", MIRRORED), root("f", T0), FLOAT32)
    body = Store("u", (T0,), Cast(T0, FLOAT32)), loop("i", 2, BARRIER, Store("q", (T0,), value))
    assert body_lines(assert_same(launch(*body), hoist_invariant_calls)) == [
        "u[t0] = float32(t0)",
        "let sqrt: float32 = sqrt(abs(f[t0]))",
        "for i in 0:2",
        "  barrier",
        "  q[t0] = sqrt(abs(u[-t0 + 3])) + sqrt",
    ]


def test_calls_leave_loops_without_barriers() -> None:
    store = Store("q", (T0,), root("u", MIRRORED))
    body = Store("u", (T0,), Cast(T0, FLOAT32)), BARRIER, loop("i", 2, store)
    assert body_lines(assert_same(launch(*body), hoist_invariant_calls)) == [
        "u[t0] = float32(t0)",
        "barrier",
        "let sqrt: float32 = sqrt(abs(u[-t0 + 3]))",
        "for i in 0:2",
        "  q[t0] = sqrt",
    ]
