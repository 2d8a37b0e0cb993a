"""Checks that an earlier one has made go away."""

from __future__ import annotations

import pytest
from hypothesis import given

from tc.dtypes import FLOAT32, INT64
from tc.kernel.folding import integer
from tc.kernel.ir import (
    Call,
    Compare,
    Const,
    Expr,
    Fail,
    If,
    Kernel,
    Let,
    Load,
    Set,
    Site,
    Stmt,
    Store,
)
from tc.kernel.passes.value_numbering import merge_locals
from tests.kernel.marked import assert_same, lines, run
from tests.kernel.marked_strategies import marked_kernels
from tests.support.build import add, dense, less, loop, var

X, Y, I = var("x"), var("y"), var("i")  # noqa: E741
BUFFERS = (dense("a", INT64, (8,), "input"), dense("o", INT64, (8,), "output"))
SITES = (Site("division", 0, 0, ("i",)),)


def a(index: Expr) -> Load:
    return Load("a", (index,), INT64)


def store(value: Expr, index: int = 0) -> Store:
    return Store("o", (integer(index),), value)


def on_angle(zero: float) -> Expr:
    """Whether atan2(0, zero) is more than 1: it is 0, or half a turn."""
    angle = Call("atan2", (Const(0.0, FLOAT32), Const(zero, FLOAT32)), FLOAT32)
    return Compare("<", Const(1.0, FLOAT32), angle)


FAILS = less(I, 2)
"""True in the first of three iterations."""


def check(condition: Expr, *values: Expr) -> If:
    return If(condition, (Fail(0, values or (I,)),))


def kernel_of(*stmts: Stmt) -> Kernel:
    return Kernel("k", BUFFERS, (stmts,), SITES, frozenset("o"))


def checked_once(*stmts: Stmt) -> list[str]:
    return lines(assert_same(kernel_of(*stmts), merge_locals))


def test_checks_that_repeat_go() -> None:
    """Whatever they would record, and whatever is between."""
    body = (check(FAILS), store(I), check(FAILS, add(I, I)), store(I, 1), check(FAILS))
    assert checked_once(loop("i", 3, *body)) == [
        "for i in 0:3",
        "  if i < 2",
        "    fail 0 (i)",
        "  o[0] = i",
        "  o[1] = i",
    ]


def test_checks_that_never_fail_go_too() -> None:
    never = less(I, -1)
    assert len(checked_once(loop("i", 3, check(never), check(never)))) == 3


def test_checks_in_every_kind_of_block() -> None:
    twice = (check(FAILS), check(FAILS))
    inner = loop("i", 3, If(less(I, 9), twice, twice))
    assert sum("fail" in line for line in checked_once(inner)) == 2


def test_checks_of_an_outer_block_are_made_there() -> None:
    assert checked_once(loop("i", 3, check(FAILS), loop("j", 2, check(FAILS), store(I)))) == [
        "for i in 0:3",
        "  if i < 2",
        "    fail 0 (i)",
        "  for j in 0:2",
        "    o[0] = i",
    ]


def test_checks_of_inputs_that_repeat_go() -> None:
    fails = less(a(I), 2)
    assert len(checked_once(loop("i", 3, check(fails), store(I), check(fails)))) == 4


def assert_all_stay(*stmts: Stmt) -> None:
    kernel = kernel_of(*stmts)
    assert assert_same(kernel, merge_locals) == kernel
    assert run(kernel)[0] is not None


CHECKS_THAT_STAY: dict[str, tuple[Stmt, ...]] = {
    "another condition": (loop("i", 3, check(less(I, 0)), check(FAILS, add(I, I))),),
    "another block": (loop("i", 3, If(less(I, 0), (check(FAILS),)), check(FAILS)),),
    "one in a loop that does not run": (loop("i", 3, loop("j", 0, check(FAILS)), check(FAILS)),),
    "a local that changes": (
        Let("x", integer(5)),
        check(less(X, 2), X),
        Set("x", integer(1)),
        check(less(X, 2), X),
    ),
    "memory that changes": (
        store(integer(5)),
        check(less(Load("o", (integer(0),), INT64), 2), integer(1)),
        store(integer(1)),
        check(less(Load("o", (integer(0),), INT64), 2), integer(2)),
    ),
    "a branch that records nothing": (loop("i", 3, If(FAILS, ()), check(FAILS)),),
    "a branch that also stores": (
        loop("i", 3, check(FAILS), If(FAILS, (Fail(0, (I,)), store(I)))),
    ),
    "a branch with another way": (
        loop("i", 3, check(FAILS), If(FAILS, (Fail(0, (I,)),), (store(I),))),
    ),
    "a branch on the same, without a check": (loop("i", 3, If(FAILS, (store(I),)), check(FAILS)),),
    "zeros of both signs": (
        check(on_angle(0.0), integer(1)),
        check(on_angle(-0.0), integer(2)),
    ),
}


@pytest.mark.parametrize("name", CHECKS_THAT_STAY)
def test_checks_that_stay(name: str) -> None:
    assert_all_stay(*CHECKS_THAT_STAY[name])


def test_a_name_of_two_blocks() -> None:
    """The x of the second loop is another."""
    first = loop("i", 3, Let("x", integer(9)), check(less(X, 2), X))
    second = loop("i", 3, Let("x", integer(1)), check(less(X, 2), X))
    assert_all_stay(first, second)


@given(marked_kernels())
def test_random_kernels_stay_the_same(made: tuple[Kernel, tuple[str, ...]]) -> None:
    assert_same(made[0], merge_locals)
