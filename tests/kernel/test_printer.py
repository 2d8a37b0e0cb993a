"""Kernels as text: whole, and with the parentheses that they need."""

from __future__ import annotations

import pytest

from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT8, INT64
from tc.kernel.ir import (
    Binary,
    Buffer,
    Call,
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
    Logical,
    Select,
    Set,
    Site,
    Store,
    Unary,
    Var,
)
from tc.kernel.printer import expression_text, to_text

A, B, C = (Var(name, INT64) for name in "abc")
P, Q = (Var(name, BOOL) for name in "pq")


def binary(op: str, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right, INT64)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (binary("-", A, binary("-", B, C)), "a - (b - c)"),
        (binary("-", binary("-", A, B), C), "a - b - c"),
        (binary("*", A, binary("/", B, C)), "a * (b / c)"),
        (binary("+", A, binary("*", B, C)), "a + b * c"),
        (binary("min", A, binary("max", B, C)), "min(a, max(b, c))"),
        (Unary("-", binary("*", A, B), INT64), "-(a * b)"),
        (Logical("!", (Compare("<", A, B),)), "!(a < b)"),
        (Logical("&&", (P, Logical("||", (Q, P)))), "p && (q || p)"),
        (Logical("||", (Logical("&&", (P, Q)), P)), "p && q || p"),
        (Compare("==", Compare("<", A, B), P), "a < b == p"),
        (Select(P, A, Select(Q, B, C, INT64), INT64), "p ? a : q ? b : c"),
        (Select(P, Select(Q, A, B, INT64), C, INT64), "p ? (q ? a : b) : c"),
        (binary("+", Select(P, A, B, INT64), C), "(p ? a : b) + c"),
        (Cast(Load("x", (A, binary("+", B, C)), FLOAT32), FLOAT64), "float64(x[a, b + c])"),
        (Call("fmax", (Const(0.5, FLOAT32), Const(float("-inf"), FLOAT32)), FLOAT32),
         "fmax(0.5f, float32(-inf))"),
        (Const(float("nan"), FLOAT64), "nan"),
        (Const(-3, INT8), "int8(-3)"),
        (Const(True, BOOL), "true"),
    ],
)  # fmt: skip
def test_expression(expr: Expr, text: str) -> None:
    assert expression_text(expr) == text


def test_kernel() -> None:
    zero, i = Const(0, INT64), Var("i", INT64)
    kernel = Kernel(
        "k",
        (
            Buffer("x", INT8, (4,), (-1,), "input"),
            Buffer("s", FLOAT32, (), (), "input"),
            Buffer("o", FLOAT32, (4,), (1,), "output"),
        ),
        (
            (
                Comment("o(i) = s"),
                Let("v", Load("s", (), FLOAT32)),
                For(
                    "i",
                    zero,
                    Const(4, INT64),
                    (
                        If(
                            Compare("!=", i, zero),
                            (Set("v", Const(1.0, FLOAT32)),),
                            (Fail(0, (i, zero)),),
                        ),
                        Store("o", (i,), Var("v", FLOAT32)),
                    ),
                ),
            ),
        ),
        (Site("read", 1, 7, ("i",)),),
        frozenset(("o",)),
    )
    assert to_text(kernel).split("\n") == [
        "kernel k",
        "  input x: int8[4] strides (-1)",
        "  input s: float32[]",
        "  output o: float32[4] initial",
        "  site 0: read 7 of S1 at (i)",
        "region",
        "  # o(i) = s",
        "  let v: float32 = s[]",
        "  for i in 0:4",
        "    if i != 0",
        "      v = 1.0f",
        "    else",
        "      fail 0 (i, 0)",
        "    o[i] = v",
    ]
