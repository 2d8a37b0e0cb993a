"""Kernels of blocks and threads with one fault each: refused with the whole message, and right
where the fault is mended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.dtypes import INT64
from tc.errors import InternalError
from tc.kernel import grids
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import binary, integer, negation
from tc.kernel.ir import Atomic, Expr, Failure, Grid, If, Kernel, Let, Load, Set, Stmt, Store
from tc.kernel.rebuild import changed
from tc.kernel.verify import verify
from tests.kernel.grid_strategies import tame_grids, wild_grids
from tests.kernel.grids import B0, BARRIER, GRID_BARRIER, T0, equal, grid, launches
from tests.kernel.marked import Array, inputs
from tests.kernel.one_by_one import Refused, one_by_one
from tests.support.build import add, dense, less, loop, var

EXPECTED = Path(__file__).parent.parent / "expected" / "grids"
BLOCKS, THREADS = 2, 4
A = np.array([[3, 1, 4, 1, 5], [9, 2, 6, 5, 8]])
OWN = A[:, :THREADS]

ZERO, ONE = integer(0), integer(1)
VALUE = Load("a", (B0, T0), INT64)
MIRRORED = add(negation(T0), integer(THREADS - 1))
HALF = binary("/", T0, integer(2))
EVEN = equal(binary("%", T0, integer(2)), ZERO)
LAST = equal(T0, integer(THREADS - 1))

BUFFERS = (
    dense("a", INT64, A.shape, "input"),
    dense("o", INT64, (BLOCKS, THREADS), "output"),
    dense("c", INT64, (THREADS,), "output"),
    dense("w", INT64, (BLOCKS, THREADS), "temporary"),
    dense("s", INT64, (THREADS,), "shared"),
    dense("p", INT64, (2,), "scratch"),
)


def load(name: str, *indices: Expr) -> Load:
    return Load(name, indices, INT64)


def give(value: Expr) -> Store:
    """The result of a thread."""
    return Store("o", (B0, T0), value)


@dataclass(frozen=True)
class Case:
    wrong: tuple[Stmt, ...]
    right: tuple[Stmt, ...] | tuple[Grid, ...]
    expected: Array


def shared(*, at: Expr = T0, value: Expr = VALUE) -> Store:
    return Store("s", (at,), value)


def in_memory(*, row: Expr = B0, at: Expr = T0) -> Store:
    return Store("w", (row, at), VALUE)


def update(at: Expr) -> Atomic:
    """Adds the number of a thread, counted from 1."""
    return Atomic("s", (at,), "+", add(T0, ONE))


SWAPPED = give(load("s", MIRRORED))
FLIPPED = add(negation(B0), ONE)
OTHER_BLOCK = give(load("w", FLIPPED, T0))

X = var("x")


def read_in_turns(who: Expr, value: Expr) -> tuple[Stmt, ...]:
    """The local x, which number 0 and number 1 read one after the other."""
    turns = (If(equal(who, integer(n)), (Set("x", value),)) for n in range(2))
    return Let("x", ZERO), *turns


def in_first() -> Stmt:
    return Store("c", (T0,), integer(7))


KEPT = Let("x", VALUE), shared(), Store("p", (ZERO,), VALUE), in_memory(), GRID_BARRIER
"""In a local, in shared and private memory, and in all blocks' memory."""

FIRST_OF_SHARED = (shared(), BARRIER, *read_in_turns(T0, load("s", ZERO)))
FIRST_OF_ALL = read_in_turns(B0, load("c", T0))

