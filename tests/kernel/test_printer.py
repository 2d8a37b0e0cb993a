"""Kernels as text: whole, and with the parentheses that they need."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT8, INT64
from tc.kernel.ir import (
    Barrier,
    Binary,
    Bits,
    Broadcast,
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
    Prefetch,
    Ramp,
    Reduce,
    Select,
    Set,
    Shuffle,
    Site,
    Store,
    Unary,
    Var,
)
from tc.kernel.printer import expression_text, statement_lines, to_text
from tests.kernel.grids import grid, tmm

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


I4, F4 = INT64.vector(4), FLOAT32.vector(4)
LESS = Compare("<", Ramp(A, 1, I4), Const(7, I4), BOOL.vector(4))


def load(*indices: Expr, mask: Expr | None = None) -> Load:
    return Load("x", indices, F4, mask)


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (binary("|", A, binary("&", B, binary("<<", C, binary("+", A, B)))), "a | b & c << a + b"),
        (binary("&", binary("|", A, B), C), "(a | b) & c"),
        (Compare("==", binary("^", A, B), C), "a ^ b == c"),
        (binary(">>", A, binary(">>", B, C)), "a >> (b >> c)"),
        (load(A, Ramp(B, 1, I4)), "x[a, b:b + 4]"),
        (load(Ramp(Const(4, INT64), 1, I4)), "x[4:8]"),
        (load(Ramp(binary("+", A, Const(4, INT64)), 2, I4)), "x[a + 4:a + 12:2]"),
        (load(Ramp(A, -1, I4)), "x[a:a - 4:-1]"),
        (load(Ramp(Select(P, A, B, INT64), 1, I4)), "x[(p ? a : b):(p ? a : b) + 4]"),
        (load(Ramp(A, 0, I4)), "x[int64x4.ramp(a, 0)]"),
        (load(binary("+", Ramp(A, 1, I4), Const(1, I4))), "x[int64x4.ramp(a, 1) + int64x4(1)]"),
        (load(Ramp(A, 1, I4), mask=LESS), "x[a:a + 4 if int64x4.ramp(a, 1) < int64x4(7)]"),
        (Broadcast(Const(0.5, FLOAT32), F4), "float32x4(0.5f)"),
        (Const(0.5, F4), "float32x4(0.5)"),
        (Const(float("inf"), F4), "float32x4(inf)"),
        (Cast(load(Ramp(A, 1, I4)), FLOAT64.vector(4)), "float64x4(x[a:a + 4])"),
        (Bits(Const(0.5, F4), INT64), "int64.bits(float32x4(0.5))"),
        (Reduce("max", load(Ramp(A, 1, I4)), FLOAT32), "reduce(max, x[a:a + 4])"),
        (Shuffle(Var("v", F4), Var("w", F4), (0, 4), FLOAT32.vector(2)), "shuffle(v, w, [0, 4])"),
    ],
)
def test_vector_expression(expr: Expr, text: str) -> None:
    assert expression_text(expr) == text


def test_marks_and_vector_statements() -> None:
    store = Store("r", (Var("k", INT64), Ramp(A, 1, I4)), Var("v", F4), LESS)
    loop = For("k", Const(0, INT64), Const(4, INT64), (Let("v", Const(0.0, F4)), store))
    kernel = Kernel(
        "k",
        (Buffer("r", FLOAT32, (4, 4), (4, 1), "register"),),
        ((replace(loop, parallel=True), replace(loop, parallel=True, mark="vector")),),
    )
    assert to_text(kernel).split("\n") == [
        "kernel k",
        "  register r: float32[4, 4]",
        "region",
        "  parallel for k in 0:4",
        "    let v: float32x4 = float32x4(0.0)",
        "    r[k, a:a + 4 if int64x4.ramp(a, 1) < int64x4(7)] = v",
        "  parallel vector for k in 0:4",
        "    let v: float32x4 = float32x4(0.0)",
        "    r[k, a:a + 4 if int64x4.ramp(a, 1) < int64x4(7)] = v",
    ]


def test_streamed_store() -> None:
    store = Store("o", (A, Ramp(A, 1, I4)), Var("v", F4), non_temporal=True)
    assert list(statement_lines(store)) == ["stream o[a, a:a + 4] = v"]


def test_prefetch() -> None:
    stmt = Prefetch("o", (A, Ramp(A, 16, I4)))
    assert list(statement_lines(stmt)) == ["prefetch o[a, a:a + 64:16]"]


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


def test_launch() -> None:
    """The paper's product of matrices (A.4.1)."""
    assert (
        to_text(tmm())
        == """\
kernel k
  input A: float32[128, 32]
  input B: float32[256, 32]
  output C: float32[128, 256]
  shared shared_A: float32[4, 33]
  shared shared_B: float32[32, 33]
  register private_C: float32[4, 1]
region
  blocks b0 in 0:32, b1 in 0:8 of threads t0 in 0:1, t1 in 0:32
    for c2 in 0:4
      shared_A[c2, t1] = A[b0 * 4 + c2, t1]
    for c2 in 0:32
      shared_B[c2, t1] = B[b1 * 32 + c2, t1]
    barrier
    for c2 in 0:4
      private_C[c2, t0] = 0.0f
      for c4 in 0:32
        private_C[c2, t0] = private_C[c2, t0] + shared_A[c2, c4] * shared_B[t1, c4]
    for c2 in 0:4
      C[b0 * 4 + c2, b1 * 32 + t1] = private_C[c2, t0]"""
    )


def test_launch_of_one_block_or_thread() -> None:
    assert list(statement_lines(grid((2,), (), Barrier()))) == [
        "blocks b0 in 0:2 of one thread",
        "  barrier",
    ]
    assert list(statement_lines(grid((), (4,)))) == ["one block of threads t0 in 0:4"]
