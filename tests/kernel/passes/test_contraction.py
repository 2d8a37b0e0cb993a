"""Products and sums as one operation: only in vectors of floats, with their signs right."""

from __future__ import annotations

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT32, INT32, INT64, DType
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    If,
    Kernel,
    Let,
    Load,
    Ramp,
    Reduce,
    Set,
    Stmt,
    Store,
    Unary,
    Var,
)
from tc.kernel.passes.contraction import contract
from tc.kernel.printer import expression_text
from tc.kernel.verify import verify
from tests.support.build import dense, integer, loop

F4 = FLOAT32.vector(4)
LANES = Ramp(integer(0), 1, INT64.vector(4))
A, B, C = (Load(name, (LANES,), F4) for name in "abc")


def f(op: str, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right, left.dtype)


def minus(expr: Expr) -> Unary:
    return Unary("-", expr, expr.dtype)


def kernel(*stmts: Stmt, dtype: DType = FLOAT32) -> Kernel:
    buffers = tuple(dense(name, dtype, (4,), "input") for name in "abc")
    return Kernel("k", (*buffers, dense("o", dtype, (4,), "output")), (stmts,))


def contracted(expr: Expr) -> Expr:
    """The expression after the pass, with the same value where nothing rounds."""
    before = kernel(Store("o", (LANES,), expr), dtype=expr.dtype.scalar)
    after = contract(before)
    verify(after)
    values = np.array([3, -4, 5, 7], expr.dtype.numpy)
    arrays = {"a": values, "b": values[::-1] + 1, "c": values * 2}
    first, second = np.zeros_like(values), np.zeros_like(values)
    evaluate(before, {**arrays, "o": first})
    evaluate(after, {**arrays, "o": second})
    np.testing.assert_array_equal(first, second)
    (stmt,) = after.regions[0]
    assert isinstance(stmt, Store)
    return stmt.value


PRODUCT = f("*", A, B)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (f("+", PRODUCT, C), "fma(a, b, c)"),
        (f("+", C, PRODUCT), "fma(a, b, c)"),
        (f("-", PRODUCT, C), "fma(a, b, -c)"),
        (f("-", C, PRODUCT), "fma(-a, b, c)"),
        (f("+", minus(PRODUCT), C), "fma(-a, b, c)"),
        (f("-", C, minus(PRODUCT)), "fma(a, b, c)"),
        (f("-", minus(PRODUCT), minus(C)), "fma(-a, b, c)"),
        (f("-", C, f("*", minus(A), B)), "fma(a, b, c)"),
        (f("+", PRODUCT, f("*", C, C)), "fma(c, c, a * b)"),
        (f("+", f("+", PRODUCT, C), PRODUCT), "fma(a, b, fma(a, b, c))"),
        (f("+", f("*", f("+", PRODUCT, C), A), B), "fma(fma(a, b, c), a, b)"),
        (f("/", f("+", PRODUCT, C), A), "fma(a, b, c) / a"),
        (f("+", A, f("+", B, C)), "a + (b + c)"),
        (f("max", PRODUCT, C), "max(a * b, c)"),
    ],
)
def test_expressions(expr: Expr, text: str) -> None:
    assert expression_text(contracted(expr)).replace("[0:4]", "") == text


def test_integers_and_scalars_stay() -> None:
    wide = INT32.vector(4)
    x, y = (Load(name, (LANES,), wide) for name in "ab")
    assert contracted(f("+", f("*", x, y), x)) == f("+", f("*", x, y), x)
    s = Load("a", (integer(0),), FLOAT32)
    scalar = Let("s", f("+", f("*", s, s), s))
    assert contract(kernel(scalar)).regions[0] == (scalar,)


def test_all_statements() -> None:
    """Also in conditions, masks, reductions and casts, at any depth."""
    total, one = f("+", PRODUCT, C), Const(0.5, F4)
    x = Var("x", F4)
    before = kernel(
        Let("x", total),
        loop(
            "i",
            2,
            Set("x", f("+", x, f("*", A, B))),
            If(
                Compare("<", Reduce("max", total, FLOAT32), Const(9.0, FLOAT32)),
                (Store("o", (LANES,), Cast(Cast(total, INT32.vector(4)), F4)),),
                (Store("o", (LANES,), x, Compare("<", total, one, BOOL.vector(4))),),
            ),
        ),
    )
    after = contract(before)
    verify(after)
    text = repr(after)
    assert text.count("function='fma'") == 5
    assert "op='*'" not in text
    assert Call("fma", (A, B, C), F4) == after.regions[0][0].value  # type: ignore[union-attr]


def test_products_in_locals_that_are_added_next() -> None:
    product = Let("p", f("*", A, B))
    added = Store("o", (LANES,), f("+", C, Var("p", F4)))
    (only,) = contract(kernel(product, added)).regions[0]
    assert isinstance(only, Store)
    assert only.value == Call("fma", (A, B, C), F4)


@pytest.mark.parametrize(
    "more",
    [
        (Store("o", (LANES,), Var("p", F4)),),
        (Set("p", A), Store("o", (LANES,), Var("p", F4))),
        (loop("i", 2, Store("o", (LANES,), Var("p", F4))),),
    ],
    ids=["read again", "set", "read in a loop"],
)
def test_products_in_locals_that_are_used_again(more: tuple[Stmt, ...]) -> None:
    added = Store("o", (LANES,), f("+", C, Var("p", F4)))
    before = kernel(Let("p", f("*", A, B)), added, *more)
    assert contract(before) == before


def test_products_that_are_added_twice_at_once() -> None:
    both = f("-", f("+", C, Var("p", F4)), Var("p", F4))
    before = kernel(Let("p", f("*", A, B)), Store("o", (LANES,), both))
    assert contract(before) == before