CASES = {
    "global_out_of_bounds": Case(
        (give(load("a", B0, add(T0, integer(2)))),), (give(load("a", B0, add(T0, ONE))),), A[:, 1:]
    ),
    "shared_out_of_bounds": Case(
        (shared(at=add(T0, ONE)), BARRIER, SWAPPED), (shared(), BARRIER, SWAPPED), OWN[:, ::-1]
    ),
    "private_out_of_bounds": Case(
        (Store("p", (T0,), VALUE), give(load("p", T0))),
        (Store("p", (HALF,), VALUE), give(load("p", HALF))),
        OWN,
    ),
    "global_unwritten": Case(
        (If(less(T0, 3), (in_memory(),)), give(load("w", B0, T0))),
        (If(less(T0, 4), (in_memory(),)), give(load("w", B0, T0))),
        OWN,
    ),
    "shared_unwritten": Case(
        (If(less(T0, 3), (shared(),)), BARRIER, give(load("s", T0))),
        (If(less(T0, 3), (shared(),), (shared(value=ZERO),)), BARRIER, give(load("s", T0))),
        OWN * [1, 1, 1, 0],
    ),
    "private_unwritten": Case(
        (If(equal(B0, ZERO), (Store("p", (ZERO,), VALUE),)), give(load("p", ZERO))),
        (Store("p", (ZERO,), VALUE), give(load("p", ZERO))),
        OWN,
    ),
    "shared_written_twice": Case(
        (shared(at=HALF), BARRIER, give(load("s", HALF))),
        (If(EVEN, (shared(at=HALF),)), BARRIER, give(load("s", HALF))),
        OWN[:, ::2].repeat(2, axis=1),
    ),
    "shared_read_before_a_barrier": Case(
        (shared(), SWAPPED), (shared(), BARRIER, SWAPPED), OWN[:, ::-1]
    ),
    "shared_written_after_a_read": Case(
        (shared(), BARRIER, SWAPPED, shared(value=ZERO)),
        (shared(), BARRIER, SWAPPED, BARRIER, shared(value=ZERO)),
        OWN[:, ::-1],
    ),
    "shared_written_after_reads": Case(
        (shared(), BARRIER, give(load("s", ZERO)), If(LAST, (shared(at=ZERO),))),
        (shared(), BARRIER, give(load("s", ZERO)), BARRIER, If(LAST, (shared(at=ZERO),))),
        OWN[:, :1].repeat(4, axis=1),
    ),
    "shared_read_by_one_and_by_its_writer": Case(
        (*FIRST_OF_SHARED, If(equal(T0, ONE), (shared(at=ZERO),)), give(X)),
        (*FIRST_OF_SHARED, BARRIER, If(equal(T0, ONE), (shared(at=ZERO),)), give(X)),
        OWN[:, :1] * [1, 1, 0, 0],
    ),
    "global_read_by_two_blocks": Case(
        (*FIRST_OF_ALL, BARRIER, If(equal(B0, ONE), (in_first(),)), give(X)),
        (*FIRST_OF_ALL, BARRIER, give(X)),
        np.full_like(OWN, 7),
    ),
    "global_written_twice": Case(
        (in_memory(at=HALF), BARRIER, give(load("w", B0, HALF))),
        (If(EVEN, (in_memory(at=HALF),)), BARRIER, give(load("w", B0, HALF))),
        OWN[:, ::2].repeat(2, axis=1),
    ),
    "global_read_before_a_barrier": Case(
        (in_memory(), give(load("w", B0, MIRRORED))),
        (in_memory(), BARRIER, give(load("w", B0, MIRRORED))),
        OWN[:, ::-1],
    ),
    "global_written_by_two_blocks": Case(
        (in_memory(row=ZERO), give(VALUE)), (in_memory(), give(VALUE)), OWN
    ),
    "global_read_by_another_block": Case(
        (in_memory(), BARRIER, OTHER_BLOCK),
        (grid((BLOCKS,), (THREADS,), in_memory()), grid((BLOCKS,), (THREADS,), OTHER_BLOCK)),
        OWN[::-1],
    ),
    "global_read_by_another_block_at_once": Case(
        (in_memory(), BARRIER, OTHER_BLOCK), (in_memory(), GRID_BARRIER, OTHER_BLOCK), OWN[::-1]
    ),
    "global_written_after_another_block_reads": Case(
        (in_memory(), GRID_BARRIER, OTHER_BLOCK, BARRIER, Store("w", (B0, T0), ZERO)),
        (in_memory(), GRID_BARRIER, OTHER_BLOCK, GRID_BARRIER, Store("w", (B0, T0), ZERO)),
        OWN[::-1],
    ),
    "global_written_by_blocks_in_turn": Case(
        (in_memory(), BARRIER, in_memory(row=FLIPPED), GRID_BARRIER, give(load("w", B0, T0))),
        (in_memory(), GRID_BARRIER, in_memory(row=FLIPPED), GRID_BARRIER, give(load("w", B0, T0))),
        OWN[::-1],
    ),
    "shared_written_after_a_barrier_of_the_grid": Case(
        (*KEPT, SWAPPED, shared(value=ZERO)),
        (*KEPT, give(add(add(X, load("s", MIRRORED)), load("p", ZERO)))),
        2 * OWN + OWN[:, ::-1],
    ),
    "global_within_a_block_after_a_barrier_of_the_grid": Case(
        (*KEPT, in_memory(), give(load("w", B0, MIRRORED))),
        (*KEPT, in_memory(), BARRIER, give(load("w", B0, MIRRORED))),
        OWN[:, ::-1],
    ),
    "shared_updated_before_a_barrier": Case(
        (shared(), update(ZERO), BARRIER, give(load("s", T0))),
        (shared(), BARRIER, update(ZERO), BARRIER, give(load("s", T0))),
        OWN + [10, 0, 0, 0],
    ),
    "shared_read_beside_updates": Case(
        (shared(), BARRIER, update(HALF), give(load("s", T0))),
        (shared(), BARRIER, update(HALF), BARRIER, give(load("s", T0))),
        OWN + [3, 7, 0, 0],
    ),
    "shared_written_beside_updates": Case(
        (shared(), BARRIER, update(MIRRORED), shared(value=ZERO), BARRIER, give(load("s", T0))),
        (shared(), BARRIER, update(MIRRORED), BARRIER, shared(value=ZERO), give(load("s", T0))),
        OWN * 0,
    ),
    "shared_updated_unwritten": Case(
        (If(less(T0, 3), (shared(),)), BARRIER, update(T0), BARRIER, give(load("s", ZERO))),
        (If(less(T0, 4), (shared(),)), BARRIER, update(T0), BARRIER, give(load("s", ZERO))),
        OWN[:, :1].repeat(4, axis=1) + 1,
    ),
    "global_updated_by_blocks_beside_reads": Case(
        (Atomic("c", (T0,), "+", ONE), give(load("c", T0))),
        (Atomic("c", (T0,), "+", ONE), GRID_BARRIER, give(load("c", T0))),
        OWN * 0 + 9,
    ),
    "barrier_in_a_branch": Case(
        (If(less(T0, 2), (BARRIER,)), give(VALUE)),
        (If(less(B0, 1), (BARRIER,)), give(VALUE)),
        OWN,
    ),
    "barrier_in_both_branches": Case(
        (If(EVEN, (BARRIER,), (BARRIER,)), give(VALUE)),
        (If(equal(B0, ZERO), (BARRIER,), (BARRIER,)), give(VALUE)),
        OWN,
    ),
    "barrier_in_a_loop": Case(
        (loop("i", T0, BARRIER), give(VALUE)),
        (loop("i", add(B0, ONE), shared(), BARRIER, SWAPPED, BARRIER),),
        OWN[:, ::-1],
    ),
}


