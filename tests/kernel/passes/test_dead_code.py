"""What no store needs goes away."""

from __future__ import annotations

import pytest

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
from tc.kernel.passes.dead_code import eliminate_dead_code
from tests.kernel.marked import assert_same, lines
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


def test_temporaries_that_nothing_reads_go() -> None:
    """With what is stored there, but not with what fails on the way."""
    fail = If(less(a(integer(0)), 3), (Fail(0, (X,)),))
    body = (Let("x", integer(1)), fail, Store("t", (X,), X), Store("u", (X,), X))
    temporaries = (dense("t", INT64, (8,), "temporary"), dense("u", INT64, (8,), "temporary"))
    read = (store(Load("u", (integer(1),), INT64)),)
    made = eliminate_dead_code(Kernel("k", (*BUFFERS, *temporaries), (body, read), SITES))
    assert made.regions == ((body[0], fail, body[3]), read)
    assert [buffer.name for buffer in made.buffers] == ["a", "o", "u"]


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
