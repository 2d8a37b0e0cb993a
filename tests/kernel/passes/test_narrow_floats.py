"""The pass "narrow floats": conversions on bits give what the definition of a Cast gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tc.dtypes import BFLOAT16, BOOL, DTYPES, FLOAT32, FLOAT64, INT64, DType, decoded
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import constant, integer
from tc.kernel.ir import (
    Binary,
    Bits,
    Cast,
    Compare,
    Expr,
    If,
    Kernel,
    Let,
    Load,
    Logical,
    Ramp,
    Select,
    Set,
    Store,
    Var,
    expressions,
)
from tc.kernel.passes.narrow_floats import convert_narrow_floats
from tc.kernel.verify import verify
from tc.kernel.walk import every_statement
from tests.kernel.marked import lines
from tests.support import narrow_floats as narrow
from tests.support.build import dense, loop

LANES = 8
N = 64
NARROW = [DTYPES[name] for name in narrow.NAMES]
narrow_types = pytest.mark.parametrize("dtype", NARROW, ids=str)
lanes_of = pytest.mark.parametrize("lanes", [1, LANES])


def place(lanes: int, name: str = "i") -> Expr:
    first = Binary("*", Var(name, INT64), integer(lanes), INT64)
    return Ramp(first, 1, INT64.vector(lanes)) if lanes > 1 else Var(name, INT64)


def kernel_of(dtype: DType, *stmts: Any, lanes: int) -> Kernel:
    buffers = (
        dense("x", FLOAT32, (N,), "input"),
        dense("d", FLOAT64, (N,), "input"),
        dense("b", dtype, (N,), "input"),
        dense("y", FLOAT32, (N,), "output"),
        dense("o", dtype, (N,), "output"),
    )
    return Kernel("f", buffers, ((loop("i", N // lanes, *stmts),),))


def arrays(dtype: DType, seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    numbers = narrow.drawn(dtype.name, 4000, seed)
    numbers = numbers[rng.integers(0, len(numbers), N)]
    return {
        "x": numbers,
        "d": rng.standard_normal(N) * 10.0 ** rng.integers(-6, 6, N),
        "b": rng.integers(0, 1 << dtype.bits, N).astype(dtype.unsigned.numpy).view(dtype.numpy),
        "y": np.zeros(N, np.float32),
        "o": np.zeros(N, dtype.numpy),
    }


def same_numbers(kernel: Kernel, dtype: DType, seeds: int = 20) -> Kernel:
    """The kernel without casts of such types, which gives the same numbers and signs."""
    verify(kernel)
    found = convert_narrow_floats(kernel)
    verify(found)
    for stmt in every_statement(found):
        for expr in expressions(stmt):
            if isinstance(expr, Cast):
                assert expr.dtype.is_in_numpy
                assert expr.operand.dtype.is_in_numpy
    for seed in range(seeds):
        before, after = arrays(dtype, seed), arrays(dtype, seed)
        assert evaluate(kernel, before) is None
        assert evaluate(found, after) is None
        for name, own in (("y", FLOAT32), ("o", dtype)):
            one, other = decoded(before[name], own), decoded(after[name], own)
            np.testing.assert_array_equal(one, other)
            known = ~np.isnan(one)
            np.testing.assert_array_equal(np.signbit(one)[known], np.signbit(other)[known])
    return found


def element(dtype: DType, lanes: int, name: str = "b", mask: Expr | None = None) -> Expr:
    wide = FLOAT32.vector(lanes)
    return Cast(Load(name, (place(lanes),), dtype.vector(lanes), mask), wide)


def number(lanes: int) -> Expr:
    return Load("x", (place(lanes),), FLOAT32.vector(lanes))


@lanes_of
@narrow_types
def test_elements(dtype: DType, lanes: int) -> None:
    value = element(dtype, lanes)
    doubled = Binary("+", value, value, FLOAT32.vector(lanes))
    stores = (
        Store("y", (place(lanes),), value),
        Store("o", (place(lanes),), Cast(doubled, dtype.vector(lanes))),
    )
    same_numbers(kernel_of(dtype, *stores, lanes=lanes), dtype)


@lanes_of
@narrow_types
def test_numbers(dtype: DType, lanes: int) -> None:
    rounded = Cast(Cast(number(lanes), dtype.vector(lanes)), FLOAT32.vector(lanes))
    stores = (
        Store("y", (place(lanes),), rounded),
        Store("o", (place(lanes),), Cast(rounded, dtype.vector(lanes))),
    )
    found = same_numbers(kernel_of(dtype, *stores, lanes=lanes), dtype)
    texts = "\n".join(lines(found))
    assert texts.count("let given") == 2  # what is rounded already is not rounded again


@lanes_of
@narrow_types
def test_doubles(dtype: DType, lanes: int) -> None:
    """By way of float32."""
    double = Load("d", (place(lanes),), FLOAT64.vector(lanes))
    stores = (
        Store("y", (place(lanes),), number(lanes)),
        Store("o", (place(lanes),), Cast(double, dtype.vector(lanes))),
    )
    same_numbers(kernel_of(dtype, *stores, lanes=lanes), dtype)


@lanes_of
@narrow_types
def test_copies_move_bits(dtype: DType, lanes: int) -> None:
    stores = (
        Store("y", (place(lanes),), number(lanes)),
        Store("o", (place(lanes),), Cast(element(dtype, lanes), dtype.vector(lanes))),
    )
    found = same_numbers(kernel_of(dtype, *stores, lanes=lanes), dtype)
    assert not any("let" in line for line in lines(found))


@narrow_types
def test_masks(dtype: DType) -> None:
    mask = Compare(">", number(LANES), constant(0, FLOAT32.vector(LANES)), BOOL.vector(LANES))
    value = element(dtype, LANES, mask=mask)
    stores = (
        Store("y", (place(LANES),), value),
        Store("o", (place(LANES),), Cast(number(LANES), dtype.vector(LANES))),
    )
    same_numbers(kernel_of(dtype, *stores, lanes=LANES), dtype)


@narrow_types
def test_what_is_not_evaluated_stays_so(dtype: DType) -> None:
    """A read that leaves its buffer stands behind its test; `evaluate` fails for one that is
    made."""
    inside = Compare("<", Var("i", INT64), integer(N // 2))
    beyond = Binary("*", Var("i", INT64), integer(2), INT64)
    read = Cast(Load("b", (beyond,), dtype), FLOAT32)
    rounded = Cast(Cast(Binary("+", read, number(1), FLOAT32), dtype), FLOAT32)
    positive = Compare(">", rounded, constant(0, FLOAT32))
    stmts = (
        Store("y", (place(1),), Select(inside, rounded, number(1), FLOAT32)),
        Let("n", constant(0, FLOAT32)),
        If(Logical("&&", (inside, positive)), (Set("n", read),)),
        Store("o", (place(1),), Cast(Var("n", FLOAT32), dtype)),
    )
    same_numbers(kernel_of(dtype, *stmts, lanes=1), dtype, seeds=4)


def test_what_has_no_such_type_is_left_alone() -> None:
    stores = (
        Store("y", (place(1),), number(1)),
        Store(
            "o",
            (place(1),),
            Bits(Bits(Load("b", (place(1),), BFLOAT16), BFLOAT16.unsigned), BFLOAT16),
        ),
    )
    kernel = kernel_of(BFLOAT16, *stores, lanes=1)
    assert convert_narrow_floats(kernel) is kernel
