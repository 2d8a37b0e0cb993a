"""Locals that hold the same become one, where the value cannot have changed between."""

from __future__ import annotations

import re

from hypothesis import given

from tc.dtypes import BOOL, FLOAT32, INT64
from tc.kernel.folding import integer, logical_and
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Call,
    Compare,
    Const,
    Expr,
    Fail,
    If,
    Kernel,
    Let,
    Load,
    Ramp,
    Set,
    Site,
    Stmt,
    Store,
    Var,
)
from tc.kernel.passes.value_numbering import merge_locals
from tests.kernel.marked import assert_same, lines
from tests.kernel.marked_strategies import marked_kernels
from tests.support.build import add, dense, less, loop, times, var

X, Y, I = var("x"), var("y"), var("i")  # noqa: E741
BUFFERS = (
    dense("a", INT64, (8,), "input"),
    dense("o", INT64, (8,), "output"),
    dense("f", FLOAT32, (8,), "output"),
)
SITES = (Site("division", 0, 0, ("i",)),)


def a(index: Expr) -> Load:
    return Load("a", (index,), INT64)


def store(value: Expr, index: int = 0) -> Store:
    return Store("o", (integer(index),), value)


def merged(*stmts: Stmt) -> list[str]:
    initial = frozenset(("o", "f"))
    return lines(assert_same(Kernel("k", BUFFERS, (stmts,), SITES, initial), merge_locals))


def test_one_local_of_equal_ones() -> None:
    twice = [Let(name, times(a(integer(1)), 2)) for name in "xyz"]
    assert merged(*twice, store(add(X, Y, var("z")))) == [
        "let x: int64 = a[1] * 2",
        "o[0] = x + x + x",
    ]


def test_what_is_built_on_merged_locals_merges_too() -> None:
    stmts = (Let("x", a(integer(1))), Let("y", a(integer(1))))
    sums = (Let("p", add(X, integer(1))), Let("q", add(Y, integer(1))))
    assert merged(*stmts, *sums, store(times(var("q"), 3))) == [
        "let x: int64 = a[1]",
        "let p: int64 = x + 1",
        "o[0] = p * 3",
    ]


def test_the_name_changes_everywhere() -> None:
    same = (Let("x", a(integer(1))), Let("y", a(integer(1))))
    wide = INT64.vector(2)
    small = Binary("%", Y, integer(3), INT64)
    rest: tuple[Stmt, ...] = (
        Let("s", Y),
        Set("s", add(var("s"), Y)),
        If(Compare("<", Y, integer(99)), (Fail(0, (Y,)),)),
        loop("i", small, Store("o", (I,), add(Y, I))),
        Store(
            "o",
            (Ramp(small, 1, wide),),
            Broadcast(add(Y, var("s")), wide),
            Broadcast(Compare("<", Y, integer(99)), BOOL.vector(2)),
        ),
    )
    found = merged(*same, *rest)
    assert len(found) == 8
    assert all(re.search(r"\bx\b", line) for line in found)
    assert not any(re.search(r"\by\b", line) for line in found)


def test_an_outer_local_serves_the_blocks_inside() -> None:
    inner = (Let("y", a(integer(1))), store(Y))
    found = merged(Let("x", a(integer(1))), loop("i", 2, If(less(I, 1), inner, inner)))
    assert found == [
        "let x: int64 = a[1]",
        "for i in 0:2",
        "  if i < 1",
        "    o[0] = x",
        "  else",
        "    o[0] = x",
    ]


def test_a_local_ends_with_its_block() -> None:
    """What the loop or the branch declares is not there after it, though it is the same; and a
    name may come again, with another value, in a block beside."""
    body = (Let("x", a(integer(1))), store(X))
    other = (Let("x", a(integer(2))), Let("y", a(integer(1))), store(add(X, Y), 1))
    for first in (loop("i", 2, *body), If(less(a(integer(0)), 9), body)):
        assert merged(first, *other)[-3:] == [
            "let x: int64 = a[2]",
            "let y: int64 = a[1]",
            "o[1] = x + y",
        ]
        assert merged(first, loop("i", 2, *other), store(integer(3), 2))[-4:-1] == [
            "  let x: int64 = a[2]",
            "  let y: int64 = a[1]",
            "  o[1] = x + y",
        ]


