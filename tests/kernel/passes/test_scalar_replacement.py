"""Registers become locals: where these are declared, and what stays in memory."""

from __future__ import annotations

import pytest

from tc.dtypes import BOOL, FLOAT32, INT32, INT64
from tc.kernel.folding import integer, ramp
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Call,
    Compare,
    Const,
    Expr,
    Fail,
    For,
    If,
    Kernel,
    Let,
    Load,
    Reduce,
    Select,
    Set,
    Shuffle,
    Site,
    Stmt,
    Store,
    Var,
)
from tc.kernel.passes.scalar_replacement import replace_by_scalars
from tests.kernel.marked import assert_same, lines
from tests.support.build import add, dense, less, loop, times, var

I4 = INT64.vector(4)
K, I = var("k"), var("i")  # noqa: E741
ZERO = integer(0)
BUFFERS = (
    dense("a", INT64, (64,), "input"),
    dense("o", INT64, (64,), "output"),
    dense("s", INT64, (64,), "scratch"),
    dense("r", INT64, (4, 16), "register"),
    dense("e", INT64, (), "register"),
)
SITES = (Site("division", 0, 0, ("i",)),)
FIRST = ramp(ZERO, 1, 4)
B4 = BOOL.vector(4)
TAIL = Compare("<", FIRST, Const(3, I4), B4)


def a(index: Expr) -> Load:
    return Load("a", (index,), INT64)


def r(row: int, column: int = 0) -> Load:
    return Load("r", (integer(row), integer(column)), INT64)


def to_r(value: Expr, row: int = 0, column: int = 0) -> Store:
    return Store("r", (integer(row), integer(column)), value)


def to_o(value: Expr, index: Expr = ZERO) -> Store:
    return Store("o", (index,), value)


def lanes_of_r(row: int, column: int, mask: Expr | None = None) -> Load:
    return Load("r", (integer(row), ramp(integer(column), 1, 4)), I4, mask)


def lanes_to_r(value: Expr, row: int = 0, column: int = 0, mask: Expr | None = None) -> Store:
    return Store("r", (integer(row), ramp(integer(column), 1, 4)), value, mask)


def lanes_to_o(value: Expr, mask: Expr | None = None) -> Store:
    return Store("o", (FIRST,), value, mask)


def lanes_of_a(mask: Expr | None = None) -> Load:
    return Load("a", (FIRST,), I4, mask)


def kernel_of(*stmts: Stmt) -> Kernel:
    return Kernel("k", BUFFERS, (stmts,), SITES, frozenset(("o",)))


def locals_of(*stmts: Stmt) -> list[str]:
    """The lines of statements after scalar replacement, which must replace all registers by
    locals."""
    changed = assert_same(kernel_of(*stmts), replace_by_scalars)
    assert [b.name for b in changed.buffers] == ["a", "o", "s"]
    return lines(changed)


def roles(*stmts: Stmt) -> dict[str, str]:
    """The roles of the buffers that were registers."""
    changed = assert_same(kernel_of(*stmts), replace_by_scalars)
    return {b.name: b.role for b in changed.buffers if b.name in "re"}


# --- where locals are declared ----------------------------------------------------------------


def test_the_first_store_declares() -> None:
    assert locals_of(to_r(a(ZERO), 2, 3), to_r(add(r(2, 3), integer(1)), 2, 3), to_o(r(2, 3))) == [
        "let r_2_3: int64 = a[0]",
        "r_2_3 = r_2_3 + 1",
        "o[0] = r_2_3",
    ]


def test_vectors_have_the_number_of_their_group() -> None:
    stmts = (lanes_to_r(lanes_of_a(), 1, 8), lanes_to_r(lanes_of_a(), 1, 4))
    total = Binary("+", lanes_of_r(1, 8), lanes_of_r(1, 4), I4)
    assert locals_of(*stmts, lanes_to_o(total)) == [
        "let r_1_2: int64x4 = a[0:4]",
        "let r_1_1: int64x4 = a[0:4]",
        "o[0:4] = r_1_2 + r_1_1",
    ]


def test_a_register_without_dimensions() -> None:
    e = Load("e", (), INT64)
    assert locals_of(Store("e", (), a(ZERO)), to_o(e)) == ["let e_1: int64 = a[0]", "o[0] = e_1"]


