"""Loops marked "vector" become vectors: subscripts, locals, types, and what stays a loop."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tc.dtypes import BOOL, FLOAT16, INT8, INT64, UINT8, DType
from tc.kernel.folding import compare, integer
from tc.kernel.ir import (
    Binary,
    Call,
    Cast,
    Comment,
    Compare,
    Const,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Set,
    Stmt,
    Store,
    Var,
)
from tc.kernel.passes.vectorize import MAX_LANES, vectorize
from tests.kernel.marked import all_expressions, assert_same, lines, loops
from tests.kernel.vector_loops import F32, K, L, R, a, kernel_of, one, vector, vectors
from tests.support.build import add, dense, less, loop, times, var

# --- subscripts -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (L, "a[0:4]"),
        (add(L, integer(3)), "a[3:7]"),
        (add(times(K, 8), L), "a[k * 8:k * 8 + 4]"),
        (add(times(L, 2), K), "a[k:k + 8:2]"),
        (add(times(add(L, integer(1)), 3), times(L, -1)), "a[3:11:2]"),
        (Binary("-", integer(9), L, INT64), "a[9:5:-1]"),
        (Binary("/", L, integer(4), INT64), "int64x4(a[0])"),
        (Binary("%", add(times(K, 4), L), integer(12), INT64), "a[k * 4 % 12:k * 4 % 12 + 4]"),
        (Binary("/", add(times(K, 4), L), integer(12), INT64), "int64x4(a[k * 4 / 12])"),
        (Binary("%", L, integer(3), INT64), "a[int64x4.ramp(0, 1) % int64x4(3)]"),
        (Binary("%", a(L), integer(8), INT64), "a[a[0:4] % int64x4(8)]"),
        (K, "int64x4(a[k])"),
    ],
)
def test_subscripts(index: Expr, text: str) -> None:
    found = vectors(loop("k", 2, vector(Store("o", (L,), a(index)))))
    assert found == ["for k in 0:2", f"  o[0:4] = {text}"]


def test_a_scalar_subscript_counts_for_all_lanes() -> None:
    f = Load("f", (integer(2), L), F32)
    assert one(f) == ["q[0:4] = f[2, 0:4]"]
    assert one(Load("c", (L, integer(2)), INT64)) == ["o[0:4] = c[0:4, 2]"]


def test_what_is_the_same_in_all_lanes_stays_scalar() -> None:
    factor = Binary("*", a(integer(1)), integer(3), INT64)
    found = one(Binary("*", factor, a(L), INT64))
    assert found == ["o[0:4] = int64x4(a[1] * 3) * a[0:4]"]


def test_begin_of_the_loop() -> None:
    found = vectors(vector(Store("o", (L,), a(times(L, 2))), begin=5))
    assert found == ["o[5:9] = a[10:18:2]"]


# --- counts of lanes --------------------------------------------------------------------------


def test_lanes_that_are_no_power_of_two_have_a_tail() -> None:
    found = vectors(vector(Store("o", (L,), a(L)), lanes=3))
    tail = "int64x4.ramp(0, 1) < int64x4(3)"
    assert found == [f"o[0:4 if {tail}] = a[0:4 if {tail}]"]


@pytest.mark.parametrize("role", ["local", "element"])
@pytest.mark.parametrize("lanes", [2, 7])
@pytest.mark.parametrize("op", ["+", "*", "min", "max"])
@pytest.mark.parametrize("dtype", [INT64, INT8, UINT8, F32, BOOL], ids=str)
def test_the_tail_of_a_reduction_is_neutral(op: str, dtype: DType, lanes: int, role: str) -> None:
    if dtype == BOOL and op not in ("min", "max"):
        return
    x, place = Var("x", dtype), (integer(0),)
    term, first = Load("i", (L,), dtype), Load("i", (integer(7),), dtype)
    buffers = (dense("i", dtype, (8,), "input"), dense("o", dtype, (1,), "output"))
    if role == "local":
        fold: Stmt = Set("x", Binary(op, x, term, dtype))
        stmts: tuple[Stmt, ...] = (Let("x", first), vector(fold, lanes=lanes), Store("o", place, x))
    else:
        fold = Store("o", place, Binary(op, Load("o", place, dtype), term, dtype))
        stmts = (Store("o", place, first), vector(fold, lanes=lanes))
    changed = assert_same(Kernel("k", buffers, (stmts,)), vectorize)
    assert "reduce" in "\n".join(lines(changed))
    assert not loops(changed)


def test_one_iteration_needs_no_vector() -> None:
    body = (If(less(L, 3), (Store("o", (L,), a(L)),)), Let("y", a(L)), Store("o", (L,), var("y")))
    assert vectors(vector(*body, lanes=1, begin=2))[-1] == "o[2] = y_1"
    fold = Set("x", Binary("+", var("x"), L, INT64))
    assert vectors(Let("x", integer(1)), vector(fold, lanes=1, begin=2))[1:] == ["x = x + 2"]


def test_no_iteration_and_too_many() -> None:
    assert vectors(vector(Store("o", (L,), a(L)), lanes=0)) == []
    buffers = (dense("o", INT64, (MAX_LANES + 1,), "output"),)
    stmt = vector(Store("o", (L,), L), lanes=MAX_LANES + 1)
    assert loops(assert_same(Kernel("k", buffers, ((stmt,),)), vectorize)) == ["l"]


# --- locals -----------------------------------------------------------------------------------


def test_locals_become_vectors_where_they_differ() -> None:
    x, y = var("x"), var("y")
    body = (Let("x", a(integer(2))), Let("y", add(x, L)), Store("o", (L,), add(x, y)))
    assert vectors(vector(*body)) == [
        "let x_1: int64 = a[2]",
        "let yx4: int64x4 = int64x4.ramp(x_1, 1)",
        "o[0:4] = int64x4(x_1) + yx4",
    ]


def test_a_local_that_differs_later_is_a_vector_at_once() -> None:
    """Also in a loop, where the change comes before in the iteration after."""
    x = var("x")
    steps = loop("k", 3, Store("t", (L,), x), Set("x", add(x, L)))
    found = vectors(vector(Let("x", integer(0)), steps, Store("o", (L,), Load("t", (L,), INT64))))
    assert found == [
        "let xx4: int64x4 = int64x4(0)",
        "for k in 0:3",
        "  t[0:4] = xx4",
        "  xx4 = xx4 + int64x4.ramp(0, 1)",
        "o[0:4] = t[0:4]",
    ]


def test_a_local_set_in_some_lanes() -> None:
    x = var("x")
    found = vectors(
        vector(Let("x", integer(0)), If(less(L, 2), (Set("x", integer(5)),)), Store("o", (L,), x))
    )
    assert found == [
        "let xx4: int64x4 = int64x4(0)",
        "xx4 = int64x4.ramp(0, 1) < int64x4(2) ? int64x4(5) : xx4",
        "o[0:4] = xx4",
    ]


def test_a_local_that_all_lanes_share_may_change() -> None:
    x = var("x")
    found = vectors(
        vector(Let("x", integer(0)), loop("k", 3, Set("x", add(x, K))), Store("o", (L,), add(x, L)))
    )
    assert found[-1] == "o[0:4] = int64x4.ramp(x_1, 1)"


def test_two_loops_use_the_same_names() -> None:
    body = (Let("x", a(L)), Let("y", a(integer(1))), Store("o", (L,), add(var("x"), var("y"))))
    found = vectors(vector(*body), vector(*body), loop("k", 2, vector(*body)))
    assert [line.split(":")[0].strip() for line in found if "let" in line] == [
        "let xx4", "let y_1", "let xx4_1", "let y_2", "let xx4_2", "let y_3"
    ]  # fmt: skip


def test_a_vector_loop_in_a_branch() -> None:
    stmt = If(Load("p", (integer(0),), BOOL), (vector(Store("o", (L,), L)),), (Comment("no"),))
    assert vectors(stmt) == ["if p[0]", "  o[0:4] = int64x4.ramp(0, 1)", "else", "  # no"]


# --- other types ------------------------------------------------------------------------------


def test_casts_keep_lanes() -> None:
    half = Cast(Load("h", (L,), FLOAT16), F32)
    assert one(Cast(half, FLOAT16)) == ["g[0:4] = float16x4(float32x4(h[0:4]))"]
    assert one(Cast(Const(1.0, F32), FLOAT16)) == ["g[0:4] = float16x4(float32x4(1.0))"]
    shared = Cast(Cast(Load("h", (integer(1),), FLOAT16), F32), FLOAT16)
    assert one(shared) == ["g[0:4] = float16x4(float32x4(float32(h[1])))"]
    assert one(Cast(Load("p", (L,), BOOL), INT64)) == ["o[0:4] = int64x4(p[0:4])"]


# --- loops inside -----------------------------------------------------------------------------


def test_a_serial_loop_inside() -> None:
    f = Load("f", (K, L), F32)
    x = Var("x", F32)
    body = (
        Let("x", Const(0.0, F32)),
        loop("k", 4, Set("x", Binary("+", x, f, F32)), mark="unroll"),
        Store("q", (L,), x),
    )
    assert vectors(vector(*body)) == [
        "let xx4: float32x4 = float32x4(0.0)",
        "unroll for k in 0:4",
        "  xx4 = xx4 + f[k, 0:4]",
        "q[0:4] = xx4",
    ]


def test_a_loop_inside_may_have_the_name_of_an_earlier_local() -> None:
    branch = If(Load("p", (K,), BOOL), (Let("i", a(L)), Store("o", (L,), var("i"))))
    inner = loop("i", 2, Store("o", (L,), add(var("i"), L)))
    found = vectors(loop("k", 2, vector(branch, inner)))
    assert found[-2:] == ["  for i in 0:2", "    o[0:4] = int64x4.ramp(i, 1)"]


def test_a_loop_in_some_lanes() -> None:
    inner = loop("k", 3, Store("o", (L,), a(add(K, L))))
    found = vectors(vector(If(less(L, 2), (inner,))))
    mask = "int64x4.ramp(0, 1) < int64x4(2)"
    assert found == ["for k in 0:3", f"  o[0:4 if {mask}] = a[k:k + 4 if {mask}]"]


# --- what stays a loop ------------------------------------------------------------------------


def stays(*body: Stmt, before: tuple[Stmt, ...] = ()) -> bool:
    found = vectors(*before, vector(*body))
    return any(line.strip() == "for l in 0:4" for line in found)


def test_what_stays_a_loop() -> None:
    zero = integer(0)
    store = Store("o", (L,), L)
    assert stays(store, Fail(0, (Binary("*", L, L, INT64),)))
    assert stays(store, If(Compare("<", a(L), integer(-100)), (Fail(0, (zero,)),)))
    assert not stays(store, If(less(a(zero), 100), (Fail(0, (zero,)),)))
    assert stays(For("k", zero, L, (Store("o", (L,), K),)))
    assert stays(For("k", L, integer(9), (Store("o", (L,), K),)))
    assert stays(If(less(L, 1), (Store("o", (zero,), integer(3)),)))
    assert not stays(store)


def test_of_failures_of_all_lanes_the_first_counts() -> None:
    store = Store("o", (L,), L)
    assert vectors(vector(store, Fail(0, (add(times(L, 2), integer(3)),)))) == [
        "o[0:4] = int64x4.ramp(0, 1)",
        "fail 0 (3)",
    ]
    inside = loop("k", 2, store, If(less(K, 1), (Fail(0, (K,)),)))
    assert vectors(vector(inside))[-1] == "    fail 0 (k)"


def test_failures_of_some_lanes_if_the_first_is_certainly_among_them() -> None:
    """A row that is gathered, in vectors of which the last is not whole: one test serves all."""
    fail = If(less(a(integer(0)), 100), (Fail(0, (L,)),))
    assert vectors(vector(If(less(L, 3), (fail, Store("o", (L,), L)))))[:2] == [
        "if a[0] < 100",
        "  fail 0 (0)",
    ]
    tail = If(less(add(times(K, 4), L), 7), (fail, Store("o", (L,), L)))
    assert vectors(loop("k", 2, vector(tail)))[1:3] == ["  if a[0] < 100", "    fail 0 (0)"]
    assert stays(If(compare(">=", L, integer(2), {}), (fail, Store("o", (L,), L))))
    assert "  for l in 0:4" in vectors(loop("k", 3, vector(tail)))  # perhaps no lane at all


def test_functions_without_vectors_stay_loops() -> None:
    seen: list[Call] = []

    def supports(call: Call) -> bool:
        seen.append(call)
        return call.function != "exp"

    for function, is_loop in (("exp", True), ("sqrt", False)):
        call = Call(function, (Call("abs", (Load("f", (integer(0), L), F32),), F32),), F32)
        changed = vectorize(kernel_of(vector(Store("q", (L,), call))), supports=supports)
        assert bool(loops(changed)) == is_loop
    assert {call.dtype for call in seen} == {F32.vector(4)}
    shared = Call("exp", (Load("f", (integer(0), integer(1)), F32),), F32)
    changed = vectorize(kernel_of(vector(Store("q", (L,), shared))), supports=supports)
    assert lines(changed) == ["q[0:4] = float32x4(exp(f[0, 1]))"]


def test_of_nested_loops_the_inner_one_becomes_vectors() -> None:
    inner = For(
        "r", integer(0), integer(4), (Store("o", (add(times(L, 4), R),), R),), mark="vector"
    )
    changed = vectorize(kernel_of(For("l", integer(0), integer(2), (inner,), mark="vector")))
    assert lines(changed) == ["for l in 0:2", "  o[l * 4:l * 4 + 4] = int64x4.ramp(0, 1)"]


@pytest.mark.parametrize("test", [less, lambda e, n: compare(">=", e, integer(n), {})])
def test_the_first_lane_decides_what_is_read(test: Callable[[Expr, int], Expr]) -> None:
    """`l >= 2` fails in the first lane, so nothing is certain."""
    share = Cast(Load("q", (add(K, integer(60)),), F32), INT64)
    found = vectors(loop("k", 4, vector(If(test(L, 2), (Store("o", (L,), share),)))))
    assert ("reduce" in found[1]) == (test is not less)


def test_masks_are_of_bools() -> None:
    changed = vectorize(kernel_of(vector(If(less(L, 2), (Store("o", (L,), a(L)),)))))
    masks = [e for e in all_expressions(changed) if isinstance(e, Compare)]
    assert masks
    assert all(mask.dtype == BOOL.vector(4) for mask in masks)
