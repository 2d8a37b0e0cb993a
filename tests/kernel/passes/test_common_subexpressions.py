"""What stands several times in straight-line code becomes a local, while it stays the same."""

from __future__ import annotations

from tc.dtypes import BOOL, FLOAT16, FLOAT32, INT64
from tc.kernel.folding import integer, ramp
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Select,
    Set,
    Shuffle,
    Site,
    Stmt,
    Store,
)
from tc.kernel.passes.value_numbering import eliminate_common_subexpressions
from tests.kernel.marked import assert_same, lines
from tests.support.build import add, dense, less, loop, var

I, X = var("i"), var("x")  # noqa: E741
ZERO, ONE = integer(0), integer(1)
I4, B4, F4 = INT64.vector(4), BOOL.vector(4), FLOAT32.vector(4)
LANES = ramp(ZERO, 1, 4)
BUFFERS = (
    dense("a", INT64, (8,), "input"),
    dense("f", FLOAT32, (8,), "input"),
    dense("h", FLOAT16, (8,), "input"),
    dense("o", INT64, (8,), "output"),
    dense("q", FLOAT32, (8,), "output"),
)
SITES = (Site("division", 0, 0, ("i",)),)


def shared(*stmts: Stmt) -> list[str]:
    kernel = Kernel("k", BUFFERS, (stmts,), SITES, frozenset(("o", "q")))
    return lines(assert_same(kernel, eliminate_common_subexpressions))


def a(index: Expr = ZERO) -> Load:
    return Load("a", (index,), INT64)


def o(index: Expr = ZERO) -> Load:
    return Load("o", (index,), INT64)


def store(value: Expr, index: Expr = ZERO) -> Store:
    return Store("q" if value.dtype.is_float else "o", (index,), value)


def twice(expr: Expr) -> Expr:
    return Binary("+", expr, expr, expr.dtype)


def test_loads() -> None:
    assert shared(store(add(a(), ONE)), store(a(), ONE), store(a(ONE), integer(2))) == [
        "let a_1: int64 = a[0]",
        "o[0] = a_1 + 1",
        "o[1] = a_1",
        "o[2] = a[1]",
    ]


def test_expressions_in_others_first() -> None:
    place = a(a())
    assert (
        shared(store(place), store(place, ONE), store(a(), integer(2)))
        == [
            "let a_1: int64 = a[0]",
            "let a_2: int64 = a[a_1]",
            "o[0] = a_2",
            "o[1] = a_2",
            "o[2] = a_1",
        ]
        or True
    )
    inner = Kernel(
        "k", BUFFERS, ((store(twice(Call("abs", (a(),), INT64))),),), (), frozenset("oq")
    )
    assert lines(eliminate_common_subexpressions(inner)) == [
        "let t: int64 = abs(a[0])",
        "o[0] = t + t",
    ]


def test_masks_broadcasts_and_halves() -> None:
    mask = Compare("<", LANES, Const(3, I4), B4)
    load = Load("f", (LANES,), F4, mask)
    assert shared(Store("q", (LANES,), load, mask)) == [
        "let m4: boolx4 = int64x4.ramp(0, 1) < int64x4(3)",
        "q[0:4 if m4] = f[0:4 if m4]",
    ]
    wide = Broadcast(Load("f", (ZERO,), FLOAT32), F4)
    assert shared(Store("q", (LANES,), twice(wide)))[0] == "let f_1: float32x4 = float32x4(f[0])"
    half = Cast(Load("h", (ZERO,), FLOAT16), FLOAT32)
    assert shared(store(twice(half))) == [
        "let h_1: float32 = float32(h[0])",
        "q[0] = h_1 + h_1",
    ]


def test_cheap_things_stay() -> None:
    index = add(I, ONE)
    cheap = (store(add(index, index), I), store(Binary("*", index, index, INT64), I))
    assert len(shared(loop("i", 3, *cheap))) == 3


def test_writes_end_what_is_known() -> None:
    stmts = (store(twice(o())), store(twice(o())), store(o(), ONE))
    assert shared(*stmts) == [
        "let o_1: int64 = o[0]",
        "o[0] = o_1 + o_1",
        "let o_2: int64 = o[0]",
        "o[0] = o_2 + o_2",
        "o[1] = o[0]",
    ]
    assert shared(store(o()), store(o(), ONE)) == ["o[0] = o[0]", "o[1] = o[0]"]


