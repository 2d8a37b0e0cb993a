"""Loops marked "vector" become vectors: what of each construct, by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tc.dtypes import BOOL, FLOAT16, FLOAT32, INT8, INT64, UINT8, DType
from tc.kernel.folding import compare, integer, logical_and, logical_not
from tc.kernel.ir import (
    Binary,
    Buffer,
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
    Logical,
    Select,
    Set,
    Site,
    Stmt,
    Store,
    Var,
)
from tc.kernel.vectorize import MAX_LANES, vectorize
from tests.kernel.marked import (
    add,
    all_expressions,
    assert_same,
    dense,
    less,
    lines,
    loop,
    loops,
    times,
    var,
)

F32 = FLOAT32
L, K, R = var("l"), var("k"), var("r")
SITES = (Site("division", 0, 0, ("l",)),)
BUFFERS = (
    dense("a", INT64, (64,), "input"),
    dense("f", F32, (4, 64), "input"),
    dense("h", FLOAT16, (64,), "input"),
    dense("p", BOOL, (64,), "input"),
    Buffer("c", INT64, (8, 8), (1, 8), "input"),
    dense("o", INT64, (64,), "output"),
    dense("q", F32, (64,), "output"),
    dense("g", FLOAT16, (64,), "output"),
    dense("t", INT64, (64,), "temporary"),
    dense("s", INT64, (8,), "scratch"),
)
INITIAL = frozenset(("o", "q", "g"))


def kernel_of(*stmts: Stmt) -> Kernel:
    return Kernel("k", BUFFERS, (stmts,), SITES, INITIAL)


def vector(*body: Stmt, lanes: int = 4, begin: int = 0) -> For:
    return For("l", integer(begin), integer(begin + lanes), body, mark="vector")


def a(index: Expr) -> Load:
    return Load("a", (index,), INT64)


def vectors(*stmts: Stmt) -> list[str]:
    """What becomes of statements, which do the same then."""
    return lines(assert_same(kernel_of(*stmts), vectorize))


def one(value: Expr, index: Expr = L) -> list[str]:
    """What becomes of a loop with one store."""
    target = {INT64: "o", F32: "q", FLOAT16: "g"}[value.dtype]
    return vectors(vector(Store(target, (index,), value)))


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


# --- conditions -------------------------------------------------------------------------------


def test_a_guard_becomes_a_mask() -> None:
    at = add(times(K, 4), L)
    body = vector(If(less(at, 6), (Store("o", (at,), a(at)),)))
    mask = "int64x4.ramp(k * 4, 1) < int64x4(6)"
    assert vectors(loop("k", 2, body)) == [
        "for k in 0:2",
        f"  o[k * 4:k * 4 + 4 if {mask}] = a[k * 4:k * 4 + 4 if {mask}]",
    ]


def test_a_guard_that_always_holds_is_gone() -> None:
    body = vector(If(less(add(times(K, 4), L), 8), (Store("o", (L,), a(L)),)))
    assert vectors(loop("k", 2, body)) == ["for k in 0:2", "  o[0:4] = a[0:4]"]


def test_conditions_that_all_lanes_share_stay_tests() -> None:
    both = Logical("&&", (less(L, 3), Logical("&&", (less(K, 1), less(a(K), 2)))))
    guarded = If(less(K, 1), (Store("o", (L,), a(L)),), (Store("o", (L,), K),))
    assert vectors(loop("k", 2, vector(guarded))) == [
        "for k in 0:2",
        "  if k < 1",
        "    o[0:4] = a[0:4]",
        "  else",
        "    o[0:4] = int64x4(k)",
    ]
    inner = If(logical_and(less(L, 3), less(K, 1)), (Store("o", (L,), a(L)),))
    mask = "int64x4.ramp(0, 1) < int64x4(3)"
    assert vectors(loop("k", 2, vector(inner))) == [
        "for k in 0:2",
        "  if k < 1",
        f"    o[0:4 if {mask}] = a[0:4 if {mask}]",
    ]
    found = vectors(loop("k", 2, vector(If(both, (Store("o", (L,), a(L)),)))))
    assert found[1].startswith("  let m4: boolx4 = ")  # what reads memory keeps its order


def test_both_branches() -> None:
    test = Compare("<", a(L), integer(1))
    stmt = If(test, (Store("o", (L,), integer(1)),), (Store("o", (L,), a(L)),))
    assert vectors(vector(stmt)) == [
        "let m4: boolx4 = a[0:4] < int64x4(1)",
        "o[0:4 if m4] = int64x4(1)",
        "o[0:4 if !m4] = a[0:4 if !m4]",
    ]


def test_the_condition_is_that_of_before_the_branches() -> None:
    place = Load("o", (L,), INT64)
    test = Compare("<", place, integer(1))
    stmt = If(test, (Store("o", (L,), integer(5)),), (Store("o", (L,), integer(7)),))
    found = vectors(vector(stmt))
    assert found[0] == "let m4: boolx4 = o[0:4] < int64x4(1)"


def test_the_condition_is_that_of_before_a_local_changes() -> None:
    x = var("x")
    stmt = If(Compare("<", x, integer(1)), (Set("x", integer(3)), Set("x", add(x, L))))
    found = vectors(vector(Let("x", a(L)), stmt, Store("o", (L,), x)))
    assert found == [
        "let xx4: int64x4 = a[0:4]",
        "let m4: boolx4 = xx4 < int64x4(1)",
        "xx4 = m4 ? int64x4(3) : xx4",
        "xx4 = m4 ? xx4 + int64x4.ramp(0, 1) : xx4",
        "o[0:4] = xx4",
    ]


def test_nested_conditions() -> None:
    inner = If(less(a(L), 2), (Store("o", (L,), integer(1)),), (Store("o", (L,), integer(2)),))
    found = vectors(vector(If(less(L, 3), (inner,), (Store("o", (L,), integer(3)),))))
    outer = "int64x4.ramp(0, 1) < int64x4(3)"
    assert found == [
        f"let m4: boolx4 = a[0:4 if {outer}] < int64x4(2)",
        f"o[0:4 if {outer} && m4] = int64x4(1)",
        f"o[0:4 if {outer} && !m4] = int64x4(2)",
        f"o[0:4 if !({outer})] = int64x4(3)",
    ]


# --- what is lazy in scalars ------------------------------------------------------------------


def outside() -> tuple[Expr, Load]:
    """A test and an element that is outside of `a` where the test fails."""
    place = add(L, integer(62))
    return less(place, 64), a(place)


def test_select_masks_its_branches() -> None:
    test, load = outside()
    mask = "int64x4.ramp(62, 1) < int64x4(64)"
    assert one(Select(test, load, integer(5), INT64)) == [
        f"o[0:4] = {mask} ? a[62:66 if {mask}] : int64x4(5)"
    ]
    assert one(Select(logical_not(test), integer(5), load, INT64)) == [
        f"o[0:4] = !({mask}) ? int64x4(5) : a[62:66 if {mask}]"
    ]


def test_masked_lanes_are_the_zero_of_a_select() -> None:
    test, load = outside()
    mask = "int64x4.ramp(62, 1) < int64x4(64)"
    assert one(Select(test, load, integer(0), INT64)) == [f"o[0:4] = a[62:66 if {mask}]"]
    whole = Cast(Load("h", (load.indices), FLOAT16), F32)
    assert one(Select(logical_not(test), Const(0.0, F32), whole, F32)) == [
        f"q[0:4] = float32x4(h[62:66 if {mask}])"
    ]
    nested = Select(less(L, 3), Select(test, load, integer(0), INT64), integer(0), INT64)
    assert one(nested) == ["o[0:4] = a[62:66 if int64x4.ramp(0, 1) < int64x4(3) && " + mask + "]"]
    negative = Select(test, whole, Const(-0.0, F32), F32)
    assert one(negative) == [f"q[0:4] = {mask} ? float32x4(h[62:66 if {mask}]) : float32x4(-0.0)"]


@pytest.mark.parametrize("op", ["&&", "||"])
def test_logic_masks_its_second_operand(op: str) -> None:
    test, load = outside()
    if op == "||":
        test = logical_not(test)
    both = Logical(op, (test, Compare("<", load, integer(1))))
    found = one(Select(both, integer(1), integer(2), INT64))
    assert "a[62:66 if int64x4.ramp(62, 1) < int64x4(64)]" in found[0]


def test_a_scalar_condition_guards_what_all_lanes_share() -> None:
    """a[k + 62] and a[k + l + 61] are outside for k = 2, where the test fails."""
    test = less(K, 2)
    far = a(add(K, integer(62)))
    moving = a(add(K, L, integer(58)))
    select = Select(test, Binary("+", far, moving, INT64), L, INT64)
    found = vectors(loop("k", 3, vector(Store("o", (L,), select))))
    assert found == [
        "for k in 0:3",
        "  o[0:4] = k < 2 ? int64x4(k < 2 ? a[k + 62] : 0)"
        " + a[k + 58:k + 62 if boolx4(k < 2)] : int64x4.ramp(0, 1)",
    ]


def test_what_is_scalar_stays_lazy() -> None:
    test = less(K, 2)
    share = Select(test, a(add(K, integer(62))), integer(0), INT64)
    found = vectors(loop("k", 3, vector(Store("o", (L,), add(share, L)))))
    assert found == [
        "for k in 0:3",
        "  o[0:4] = int64x4.ramp(k < 2 ? a[k + 62] : 0, 1)",
    ]


def test_what_lanes_share_is_read_if_one_of_them_does() -> None:
    """For k = 2, no lane passes the test, and a[k + 62] is outside. In the second loop the first
    lane always does."""
    place = Binary("+", times(K, 4), L, INT64)
    share = add(a(add(K, integer(62))), L)
    found = vectors(loop("k", 3, vector(If(less(place, 7), (Store("o", (L,), share),)))))
    mask = "int64x4.ramp(k * 4, 1) < int64x4(7)"
    assert found[1] == (
        f"  o[0:4 if {mask}] = int64x4.ramp(reduce(max, {mask}) ? a[k + 62] : 0, 1)"
    )
    found = vectors(loop("k", 2, vector(If(less(place, 7), (Store("o", (L,), share),)))))
    assert found[1] == f"  o[0:4 if {mask}] = int64x4.ramp(a[k + 62], 1)"


def test_inputs_are_read_anyway_where_they_are_in_bounds() -> None:
    test = Compare("<", a(L), integer(-100))
    found = vectors(vector(If(test, (Store("o", (L,), a(integer(63))),))))
    assert found[-1] == "o[0:4 if m4] = int64x4(a[63])"
    found = vectors(vector(If(test, (Store("o", (L,), a(integer(0))),))))
    assert found[-1] == "o[0:4 if m4] = int64x4(a[0])"
    unwritten = Load("t", (integer(63),), INT64)
    found = vectors(vector(If(test, (Store("o", (L,), unwritten),))))
    assert found[-1] == "o[0:4 if m4] = int64x4(reduce(max, m4) ? t[63] : 0)"


def test_a_shared_half() -> None:
    test = Compare("<", a(L), integer(-100))
    half = Cast(Load("h", (add(K, integer(62)),), FLOAT16), F32)
    found = vectors(loop("k", 3, vector(If(test, (Store("q", (L,), half),)))))
    assert found[-1] == ("  q[0:4 if m4] = float32x4(reduce(max, m4) ? float32(h[k + 62]) : 0.0f)")


def test_a_condition_of_a_condition_that_reads() -> None:
    """Long conditions, and those that read, are computed once."""
    test, load = outside()
    second = Compare("<", load, integer(2))
    value = Select(Logical("&&", (test, second)), a(add(load, integer(9))), integer(1), INT64)
    found = one(value)
    assert found[0].startswith("let m4: boolx4 = ")
    assert found[1] == "o[0:4] = m4 ? a[a[62:66 if m4] + int64x4(9) if m4] : int64x4(1)"


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
