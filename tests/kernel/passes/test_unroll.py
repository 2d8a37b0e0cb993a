"""Loops marked "unroll" become straight-line code, their variables folded away."""

from __future__ import annotations

from functools import partial

import pytest

from tc.dtypes import FLOAT16, FLOAT32, INT64
from tc.kernel.folding import binary, compare, integer, ramp, select
from tc.kernel.ir import (
    Binary,
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
    Site,
    Stmt,
    Store,
    Var,
)
from tc.kernel.passes.unroll import unroll
from tests.kernel.marked import all_statements, assert_same, lines, loops
from tests.support.build import add, dense, less, loop, times, var

I, J, K = var("i"), var("j"), var("k")  # noqa: E741
BUFFERS = (
    dense("a", INT64, (64,), "input"),
    dense("h", FLOAT16, (8,), "input"),
    dense("o", INT64, (64,), "output"),
    dense("q", FLOAT32, (8,), "output"),
)
SITES = (Site("division", 0, 0, ("i",)),)


def kernel_of(*stmts: Stmt) -> Kernel:
    return Kernel("k", BUFFERS, (stmts,), SITES, frozenset(("o", "q")))


def unrolled(*stmts: Stmt, limit: int = 4096) -> list[str]:
    return lines(assert_same(kernel_of(*stmts), partial(unroll, limit=limit)))


def a(index: Expr) -> Load:
    return Load("a", (index,), INT64)


def store(index: Expr, value: Expr) -> Store:
    return Store("o", (index,), value)


def copies(name: str, extent: int, *body: Stmt) -> For:
    return loop(name, extent, *body, mark="unroll")


def test_arithmetic_is_folded() -> None:
    place = add(times(K, 8), times(I, 4), J)
    stmt = loop("k", 2, copies("i", 2, copies("j", 2, store(place, a(add(place, integer(1)))))))
    assert unrolled(stmt) == [
        "for k in 0:2",
        "  o[k * 8] = a[k * 8 + 1]",
        "  o[k * 8 + 1] = a[k * 8 + 2]",
        "  o[k * 8 + 4] = a[k * 8 + 5]",
        "  o[k * 8 + 5] = a[k * 8 + 6]",
    ]


def test_what_bounds_decide_is_gone() -> None:
    """k is 2 at most: rows 6, 7 and 8 of 8 are in the last copy's and the last but one's."""
    row = add(times(K, 3), I)
    stmt = loop("k", 3, copies("i", 3, If(less(row, 8), (store(row, integer(1)),))))
    assert unrolled(stmt) == [
        "for k in 0:3",
        "  o[k * 3] = 1",
        "  o[k * 3 + 1] = 1",
        "  if k * 3 < 6",
        "    o[k * 3 + 2] = 1",
    ]


def test_branches_that_are_decided() -> None:
    choice = If(less(I, 1), (store(I, integer(1)), Comment("yes")), (store(I, integer(2)),))
    assert unrolled(copies("i", 2, choice)) == ["o[0] = 1", "# yes", "o[1] = 2"]
    assert unrolled(copies("i", 2, If(less(I, 0), (store(I, I),)))) == []
    nested = If(less(K, 1), (If(less(I, 0), (store(I, I),)),))
    assert unrolled(loop("k", 2, copies("i", 2, nested))) == []


def test_selects_and_clamps_are_decided() -> None:
    inside = select(less(I, 1), a(I), integer(7))
    clamped = binary("min", add(times(K, 2), I), integer(3))
    stmt = loop("k", 2, copies("i", 2, store(I, inside), store(clamped, I)))
    assert unrolled(stmt) == [
        "for k in 0:2",
        "  o[0] = a[0]",
        "  o[k * 2] = 0",
        "  o[1] = 7",
        "  o[k * 2 + 1] = 1",
    ]