def test_merged_names_end_with_their_block() -> None:
    """y means x in the first loop only."""
    first = loop("i", 2, Let("y", a(integer(1))), store(Y))
    second = loop("i", 2, Let("y", a(I)), store(Y, 1))
    assert merged(Let("x", a(integer(1))), first, second) == [
        "let x: int64 = a[1]",
        "for i in 0:2",
        "  o[0] = x",
        "for i in 0:2",
        "  let y: int64 = a[i]",
        "  o[1] = y",
    ]


def test_each_iteration_has_its_own() -> None:
    two = (Let("x", a(I)), Let("y", a(I)), Store("o", (I,), add(X, Y)))
    again = loop("i", 4, Let("x", a(I)), Store("o", (add(I, integer(4)),), X))
    found = merged(loop("i", 4, *two), again)
    assert found[2] == "  o[i] = x + x"
    assert found[4:] == ["  let x: int64 = a[i]", "  o[i + 4] = x"]


def test_locals_that_are_set_stay() -> None:
    start = (Let("x", a(integer(1))), Let("y", a(integer(1))))
    assert len(merged(*start, Set("x", integer(7)), store(add(X, Y)))) == 4
    assert len(merged(*start, Set("y", integer(7)), store(add(X, Y)))) == 4
    set_inside = loop("i", 2, Set("y", add(Y, I)))
    assert len(merged(*start, set_inside, store(add(X, Y)))) == 5


def test_values_of_what_is_set_stay() -> None:
    """x changes between p and q, once straight and once in a later iteration."""
    p, q = (Let(name, times(X, 2)) for name in "pq")
    total = store(add(var("p"), var("q")))
    assert len(merged(Let("x", a(integer(1))), p, Set("x", integer(5)), q, total)) == 5
    inside = loop("i", 3, q, Store("o", (I,), add(var("p"), var("q"))), Set("x", add(X, I)))
    assert len(merged(Let("x", a(integer(1))), p, inside)) == 6


def test_loads_of_what_may_be_written_stay() -> None:
    def o() -> Load:
        return Load("o", (integer(1),), INT64)

    found = merged(Let("x", o()), store(integer(5), 1), Let("y", o()), store(add(X, Y)))
    assert found == ["let x: int64 = o[1]", "o[1] = 5", "let y: int64 = o[1]", "o[0] = x + y"]


def test_masked_loads_are_not_the_whole() -> None:
    """Lanes that the mask leaves out are 0."""
    wide = INT64.vector(2)
    at = (Ramp(integer(0), 1, wide),)
    mask = Compare("<", Ramp(integer(0), 1, wide), Broadcast(integer(1), wide), BOOL.vector(2))
    whole, some = Load("a", at, wide), Load("a", at, wide, mask)
    lets = (Let("x", whole), Let("y", some), Let("z", some))
    x, y, z = (Var(name, wide) for name in "xyz")
    sums = Binary("+", Binary("+", x, y, wide), z, wide)
    assert merged(*lets, Store("o", at, sums))[-1].endswith("= x + y + y")


def test_zeros_of_both_signs_stay_apart() -> None:
    """0.0 == -0.0, but the angles differ by a half turn."""
    plus, minus = Const(0.0, FLOAT32), Const(-0.0, FLOAT32)
    lets = (
        Let("p", Call("atan2", (plus, plus), FLOAT32)),
        Let("q", Call("atan2", (plus, minus), FLOAT32)),
    )
    p, q = Var("p", FLOAT32), Var("q", FLOAT32)
    difference = Store("f", (integer(0),), Binary("-", p, q, FLOAT32))
    assert len(merged(*lets, difference)) == 3


def test_constants_of_other_types_stay_apart() -> None:
    lets = (Let("x", integer(1)), Let("b", Const(True, BOOL)), Let("c", Const(True, BOOL)))
    both = logical_and(Var("b", BOOL), Var("c", BOOL))
    found = merged(*lets, If(both, (store(X),)))
    assert found[:2] == ["let x: int64 = 1", "let b: bool = true"]
    assert found[2].startswith("if b && b")


@given(marked_kernels())
def test_random_kernels_stay_the_same(made: tuple[Kernel, tuple[str, ...]]) -> None:
    assert_same(made[0], merge_locals)
