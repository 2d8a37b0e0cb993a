"""The Python text of regions with vectors: whole and readable."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tc.backends.numba.printer import print_kernel
from tc.dtypes import BOOL, FLOAT16, FLOAT32, INT32, INT64
from tc.errors import InternalError
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Call,
    Cast,
    Comment,
    Compare,
    Const,
    Expr,
    Fail,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Reduce,
    Select,
    Set,
    Shuffle,
    Site,
    Store,
    Unary,
    Var,
)
from tc.kernel.passes.contraction import contract
from tc.kernel.verify import verify
from tests.support.build import I, dense, integer, loop
from tests.support.kernels import load
from tests.support.vectors import BACKEND, plus, ramp, times

EXPECTED = Path(__file__).parents[2] / "expected"
F8, L8, B8 = FLOAT32.vector(8), INT64.vector(8), BOOL.vector(8)
J, K, X, P = Var("j", INT64), Var("k", INT64), Var("x", F8), Var("p", BOOL)


def f(op: str, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right, left.dtype)


TWO, LEFT, LOADED = Const(2.0, F8), Compare("<", I, integer(3)), Load("m", (I,), INT64)


def kernel() -> Kernel:
    """One tile of a product with packing, an epilogue with everything, and a plain region."""
    lanes = ramp(times(J, 8), 8)
    sum_, kept = Var("sum", F8), Var("kept", FLOAT32)
    factor = Broadcast(Load("A", (I, K), FLOAT32), F8)
    product = f("*", factor, Load("packed", (K, lanes), F8))
    pack = loop("k", 5, loop("j", 2, Store("packed", (K, lanes), Load("B", (lanes, K), F8))))
    inside = Compare("<", lanes, Const(13, L8), B8)
    wide = Cast(Load("h", (lanes,), FLOAT16.vector(8), inside), F8)
    rows = Cast(Load("row", (lanes,), INT32.vector(8), inside), L8)
    picked = Load("table", (I, rows), F8, inside)
    total = f("max", f("-", sum_, wide), Const(0.0, F8))
    turned = Shuffle(total, picked, (7, 6, 5, 4, 8, 9, 10, 11), F8)
    body = (
        Comment("C(i, j) +=! A(i, k) * B(j, k)"),
        Let("sum", Const(0.0, F8)),
        loop("k", 5, Set("sum", f("+", sum_, product))),
        Let("inside", inside),
        Store("C", (I, lanes), turned, Var("inside", B8)),
        Let("kept", Select(LEFT, Load("table", (I, I), FLOAT32), zero(), FLOAT32)),
        Let("most", f("+", Reduce("max", total, FLOAT32), Call("exp", (kept,), FLOAT32))),
        If(
            Logical("&&", (LEFT, Compare("<", Load("n", (I,), INT64), I))),
            (Fail(0, (I, plus(I, 1))),),
            (Store("a", (I,), Var("most", FLOAT32)),),
        ),
    )  # fmt: skip
    whole = loop("i", 4, pack, loop("j", 2, *body), parallel=True)
    plain = loop("i", 4, Store("n", (I,), plus(I, 1)))
    buffers = (
        dense("A", FLOAT32, (4, 5), "input"),
        dense("B", FLOAT32, (16, 5), "input"),
        dense("h", FLOAT16, (13,), "input"),
        dense("row", INT32, (13,), "input"),
        dense("table", FLOAT32, (4, 9), "input"),
        dense("C", FLOAT32, (4, 13), "output"),
        dense("a", FLOAT32, (4,), "temporary"),
        dense("n", INT64, (4,), "temporary"),
        dense("packed", FLOAT32, (5, 16), "scratch"),
    )
    return Kernel("tile", buffers, ((plain,), (whole,)), (Site("read", 0, 0, ("i",)),))


def zero() -> Const:
    return Const(0.0, FLOAT32)


def test_whole_text(golden: Callable[[Path, str], None]) -> None:
    made = contract(kernel())
    verify(made)
    golden(EXPECTED / "vectors" / "kernel.numba.txt", print_kernel(made))
    load(BACKEND, made)


def line(expr: Expr) -> str:
    """The text of an expression on x, a vector, p, a bool, and i."""
    lets = (
        Let("x", Load("a", (ramp(integer(0), 8),), F8)),
        Let("p", Const(True, BOOL)),
        Let("result", expr),
    )
    buffers = (dense("a", FLOAT32, (64,), "input"), dense("m", INT64, (64,), "input"))
    made = Kernel("k", buffers, ((loop("i", 10, *lets),),))
    load(BACKEND, made)
    return print_kernel(made).partition("result = ")[2].partition("\n")[0]


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (f("-", X, f("-", X, X)), "x - (x - x)"),
        (f("-", f("-", X, X), X), "x - x - x"),
        (f("*", TWO, f("+", X, TWO)), "2.0 * (x + 2.0)"),
        (f("/", X, f("*", X, TWO)), "x / (x * 2.0)"),
        (f("*", Const(-2.0, F8), X), "-2.0 * x"),
        (f("+", TWO, TWO), "m.constant(2.0, float32, 8) + 2.0"),
        (Unary("-", Unary("-", X, F8), F8), "--x"),
        (Unary("-", f("+", X, X), F8), "-(x + x)"),
        (f("/", I, integer(3)), "i // 3"),
        (f("%", times(I, 5), integer(3)), "i * 5 % 3"),
        (f("&", f("<<", I, integer(2)), f("+", I, I)), "i << 2 & i + i"),
        (f("<<", f("|", I, I), integer(2)), "(i | i) << 2"),
        (f("min", X, Const(float("inf"), F8)), "m.minimum(x, inf)"),
        (Logical("&&", (LEFT, P)), "(i < 3) & p"),
        (Logical("||", (Logical("&&", (P, LEFT)), P)), "p & (i < 3) | p"),
        (Logical("!", (LEFT,)), "~(i < 3)"),
        (Compare("==", LEFT, P), "(i < 3) == p"),
        (Logical("&&", (P, Compare("<", LOADED, I))), "m.both(p, lambda: m_1[i] < i)"),
        (Select(P, X, TWO, F8), "m.select(p, x, 2.0)"),
        (Select(P, LOADED, I, INT64), "m.choose(p, lambda: m_1[i], lambda: i)"),
        (Load("a", (ramp(times(I, 3), 8, 2),), F8), "m.load(a, i * 3, range(0, 16, 2))"),
        (Load("a", (ramp(I, 8, 0),), F8), "m.load(a, i, (0, 0, 0, 0, 0, 0, 0, 0))"),
        (Cast(Load("a", (I,), FLOAT32), INT32), "m.cast(a[i], int32)"),
        (Broadcast(Const(1.5, FLOAT32), F8), "m.constant(1.5, float32, 8)"),
    ],
)  # fmt: skip
def test_expressions(expr: Expr, text: str) -> None:
    assert line(expr) == text


def test_functions_of_vectors_must_be_instructions() -> None:
    with pytest.raises(InternalError, match="exp of vectors is no single instruction"):
        line(Call("exp", (X,), F8))
