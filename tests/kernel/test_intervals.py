"""Bounds on integer expressions hold, and say no overflow only where there is none."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tc.dtypes import BOOL, FLOAT32, INT8, INT32, INT64, UINT8, DType, limits
from tc.kernel.evaluate import evaluate
from tc.kernel.intervals import interval, loop_interval
from tc.kernel.ir import (
    Binary,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    For,
    Kernel,
    Let,
    Load,
    Select,
    Store,
    Unary,
    Var,
)

X = Var("x", INT64)
LEAST, GREATEST = limits(INT64)


def value(expr: Expr, x: int) -> int:
    buffers = (Buffer("x0", INT64, (), (), "input"), Buffer("o", expr.dtype, (), (), "output"))
    region = (Let("x", Load("x0", (), INT64)), Store("o", (), expr))
    arrays: dict[str, Any] = {"x0": np.array(x), "o": np.zeros((), expr.dtype.numpy)}
    evaluate(Kernel("k", buffers, (region,)), arrays)
    return int(arrays["o"])


def numbers(dtype: DType) -> st.SearchStrategy[Expr]:
    least, greatest = limits(dtype)
    edges = st.sampled_from([least, -1 if least else 1, 0, 1, 2, 100, greatest])
    return edges.map(lambda v: Const(v, dtype))


def steps(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    def binary(op: str, left: Expr, right: Expr) -> Expr:
        return Binary(op, left, right, INT64)

    def from_one_to_seven(expr: Expr) -> Expr:
        return binary("+", binary("%", expr, Const(7, INT64)), Const(1, INT64))

    positive = st.sampled_from([1, 2, 7, GREATEST]).map(lambda v: Const(v, INT64))
    few = st.sampled_from([0, 1, 5, 63]).map(lambda v: Const(v, INT64))
    return st.one_of(
        st.builds(binary, st.sampled_from(["&", "|", "^"]), inner, inner),
        st.builds(binary, st.sampled_from(["<<", ">>"]), inner, few),
        st.builds(binary, st.sampled_from(["+", "-", "*", "min", "max"]), inner, inner),
        st.builds(binary, st.sampled_from(["/", "%"]), inner, positive),
        st.builds(binary, st.sampled_from(["/", "%"]), inner, inner.map(from_one_to_seven)),
        inner.map(lambda e: Unary("-", e, INT64)),
        st.builds(
            lambda e, d: Cast(Cast(e, d), INT64), inner, st.sampled_from([INT8, UINT8, INT32, BOOL])
        ),
        st.builds(lambda a, b: Select(Compare("<", a, b), a, b, INT64), inner, inner),
    )


EXPRS = st.recursive(st.one_of(st.just(X), numbers(INT64)), steps, max_leaves=8)


@given(EXPRS, st.integers(-50, 50), st.integers(0, 100))
def test_values_lie_in_their_interval(expr: Expr, least: int, width: int) -> None:
    low, high = interval(expr, {"x": (least, least + width)})
    for x in (least, least + width // 2, least + width):
        assert low <= value(expr, x) <= high


def test_what_is_known_of_loops_types_and_floats() -> None:
    loop = For("i", Const(-2, INT64), Binary("+", X, Const(1, INT64), INT64), ())
    assert loop_interval(loop.begin, loop.end, {"x": (3, 5)}) == (-2, 5)
    assert loop_interval(Const(3, INT64), Const(0, INT64), {}) == (3, 3)
    assert interval(Cast(Const(1.0, FLOAT32), INT8), {}) == (-128, 127)
    assert interval(Cast(Load("b", (), BOOL), INT64), {}) == (0, 1)
    assert interval(Load("u", (), UINT8), {}) == (0, 255)