def test_masks_are_decided() -> None:
    lanes = ramp(times(I, 4), 1, 4)
    mask = compare("<", lanes, Const(6, INT64.vector(4)), {})
    load = Load("a", (lanes,), INT64.vector(4), mask)
    stmt = copies("i", 3, Store("o", (lanes,), load, mask))
    assert unrolled(stmt) == [
        "o[0:4] = a[0:4]",
        "o[4:8 if int64x4.ramp(4, 1) < int64x4(6)] = a[4:8 if int64x4.ramp(4, 1) < int64x4(6)]",
    ]


def test_locals_get_new_names_and_constants_none() -> None:
    body = (
        Let("x", a(I)),
        Let("c", times(I, 2)),
        If(less(a(I), 2), (Let("y", add(var("x"), var("c"))), Set("x", var("y")))),
        store(I, var("x")),
    )
    assert unrolled(copies("i", 2, *body)) == [
        "let x_1: int64 = a[0]",
        "if a[0] < 2",
        "  let y: int64 = x_1",
        "  x_1 = y",
        "o[0] = x_1",
        "let x_2: int64 = a[1]",
        "if a[1] < 2",
        "  let y: int64 = x_2 + 2",
        "  x_2 = y",
        "o[1] = x_2",
    ]


def test_locals_that_change_are_no_constants() -> None:
    body = (Let("x", I), loop("k", 2, Set("x", add(var("x"), K))), store(I, var("x")))
    assert unrolled(copies("i", 1, *body)) == [
        "let x_1: int64 = 0",
        "for k in 0:2",
        "  x_1 = x_1 + k",
        "o[0] = x_1",
    ]


def test_decided_branches_share_the_block_with_others() -> None:
    branch = If(less(I, 2), (Let("x", a(I)), store(I, var("x"))))
    body = (branch, Let("x", a(add(I, integer(9)))), store(add(I, integer(2)), var("x")))
    found = unrolled(copies("i", 2, *body))
    names = [line.split(":")[0] for line in found if line.startswith("let")]
    assert names == ["let x_1", "let x_2", "let x_3", "let x_4"]


def test_bounds_that_become_constant() -> None:
    inner = For("j", I, integer(2), (store(add(times(I, 2), J), a(J)),))
    assert unrolled(copies("i", 3, inner)) == [
        "for j in 0:2",
        "  o[j] = a[j]",
        "for j in 1:2",
        "  o[j + 2] = a[j]",
    ]


def test_failures_are_copied() -> None:
    body = (If(Compare("==", a(I), integer(0)), (Fail(0, (I,)),)), store(I, integer(1)))
    found = unrolled(copies("i", 2, *body))
    assert [line.strip() for line in found if "fail" in line] == ["fail 0 (0)", "fail 0 (1)"]


def test_a_half_that_a_mask_leaves_out() -> None:
    lanes = ramp(times(I, 4), 1, 4)
    mask = compare("<", lanes, Const(4, INT64.vector(4)), {})
    half = Load("h", (lanes,), FLOAT16.vector(4), mask)
    stmt = copies("i", 2, Store("q", (lanes,), Cast(half, FLOAT32.vector(4))))
    assert unrolled(stmt) == [
        "q[0:4] = float32x4(h[0:4])",
        "q[4:8] = float32x4(h[4:8 if boolx4(false)])",
    ]


@pytest.mark.parametrize(
    ("limit", "kept"), [(24, []), (23, ["i"]), (6, ["i"]), (5, ["i", "j"]), (0, ["i", "j", "k"])]
)
def test_the_limit_keeps_outer_loops(limit: int, kept: list[str]) -> None:
    """4 * 3 * 2 statements."""
    nest = copies(
        "i", 4, copies("j", 3, copies("k", 2, store(add(times(I, 6), times(J, 2), K), I)))
    )
    changed = assert_same(kernel_of(nest), partial(unroll, limit=limit))
    assert list(dict.fromkeys(loops(changed))) == kept
    assert all(not stmt.mark for stmt in all_statements(changed) if isinstance(stmt, For))


def test_the_limit_is_of_one_nest() -> None:
    nests = [copies("i", 4, store(I, integer(n))) for n in range(3)]
    assert len(unrolled(*nests, limit=4)) == 12


