"""The Python text of kernels: whole, readable, and spelt so that Python takes it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tc
from tc.backends.numba.backend import NumbaBackend
from tc.backends.numba.printer import print_kernel
from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT32, INT64, UINT32, UINT64
from tc.errors import BackendError
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
from tc.kernel.verify import verify
from tests.support.build import I, dense, integer, loop
from tests.support.kernels import load, matmul, run

EXPECTED = Path(__file__).parents[2] / "expected"
J = Var("j", INT64)
P, Q = Var("p", BOOL), Var("q", BOOL)
F, N = Var("f", FLOAT32), Var("n", INT32)
HALF_MORE = Const(1.5, FLOAT64)


def text(expr: Expr) -> str:
    """The line that gives an expression to a local, in loops over i < 10 and j < 10."""
    lets = (
        Let("p", Const(True, BOOL)),
        Let("q", Const(False, BOOL)),
        Let("f", Load("a", (), FLOAT32)),
        Let("n", Load("m", (), INT32)),
        Let("l", Load("w", (), INT64)),
        Let("result", expr),
    )
    buffers = (
        Buffer("a", FLOAT32, (), (), "input"),
        Buffer("m", INT32, (), (), "input"),
        Buffer("w", INT64, (), (), "input"),
        Buffer("h", FLOAT16, (), (), "input"),
        Buffer("u", UINT32, (), (), "input"),
    )
    kernel = Kernel("k", buffers, ((loop("i", 10, loop("j", 10, *lets)),),))
    verify(kernel)
    lines = print_kernel(kernel).splitlines()
    return next(line.split(" = ", 1)[1] for line in lines if "result = " in line)


def both(op: str, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right, left.dtype)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        (both("*", both("+", I, J), I), "(i + j) * i"),
        (both("-", I, both("-", J, I)), "i - (j - i)"),
        (both("/", I, integer(2)), "i // 2"),
        (both("/", both("/", I, J), I), "i // j // i"),
        (both("%", I, integer(3)), "i % 3"),
        (both("*", Var("l", INT64), I), "l * i"),
        (both("+", both("*", N, N), Const(3, INT32)), "n * n + 3"),
        (both("*", both("*", N, N), N), "n * n * n"),
        (both("+", N, Const(-3, INT32)), "n + -3"),
        (both("-", Const(3, UINT32), Load("u", (), UINT32)), "3 - u[0]"),
        (both("+", Const(3, UINT64), Const(4, UINT64)), "m.constant(3, uint64) + 4"),
        (Unary("-", N, INT32), "-n"),
        (Unary("-", Unary("-", F, FLOAT32), FLOAT32), "--f"),
        (both("/", F, both("*", F, F)), "f / (f * f)"),
        (both("%", F, F), "f % f"),
        (both("min", F, Const(0.5, FLOAT32)), "m.minimum(f, 0.5)"),
        (both("max", P, both("min", P, Q)), "m.maximum(p, m.minimum(p, q))"),
        (both("min", both("max", P, Q), Q), "m.minimum(m.maximum(p, q), q)"),
        (Compare("<", F, F), "f < f"),
        (Compare("==", Compare("<", F, F), P), "(f < f) == p"),
        (Logical("!", (Compare("<", F, F),)), "~(f < f)"),
        (Logical("!", (Logical("&&", (P, Q)),)), "~(p & q)"),
        (Logical("&&", (Logical("||", (P, Q)), Logical("!", (Q,)))), "(p | q) & ~q"),
        (Select(P, F, Select(Q, F, F, FLOAT32), FLOAT32), "m.select(p, f, m.select(q, f, f))"),
        (Select(P, Select(Q, F, F, FLOAT32), F, FLOAT32), "m.select(p, m.select(q, f, f), f)"),
        (both("+", Select(P, F, F, FLOAT32), F), "m.select(p, f, f) + f"),
        (Call("exp", (both("+", F, F),), FLOAT32), "m.call(math.exp, f + f)"),
        (Cast(N, FLOAT32), "m.cast(n, float32)"),
        (Cast(F, INT8), "m.cast(f, int8)"),
        (Cast(both("+", F, F), BOOL), "m.cast(f + f, bool_)"),
        (Cast(P, INT32), "m.cast(p, int32)"),
        (Cast(Load("h", (), FLOAT16), FLOAT32), "m.cast(h[0], float32)"),
        (Cast(Cast(N, FLOAT16), FLOAT32), "m.cast(m.cast(n, float16), float32)"),
        (Const(float("inf"), FLOAT64), "m.constant(inf, float64)"),
        (both("-", HALF_MORE, Const(float("-inf"), FLOAT64)), "m.constant(1.5, float64) - -inf"),
        (Const(float("nan"), FLOAT32), "m.constant(nan, float32)"),
        (Const(float(np.float32(0.1)), FLOAT32), "m.constant(0.1, float32)"),
        (Const(True, BOOL), "m.constant(True, bool_)"),
    ],
)
def test_expressions(expr: Expr, expected: str) -> None:
    assert text(expr) == expected


def test_offsets_drop_what_is_zero_and_may_be_negative() -> None:
    a = Buffer("a", INT64, (4, 5, 6), (-30, 0, 1), "input")
    b = Buffer("b", INT64, (3, 3), (-1, 9), "input")
    c = Buffer("c", INT64, (3, 3), (5, -7), "input")
    o = dense("o", INT64, (8,), "output")
    loads = (
        Load("a", (I, I, both("+", I, integer(2))), INT64),
        Load("a", (integer(3), I, integer(5)), INT64),
        Load("b", (I, both("-", I, integer(1))), INT64),
        Load("c", (I, I), INT64),
        Load("c", (integer(0), integer(0)), INT64),
    )
    body = tuple(Store("o", (integer(n),), load) for n, load in enumerate(loads))
    kernel = Kernel("k", (a, b, c, o), ((loop("i", 3, *body),),))
    lines = [line.strip() for line in print_kernel(kernel).splitlines() if " o[" in line]
    assert lines == [
        "o[0] = a[-(i * 29) + 2]",
        "o[1] = a[-85]",
        "o[2] = b[i * 8 - 9]",
        "o[3] = c[-(i * 2)]",
        "o[4] = c[0]",
    ]


def test_whole_matmul(golden: Callable[[Path, str], None]) -> None:
    golden(EXPECTED / "mm" / "kernel.numba.txt", print_kernel(matmul(128, 256, 32)))


def every_statement() -> Kernel:
    """Statements of all kinds, with names that Python cannot spell."""
    body = (
        Comment("2LUT: a comment"),
        Let("lambda", Const(0.5, FLOAT32)),
        If(
            Compare(">", Load("2in", (I,), FLOAT32), Var("lambda", FLOAT32)),
            (Set("lambda", Load("2in", (I,), FLOAT32)),),
            (Fail(0, (I, both("*", I, I))), Comment("only a failure")),
        ),
        If(Const(True, BOOL), (Comment("nothing"),)),
        Store("MLP1#2.t", (I,), Cast(Compare("<", I, integer(2)), FLOAT32)),
        Store("range", (I,), Var("lambda", FLOAT32)),
    )
    buffers = (
        dense("2in", FLOAT32, (4,), "input"),
        Buffer("range", FLOAT32, (4,), (1,), "output"),
        dense("MLP1#2.t", FLOAT32, (4,), "temporary"),
        dense("MLP1_2_t", FLOAT32, (4,), "temporary"),
    )
    kernel = Kernel(
        "2LUT",
        buffers,
        (
            (Comment("shared"), Let("n", integer(4)), loop("i", 4, *body, parallel=True)),
            (Comment("nothing at all"),),
            (Store("MLP1_2_t", (integer(1),), Const(1.0, FLOAT32)),),
        ),
        (Site("read", 0, 0, ("i",)),),
    )
    verify(kernel)
    return kernel


def test_every_statement_and_awkward_names(golden: Callable[[Path, str], None]) -> None:
    golden(EXPECTED / "statements" / "kernel.numba.txt", print_kernel(every_statement()))


def test_awkward_names_run() -> None:
    given = np.array([0.25, 0.75, 0.5, 1.0], np.float32)
    failure, arrays = run(load(NumbaBackend(), every_statement()), {"2in": given})
    assert failure is not None
    assert (failure.site, failure.values) == (0, (0, 0))
    assert arrays["range"].tolist() == [0.5, 0.75, 0.5, 1.0]
    assert arrays["MLP1#2.t"].tolist() == [1.0, 1.0, 0.0, 0.0]
    assert arrays["MLP1_2_t"].tolist() == [1.0, 1.0, 1.0, 1.0]


def test_equal_kernels_have_equal_texts() -> None:
    assert print_kernel(every_statement()) == print_kernel(every_statement())
    emitted: Any = NumbaBackend().emit(matmul(2, 3, 4))
    assert emitted.source == str(emitted) == print_kernel(matmul(2, 3, 4))


def test_too_deep_for_python_is_an_error_with_a_repair() -> None:
    expr: Expr = Load("a", (), FLOAT32)
    for _ in range(300):
        expr = both("min", expr, Const(1.0, FLOAT32))
    buffers = (dense("a", FLOAT32, (), "input"), dense("o", FLOAT32, (), "output"))
    kernel = Kernel("deep", buffers, ((Store("o", (), expr),),))
    backend = NumbaBackend()
    with pytest.raises(BackendError, match="deep is nested too deeply for Python") as caught:
        backend.load(backend.emit(kernel))
    assert caught.value.repair == 'split the expression into several statements, or use backend="c"'


@pytest.mark.parametrize(
    ("head", "one", "value", "due"),
    [
        ("float s", "exp(s) / 2", np.float32(1), np.exp(1) / 2),
        ("int s", "7 / s", np.int32(-2), -4),
        ("int8 s", "float(s % int8(3))", np.int8(-7), 2),
    ],
)
def test_regions_without_loops(head: str, one: str, value: Any, due: float) -> None:
    """A number beside a loop, and a number alone."""
    f = tc.compile(f"def f({head}, float(N) a) -> (t, o) {{ t = {one}  o(i) = a(i) * a(i) }}")
    a = np.arange(40, dtype=np.float32)
    found, squares = f(value, a)
    np.testing.assert_allclose(found, due, rtol=1e-6)
    np.testing.assert_array_equal(squares, a * a)
    alone = tc.compile(f"def g({head}) -> (t) {{ t = {one} }}")
    np.testing.assert_allclose(alone(value), due, rtol=1e-6)


def test_regions_without_loops_tell_their_faults() -> None:
    f = tc.compile("def f(int k, float(N) a) -> (t, o) { t = 7 / k  o(i) = a(i) * a(i) }")
    with pytest.raises(tc.AccessError, match="k is 0"):
        f(np.int32(0), np.ones(40, np.float32))