def test_declared_in_the_innermost_block_that_has_all() -> None:
    body = (to_r(a(I)), loop("k", 3, to_r(add(r(0), K))), to_o(r(0), I))
    assert locals_of(loop("i", 4, *body)) == [
        "for i in 0:4",
        "  let r_0_0: int64 = a[i]",
        "  for k in 0:3",
        "    r_0_0 = r_0_0 + k",
        "  o[i] = r_0_0",
    ]


def test_a_value_from_an_earlier_iteration() -> None:
    """The first iteration writes what the others read: no local of the body can keep it."""
    first = If(Compare("==", I, ZERO), (to_r(a(integer(9))),))
    assert locals_of(loop("i", 4, first, to_r(add(r(0), I)), to_o(r(0), I))) == [
        "let r_0_0: int64 = 0",
        "for i in 0:4",
        "  if i == 0",
        "    r_0_0 = a[9]",
        "  r_0_0 = r_0_0 + i",
        "  o[i] = r_0_0",
    ]


def test_both_branches_write() -> None:
    choice = If(less(a(I), 0), (to_r(I),), (to_r(integer(7)),))
    assert locals_of(loop("i", 4, choice, to_o(r(0), I))) == [
        "for i in 0:4",
        "  let r_0_0: int64 = 0",
        "  if a[i] < 0",
        "    r_0_0 = i",
        "  else",
        "    r_0_0 = 7",
        "  o[i] = r_0_0",
    ]


def test_one_branch_has_all() -> None:
    choice = If(less(a(I), 0), (to_r(I), to_o(r(0), I)))
    assert locals_of(loop("i", 4, choice))[2] == "    let r_0_0: int64 = i"


def test_a_loop_that_certainly_writes() -> None:
    inner = loop("k", 2, to_r(add(I, K)))
    assert locals_of(loop("i", 4, inner, to_o(r(0), I)))[:2] == [
        "for i in 0:4",
        "  let r_0_0: int64 = 0",
    ]
    maybe = For("k", ZERO, add(I, integer(1)), (to_r(add(I, K)),))
    assert locals_of(loop("i", 4, maybe, to_o(r(0), I)))[:2] == [
        "let r_0_0: int64 = 0",
        "for i in 0:4",
    ]


def test_a_bound_and_a_failure_may_read() -> None:
    stmts = (
        to_r(integer(3)),
        For("i", ZERO, r(0), (to_o(I, I),)),
        If(less(r(0), 1), (Fail(0, (r(0),)),)),
        Let("x", r(0)),
        Let("y", var("x")),
        Set("y", r(0)),
        to_o(var("y")),
    )
    assert locals_of(*stmts) == [
        "let r_0_0: int64 = 3",
        "for i in 0:r_0_0",
        "  o[i] = i",
        "if r_0_0 < 1",
        "  fail 0 (r_0_0)",
        "let x: int64 = r_0_0",
        "let y: int64 = x",
        "y = r_0_0",
        "o[0] = y",
    ]


def test_parallel_iterations_and_regions_have_their_own() -> None:
    shared = loop("i", 4, to_r(a(I)), to_o(r(0), I), parallel=True)
    carried = loop("i", 4, If(less(a(I), 9), (to_r(a(I)),)), to_o(r(0), I), parallel=True)
    kernel = Kernel(
        "k", BUFFERS, ((shared,), (carried,), (to_r(ZERO), to_o(r(0)))), (), frozenset("o")
    )
    assert lines(assert_same(kernel, replace_by_scalars)) == [
        "parallel for i in 0:4",
        "  let r_0_0: int64 = a[i]",
        "  o[i] = r_0_0",
        "parallel for i in 0:4",
        "  let r_0_0_1: int64 = 0",
        "  if a[i] < 9",
        "    r_0_0_1 = a[i]",
        "  o[i] = r_0_0_1",
        "let r_0_0_2: int64 = 0",
        "o[0] = r_0_0_2",
    ]


def test_regions_may_differ_in_lanes() -> None:
    wide = (lanes_to_r(lanes_of_a()), lanes_to_o(lanes_of_r(0, 0)))
    kernel = Kernel("k", BUFFERS, (wide, (to_r(ZERO), to_o(r(0)))), (), frozenset("o"))
    assert lines(assert_same(kernel, replace_by_scalars))[0] == "let r_0_0: int64x4 = a[0:4]"


def test_names_are_new() -> None:
    stmts = (Let("r_0_0", ZERO), to_r(a(ZERO)), to_o(add(r(0), var("r_0_0"))))
    assert locals_of(*stmts)[1] == "let r_0_0_1: int64 = a[0]"


