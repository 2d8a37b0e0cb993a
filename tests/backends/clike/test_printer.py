"""The C text of kernels: complete, readable, and with names that C admits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tc.backends.clike.c import C99
from tc.backends.clike.printer import print_kernel as print_in
from tc.backends.clike.printer import spell
from tc.dtypes import (
    BOOL,
    FLOAT16,
    FLOAT32,
    FLOAT64,
    INT8,
    INT16,
    INT32,
    INT64,
    UINT8,
    UINT32,
    UINT64,
    DType,
)
from tc.kernel.ir import (
    Binary,
    Bits,
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
from tests.support.kernels import matmul

EXPECTED = Path(__file__).parents[2] / "expected"
J = Var("j", INT64)
P, Q = Var("p", BOOL), Var("q", BOOL)
F, N, B = Var("f", FLOAT32), Var("n", INT32), Var("b", INT8)
D, L = Var("d", FLOAT64), Var("l", INT64)
U = Load("u", (), UINT32)


def print_kernel(kernel: Kernel) -> str:
    return print_in(kernel, C99)


def text(expr: Expr) -> str:
    """The line that gives an expression to a local, in loops over i < 10 and j < 10."""
    lets = (
        Let("p", Load("t", (), BOOL)),
        Let("q", Load("t", (), BOOL)),
        Let("f", Load("a", (), FLOAT32)),
        Let("d", Load("e", (), FLOAT64)),
        Let("n", Load("m", (), INT32)),
        Let("b", Load("s", (), INT8)),
        Let("l", Load("w", (), INT64)),
        Let("result", expr),
    )
    dtypes = {"a": FLOAT32, "e": FLOAT64, "m": INT32, "s": INT8, "w": INT64, "h": FLOAT16,
              "u": UINT32, "t": BOOL}  # fmt: skip
    buffers = tuple(Buffer(name, dtype, (), (), "input") for name, dtype in dtypes.items())
    kernel = Kernel("k", buffers, ((loop("i", 10, loop("j", 10, *lets)),),))
    verify(kernel)
    line = next(line for line in print_kernel(kernel).splitlines() if " result = " in line)
    return line.split(" = ", 1)[1].removesuffix(";")


def both(op: str, left: Expr, right: Expr) -> Binary:
    return Binary(op, left, right, left.dtype)


def const(value: float, dtype: DType) -> Const:
    return Const(value, dtype)


@pytest.mark.parametrize(
    ("expr", "expected"),
    [
        # index arithmetic, which stays in int64, is plain
        (both("*", both("+", I, J), I), "(i + j) * i"),
        (both("-", I, both("-", J, I)), "i - (j - i)"),
        (both("/", I, integer(2)), "i / 2"),
        (both("%", I, integer(3)), "i % 3"),
        (both("/", both("-", I, J), integer(2)), "tc_div_int64(i - j, 2)"),
        (both("%", both("-", I, J), integer(2)), "tc_mod_int64(i - j, 2)"),
        (both("/", I, J), "tc_div_int64(i, j)"),
        (both("+", I, integer(-2)), "i + -2"),
        (both("*", integer(3), integer(5)), "INT64_C(3) * 5"),
        (both("min", I, integer(5)), "tc_min_int64(i, 5)"),
        # integers that may wrap around are computed unsigned
        (both("*", L, I), "(int64_t)((uint64_t)l * (uint64_t)i)"),
        (both("+", both("*", N, N), const(3, INT32)),
         "(int32_t)((uint32_t)n * (uint32_t)n + 3u)"),
        (both("+", N, const(-3, INT32)), "(int32_t)((uint32_t)n + (uint32_t)-3)"),
        (both("-", N, both("+", N, N)),
         "(int32_t)((uint32_t)n - ((uint32_t)n + (uint32_t)n))"),
        (both("*", B, B), "(int8_t)((uint32_t)b * (uint32_t)b)"),
        (both("-", const(3, UINT32), U), "3u - u[0]"),
        (both("+", const(3, UINT64), const(4, UINT64)), "UINT64_C(3) + 4"),
        (Unary("-", N, INT32), "(int32_t)(0 - (uint32_t)n)"),
        (Unary("-", I, INT64), "-i"),
        (Unary("-", U, UINT32), "(uint32_t)(0 - (uint32_t)u[0])"),
        (both("/", N, const(2, INT32)), "tc_div_int32(n, 2)"),
        (both("%", U, const(2, UINT32)), "u[0] % 2u"),
        # bits, whose operators compilers want brackets around
        (both("&", both("+", I, J), integer(7)), "(i + j) & 7"),
        (both("|", N, both("^", N, const(1, INT32))), "n | (n ^ 1)"),
        (both("<<", L, integer(3)), "(int64_t)((uint64_t)l << 3)"),
        (both("<<", B, B), "(int8_t)((uint32_t)b << b)"),
        (both("<<", integer(1), L), "(int64_t)(UINT64_C(1) << l)"),
        (both("<<", U, const(3, UINT32)), "u[0] << 3u"),
        (both(">>", both("+", I, J), J), "(i + j) >> j"),
        (both(">>", const(8, INT64), L), "INT64_C(8) >> l"),
        (Compare("==", both("&", I, J), integer(0)), "(i & j) == 0"),
        (both("+", both(">>", I, integer(1)), J), "(i >> 1) + j"),
        (Bits(F, INT32), "tc_bits_int32_of_float32(f)"),
        (Bits(both("+", N, const(1, INT32)), FLOAT32),
         "tc_bits_float32_of_int32((int32_t)((uint32_t)n + 1u))"),
        (Bits(N, UINT32), "(uint32_t)n"),
        # floats
        (Unary("-", Unary("-", F, FLOAT32), FLOAT32), "-(-f)"),
        (both("-", F, const(-1.0, FLOAT32)), "f - -1.0f"),
        (both("/", F, both("*", F, F)), "f / (f * f)"),
        (both("*", both("*", F, F), F), "f * f * f"),
        (both("%", F, F), "tc_mod_float32(f, f)"),
        (both("min", D, const(0.5, FLOAT64)), "tc_min_float64(d, 0.5)"),
        # conditions
        (both("max", P, both("min", P, Q)), "p || (p && q)"),
        (both("min", both("max", P, Q), Q), "(p || q) && q"),
        (Compare("<", F, D), "f < d"),
        (Compare("==", Compare("<", F, F), P), "(f < f) == p"),
        (Compare("<", I, both("+", J, integer(1))), "i < j + 1"),
        (Compare("==", N, N), "true"),
        (Compare(">=", U, const(0, UINT32)), "true"),
        (Compare("<", U, const(5, UINT32)), "u[0] < 5u"),
        (Logical("!", (Compare("<", F, F),)), "!(f < f)"),
        (Logical("!", (Logical("&&", (P, Q)),)), "!(p && q)"),
        (Logical("&&", (Logical("||", (P, Q)), Logical("!", (Q,)))), "(p || q) && !q"),
        (Logical("&&", (P, Load("t", (), BOOL))), "p && t[0] != 0"),
        (Select(P, F, Select(Q, F, F, FLOAT32), FLOAT32), "p ? f : q ? f : f"),
        (Select(P, Select(Q, F, F, FLOAT32), F, FLOAT32), "p ? (q ? f : f) : f"),
        (both("+", Select(P, F, F, FLOAT32), F), "(p ? f : f) + f"),
        (Select(P, integer(1), integer(2), INT64), "p ? INT64_C(1) : 2"),
        # functions and conversions
        (Call("exp", (both("+", F, F),), FLOAT32), "expf(f + f)"),
        (Call("exp", (D,), FLOAT64), "exp(d)"),
        (Call("rsqrt", (F,), FLOAT32), "tc_rsqrtf(f)"),
        (Call("abs", (N,), INT32), "tc_abs_int32(n)"),
        (Call("abs", (U,), UINT32), "u[0]"),
        (Cast(both("+", I, J), FLOAT32), "(float)(i + j)"),
        (Cast(F, INT8), "tc_to_int8(f)"),
        (Cast(both("+", F, F), BOOL), "f + f != 0.0f"),
        (Cast(Load("t", (), BOOL), INT32), "(int32_t)(t[0] != 0)"),
        (Cast(N, INT32), "n"),
        (Cast(Load("h", (), FLOAT16), FLOAT32), "tc_float_of_half(h[0])"),
        (Cast(Cast(N, FLOAT16), FLOAT32), "tc_float_of_half(tc_half_of_double(n))"),
        # constants
        (const(float("inf"), FLOAT64), "INFINITY"),
        (both("-", const(1.5, FLOAT64), const(float("-inf"), FLOAT64)), "1.5 - -INFINITY"),
        (const(float("nan"), FLOAT32), "NAN"),
        (const(float(np.float32(0.1)), FLOAT32), "0.1f"),
        (const(1e30, FLOAT64), "1e+30"),
        (const(-0.0, FLOAT64), "-0.0"),
        (const(-(2**31), INT32), "INT32_MIN"),
        (const(-(2**63), INT64), "INT64_MIN"),
        (const(2**63 - 1, INT64), "INT64_C(9223372036854775807)"),
        (const(2**64 - 1, UINT64), "UINT64_C(18446744073709551615)"),
        (const(2**32 - 1, UINT32), "4294967295u"),
        (const(-128, INT8), "-128"),
        (const(255, UINT8), "255"),
        (const(True, BOOL), "true"),
    ],
)  # fmt: skip
def test_expressions(expr: Expr, expected: str) -> None:
    if isinstance(expr, Compare) and expr.left.dtype != expr.right.dtype:
        expr = Compare(expr.op, Cast(expr.left, FLOAT64), expr.right)
        expected = expected.replace("f <", "(double)f <")
    assert text(expr) == expected


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_float_constants_read_as_themselves(dtype: DType) -> None:
    rng = np.random.default_rng(0)
    info = np.finfo(dtype.numpy)
    values = [
        1 / 3,
        float(info.max),
        float(info.tiny),
        float(info.smallest_subnormal),
        1e22,
        16777216.0,
    ]
    values += (10.0 ** rng.uniform(-30, 30, 50)).tolist()
    for value in values:
        printed = text(const(float(dtype.numpy.type(value)), dtype))
        assert printed.endswith("f") == (dtype == FLOAT32)
        read = dtype.numpy.type(float(printed.removesuffix("f")))
        assert read == dtype.numpy.type(value)
        assert set(printed) & set(".e")


def test_offsets_drop_what_is_zero_and_may_be_negative() -> None:
    a = Buffer("a", INT64, (4, 5, 6), (-30, 0, 1), "input")
    b = Buffer("b", INT64, (3, 3), (-1, 9), "input")
    c = Buffer("c", INT64, (3, 3), (5, -7), "input")
    o = dense("o", INT64, (8,), "output")
    loads = (
        Load("a", (I, I, both("+", I, integer(2))), INT64),
        Load("a", (integer(3), I, integer(5)), INT64),
        Load("b", (I, both("-", I, integer(1))), INT64),
        Load("b", (both("-", I, integer(1)), integer(0)), INT64),
        Load("c", (I, I), INT64),
        Load("c", (integer(0), integer(0)), INT64),
        Load("b", (Select(Compare("<", I, integer(2)), I, integer(0), INT64), integer(1)), INT64),
    )
    body = tuple(Store("o", (integer(n),), load) for n, load in enumerate(loads))
    kernel = Kernel("k", (a, b, c, o), ((loop("i", 3, *body),),))
    lines = [line.strip() for line in print_kernel(kernel).splitlines() if " o[" in line]
    assert lines == [
        "o[0] = a[i * -30 + i + 2];",
        "o[1] = a[-85];",
        "o[2] = b[-i + (i - 1) * 9];",
        "o[3] = b[-(i - 1)];",
        "o[4] = c[i * 5 - i * 7];",
        "o[5] = c[0];",
        "o[6] = b[-(i < 2 ? i : 0) + 9];",
    ]


def test_whole_matmul(golden: Callable[[Path, str], None]) -> None:
    golden(EXPECTED / "mm" / "kernel.c", print_kernel(matmul(128, 256, 32)))


def every_statement() -> Kernel:
    """All statements, helpers of helpers, half, bool, a check, an unused buffer and local."""
    place = Load("p", (I,), INT32)
    index, total = Cast(place, INT64), Var("total", FLOAT32)
    outside = Logical("||", (Compare("<", index, integer(0)), Compare(">=", index, integer(9))))
    half = Cast(Load("2LUT", (index,), FLOAT16), FLOAT32)
    body = (
        Comment("o(i) += ... */ \u202e??/ \\"),
        Let("total", const(0.0, FLOAT32)),
        Let("unused", const(1, INT16)),
        If(
            outside,
            (Fail(0, (I, index)),),
            (Set("total", both("+", total, Call("sinpi", (half,), FLOAT32))),),
        ),
        If(Load("mask", (I,), BOOL), (Set("total", both("max", total, half)),)),
        Store("o", (I,), Cast(total, FLOAT16)),
    )
    buffers = (
        dense("2LUT", FLOAT16, (9,), "input"),
        dense("p", INT32, (4,), "input"),
        dense("mask", BOOL, (4,), "input"),
        dense("extra", FLOAT64, (), "input"),
        dense("o", FLOAT16, (4,), "output"),
    )
    regions = (
        (loop("i", 4, *body, parallel=True),),
        (Let("n", integer(4)), loop("i", 2)),
        (Comment("nothing"),),
    )
    return Kernel("float", buffers, regions, (Site("read", 0, 0, ("i",)),))


def test_every_statement(golden: Callable[[Path, str], None]) -> None:
    verify(every_statement())
    golden(EXPECTED / "statements" / "kernel.c", print_kernel(every_statement()))


def test_equal_kernels_give_equal_texts() -> None:
    assert print_kernel(every_statement()) == print_kernel(every_statement())


NAMES = ["2LUT", "float", "MLP1#2.t", "MLP1_2_t", "v_float", "i", "expf", "INFINITY",
         "tc_min_int64", "_x", "status", "int64_t", "NULL", "a.b", "a_b", "a#b", "kernel",
         "I", "j1"]  # fmt: skip


def test_names_are_kept_where_c_allows_and_never_clash() -> None:
    buffers = tuple(Buffer(name, FLOAT32, (), (), "input") for name in NAMES)
    names = spell(Kernel("j1", buffers, ((loop("i", 2, Let("a_b", I)),),)), C99)
    spelt = names.buffers
    assert [spelt[n] for n in ("i", "kernel", "I", "j1", "a.b", "MLP1#2.t")] == [
        "i", "kernel", "I", "j1", "a_b", "MLP1_2_t",
    ]  # fmt: skip
    assert names.functions[0] == "v_j1"  # compilers know a function j1
    for name in ("2LUT", "float", "expf", "INFINITY", "tc_min_int64", "_x", "status", "int64_t"):
        assert spelt[name].startswith("v_")
    everything = [*names.functions, *spelt.values(), *names.variables.values()]
    assert len(everything) == len(set(everything))
