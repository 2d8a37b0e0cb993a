"""Which minima and maxima start with their first term."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tc.dtypes import FLOAT32, INT32
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Binary, Const, Expr, Kernel, Let, Load, Set, Stmt, Store, Var
from tc.kernel.passes.dead_code import eliminate_dead_code
from tc.kernel.verify import verify
from tests.support.build import dense, integer, loop

X = Var("x", FLOAT32)


def term(place: int) -> Load:
    return Load("a", (integer(place),), FLOAT32)


def step(value: Expr, op: str = "max") -> Set:
    return Set("x", Binary(op, X, value, FLOAT32))


def start(value: float = -math.inf) -> Let:
    return Let("x", Const(value, FLOAT32))


def changed(*stmts: Stmt) -> bool:
    """Whether the pass changes the statements and a store of x; they compute the same then."""
    buffers = dense("a", FLOAT32, (3,), "input"), dense("o", FLOAT32, (), "output")
    kernel = Kernel("f", buffers, ((*stmts, Store("o", (), X)),))
    new = eliminate_dead_code(kernel)
    verify(new)
    for a in ((1, 2, 3), (math.nan, 2, 1), (1, math.nan, 0), (-math.inf,) * 3, (-0.0, 0.0, -1)):
        results = [np.zeros((), np.float32) for _ in range(2)]
        for each, result in zip((kernel, new), results, strict=True):
            evaluate(each, {"a": np.array(a, np.float32), "o": result})
        np.testing.assert_array_equal(results[0], results[1])
    return new != kernel


@pytest.mark.parametrize(
    ("op", "value", "expected"),
    [
        ("max", -math.inf, True),
        ("min", math.inf, True),
        ("max", math.inf, False),
        ("min", -math.inf, False),
        ("max", 0.0, False),
        ("+", 0.0, False),
        ("+", -math.inf, False),
        ("max", math.nan, False),
    ],
)
def test_the_start_is_neutral(op: str, value: float, expected: bool) -> None:
    assert changed(start(value), step(term(0), op), step(term(1), op)) is expected


def test_statements_between_do_not_use_it() -> None:
    y = Let("y", term(1))
    assert changed(start(), y, step(term(0)))
    keeps = Let("y", X), Store("o", (), Var("y", FLOAT32))
    assert not changed(start(), *keeps, step(term(0)))
    assert not changed(start(), loop("k", 2, step(term(1))), step(term(0)))
    assert not changed(start(), step(Binary("+", X, term(1), FLOAT32)), step(term(0)))


def test_the_start_may_be_set() -> None:
    """As that of elements that nothing but this writes, and which are 0 before."""
    stmts = start(0.0), Set("x", Const(-math.inf, FLOAT32)), step(term(0)), Store("o", (), X)
    assert changed(*stmts[:-1])
    made = eliminate_dead_code(Kernel("f", (), (stmts,)))
    assert made.regions == ((Let("x", term(0)), Store("o", (), X)),)


def test_in_loops() -> None:
    inner = start(), step(term(0)), Store("o", (), X)
    assert changed(loop("k", 2, *inner), Let("x", term(0)))


def test_integers_stay() -> None:
    x, buffers = Var("x", INT32), (dense("o", INT32, (), "output"),)
    least = Let("x", Const(-(1 << 31), INT32))
    stmts = least, Set("x", Binary("max", x, Const(3, INT32), INT32)), Store("o", (), x)
    kernel = Kernel("f", buffers, (stmts,))
    assert eliminate_dead_code(kernel) == kernel