# --- masks ------------------------------------------------------------------------------------


def test_one_mask_for_all_uses_does_not_matter() -> None:
    total = Binary("+", lanes_of_r(0, 0, TAIL), lanes_of_a(TAIL), I4)
    stmts = (
        lanes_to_r(lanes_of_a(TAIL), mask=TAIL),
        loop("k", 2, lanes_to_r(total, mask=TAIL)),
        lanes_to_o(lanes_of_r(0, 0, TAIL), TAIL),
    )
    text = "int64x4.ramp(0, 1) < int64x4(3)"
    assert locals_of(*stmts) == [
        f"let r_0_0: int64x4 = a[0:4 if {text}]",
        "for k in 0:2",
        f"  r_0_0 = r_0_0 + a[0:4 if {text}]",
        f"o[0:4 if {text}] = r_0_0",
    ]


def moving_mask(variable: Expr, limit: int = 6) -> Expr:
    lanes = ramp(times(variable, 4), 1, 4)
    return Compare("<", lanes, Const(limit, I4), B4)


@pytest.mark.parametrize("parallel", [False, True])
def test_a_mask_of_an_outer_loop_does_not_matter(parallel: bool) -> None:
    mask = moving_mask(I)
    at = ramp(times(I, 4), 1, 4)
    body = (
        lanes_to_r(Load("a", (at,), I4, mask), mask=mask),
        Store("o", (at,), lanes_of_r(0, 0, mask), mask),
    )
    found = locals_of(loop("i", 2, *body, parallel=parallel))
    assert found[1].startswith("  let r_0_0: int64x4 = a[")


def test_a_mask_that_changes_keeps_other_lanes() -> None:
    """Iteration 0 writes all lanes, iteration 1 two of them."""
    mask = moving_mask(K)
    steps = loop("k", 2, lanes_to_r(Broadcast(K, I4), mask=mask))
    found = locals_of(steps, lanes_to_o(lanes_of_r(0, 0)))
    assert found[0] == "let r_0_0: int64x4 = int64x4(0)"
    assert found[2].endswith("? int64x4(k) : r_0_0")


def test_a_mask_of_an_inner_loop_keeps_other_lanes() -> None:
    """All uses have the same mask, but its lanes are others in each iteration."""
    low = Compare(">=", ramp(ZERO, 1, 4), Broadcast(K, I4), B4)
    first = If(Compare("==", K, ZERO), (lanes_to_r(lanes_of_a(low), mask=low),))
    body = (first, lanes_to_o(lanes_of_r(0, 0, low), low))
    found = locals_of(loop("k", 3, *body))
    assert found[0] == "let r_0_0: int64x4 = int64x4(0)"
    assert "? a[0:4 if" in found[3]


def test_a_mask_that_reads_may_change() -> None:
    low = Compare("<", lanes_of_a(), Const(2, I4), B4)
    stmts = (lanes_to_r(lanes_of_a(), mask=low), lanes_to_o(lanes_of_r(0, 0, low), low))
    found = locals_of(*stmts)
    assert found[0] == "let r_0_0: int64x4 = int64x4(0)"


def test_masked_lanes_are_zero_where_it_matters() -> None:
    full = lanes_to_r(lanes_of_a())
    masked = lanes_of_r(0, 0, TAIL)
    text = "int64x4.ramp(0, 1) < int64x4(3)"
    zeroed = f"({text} ? r_0_0 : int64x4(0))"
    assert locals_of(full, lanes_to_o(masked))[1] == f"o[0:4] = {zeroed[1:-1]}"
    total = Reduce("+", masked, INT64)
    assert locals_of(full, to_o(total))[1] == f"o[0] = reduce(+, {zeroed[1:-1]})"
    turned = Shuffle(masked, masked, (3, 2, 1, 0), I4)
    assert zeroed[1:-1] in locals_of(full, lanes_to_o(turned, TAIL))[1]
    index = Load("a", (masked,), I4)
    doubled = Binary("+", index, index, I4)
    limited = lanes_to_r(Binary("%", lanes_of_a(), Const(5, I4), I4))
    assert zeroed[1:-1] in locals_of(limited, lanes_to_o(doubled, TAIL))[1]


