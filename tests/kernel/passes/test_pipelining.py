"""Pipelining: kernels that copy ahead give what they gave, and which loops stay as they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from tc.dtypes import FLOAT32
from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import binary, compare, constant, integer
from tc.kernel.ir import (
    Barrier,
    Binary,
    Buffer,
    Commit,
    CopyAsync,
    Expr,
    For,
    Grid,
    If,
    Kernel,
    LaunchIndex,
    Let,
    Load,
    Set,
    Stmt,
    Store,
    Var,
    Wait,
    inner_statements,
    row_major,
    statements,
)
from tc.kernel.pass_manager import PassContext
from tc.kernel.passes.pass_list import GPU_PASSES
from tc.kernel.passes.pipelining import pipeline
from tc.kernel.rebuild import map_each, map_regions
from tc.kernel.verify import verify
from tests.support.build import add, loop, var

T, K, R = var("t"), var("k"), var("r")
THREADS = 8
ZERO = integer(0)
SUM = Var("sum", FLOAT32)


def buffers(steps: int, stages: int) -> tuple[Buffer, ...]:
    shape = (stages, THREADS) if stages > 1 else (1, THREADS)
    return (
        Buffer("a", FLOAT32, (2, steps, THREADS), row_major((2, steps, THREADS)), "input"),
        Buffer("o", FLOAT32, (2, THREADS), (THREADS, 1), "output"),
        Buffer("s", FLOAT32, shape, row_major(shape), "shared", stages=stages),
    )


def asynchronous(row: Expr) -> tuple[Stmt, ...]:
    return CopyAsync("s", (ZERO, T), "a", (row, K, T)), Commit(), Wait()


def plain(row: Expr) -> tuple[Stmt, ...]:
    """In a loop, with a test that holds."""
    value = Load("a", (row, K, add(T, var("c"))), FLOAT32)
    copy = Store("s", (ZERO, add(T, var("c"))), value)
    guarded = If(compare("<", T, integer(THREADS), {}), (copy,))
    return (loop("c", 1, guarded, mark="unroll"),)


COPIES = {"async": asynchronous, "registers": plain}


def sums(
    steps: int, stages: int, kind: str, *, more: tuple[Stmt, ...] = (), begin: int = 0
) -> Kernel:
    """Sums along the steps of what the next thread has copied, once for each of two rows."""
    following = binary("%", add(T, integer(1)), integer(THREADS))
    found = Load("s", (ZERO, following), FLOAT32)
    use = Set("sum", binary("+", SUM, found))
    body = (*COPIES[kind](R), Barrier(), *more, use, Barrier())
    step = For("k", integer(begin), integer(steps), body)
    row = loop("r", 2, Let("sum", constant(0.0, FLOAT32)), step, Store("o", (R, T), SUM))
    grid = Grid((), (LaunchIndex("t", THREADS),), (row,))
    return Kernel("f", buffers(steps, stages), ((grid,),))


def result(kernel: Kernel) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    verify(kernel)
    shape = kernel.buffer("a").shape
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    o = np.full((2, THREADS), np.nan, np.float32)
    evaluate(kernel, {"a": a, "o": o})
    return o


def passed(kernel: Kernel) -> Kernel:
    """After all passes for GPUs."""
    for each in GPU_PASSES:
        kernel = each.run(kernel, PassContext(lanes_bits=0))
        verify(kernel)
    return kernel


@pytest.mark.parametrize("kind", COPIES)
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_the_same_result(kind: str, stages: int) -> None:
    for steps in (1, 2, 3, 4, 9):
        for begin in (0, 1):
            kernel = sums(steps, stages, kind, begin=begin)
            expected = result(kernel)
            made = pipeline(kernel)
            assert made != kernel
            assert all(b.stages == 1 for b in made.buffers)
            np.testing.assert_array_equal(result(made), expected)
            np.testing.assert_array_equal(result(passed(kernel)), expected)


@pytest.mark.parametrize("kind", COPIES)
def test_one_barrier_an_iteration(kind: str) -> None:
    made = pipeline(sums(9, 2, kind))
    (steps,) = (s for s in _all(made) if isinstance(s, For) and s.var == "k")
    assert sum(isinstance(s, Barrier) for s in statements(steps.body)) == 1


def _all(kernel: Kernel) -> Iterator[Stmt]:
    return statements(kernel.regions[0])


@pytest.mark.parametrize("kind", COPIES)
def test_each_barrier_is_needed(kind: str) -> None:
    """Also the one between rows, which copy to the same stages."""
    made = pipeline(sums(3, 2, kind))
    barriers = [s for s in _all(made) if isinstance(s, Barrier)]
    assert len(barriers) == 2
    for number in range(2):
        with pytest.raises(InternalError, match="no barrier between"):
            result(_without(made, number))


def _without(kernel: Kernel, number: int) -> Kernel:
    """Without one of the barriers."""
    met = iter(range(99))

    def each(stmt: Stmt) -> tuple[Stmt, ...]:
        return () if isinstance(stmt, Barrier) and next(met) == number else (stmt,)

    return map_regions(kernel, lambda region: map_each(region, each))


@pytest.mark.parametrize("stages", [2, 3])
def test_a_wait_less_is_found(stages: int) -> None:
    def each(stmt: Stmt) -> tuple[Stmt, ...]:
        return (Wait(stmt.left + 1),) if isinstance(stmt, Wait) else (stmt,)

    made = pipeline(sums(5, stages, "async"))
    late = map_regions(made, lambda region: map_each(region, each))
    with pytest.raises(InternalError, match="is copied, and not waited for"):
        result(late)


def test_what_stays() -> None:
    """The kernels are right, and one stage is used."""
    kernel = sums(5, 2, "async")
    writes = Store("s", (integer(1), T), constant(0.0, FLOAT32))
    serial = sums(5, 2, "registers")
    not_unrolled = map_regions(
        serial,
        lambda region: map_each(
            region,
            lambda s: (replace(s, mark=""),) if isinstance(s, For) and s.var == "c" else (s,),
        ),
    )
    one = sums(5, 1, "async")
    beside = map_regions(
        kernel,
        lambda region: map_each(
            region,
            lambda s: (s, Barrier(), writes) if isinstance(s, For) and s.var == "k" else (s,),
        ),
    )
    for stays in (sums(5, 2, "async", more=(writes,)), not_unrolled, beside):
        verify(stays)
        made = pipeline(stays)
        assert made.regions == stays.regions
        assert made.buffers == _plain(stays)
    assert pipeline(one) is one
    assert pipeline(kernel).buffers == _plain(kernel)


def _plain(kernel: Kernel) -> tuple[Buffer, ...]:
    return tuple(replace(b, stages=1) for b in kernel.buffers)


def test_what_a_loop_writes_is_read_behind_a_barrier() -> None:
    """The barrier at the end of an iteration is gone, but after the last one."""
    first, other = (Load("o", (ZERO, at), FLOAT32) for at in (T, binary("-", integer(7), T)))
    step = Store("o", (ZERO, T), Binary("+", first, Load("s", (ZERO, T), FLOAT32), FLOAT32))
    body = loop("k", 5, *asynchronous(ZERO), Barrier(), step, Barrier())
    begin = Store("o", (ZERO, T), constant(0, FLOAT32))
    end = Store("o", (integer(1), T), other)
    grid = Grid((), (LaunchIndex("t", THREADS),), (begin, body, end))
    kernel = Kernel("k", buffers(5, 2), ((grid,),))
    verify(kernel)
    made = pipeline(kernel)
    verify(made)
    rng = np.random.default_rng(0)
    a = rng.integers(-9, 10, (2, 5, THREADS)).astype(np.float32)
    for each in (kernel, made):
        o = np.zeros((2, THREADS), np.float32)
        assert evaluate(each, {"a": a, "o": o}) is None
        np.testing.assert_array_equal(o, [a[0].sum(0), a[0].sum(0)[::-1]])


def test_registers_are_locals_in_the_end() -> None:
    made = passed(sums(5, 3, "registers"))
    used = {s.buffer for s in _all(made) if isinstance(s, Store)}
    assert used == {"s", "o"}
    assert not any(inner_statements(s) for s in _all(made) if isinstance(s, Let))