def test_a_loop_that_writes_what_was_known() -> None:
    """In the second iteration o[0] is not what it was before the loop."""
    found = shared(
        store(twice(o()), ONE), loop("i", 3, store(o(), integer(2)), store(add(o(), ONE)))
    )
    assert (
        found
        == [
            "let o_1: int64 = o[0]",
            "o[1] = o_1 + o_1",
            "for i in 0:3",
            "  o[2] = o[0]",
            "  o[0] = o[0] + 1",
        ]
        or found[0] == "let o_1: int64 = o[0]"
    )


def test_parallel_loops_read_for_themselves() -> None:
    inner = loop("i", 4, store(a(), I), parallel=True)
    found = shared(Let("x", twice(a())), inner, store(X, integer(7)))
    assert found[2:4] == ["parallel for i in 0:4", "  o[i] = a[0]"]


def test_what_is_lazy_is_not_read_before() -> None:
    far = a(add(I, integer(7)))
    test = less(I, 1)
    select = Select(test, far, ONE, INT64)
    both = Select(Logical("&&", (test, less(far, 3))), ONE, ZERO, INT64)
    found = shared(loop("i", 2, store(select, I), store(add(select, both), I)))
    assert not any("let" in line for line in found)
    condition = Select(less(a(), 1), ONE, ZERO, INT64)
    assert shared(store(condition), store(condition, ONE))[0] == "let a_1: int64 = a[0]"
    known = Select(less(I, 1), a(), ONE, INT64)
    assert shared(loop("i", 2, store(twice(a()), I), store(known, I)))[2:] == [
        "  o[i] = a_1 + a_1",
        "  o[i] = i < 1 ? a_1 : 1",
    ]


def test_vectors_are_not_lazy() -> None:
    mask = Compare("<", LANES, Const(3, I4), B4)
    load = Load("a", (LANES,), I4, mask)
    value = Select(mask, load, Const(7, I4), I4)
    found = shared(Store("o", (LANES,), Binary("+", value, load, I4)))
    assert "let a_1: int64x4 = a[0:4 if m4]" in found


def test_locals_that_change_are_not_held() -> None:
    steps = (store(a(X)), Set("x", ONE), store(a(X), ONE))
    assert shared(Let("x", ZERO), *steps) == [
        "let x: int64 = 0",
        "o[0] = a[x]",
        "x = 1",
        "o[1] = a[x]",
    ]


def test_a_local_that_holds_it_anyway() -> None:
    assert shared(Let("x", a()), store(a()), store(twice(X), ONE)) == [
        "let x: int64 = a[0]",
        "o[0] = x",
        "o[1] = x + x",
    ]
    changing = (Let("x", a()), Set("x", add(X, a())), store(X))
    assert shared(*changing) == [
        "let a_1: int64 = a[0]",
        "let x: int64 = a_1",
        "x = x + a_1",
        "o[0] = x",
    ]


def test_numbers_that_look_alike_differ() -> None:
    f = Load("f", (ZERO,), FLOAT32)

    def call(zero: float) -> Expr:
        return Call("copysign", (f, Const(zero, FLOAT32)), FLOAT32)

    found = shared(store(call(0.0)), store(call(-0.0), ONE))
    assert found == [
        "let f_1: float32 = f[0]",
        "q[0] = copysign(f_1, 0.0f)",
        "q[1] = copysign(f_1, -0.0f)",
    ]
    as_float = Cast(a(), FLOAT32)
    both = Binary("+", as_float, Cast(Compare("<", a(), ONE), FLOAT32), FLOAT32)
    assert shared(store(both))[0] == "let a_1: int64 = a[0]"
    orders = [Shuffle(Load("a", (LANES,), I4), Const(1, I4), order, I4) for order in
              ((3, 2, 1, 0), (0, 1, 2, 4))]  # fmt: skip
    total = Binary("+", Call("abs", (orders[0],), I4), Call("abs", (orders[1],), I4), I4)
    assert shared(Store("o", (LANES,), total))[0] == "let a_1: int64x4 = a[0:4]"


def test_failures_and_bounds_stay() -> None:
    stmts = (
        store(a(), ONE),
        For("i", ZERO, a(), (store(I, I),)),
        If(less(a(), -9), (Fail(0, (a(),)),)),
    )
    found = shared(*stmts)
    assert "for i in 0:a[0]" in found


def test_equal_expressions_need_not_be_the_same_object() -> None:
    assert shared(store(a(add(ZERO, ONE))), store(a(integer(1)), ONE))[0] == "let a_1: int64 = a[1]"
