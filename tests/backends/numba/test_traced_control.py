"""Loops, branches, locals and checks in regions with vectors on numba."""

from __future__ import annotations

import numpy as np
import pytest

from tc.dtypes import BOOL, INT64
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Comment,
    Compare,
    Const,
    Expr,
    Fail,
    Failure,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Select,
    Set,
    Site,
    Stmt,
    Store,
    Var,
)
from tests.support.build import I, dense, integer, loop
from tests.support.vectors import check, compile_kernel, plus, ramp, run, times

L16 = INT64.vector(16)
J, K = Var("j", INT64), Var("k", INT64)
SCRATCH = dense("s", INT64, (4,), "scratch")


def less(left: Expr, right: Expr | int) -> Expr:
    return Compare("<", left, integer(right) if isinstance(right, int) else right)


def number(name: str, place: Expr) -> Expr:
    return Load(name, (place,), INT64)


def kernel_of(*stmts: Stmt, out: int = 64, sites: tuple[Site, ...] = ()) -> Kernel:
    """Statements on an input n(8) and an output o, all int64, and scratch s(4)."""
    buffers = (dense("n", INT64, (8,), "input"), dense("o", INT64, (out,), "output"), SCRATCH)
    mark = Store("s", (integer(0),), integer(1))  # makes any region one of this kind
    return Kernel("k", buffers, ((mark, *stmts),), sites, frozenset({"o"}))


N = {"n": np.array([0, 1, 2, 3, 5, -4, 8, 1 << 40])}


def add(place: Expr, value: Expr | int) -> Store:
    old = number("o", place)
    return Store("o", (place,), plus(old, value))


# --- loops and branches -----------------------------------------------------------------------


@pytest.mark.parametrize("begin", [0, 1, 2, 4])
@pytest.mark.parametrize("end", [0, 1, 2, 3, 5])
def test_loops_of_any_length(begin: int, end: int) -> None:
    """With bounds known before or only when the kernel runs; also none, and one iteration."""
    at = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 4}
    body = (add(times(I, 4), plus(I, 1)), add(integer(63), 1))
    kernels = (
        kernel_of(For("i", integer(begin), integer(end), body)),
        kernel_of(For("i", integer(begin), number("n", integer(at[end])), body)),
        kernel_of(For("i", number("n", integer(at[begin])), integer(end), body)),
    )
    for kernel in kernels:
        check(kernel, N)


def test_nested_loops_with_bounds_of_outer_ones() -> None:
    inner = For("k", plus(I, J), plus(times(J, 3), 1), (add(K, plus(times(I, 10), J)),))
    check(kernel_of(loop("i", 4, For("j", I, integer(4), (inner,)))), N)


def test_branches() -> None:
    def at(n: int) -> Expr:
        return number("n", integer(n))

    odd = Compare("==", Binary("%", I, integer(2), INT64), integer(1))
    inner = If(less(I, at(3)), (add(integer(2), 1),), (add(integer(3), I),))
    branches = (
        If(odd, (inner, add(integer(0), I)), (add(integer(1), 1), inner)),
        If(odd, (), (add(integer(4), 1),)),
        If(odd, (If(less(I, 4), (add(integer(5), 1),)),), (If(odd, (), (add(integer(6), 1),)),)),
        If(less(at(1), at(2)), (Comment("empty"),)),
    )
    check(kernel_of(loop("i", 7, *branches)), N)


@pytest.mark.parametrize("kind", ["loops", "branches", "both"])
def test_blocks_nested_deeper_than_python_takes(kind: str) -> None:
    stmt: Stmt = add(integer(0), 1)
    for level in range(36):
        name = f"v{level}"
        if kind == "loops" or (kind == "both" and level % 2):
            begin = integer(level % 3)
            stmt = For(name, begin, plus(begin, 1), (stmt, add(integer(1), Var(name, INT64))))
        else:
            stmt = If(less(number("n", integer(0)), 1), (stmt,), (add(integer(2), 1),))
    check(kernel_of(stmt), N)


def test_only_what_is_needed_is_read() -> None:
    """Rule Y6: reads far outside of memory stand behind each kind of guard."""
    wild = number("n", Load("n", (integer(7),), INT64))
    inside = Compare("<", I, number("n", integer(6)))  # true, which only the memory knows
    big = less(wild, 0)
    kernel = kernel_of(
        loop(
            "i",
            4,
            Store("o", (I,), Select(inside, I, wild, INT64)),
            Store("o", (plus(I, 8),), Select(Logical("!", (inside,)), wild, I, INT64)),
            Let("p", Logical("&&", (Logical("!", (inside,)), big))),
            Let("q", Logical("||", (inside, Logical("&&", (big, big))))),
            If(Logical("&&", (Var("q", BOOL), Var("p", BOOL))), (add(integer(40), wild),)),
            If(Var("q", BOOL), (add(integer(41), 1),)),
        )
    )
    check(kernel, N)


# --- locals -----------------------------------------------------------------------------------


def test_locals_that_change() -> None:
    """Through loops, branches and shadowed names; of vectors and of scalars."""
    total, count = Var("t", L16), Var("c", INT64)
    lanes = ramp(times(I, 16), 16)
    body = (
        Let("t", Const(0, L16)),
        Let("c", integer(0)),
        Let("before", count),
        For(
            "j",
            integer(0),
            number("n", I),
            (
                Set("t", Binary("+", total, Binary("*", ramp(J, 16, 3), Const(2, L16), L16), L16)),
                If(less(J, 2), (Set("c", plus(count, J)),), (Set("c", integer(7)),)),
            ),
        ),
        Let("v", plus(count, 1)),
        Set("c", plus(count, 100)),
        Store("o", (lanes,), Binary("+", total, Broadcast(Var("v", INT64), L16), L16)),
        add(times(I, 16), plus(Var("before", INT64), count)),
    )
    check(kernel_of(loop("i", 4, *body)), N)


def test_a_local_does_not_stand_for_what_changes_later() -> None:
    """The ramp in l keeps the base that it was made with."""
    stmts = (
        Let("b", integer(2)),
        Let("l", ramp(Var("b", INT64), 16)),
        Set("b", integer(30)),
        Store("o", (Var("l", L16),), ramp(Var("b", INT64), 16)),
        Let("m", number("n", integer(3))),
        Let("w", ramp(Var("m", INT64), 16)),
        Store("o", (plus_lanes(Var("w", L16), 20),), Var("w", L16)),
        Let("moved", ramp(integer(0), 16)),
        Set("moved", ramp(integer(40), 16)),
        Store("o", (Var("moved", L16),), Var("moved", L16)),
    )
    check(kernel_of(*stmts), N)


def plus_lanes(lanes: Expr, offset: int) -> Expr:
    return Binary("+", lanes, Const(offset, L16), L16)


# --- checks -----------------------------------------------------------------------------------


def test_the_first_failure_is_recorded() -> None:
    sites = (Site("division", 0, 0, ("i",)), Site("read", 0, 1, ("i", "j")))
    fails = (
        If(less(integer(2), I), (Fail(1, (I, J, plus(J, 5))), add(integer(0), 1))),
        If(Compare("==", plus(I, J), integer(3)), (Fail(0, (times(I, 3),)),)),
    )
    kernel = kernel_of(loop("i", 5, loop("j", 2, *fails)), sites=sites)
    found = check(kernel, N)  # compares the failures too
    assert found["o"][0] == 5
    compiled = compile_kernel(kernel)
    arrays = {"n": N["n"], "o": np.zeros(64, np.int64)}
    assert run(compiled, arrays) == run(compiled, arrays) == Failure(0, (6,))