def kernel(body: tuple[Stmt, ...]) -> Kernel:
    grids = [each for each in body if isinstance(each, Grid)]
    made = launches(*(grids or [grid((BLOCKS,), (THREADS,), *body)]), buffers=BUFFERS)
    made = changed(made, initial=frozenset(("c",)))
    verify(made)
    return made


def arrays() -> dict[str, Array]:
    return {"a": A, "o": np.zeros_like(OWN), "c": np.full(THREADS, 7)}


@pytest.mark.parametrize("name", CASES)
def test_refused(name: str, golden: Callable[[Path, str], None]) -> None:
    with pytest.raises(InternalError) as caught:
        evaluate(kernel(CASES[name].wrong), arrays())
    golden(EXPECTED / f"{name}.txt", caught.value.cause)


@pytest.mark.parametrize("name", CASES)
def test_mended(name: str) -> None:
    given = arrays()
    assert evaluate(kernel(CASES[name].right), given) is None
    np.testing.assert_array_equal(given["o"], CASES[name].expected)


def test_barriers_of_the_grid_are_met_by_all_blocks() -> None:
    """Without `verify`, which refuses it at once."""
    inner = grid((BLOCKS,), (THREADS,), If(equal(ZERO, ZERO), (GRID_BARRIER,)))
    with pytest.raises(InternalError) as caught:
        evaluate(launches(inner, buffers=BUFFERS), arrays())
    assert caught.value.cause == (
        "kernel k breaks a promise: in 'barrier of the grid': it stands in a loop or condition"
    )


# --- Random kernels of blocks and threads: as one thread after the other runs them.


AT_ONCE = st.sampled_from([1, 5, 1024])
"""About how many threads run at once: some blocks, or each by itself."""


def evaluated(kernel: Kernel, arrays: dict[str, Array], at_once: int) -> Failure | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grids, "_LANES", at_once)
        return evaluate(kernel, arrays)


@given(kernel=tame_grids(), at_once=AT_ONCE, seed=st.integers(0, 9))
def test_results_are_those_of_one_thread_after_the_other(
    kernel: Kernel, at_once: int, seed: int
) -> None:
    verify(kernel)
    ours, others = inputs(kernel), inputs(kernel)
    assert evaluated(kernel, ours, at_once) == one_by_one(kernel, others, seed)
    for name, array in ours.items():
        np.testing.assert_array_equal(array, others[name])


@given(kernel=wild_grids(), at_once=AT_ONCE, seed=st.integers(0, 9))
def test_the_same_kernels_are_refused(kernel: Kernel, at_once: int, seed: int) -> None:
    verify(kernel)
    ours, others = inputs(kernel), inputs(kernel)
    reason = ""
    try:
        evaluated(kernel, ours, at_once)
    except InternalError as error:
        reason = error.cause
    try:
        one_by_one(kernel, others, seed)
    except Refused:
        assert reason
        return
    assert not reason
    for name, array in ours.items():
        np.testing.assert_array_equal(array, others[name])
