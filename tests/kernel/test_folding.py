"""Folding keeps values: by hand, and on generated expressions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT64, UINT8, DType
from tc.kernel import folding
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import FALSE, TRUE, binary, cast, compare, constant, integer
from tc.kernel.intervals import interval
from tc.kernel.ir import (
    Binary,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    Kernel,
    Let,
    Load,
    Logical,
    Select,
    Store,
    Unary,
    Var,
    children,
)
from tc.kernel.printer import expression_text

I, J = Var("i", INT64), Var("j", INT64)  # noqa: E741 - as in the kernels
P = Var("p", BOOL)
BOUNDS = {"i": (0, 9), "j": (-3, 3)}


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (binary("+", integer(0), I), "i"),
        (binary("-", I, integer(0)), "i"),
        (binary("-", integer(0), I), "-i"),
        (binary("+", I, integer(-2)), "i - 2"),
        (binary("-", I, integer(-2)), "i + 2"),
        (binary("-", binary("+", integer(1), I), integer(1)), "i"),
        (binary("+", binary("-", I, integer(1)), integer(3)), "i + 2"),
        (binary("*", integer(1), I), "i"),
        (binary("*", I, integer(0)), "0"),
        (binary("/", I, integer(1)), "i"),
        (binary("%", I, integer(1)), "0"),
        (binary("/", integer(-7), integer(2)), "-4"),
        (binary("%", integer(-7), integer(2)), "1"),
        (binary("/", integer(7), integer(0)), "7 / 0"),
        (binary("min", integer(7), integer(2)), "2"),
        (binary("*", Const(100, INT8), Const(2, INT8)), "int8(-56)"),
        (binary("-", Const(1, UINT8), Const(2, UINT8)), "uint8(255)"),
        (binary("*", Const(1.0, FLOAT32), Load("x", (), FLOAT32)), "1.0f * x[]"),
        (binary("+", Const(0.0, FLOAT32), Load("x", (), FLOAT32)), "0.0f + x[]"),
        (folding.negation(Const(-128, INT8)), "int8(-128)"),
        (cast(integer(300), UINT8), "uint8(44)"),
        (cast(integer(3), FLOAT32), "3.0f"),
        (cast(Const(0.1, FLOAT64), FLOAT32), "0.10000000149011612f"),
        (cast(Const(2.5, FLOAT32), INT64), "2"),
        (cast(Const(float("nan"), FLOAT32), INT64), "int64(float32(nan))"),
        (cast(Const(1.0, FLOAT32), FLOAT16), "float16(1.0f)"),
        (cast(I, INT64), "i"),
        (folding.select(TRUE, I, J), "i"),
        (folding.select(P, P, FALSE), "p && p"),
        (folding.select(P, TRUE, P), "p || p"),
        (folding.logical_and(TRUE, P), "p"),
        (folding.logical_and(P, FALSE), "false"),
        (folding.logical_or(FALSE, P), "p"),
        (folding.logical_or(P, TRUE), "true"),
        (folding.logical_not(Logical("!", (P,))), "p"),
    ],
)
def test_folded(expr: Expr, text: str) -> None:
    assert expression_text(expr) == text


@pytest.mark.parametrize(
    ("op", "left", "right", "text"),
    [
        (">=", I, integer(0), "true"),
        ("<", I, integer(10), "true"),
        ("<", I, integer(9), "i < 9"),
        ("<", I, integer(0), "false"),
        ("<=", I, integer(9), "true"),
        (">", I, integer(9), "false"),
        ("==", I, integer(10), "false"),
        ("!=", I, integer(-1), "true"),
        ("<=", integer(0), binary("-", I, integer(1)), "i >= 1"),
        ("<", binary("+", binary("+", I, J), integer(1)), integer(4), "i + j < 3"),
        ("<", binary("*", I, integer(2)), J, "i * 2 < j"),
        ("<", Const(1.5, FLOAT32), Const(2.5, FLOAT32), "true"),
        ("<", Const(0.0, FLOAT32), Load("x", (), FLOAT32), "0.0f < x[]"),
    ],
)
def test_compare(op: str, left: Expr, right: Expr, text: str) -> None:
    assert expression_text(compare(op, left, right, BOUNDS)) == text


def test_offset_stays_where_it_may_wrap() -> None:
    """uint8(200) + 100 is 44: moving the 100 over would decide otherwise."""
    x = Load("x", (), UINT8)
    test = compare("<", binary("+", x, Const(100, UINT8)), Const(150, UINT8), {})
    assert expression_text(test) == "x[] + uint8(100) < uint8(150)"


def test_interval_of_what_may_wrap_is_that_of_the_type() -> None:
    x = Load("x", (), INT8)
    assert interval(binary("*", x, Const(2, INT8)), {}) == (-128, 127)
    assert interval(binary("*", cast(x, INT64), integer(2)), {}) == (-256, 254)


def test_interval_of_remainders() -> None:
    divisor = binary("+", I, integer(1))  # 1 to 10
    assert interval(binary("%", J, divisor), BOUNDS) == (0, 9)
    assert interval(binary("%", I, integer(20)), BOUNDS) == (0, 9)
    assert interval(binary("%", I, integer(4)), BOUNDS) == (0, 3)


def test_depth() -> None:
    assert folding.depth(integer(1)) == 1
    assert folding.depth(Select(P, I, Unary("-", J, INT64), INT64)) == 3


# --- generated: the folded expression has the value of the plain one ---------------------------


def trees(dtype: DType) -> st.SearchStrategy[tuple[str, tuple[object, ...]]]:
    leaves = st.one_of(
        st.just(("i", ())),
        st.just(("j", ())),
        st.integers(-4, 4).map(lambda v: ("const", (abs(v) if dtype.kind == "uint" else v,))),
    )
    ops = st.sampled_from(["+", "-", "*", "/", "%", "min", "max", "neg", "<", "<=", "==", "!="])
    return st.recursive(leaves, lambda t: st.tuples(ops, st.tuples(t, t)), max_leaves=8)


def build(tree: tuple[str, tuple[object, ...]], dtype: DType, *, fold: bool) -> Expr:
    """The expression of a tree, made by folding or as plain nodes; `<` gives 1 or 0."""
    op, args = tree
    if op in ("i", "j"):
        return (cast if fold else Cast)(Var(op, INT64), dtype)
    if op == "const":
        return constant(args[0], dtype)  # type: ignore[arg-type]
    left, right = (build(a, dtype, fold=fold) for a in args)  # type: ignore[arg-type]
    if op == "neg":
        return folding.negation(left) if fold else Unary("-", left, dtype)
    if op not in ("<", "<=", "==", "!="):
        return binary(op, left, right) if fold else Binary(op, left, right, dtype)
    test = compare(op, left, right, BOUNDS) if fold else Compare(op, left, right)
    return (cast if fold else Cast)(test, dtype)


def values(expr: Expr) -> list[int]:
    pairs = list(itertools.product((0, 1, 5, 9), (-3, 0, 2)))
    out = np.zeros(len(pairs), expr.dtype.numpy)
    regions = tuple(
        (Let("i", integer(i)), Let("j", integer(j)), Store("o", (integer(n),), expr))
        for n, (i, j) in enumerate(pairs)
    )
    buffer = Buffer("o", expr.dtype, out.shape, (1,), "output")
    evaluate(Kernel("k", (buffer,), regions), {"o": out})
    return out.tolist()  # type: ignore[no-any-return]


def has_division_by_zero(expr: Expr) -> bool:
    """Whether a divisor may be 0, where values are unspecified (Y4)."""
    match expr:
        case Binary(op="/" | "%", right=right) if 0 in values(right):
            return True
    return any(map(has_division_by_zero, children(expr)))


@pytest.mark.parametrize("dtype", [INT64, INT8, UINT8], ids=str)
@given(data=st.data())
def test_folding_keeps_values(dtype: DType, data: st.DataObject) -> None:
    tree = data.draw(trees(dtype))
    plain = build(tree, dtype, fold=False)
    if not has_division_by_zero(plain):
        assert values(build(tree, dtype, fold=True)) == values(plain)


@given(tree=trees(INT64))
def test_interval_holds_all_values(tree: tuple[str, tuple[object, ...]]) -> None:
    expr = build(tree, INT64, fold=True)
    low, high = interval(expr, BOUNDS)
    if not has_division_by_zero(expr):
        assert all(low <= value <= high for value in values(expr))
