"""Loops marked "vector" with conditions: masks, and what only some lanes evaluate."""

from __future__ import annotations

import pytest

from tc.dtypes import FLOAT16, INT64
from tc.kernel.folding import integer, logical_and, logical_not
from tc.kernel.ir import (
    Binary,
    Cast,
    Compare,
    Const,
    Expr,
    Fail,
    If,
    Let,
    Load,
    Logical,
    Select,
    Set,
    Store,
)
from tests.kernel.vector_loops import F32, K, L, a, one, vector, vectors
from tests.support.build import add, less, loop, times, var

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


ALIKE = Compare("<", a(Binary("/", L, integer(4), INT64)), integer(0))
"""The same in all lanes, though it names the lane."""


def test_conditions_that_turn_out_alike_stay_tests() -> None:
    body = (Let("x", a(L)), If(ALIKE, (Set("x", L),), (Set("x", K),)), Store("o", (L,), var("x")))
    assert vectors(loop("k", 2, vector(*body))) == [
        "for k in 0:2",
        "  let xx4: int64x4 = a[0:4]",
        "  if a[0] < 0",
        "    xx4 = int64x4.ramp(0, 1)",
        "  else",
        "    xx4 = int64x4(k)",
        "  o[0:4] = xx4",
    ]


def test_checks_on_conditions_that_turn_out_alike() -> None:
    """They fail only where the condition holds."""
    for relation in ("<", ">="):
        test = Compare(relation, ALIKE.left, integer(0))
        found = vectors(vector(Store("o", (L,), L), If(test, (Fail(0, (L,)),))))
        assert found[1:] == [f"if a[0] {relation} 0", "  fail 0 (0)"]


def test_locals_that_all_lanes_share_under_such_conditions() -> None:
    x = var("x")
    for relation in ("<", ">="):
        test = Compare(relation, ALIKE.left, integer(0))
        body = (Let("x", integer(1)), If(test, (Set("x", integer(2)),)), Store("o", (L,), x))
        assert vectors(vector(*body))[1:3] == [f"if a[0] {relation} 0", "  x_1 = 2"]


def test_one_iteration_with_conditions() -> None:
    """Also those that are decided beforehand."""
    x = var("x")
    for limit, lines in ((9, ["x_1 = 7"]), (0, []), (a(L), ["if a[0] > 0", "  x_1 = 7"])):
        test = less(L, limit) if isinstance(limit, int) else Compare("<", L, limit)
        body = (Let("x", a(L)), If(test, (Set("x", integer(7)),)), Store("o", (L,), x))
        assert vectors(vector(*body, lanes=1))[1:-1] == lines


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
    """Long conditions, and conditions that read, are computed once."""
    test, load = outside()
    second = Compare("<", load, integer(2))
    value = Select(Logical("&&", (test, second)), a(add(load, integer(9))), integer(1), INT64)
    found = one(value)
    assert found[0].startswith("let m4: boolx4 = ")
    assert found[1] == "o[0:4] = m4 ? a[a[62:66 if m4] + int64x4(9) if m4] : int64x4(1)"
