"""What no store needs goes away, and checks that an earlier one has made."""

from __future__ import annotations

import pytest
from hypothesis import given

from tc.dtypes import FLOAT32, INT64
from tc.kernel.folding import integer
from tc.kernel.ir import (
    Call,
    Comment,
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
from tc.kernel.passes.dead_code import eliminate_dead_code, eliminate_repeated_checks
from tests.kernel.marked import add, assert_same, dense, less, lines, loop, run, var
from tests.kernel.marked_strategies import marked_kernels

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


def cleaned(*stmts: Stmt) -> list[str]:
    return lines(
        assert_same(Kernel("k", BUFFERS, (stmts,), SITES, frozenset("o")), eliminate_dead_code)
    )


def test_unused_locals_go() -> None:
    used = Let("z", a(integer(1)))
    assert cleaned(Let("x", a(integer(0))), Let("y", X), used, store(var("z"))) == [
        "let z: int64 = a[1]",
        "o[0] = z",
    ]


def test_locals_that_only_change_themselves_go() -> None:
    steps = loop("i", 3, Set("x", add(X, I)), Set("y", X))
    assert cleaned(Let("x", integer(0)), Let("y", integer(0)), steps, store(integer(1))) == [
        "o[0] = 1"
    ]
    assert len(cleaned(Let("x", integer(0)), Let("y", integer(0)), steps, store(Y))) == 6


def test_everything_that_acts_keeps_its_names() -> None:
    names = "bcdefg"
    lets = [Let(name, a(integer(n))) for n, name in enumerate(names)]
    b, c, d, e, f, g = map(var, names)
    index = If(Compare("==", e, integer(2)), (Store("o", (integer(2),), integer(3)),))
    failure = If(less(f, -9), (Fail(0, (g,)),))
    inner = loop("i", 2, If(less(add(b, c, d), 99), (store(integer(1)),)))
    assert len(cleaned(*lets, index, failure, inner)) == 6 + 2 + 2 + 3


def test_loops_and_branches_that_do_nothing_go() -> None:
    nothing = (Let("x", a(integer(0))), Comment("nothing"))
    assert cleaned(loop("i", 2, *nothing), If(less(a(integer(0)), 2), nothing)) == []
    either = If(less(a(integer(0)), 2), nothing, (store(integer(1)),))
    assert cleaned(either) == ["if a[0] < 2", "  # nothing", "else", "  o[0] = 1"]


def test_branches_on_one_condition_join() -> None:
    test = less(I, 1)
    found = cleaned(loop("i", 2, If(test, (store(I),)), If(test, (store(I, 1),), (store(I, 2),))))
    assert found == [
        "for i in 0:2",
        "  if i < 1",
        "    o[0] = i",
        "    o[1] = i",
        "  else",
        "    o[2] = i",
    ]


def test_branches_that_must_not_join() -> None:
    other = If(less(I, 2), (store(I, 1),))
    reads = less(Load("o", (integer(0),), INT64), 1)
    changing = If(reads, (store(integer(5)),))
    assert len(cleaned(loop("i", 2, If(less(I, 1), (store(I),)), other))) == 5
    assert len(cleaned(changing, If(reads, (store(integer(6), 1),)))) == 4
    lets = (Let("y", a(integer(0))), store(Y))
    assert len(cleaned(loop("i", 2, If(less(I, 1), lets), If(less(I, 1), lets)))) == 7
    on_x = less(X, 1)
    steps = (If(on_x, (Set("x", integer(3)), store(X))), If(on_x, (store(integer(7), 3),)))
    assert len(cleaned(Let("x", a(integer(0))), *steps)) == 6


def test_branches_on_zeros_of_both_signs_do_not_join() -> None:
    """0.0 == -0.0, but the angles differ by a half turn."""
    first, second = (
        If(on_angle(zero), (store(integer(n), n),)) for n, zero in enumerate((0.0, -0.0))
    )
    assert len(cleaned(first, second)) == 4
    assert len(cleaned(first, If(first.condition, second.then))) == 3


# --- checks ---------------------------------------------------------------------------------------

FAILS = less(I, 2)
"""True in the first of three iterations."""


def check(condition: Expr, *values: Expr) -> If:
    return If(condition, (Fail(0, values or (I,)),))


def kernel_of(*stmts: Stmt) -> Kernel:
    return Kernel("k", BUFFERS, (stmts,), SITES, frozenset("o"))


def checked_once(*stmts: Stmt) -> list[str]:
    return lines(assert_same(kernel_of(*stmts), eliminate_repeated_checks))


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


def assert_all_stay(*stmts: Stmt) -> None:
    kernel = kernel_of(*stmts)
    assert assert_same(kernel, eliminate_repeated_checks) == kernel
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
    assert_same(made[0], eliminate_repeated_checks)


ZERO = Let("x", integer(0))


def test_locals_begin_where_they_are_first_set() -> None:
    kept = eliminate_dead_code(
        Kernel("k", BUFFERS, ((ZERO, store(a(I), 1), Set("x", a(integer(3))), store(X)),))
    )
    assert kept.regions == ((store(a(I), 1), Let("x", a(integer(3))), store(X)),)


@pytest.mark.parametrize(
    "between",
    [
        (Set("x", add(X, integer(2))),),
        (store(X, 1), Set("x", integer(2))),
        (If(less(I, 3), (Set("x", integer(2)),)),),
        (loop("j", 3, store(X, 1)), Set("x", integer(2))),
        (loop("j", 3, If(less(I, 3), (store(X, 1),))), Set("x", integer(2))),
        (loop("j", 3, If(less(I, 3), (Set("x", var("j")),))), Set("x", integer(2)), store(X, 2)),
        (If(less(X, 3), (store(I, 1),)), Set("x", integer(2))),
    ],
    ids=["own value", "store", "branch", "loop", "deep", "set deep", "condition"],
)
def test_first_values_that_are_read(between: tuple[Stmt, ...]) -> None:
    before = Kernel("k", BUFFERS, ((loop("i", 8, ZERO, *between, store(X)),),))
    assert eliminate_dead_code(before) == before


def test_locals_that_are_set_twice() -> None:
    block = (ZERO, Set("x", integer(1)), store(X), Set("x", integer(2)), store(X, 1))
    kept = eliminate_dead_code(Kernel("k", BUFFERS, (block,)))
    assert kept.regions == ((Let("x", integer(1)), *block[2:]),)