def test_the_limit_counts_iterations() -> None:
    for last, kept in ((6, 4), (7, 2)):
        nest = For("i", integer(2), integer(last), (store(I, integer(1)),), mark="unroll")
        assert len(unrolled(nest, limit=4)) == kept


def test_loops_inside_count_once() -> None:
    nest = copies("i", 4, loop("k", 50, store(I, K)))
    assert len(unrolled(nest, limit=8)) == 8


def test_unmarked_kernels_stay() -> None:
    kernel = kernel_of(Let("x", integer(1)), loop("i", 3, store(I, a(I))))
    assert unroll(kernel_of(loop("i", 3, store(I, a(I))))) == kernel_of(
        loop("i", 3, store(I, a(I)))
    )
    assert lines(unroll(kernel)) == ["for i in 0:3", "  o[i] = a[i]"]


def test_parts_are_shared_among_copies() -> None:
    """What does not depend on a variable is the same object in all copies of its loop."""
    x = Binary("*", a(I), integer(3), INT64)
    nest = copies("i", 2, copies("j", 2, store(add(times(I, 2), J), Binary("+", x, a(J), INT64))))
    stores = [
        stmt.value for stmt in all_statements(unroll(kernel_of(nest))) if isinstance(stmt, Store)
    ]
    lefts = [value.left for value in stores if isinstance(value, Binary)]
    assert lefts[0] is lefts[1]
    assert lefts[2] is lefts[3]
    assert lefts[0] is not lefts[2]


def test_branches_of_one_name_have_bounds_of_their_own() -> None:
    """The same test on x, under x = i and under x = i + 10."""
    test = If(less(add(var("x"), J), 10), (store(J, integer(1)),), (store(J, integer(2)),))
    first = If(less(a(K), 1), (Let("x", K), copies("j", 2, test)))
    second = If(less(a(K), 2), (Let("x", add(K, integer(10))), copies("j", 2, test)))
    found = unrolled(loop("k", 3, first, second))
    assert [line.strip() for line in found if "o[" in line] == [
        "o[0] = 1",
        "o[1] = 1",
        "o[0] = 2",
        "o[1] = 2",
    ]


def test_vectors_of_locals() -> None:
    lanes = ramp(times(I, 4), 1, 4)
    x = Var("x", INT64.vector(4))
    stmt = copies("i", 2, Let("x", Load("a", (lanes,), x.dtype)), Store("o", (lanes,), x))
    assert unrolled(stmt) == [
        "let x_1: int64x4 = a[0:4]",
        "o[0:4] = x_1",
        "let x_2: int64x4 = a[4:8]",
        "o[4:8] = x_2",
    ]


def test_copies_have_locals_in_common() -> None:
    """What does not depend on the loop is computed once, unless it may change."""
    body = (
        Let("x", add(times(K, 3), integer(5))),
        Let("y", add(a(K), integer(5))),
        store(add(times(J, 2), I), add(var("x"), var("y"), J)),
    )
    assert unrolled(loop("k", 2, copies("i", 2, *body[:2], loop("j", 2, body[2])))) == [
        "for k in 0:2",
        "  let x_1: int64 = k * 3 + 5",
        "  let y_1: int64 = a[k] + 5",
        "  for j in 0:2",
        "    o[j * 2] = x_1 + y_1 + j",
        "  let y_2: int64 = a[k] + 5",
        "  for j in 0:2",
        "    o[j * 2 + 1] = x_1 + y_2 + j",
    ]


def test_what_changes_is_not_in_common() -> None:
    total = add(var("x"), K)
    body = (
        Let("x", a(I)),
        Let("y", total),
        Set("x", integer(7)),
        Let("z", total),
        store(I, add(times(var("y"), 10), var("z"))),
    )
    found = unrolled(loop("k", 2, copies("i", 2, *body)))
    assert [line.split(":")[0].strip() for line in found if "let" in line] == [
        f"let {name}_{number}" for number in (1, 2) for name in "xyz"
    ]
