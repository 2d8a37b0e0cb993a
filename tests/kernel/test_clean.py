"""What no store needs goes away."""

from __future__ import annotations

from tc.dtypes import INT64
from tc.kernel.clean import clean
from tc.kernel.folding import integer
from tc.kernel.ir import (
    Comment,
    Compare,
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
from tests.kernel.marked import add, assert_same, dense, less, lines, loop, var

X, Y, I = var("x"), var("y"), var("i")  # noqa: E741
BUFFERS = (dense("a", INT64, (8,), "input"), dense("o", INT64, (8,), "output"))
SITES = (Site("division", 0, 0, ("i",)),)


def a(index: Expr) -> Load:
    return Load("a", (index,), INT64)


def store(value: Expr, index: int = 0) -> Store:
    return Store("o", (integer(index),), value)


def cleaned(*stmts: Stmt) -> list[str]:
    return lines(assert_same(Kernel("k", BUFFERS, (stmts,), SITES, frozenset("o")), clean))


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
