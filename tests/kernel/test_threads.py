"""Blocks and threads in `evaluate`: what they compute, under masks, with memory of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT32, INT8, INT64
from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import binary, integer, negation
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    Fail,
    Failure,
    Grid,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Prefetch,
    Select,
    Set,
    Site,
    Stmt,
    Store,
)
from tc.kernel.rebuild import changed
from tc.kernel.verify import verify
from tests.kernel.grids import B0, B1, BARRIER, T0, T1, equal, grid, launches, tmm
from tests.kernel.marked import Array
from tests.support.build import add, dense, less, loop, times, var

ZERO, ONE = integer(0), integer(1)
X = var("x")


def run(
    *grids: Grid, shape: tuple[int, ...], buffers: tuple[Buffer, ...] = (), **inputs: Array
) -> Array:
    """The int64 output `o` of launches; inputs are int64."""
    found, out = run_with_checks(*grids, shape=shape, buffers=buffers, **inputs)
    assert found is None
    return out


def run_with_checks(
    *grids: Grid, shape: tuple[int, ...], buffers: tuple[Buffer, ...] = (), **inputs: Array
) -> tuple[Failure | None, Array]:
    given = tuple(dense(name, INT64, array.shape, "input") for name, array in inputs.items())
    output = dense("o", INT64, shape, "output")
    sites = tuple(Site("division", 0, n, ("x",)) for n in range(2))
    kernel = launches(*grids, buffers=(*given, output, *buffers), sites=sites)
    verify(kernel)
    out = np.full(shape, -99, np.int64)
    return evaluate(kernel, {**inputs, "o": out}), out


def broken(*grids: Grid, shape: tuple[int, ...], **options: Any) -> str:
    with pytest.raises(InternalError) as caught:
        run(*grids, shape=shape, **options)
    return caught.value.cause.removeprefix("kernel k breaks a promise: in ")


def give(value: Expr) -> Store:
    return Store("o", (T0,), value)


def test_paper_s_matrix_product() -> None:
    kernel = tmm()
    verify(kernel)
    random = np.random.default_rng(0)
    a, b = (random.integers(-9, 10, (n, 32)).astype(np.float32) for n in (128, 256))
    out = np.zeros((128, 256), np.float32)
    assert evaluate(kernel, {"A": a, "B": b, "C": out}) is None
    np.testing.assert_array_equal(out, a @ b.T)


def test_its_barrier_is_needed() -> None:
    kernel = tmm()
    (launch,) = kernel.regions[0]
    assert isinstance(launch, Grid)
    body = tuple(stmt for stmt in launch.body if stmt != BARRIER)
    arrays = {name: np.ones((n, 32), np.float32) for name, n in (("A", 128), ("B", 256))}
    with pytest.raises(InternalError, match="with no barrier between"):
        evaluate(
            changed(kernel, regions=((changed(launch, body=body),),)),
            {**arrays, "C": np.zeros((128, 256), np.float32)},
        )


# --- ids --------------------------------------------------------------------------------------


def test_ids_are_numbered_outermost_first() -> None:
    row, column = add(times(B0, 2), T0), add(times(B1, 4), T1)
    store = Store("o", (row, column), add(times(row, 100), column))
    out = run(grid((3, 2), (2, 4), store), shape=(6, 8))
    rows, columns = np.indices((6, 8))
    np.testing.assert_array_equal(out, 100 * rows + columns)


def test_one_block_and_one_thread_need_no_id() -> None:
    total = Set("x", add(X, Load("a", (var("i"),), INT64)))
    store = Store("o", (), X)
    out = run(grid((), (), Let("x", ZERO), loop("i", 5, total), store), shape=(), a=np.arange(5))
    assert out == 10


@pytest.mark.parametrize(("blocks", "threads"), [(1500, 1), (400, 3), (3, 1500)])
def test_more_threads_than_run_at_once(blocks: int, threads: int) -> None:
    """Shared and private elements are unwritten when a block begins, whatever ran before."""
    fill = If(less(B0, blocks - 1), (Store("s", (T0,), B0), Store("p", (), T0)))
    store = Store("o", (B0, T0), add(times(Load("s", (T0,), INT64), 10), Load("p", (), INT64)))
    private = dense("s", INT64, (threads,), "shared"), dense("p", INT64, (), "register")
    shape = blocks, threads
    text = broken(grid((blocks,), (threads,), fill, store), shape=shape, buffers=private)
    assert text == f"'s[t0]': in block ({blocks - 1}), thread (0): reads s[0] before any write"
    fill = changed(fill, condition=less(B0, blocks))
    out = run(grid((blocks,), (threads,), fill, store), shape=shape, buffers=private)
    rows, columns = np.indices(shape)
    np.testing.assert_array_equal(out, 10 * rows + columns)


def test_no_more_private_memory_than_there_is_room_for() -> None:
    """A block at a time, where its threads have large arrays: these would be 40 GB for all."""
    size = 1 << 22
    body = (
        Store("p", (integer(size - 1),), B0),
        Store("o", (B0, T0), Load("p", (integer(size - 1),), INT64)),
    )
    private = (dense("p", INT64, (size,), "scratch"),)
    out = run(grid((600,), (2,), *body), shape=(600, 2), buffers=private)
    np.testing.assert_array_equal(out, np.indices((600, 2))[0])


# --- masks ------------------------------------------------------------------------------------


def test_branches_change_locals_of_those_that_take_them() -> None:
    odd = equal(binary("%", T0, integer(2)), ONE)
    branch = If(odd, (Set("x", integer(7)),), (If(less(T0, 3), (Set("x", T0),)),))
    out = run(grid((), (6,), Let("x", integer(-1)), branch, give(X)), shape=(6,))
    assert out.tolist() == [0, 7, 2, 7, -1, 7]


def test_loops_of_different_lengths() -> None:
    """Sums of 1 + 2 + ... + t, and of rows from t on."""
    up = loop("i", add(T0, ONE), Set("x", add(X, var("i"))))
    out = run(grid((), (5,), Let("x", ZERO), up, give(X)), shape=(5,))
    assert out.tolist() == [0, 1, 3, 6, 10]
    down = changed(loop("i", 5, Set("x", add(X, Load("a", (var("i"),), INT64)))), begin=T0)
    a = np.array([1, 20, 300, 4000, 50000])
    out = run(grid((), (7,), Let("x", ZERO), If(less(T0, 6), (down,)), give(X)), shape=(7,), a=a)
    assert out.tolist() == [54321, 54320, 54300, 54000, 50000, 0, 0]


def test_values_differ_from_thread_to_thread_in_a_loop() -> None:
    """The Collatz sequence of each number, as far as it takes 20 steps."""
    halved = Set("x", binary("/", X, integer(2)))
    tripled = Set("x", add(times(X, 3), ONE))
    step = If(equal(binary("%", X, integer(2)), ZERO), (halved,), (tripled,))
    going = If(Compare(">", X, ONE), (step, Set("n", add(var("n"), ONE))))
    body = Let("x", add(T0, ONE)), Let("n", ZERO), loop("i", 20, going), give(var("n"))
    out = run(grid((), (12,), *body), shape=(12,))
    assert out.tolist() == [0, 1, 7, 2, 5, 8, 16, 3, 19, 6, 14, 9]


OUTSIDE = Load("a", (add(T0, integer(-2)),), INT64)
INSIDE = Compare(">=", T0, integer(2))
TEST = equal(OUTSIDE, integer(8))


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (Select(INSIDE, OUTSIDE, integer(5), INT64), [5, 5, 9, 8, 7]),
        (Select(Logical("!", (INSIDE,)), integer(5), OUTSIDE, INT64), [5, 5, 9, 8, 7]),
        (Cast(Logical("&&", (INSIDE, TEST)), INT64), [0, 0, 0, 1, 0]),
        (Cast(Logical("||", (Logical("!", (INSIDE,)), TEST)), INT64), [1, 1, 0, 1, 0]),
        (Select(Const(False, BOOL), OUTSIDE, T0, INT64), [0, 1, 2, 3, 4]),
        (Select(less(T0, 9), T0, Load("a", (integer(9),), INT64), INT64), [0, 1, 2, 3, 4]),
    ],
)
def test_lazy(expr: Expr, expected: list[int]) -> None:  # Y6
    out = run(grid((), (5,), give(expr)), shape=(5,), a=np.array([9, 8, 7]))
    assert out.tolist() == expected


def test_paths_taken_are_checked() -> None:
    wrong = Select(Compare(">=", T0, ONE), OUTSIDE, integer(5), INT64)
    text = broken(grid((), (2, 5), give(wrong)), shape=(5,), a=np.zeros(3, np.int64))
    assert text == "'a[t0 - 2]': in block (), thread (1, 0): a[-1] is outside of shape [3]"


def test_shifts_are_checked_where_threads_take_part() -> None:
    shifted = Binary("<<", ONE, T0, INT64)
    body = Let("x", T0), If(less(T0, 64), (Set("x", shifted),)), give(X)
    assert run(grid((), (66,), *body), shape=(66,))[[0, 5, 62, 64, 65]].tolist() == [
        1, 32, 2**62, 64, 65,
    ]  # fmt: skip
    assert broken(grid((), (66,), give(shifted)), shape=(66,)) == (
        "'1 << t0': shifts by too many bits"
    )


def test_arithmetic_is_that_of_one_thread() -> None:
    """Integers wrap around, float32 rounds each operation."""
    small = Cast(add(T0, integer(126)), INT8)
    wrapped = Cast(Binary("+", small, Const(1, INT8), INT8), INT64)
    assert run(grid((), (3,), give(wrapped)), shape=(3,)).tolist() == [127, -128, -127]
    big = Binary("+", Cast(add(T0, integer(2**24)), FLOAT32), Const(1.0, FLOAT32), FLOAT32)
    assert run(grid((), (4,), give(Cast(big, INT64))), shape=(4,)).tolist() == [
        2**24, 2**24, 2**24 + 4, 2**24 + 4,
    ]  # fmt: skip


# --- memory -----------------------------------------------------------------------------------


def test_what_drops_its_unwritten_elements_may_read_them() -> None:
    shared = changed_buffer("s", "shared")
    private = changed_buffer("p", "register")
    both = Binary("+", Load("s", (T0,), FLOAT32), Load("p", (), FLOAT32), FLOAT32)
    output = dense("o", FLOAT32, (4,), "output")
    two = Const(2.0, FLOAT32)
    body = (
        If(less(T0, 3), (Store("s", (T0,), two),)),
        If(Compare(">", T0, ZERO), (Store("p", (), two),)),
        give(both),
    )
    out = np.zeros(4, np.float32)
    kernel = launches(grid((), (4,), *body), buffers=(output, shared, private))
    assert evaluate(kernel, {"o": out}) is None
    np.testing.assert_array_equal(out, [np.nan, 4, 4, np.nan])


def changed_buffer(name: str, role: str) -> Buffer:
    shape = (4,) if role == "shared" else ()
    return Buffer(name, FLOAT32, shape, (1,) * len(shape), role, drops_unwritten=True)


def test_strides_of_arrays_are_used() -> None:
    a, every = np.arange(10)[::-2], np.full((4, 2), -1)
    kernel = launches(
        grid((), (4,), If(less(T0, 3), (Store("o", (T0,), Load("a", (T0,), INT64)),))),
        buffers=(
            Buffer("a", INT64, (5,), (-2,), "input"),
            dense("o", INT64, (4,), "output"),
        ),
    )
    kernel = changed(kernel, initial=frozenset(("o",)))
    assert evaluate(kernel, {"a": a, "o": every[:, 1]}) is None
    assert every.tolist() == [[-1, 9], [-1, 7], [-1, 5], [-1, -1]]


def test_what_a_launch_writes_the_next_reads() -> None:
    first = grid((2,), (3,), Store("w", (B0, T0), add(times(B0, 3), T0)))
    total = Set("x", add(X, Load("w", (T0, var("i")), INT64)))
    second = grid((), (2,), Let("x", ZERO), loop("i", 3, total), give(X))
    temporary = (dense("w", INT64, (2, 3), "temporary"),)
    assert run(first, second, shape=(2,), buffers=temporary).tolist() == [3, 12]


def test_blocks_that_do_not_run_at_once_race_too() -> None:
    store = If(equal(binary("%", B0, integer(1499)), ZERO), (Store("o", (ZERO,), B0),))
    text = broken(grid((1500,), (8,), If(equal(T0, ZERO), (store,))), shape=(1,))
    assert text in (
        "'o[0] = b0': in block (0), thread (0): race at o[0]: block (1499) writes it",
        "'o[0] = b0': in block (1499), thread (0): race at o[0]: block (0) writes it",
    )


def test_blocks_read_what_another_writes() -> None:
    start = grid((), (2,), Store("w", (T0,), T0))
    write = If(equal(B1, integer(3)), (Store("w", (ZERO,), X),))
    body = Let("x", Load("w", (ZERO,), INT64)), write, Store("o", (B0, B1), X)
    temporary = (dense("w", INT64, (2,), "temporary"),)
    text = broken(start, grid((2, 4), (), *body), shape=(2, 4), buffers=temporary)
    assert text == ("'w[0] = x': in block (0, 3), thread (): race at w[0]: several blocks read it")


def test_a_thread_reads_again_what_it_alone_uses() -> None:
    """Its own accesses are in order, and those of others before a barrier."""
    own = Load("s", (T0,), INT64)
    body = (
        Store("s", (T0,), T0),
        Store("s", (T0,), add(own, ONE)),
        BARRIER,
        Let("x", Load("s", (add(negation(T0), integer(3)),), INT64)),
        BARRIER,
        Store("s", (T0,), add(own, X)),
        give(own),
    )
    out = run(grid((), (4,), *body), shape=(4,), buffers=(dense("s", INT64, (4,), "shared"),))
    assert out.tolist() == [5, 5, 5, 5]


def test_barriers_in_a_loop_that_all_threads_of_a_block_run() -> None:
    """A sum over the block by halves; the number of steps differs from block to block."""
    i, half = var("i"), var("half")
    total = add(Load("s", (T0,), INT64), Load("s", (add(T0, half),), INT64))
    step = (
        Let("half", Binary(">>", integer(4), i, INT64)),
        If(Compare("<", T0, half), (Store("s", (T0,), total),)),
        BARRIER,
    )
    last = If(equal(T0, ZERO), (Store("o", (B0,), Load("s", (ZERO,), INT64)),))
    body = (
        Store("s", (T0,), Load("a", (B0, T0), INT64)),
        BARRIER,
        loop("i", add(B0, ONE), *step),
        last,
    )
    a = np.arange(24).reshape(3, 8) ** 2
    out = run(
        grid((3,), (8,), *body), shape=(3,), buffers=(dense("s", INT64, (8,), "shared"),), a=a
    )
    assert out.tolist() == [a[0, 0] + a[0, 4], a[1, ::2].sum(), a[2].sum()]


def test_outputs_are_written_whole() -> None:
    store = If(less(T0, 3), (give(T0),))
    assert broken(grid((), (4,), store), shape=(4,)) == "'o[3]': this element is never written"


# --- failed checks ----------------------------------------------------------------------------


def test_the_failure_of_the_first_thread_is_kept() -> None:
    """Though another's comes first in time, and another block may be run first."""
    number = add(times(B0, 4), T0)
    early = If(equal(T0, integer(3)), (Fail(0, (number,)),))
    late = If(Compare(">=", number, integer(5)), (Fail(1, (number,)), Fail(0, (ZERO,))))
    store = Store("o", (B0, T0), ZERO)
    failure, _ = run_with_checks(grid((2000,), (4,), late, store), shape=(2000, 4))
    assert failure == Failure(1, (5,))
    failure, _ = run_with_checks(grid((2000,), (4,), early, late, store), shape=(2000, 4))
    assert failure == Failure(0, (3,))
    launches_ = (
        grid((1,), (4,), late, store),
        grid((2,), (4,), late, store),
        grid((), (), Fail(0, (ZERO,))),
    )
    failure, _ = run_with_checks(*launches_, shape=(2, 4), buffers=())
    assert failure == Failure(1, (5,))