def test_masked_lanes_do_not_matter_below_the_same_mask() -> None:
    full = lanes_to_r(lanes_of_a())
    masked = lanes_of_r(0, 0, TAIL)
    text = "int64x4.ramp(0, 1) < int64x4(3)"
    twice = Binary("+", masked, Call("abs", (masked,), I4), I4)
    assert locals_of(full, lanes_to_o(twice, TAIL))[1] == f"o[0:4 if {text}] = r_0_0 + abs(r_0_0)"
    chosen = Select(TAIL, masked, Const(5, I4), I4)
    total = Reduce("+", chosen, INT64)
    assert locals_of(full, to_o(total))[1] == f"o[0] = reduce(+, {text} ? r_0_0 : int64x4(5))"
    gathered = Load("a", (masked,), I4, TAIL)
    limited = lanes_to_r(Binary("%", lanes_of_a(), Const(5, I4), I4))
    assert locals_of(limited, lanes_to_o(gathered))[1] == f"o[0:4] = a[r_0_0 if {text}]"
    as_mask = Load("a", (FIRST,), I4, Compare("<", lanes_of_r(0, 0), Const(2, I4), B4))
    assert locals_of(full, lanes_to_o(as_mask))[1] == "o[0:4] = a[0:4 if r_0_0 < int64x4(2)]"


# --- what becomes scratch ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "stmts",
    [
        (loop("k", 4, Store("r", (K, ZERO), K)), to_o(r(1))),
        (to_r(ZERO), loop("k", 1, to_o(Load("r", (ZERO, K), INT64)))),
        (lanes_to_r(lanes_of_a()), to_o(r(0, 0))),
        (lanes_to_r(lanes_of_a()), to_o(r(0, 2))),
        (
            Store("r", (ZERO, ramp(integer(2), 1, 4)), lanes_of_a()),
            lanes_to_o(Load("r", (ZERO, ramp(integer(2), 1, 4)), I4)),
        ),
        (Store("r", (ZERO, ramp(ZERO, 2, 4)), lanes_of_a()), to_o(r(0, 2))),
        (Store("r", (ramp(ZERO, 1, 4), ZERO), lanes_of_a()), to_o(r(2, 0))),
    ],
)
def test_what_becomes_scratch(stmts: tuple[Stmt, ...]) -> None:
    """Indices that are not constant, groups that overlap, are not aligned or not rows."""
    assert roles(*stmts, Store("e", (), ZERO)) == {"r": "scratch"}


def test_scratch_may_be_read_at_a_local() -> None:
    e = Load("e", (), INT64)
    read = Load("r", (ZERO, e), INT64)
    changed = assert_same(
        kernel_of(to_r(a(ZERO), 0, 3), Store("e", (), integer(3)), to_o(read)), replace_by_scalars
    )
    assert lines(changed) == ["r[0, 3] = a[0]", "let e_1: int64 = 3", "o[0] = r[0, e_1]"]


def test_no_registers_no_change() -> None:
    kernel = Kernel("k", BUFFERS[:3], ((to_o(a(ZERO)),),), (), frozenset("o"))
    assert replace_by_scalars(kernel) is kernel


def test_other_types() -> None:
    buffers = (dense("o", FLOAT32, (1,), "output"), dense("r", FLOAT32, (1,), "register"),
               dense("n", INT32, (1,), "register"))  # fmt: skip
    stmts = (
        Store("n", (ZERO,), Const(2, INT32)),
        If(
            Compare("<", Load("n", (ZERO,), INT32), Const(3, INT32)),
            (Store("r", (ZERO,), Const(0.5, FLOAT32)),),
        ),
        If(
            Compare("<", Load("n", (ZERO,), INT32), Const(3, INT32)),
            (Store("o", (ZERO,), Load("r", (ZERO,), FLOAT32)),),
        ),
    )
    found = lines(assert_same(Kernel("k", buffers, (stmts,)), replace_by_scalars))
    assert found[:2] == ["let n_0: int32 = int32(2)", "let r_0: float32 = 0.0f"]


def test_a_shared_expression_is_found_in_each_scope() -> None:
    x = Var("x", INT64)
    total = add(r(0), integer(1))
    body = (to_r(I), Let("x", total), to_r(total), to_o(Binary("+", x, r(0), INT64), I))
    first, second = (loop("i", 2, *body, parallel=parallel) for parallel in (True, False))
    kernel = Kernel("k", BUFFERS, ((first,), (second,)), (), frozenset("o"))
    text = lines(assert_same(kernel, replace_by_scalars))
    assert "  let x: int64 = r_0_0 + 1" in text
    assert "  let x: int64 = r_0_0_1 + 1" in text
