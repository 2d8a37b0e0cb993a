"""Folding of vectors: ramps stay ramps, what all lanes share stays scalar, values are kept."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tc.dtypes import BOOL, FLOAT16, FLOAT32, INT32, INT64
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import (
    binary,
    broadcast,
    cast,
    compare,
    constant,
    integer,
    logical_and,
    logical_not,
    logical_or,
    negation,
    ramp,
    select,
    splat,
)
from tc.kernel.intervals import interval
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    Kernel,
    Let,
    Load,
    Ramp,
    Store,
    Unary,
    Var,
)
from tc.kernel.printer import expression_text
from tc.kernel.rebuild import Substitution, rebuild, substitute
from tests.support.build import dense

I, J = Var("i", INT64), Var("j", INT64)  # noqa: E741
I4, B4, F4 = INT64.vector(4), BOOL.vector(4), FLOAT32.vector(4)
LANES = ramp(I, 1, 4)
TWO = Const(2, I4)
M = Var("m", B4)
BOUNDS = {"i": (0, 8), "j": (-3, 3)}


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (ramp(I, 0, 4), "int64x4(i)"),
        (ramp(I, 3, 1), "i"),
        (binary("+", LANES, TWO), "int64x4.ramp(i + 2, 1)"),
        (binary("+", TWO, LANES), "int64x4.ramp(i + 2, 1)"),
        (binary("-", LANES, broadcast(J, 4)), "int64x4.ramp(i - j, 1)"),
        (binary("-", broadcast(J, 4), LANES), "int64x4.ramp(j - i, -1)"),
        (binary("+", LANES, ramp(J, 2, 4)), "int64x4.ramp(i + j, 3)"),
        (binary("-", LANES, LANES), "int64x4(i - i)"),
        (binary("*", LANES, TWO), "int64x4.ramp(i * 2, 2)"),
        (binary("*", TWO, LANES), "int64x4.ramp(i * 2, 2)"),
        (binary("*", LANES, Const(0, I4)), "int64x4(0)"),
        (binary("*", LANES, LANES), "int64x4.ramp(i, 1) * int64x4.ramp(i, 1)"),
        (binary("*", LANES, broadcast(J, 4)), "int64x4.ramp(i, 1) * int64x4(j)"),
        (binary("+", broadcast(I, 4), broadcast(J, 4)), "int64x4(i + j)"),
        (binary("min", broadcast(I, 4), TWO), "int64x4(min(i, 2))"),
        (binary("/", ramp(binary("*", I, integer(4)), 1, 4), Const(12, I4)), "int64x4(i * 4 / 12)"),
        (
            binary("%", ramp(binary("*", I, integer(8)), 2, 4), Const(40, I4)),
            "int64x4.ramp(i * 8 % 40, 2)",
        ),
        (binary("/", LANES, Const(4, I4)), "int64x4.ramp(i, 1) / int64x4(4)"),
        (binary("/", ramp(binary("*", I, integer(4)), 2, 4), Const(12, I4)),
         "int64x4.ramp(i * 4, 2) / int64x4(12)"),
        (binary("%", ramp(integer(0), 1, 4), Const(6, I4)),
         "int64x4.ramp(0, 1) % int64x4(6)"),
        (binary("%", ramp(integer(0), 1, 4), Const(8, I4)), "int64x4.ramp(0, 1)"),
        (binary("&", Const(6, I4), Const(3, I4)), "int64x4(2)"),
        (binary("<<", integer(1), integer(4)), "16"),
        (binary("<<", integer(1), integer(64)), "1 << 64"),
        (binary(">>", integer(-5), integer(1)), "-3"),
        (binary("^", integer(6), integer(3)), "5"),
        (binary("|", integer(6), integer(3)), "7"),
        (negation(TWO), "int64x4(-2)"),
        (cast(broadcast(I, 4), INT32.vector(4)), "int32x4(int32(i))"),
        (cast(TWO, F4), "float32x4(2.0)"),
        (cast(LANES, INT32.vector(4)), "int32x4(int64x4.ramp(i, 1))"),
        (broadcast(Cast(Const(1.0, FLOAT32), FLOAT16), 4), "float16x4(float32x4(1.0))"),
        (compare("<", TWO, Const(3, I4), {}), "boolx4(true)"),
        (compare("<", broadcast(I, 4), TWO, {}), "boolx4(i < 2)"),
        (compare("<", LANES, Const(12, I4), BOUNDS), "boolx4(true)"),
        (compare("<", LANES, Const(11, I4), BOUNDS), "int64x4.ramp(i, 1) < int64x4(11)"),
        (compare(">", LANES, Const(11, I4), BOUNDS), "boolx4(false)"),
        (compare(">=", LANES, Const(0, I4), BOUNDS), "boolx4(true)"),
        (compare("<=", LANES, Const(11, I4), BOUNDS), "boolx4(true)"),
        (compare("<", broadcast(Load("x", (), FLOAT32), 4), Const(1.0, F4), {}),
         "boolx4(x[] < 1.0f)"),
        (logical_and(M, Const(True, B4)), "m"),
        (logical_and(Const(False, B4), M), "boolx4(false)"),
        (logical_or(M, Const(True, B4)), "boolx4(true)"),
        (logical_or(Const(False, B4), M), "m"),
        (logical_or(M, M), "m || m"),
        (logical_not(Const(False, B4)), "boolx4(true)"),
        (logical_not(M), "!m"),
        (select(M, M, Const(False, B4)), "m && m"),
        (select(Var("c", BOOL), Const(True, B4), M), "c ? boolx4(true) : m"),
    ],
)  # fmt: skip
def test_folded(expr: Expr, text: str) -> None:
    assert expression_text(expr) == text


def test_bounds_decide() -> None:
    assert binary("min", I, integer(8), BOUNDS) == I
    assert binary("min", integer(-3), J, BOUNDS) == integer(-3)
    assert binary("max", integer(8), I, BOUNDS) == integer(8)
    assert binary("max", I, integer(0), BOUNDS) == I
    assert binary("/", I, integer(9), BOUNDS) == integer(0)
    assert binary("%", I, integer(9), BOUNDS) == I
    for op, limit in (("min", 7), ("max", 1), ("/", 8), ("%", 8)):
        assert isinstance(binary(op, I, integer(limit), BOUNDS), Binary)
    assert isinstance(binary("%", J, integer(9), BOUNDS), Binary)


def test_interval_of_vectors() -> None:
    assert interval(LANES, BOUNDS) == (0, 11)
    assert interval(ramp(I, -2, 4), BOUNDS) == (-6, 8)
    assert interval(broadcast(J, 4), BOUNDS) == (-3, 3)
    assert interval(ramp(integer((1 << 63) - 1), 1, 4), {}) == (-(1 << 63), (1 << 63) - 1)


def test_splat() -> None:
    assert splat(broadcast(I, 4)) == I
    assert splat(TWO) == integer(2)
    assert splat(LANES) is None


def test_steps_wrap_around() -> None:
    half = 1 << 62
    doubled = binary("*", ramp(I, half, 4), Const(2, I4))
    assert isinstance(doubled, Ramp)
    assert doubled.step == -(1 << 63)


# --- generated: the folded vector has the lanes of the plain one --------------------------------

Tree = tuple[str, tuple[object, ...]]


def trees() -> st.SearchStrategy[Tree]:
    leaves = st.one_of(
        st.sampled_from([("i", ()), ("l", ()), ("l", ()), ("far", ())]),
        st.sampled_from([0, 1, 2, 3, 4, 8, 16, -1, -5, 1 << 62]).map(lambda v: ("const", (v,))),
    )
    ops = st.sampled_from(["+", "-", "*", "*", "/", "%", "min", "max", "neg", "<", "<=", "=="])
    return st.recursive(leaves, lambda t: st.tuples(ops, st.tuples(t, t)), max_leaves=8)


def build(tree: Tree, *, fold: bool) -> Expr:
    """As four lanes, plain, or folded from scalars where there are any."""
    op, args = tree
    match op:
        case "i":
            return I if fold else Broadcast(I, I4)
        case "far":
            return Var("far", INT64) if fold else Broadcast(Var("far", INT64), I4)
        case "l":
            return ramp(integer(0), 1, 4) if fold else Ramp(integer(0), 1, I4)
        case "const":
            value: int = args[0]  # type: ignore[assignment]
            return integer(value) if fold else Const(value, I4)
    left, right = (build(a, fold=fold) for a in args)  # type: ignore[arg-type]
    if fold:
        plain: Expr
        if op == "neg":
            return rebuild(Unary("-", left, INT64), [left], BOUNDS)
        if op in ("<", "<=", "=="):
            plain = rebuild(Compare(op, left, right), [left, right], BOUNDS)
            return rebuild(Cast(plain, INT64), [plain], BOUNDS)
        return rebuild(Binary(op, left, right, INT64), [left, right], BOUNDS)
    if op == "neg":
        return Unary("-", left, I4)
    if op in ("<", "<=", "=="):
        return Cast(Compare(op, left, right, B4), I4)
    return Binary(op, left, right, I4)


def lanes_of(expr: Expr, i: int) -> list[int]:
    out = np.zeros(4, np.int64)
    value = expr if expr.dtype.lanes == 4 else Broadcast(expr, I4)
    stmts = (
        Let("i", integer(i)),
        Let("far", integer((1 << 63) - 2)),
        Store("o", (Ramp(integer(0), 1, I4),), value),
    )
    evaluate(Kernel("k", (dense("o", INT64, (4,), "output"),), (stmts,)), {"o": out})
    found: list[int] = out.tolist()
    return found


def divides_by_zero(tree: Tree, i: int) -> bool:
    op, args = tree
    if op in "/%" and 0 in lanes_of(build(args[1], fold=False), i):  # type: ignore[arg-type]
        return True
    return any(divides_by_zero(a, i) for a in args if isinstance(a, tuple))


@given(tree=trees(), i=st.sampled_from([0, 3, 8]))
def test_folding_keeps_lanes(tree: Tree, i: int) -> None:
    if not divides_by_zero(tree, i):
        assert lanes_of(build(tree, fold=True), i) == lanes_of(build(tree, fold=False), i)


# --- rebuilding -------------------------------------------------------------------------------


def test_substitution_shares_and_keeps() -> None:
    x = Binary("+", Load("a", (I,), INT64), Load("a", (J,), INT64), INT64)
    assert substitute(x, {"k": integer(1)}, {}) is x
    substitution = Substitution()
    one, two = integer(1), integer(2)
    first = substitution.apply(x, {"i": one, "j": one}, {})
    second = substitution.apply(x, {"i": one, "j": two}, {})
    assert expression_text(first) == "a[1] + a[1]"
    assert expression_text(second) == "a[1] + a[2]"
    assert isinstance(first, Binary)
    assert isinstance(second, Binary)
    assert first.left is second.left
    assert substitution.apply(x, {"i": one, "j": one}, {}) is first
    assert substitution.apply(x, {}, {}) is x
    assert substitution.apply(I, {"i": two}, {}) is two


def test_loads_of_one_element_for_all_lanes_are_scalar() -> None:
    buffer = Buffer("a", INT64, (8,), (1,), "input")
    load = Load(buffer.name, (I,), INT64)
    assert expression_text(substitute(load, {"i": constant(3, I4)}, {})) == "int64x4(a[3])"
    masked = Load("a", (LANES,), I4, M)
    off = substitute(masked, {"m": Const(False, B4)}, {})
    assert expression_text(off) == "int64x4(0)"
    on = substitute(masked, {"m": Const(True, B4)}, {})
    assert on == Load("a", (LANES,), I4)