# --- what is not run --------------------------------------------------------------------------

V = Broadcast(Load("a", (ZERO,), INT64), INT64.vector(2))


MIXED = Binary("+", ONE, Const(1, INT8), INT64)
LANES = "vectors are not run in blocks and threads"
SHARED = "a loop that is no thread's own, in a grid"


@pytest.mark.parametrize(
    ("stmt", "text"),
    [
        (Let("x", V), f"'let x: int64x2 = int64x2(a[0])': {LANES}"),
        (loop("i", 2, parallel=True), f"'parallel for i in 0:2': {SHARED}"),
        (loop("i", 2, mark="vector"), f"'vector for i in 0:2': {SHARED}"),
        (Grid((), (), ()), "'one block of one thread': a grid inside another"),
        (Let("x", var("y")), "'y': it is not declared here"),
        (Store("a", (ZERO,), ZERO), "'a[0] = 0': stores in an input"),
        (Store("o", (ZERO,), Const(1.0, FLOAT32)), "'o[0] = 1.0f': stores float32 in int64"),
        (Let("x", MIXED), "'1 + int8(1)': operands int64 and int8"),
        (Let("x", Logical("&&", (Const(True, BOOL),))), "'&&(true)': wrong number of operands"),
    ],
)
def test_malformed(stmt: Stmt, text: str) -> None:
    buffers = dense("a", INT64, (2,), "input"), dense("o", INT64, (1,), "output")
    kernel = Kernel("k", buffers, ((Grid((), (), (stmt,)),),))
    with pytest.raises(InternalError) as caught:
        evaluate(kernel, {"a": np.zeros(2, np.int64), "o": np.zeros(1, np.int64)})
    assert caught.value.cause == f"kernel k breaks a promise: in {text}"


def test_a_barrier_is_in_a_grid() -> None:
    with pytest.raises(InternalError, match="in 'barrier': it is in no grid"):
        evaluate(Kernel("k", (), ((BARRIER,),)), {})


def test_prefetched_elements_need_not_be_there() -> None:
    """What is loaded to compute their indices does."""
    a = np.array([7, 8])
    out = run(grid((), (2,), Prefetch("a", (integer(99),)), give(T0)), shape=(2,), a=a)
    assert out.tolist() == [0, 1]
    wrong = Prefetch("a", (Load("a", (integer(2),), INT64),))
    assert broken(grid((), (1,), wrong, give(T0)), shape=(1,), a=a) == (
        "'a[2]': in block (), thread (0): a[2] is outside of shape [2]"
    )
