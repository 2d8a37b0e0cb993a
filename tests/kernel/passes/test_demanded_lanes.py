"""Vectors whose last lanes go nowhere become shorter."""

from __future__ import annotations

import pytest

from tc.dtypes import FLOAT32, FLOAT64, INT64, DType
from tc.kernel.folding import binary, broadcast, compare, constant, integer, ramp
from tc.kernel.ir import (
    Binary,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    Reduce,
    Set,
    Shuffle,
    Stmt,
    Store,
    Var,
    statements,
)
from tc.kernel.passes.demanded_lanes import lanes_from, narrow_to_demanded_lanes
from tests.kernel.marked import assert_same
from tests.support.build import dense, var

ROWS = 3
I = var("i")  # noqa: E741


def lanes(count: int = 16) -> Expr:
    return ramp(integer(0), 1, count)


def below(limit: Expr, count: int = 16) -> Expr:
    return compare("<", lanes(count), broadcast(limit, count), {})


def summed(dtype: DType, *more: Stmt, mask: Expr | None, count: int = 16) -> Kernel:
    """Rows of `a` are added up in local x, which is stored under a mask."""
    x = Var("x", dtype.vector(count))
    row = Load("a", (I, lanes(count)), x.dtype)
    body = (Set("x", Binary("+", x, row, x.dtype)),)
    region = (
        Let("x", constant(0, x.dtype)),
        For("i", integer(0), integer(ROWS), body),
        Store("o", (lanes(count),), x, mask),
        *more,
    )
    buffers = (
        dense("a", dtype, (ROWS, count), "input"),
        dense("o", dtype, (count,), "output"),
        dense("q", dtype, (count,), "output"),
    )
    return Kernel("f", buffers, (region,), (), frozenset(("o", "q")))


def widths(kernel: Kernel) -> set[int]:
    """The lanes of the locals of a kernel that does the same."""
    found = assert_same(kernel, narrow_to_demanded_lanes)
    stmts = [s for region in found.regions for s in statements(region)]
    return {s.value.dtype.lanes for s in stmts if isinstance(s, Let | Set)}


@pytest.mark.parametrize(
    ("dtype", "limit", "left"),
    [
        (FLOAT32, 16, 16),
        (FLOAT32, 9, 16),
        (FLOAT32, 8, 8),
        (FLOAT32, 5, 8),
        (FLOAT32, 4, 4),
        (FLOAT32, 1, 4),  # no vector is shorter
        (FLOAT64, 2, 2),
        (FLOAT64, 1, 2),
        (INT64, 2, 16),
    ],
)
def test_accumulators_keep_the_lanes_that_are_stored(dtype: DType, limit: int, left: int) -> None:
    assert widths(summed(dtype, mask=below(integer(limit)))) == {left}


@pytest.mark.parametrize(("steps", "left"), [(20, 16), (5, 4)])
def test_what_is_known_of_masks_decides(steps: int, left: int) -> None:
    """A remainder of 20 may be more than 8, one of 5 is at most 4."""
    limit = binary("%", Load("n", (), INT64), integer(steps))
    kernel = summed(FLOAT32, mask=below(limit))
    buffers = (dense("n", INT64, (), "input"), *kernel.buffers)
    kernel = Kernel("f", buffers, kernel.regions, (), kernel.initial)
    assert widths(kernel) == {left}


X = Var("x", FLOAT32.vector(16))
BACK = tuple(reversed(range(16)))


@pytest.mark.parametrize(
    "other",
    [
        Store("q", (lanes(),), X),
        Store("q", (lanes(),), X, below(integer(9))),
        Store("q", (integer(0),), Reduce("+", X, FLOAT32)),
        Store("q", (lanes(),), Shuffle(X, X, BACK, X.dtype), below(integer(4))),
    ],
)
def test_other_uses_need_their_lanes(other: Stmt) -> None:
    assert widths(summed(FLOAT32, other, mask=below(integer(4)))) == {16}


def test_lanes_at_places_that_are_locals_stay() -> None:
    """A vector of indices is no float, and is not shortened."""
    places = Let("p", lanes())
    store = Store("q", (Var("p", INT64.vector(16)),), X, below(integer(4)))
    assert widths(summed(FLOAT32, places, store, mask=below(integer(4)))) == {16}


def test_locals_made_of_others_are_as_wide() -> None:
    twice = Let("y", Binary("+", X, X, X.dtype))
    store = Store("q", (lanes(),), Var("y", X.dtype), below(integer(7)))
    assert widths(summed(FLOAT32, twice, store, mask=below(integer(4)))) == {8}


def test_lanes_that_come_from_others_stay() -> None:
    row = Load("a", (integer(0), lanes()), X.dtype)
    back = Let("y", Shuffle(row, row, BACK, X.dtype))
    store = Store("q", (lanes(),), Var("y", X.dtype), below(integer(4)))
    assert widths(summed(FLOAT32, back, store, mask=below(integer(4)))) == {4, 16}


def test_lanes_from() -> None:
    half = lanes_from(Binary("*", lanes(), broadcast(I, 16), INT64.vector(16)), 8, 8)
    assert half == binary("*", ramp(integer(8), 1, 8), broadcast(I, 8), {})
