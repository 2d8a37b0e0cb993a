"""Counts of operations and compulsory bytes."""

from __future__ import annotations

import pytest

from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT64
from tc.kernel.analysis.estimate import Estimate, estimate
from tc.kernel.ir import (
    Binary,
    Buffer,
    Call,
    Compare,
    Const,
    For,
    Grid,
    If,
    Kernel,
    LaunchIndex,
    Let,
    Load,
    Ramp,
    Reduce,
    Set,
    Store,
    Var,
    row_major,
)
from tests.support.build import integer, loop

I, J, K = (Var(name, INT64) for name in "ijk")  # noqa: E741 - as in the kernels


def buffer(name: str, shape: tuple[int, ...], role: str) -> Buffer:
    return Buffer(name, FLOAT32, shape, row_major(shape), role)


def test_a_launch() -> None:
    """Every thread of every block counts; what a block shares costs no bytes."""
    term = Binary("*", Load("near", (J,), FLOAT32), Load("a", (I,), FLOAT32), FLOAT32)
    body = Store("near", (J,), Load("a", (I,), FLOAT32)), Store("o", (I, J), term)
    launch = Grid((LaunchIndex("i", 6),), (LaunchIndex("j", 4),), body)
    buffers = (buffer("a", (6,), "input"), buffer("o", (6, 4), "output"))
    kernel = Kernel("f", (*buffers, buffer("near", (4,), "shared")), ((launch,),))
    assert estimate(kernel) == Estimate(6 * 4, 6 * 4, 6 * 4 * 4)


@pytest.mark.parametrize("ends_there", [True, False], ids=["below", "above"])
def test_a_triangle_is_half_of_its_square(ends_there: bool) -> None:
    """Whether the inner loop ends or begins where the outer one is, and by what name."""
    n = 41
    after = Binary("+", Var("row", INT64), integer(1), INT64)
    begin, end = (integer(0), after) if ends_there else (Var("row", INT64), integer(n))
    step = Set("acc", Binary("+", Var("acc", FLOAT32), Load("a", (K,), FLOAT32), FLOAT32))
    body = (
        Let("row", I),
        Let("acc", Const(0.0, FLOAT32)),
        For("k", begin, end, (step,)),
        Store("o", (I,), Var("acc", FLOAT32)),
    )
    buffers = (buffer("a", (n,), "input"), buffer("o", (n,), "output"))
    kernel = Kernel("f", buffers, ((loop("i", integer(n), *body),),))
    assert estimate(kernel).flops == n * (n + 1) // 2


def test_matmul() -> None:
    m, n, k = 3, 5, 7
    product = Binary("*", Load("A", (I, K), FLOAT32), Load("B", (K, J), FLOAT32), FLOAT32)
    acc = Var("acc", FLOAT32)
    step = Set("acc", Binary("+", acc, product, FLOAT32))
    inner = (Let("acc", Const(0.0, FLOAT32)), loop("k", integer(k), step), Store("C", (I, J), acc))
    kernel = Kernel(
        "mm",
        (buffer("A", (m, k), "input"), buffer("B", (k, n), "input"), buffer("C", (m, n), "output")),
        ((loop("i", integer(m), loop("j", integer(n), *inner)),),),
    )
    counted = estimate(kernel)
    assert counted == Estimate(2 * m * n * k, 4 * (m * k + k * n), 4 * m * n)
    assert counted.intensity == pytest.approx(2 * m * n * k / (4 * (m * k + k * n + m * n)))


def test_own_results_are_not_loaded() -> None:
    zero = loop("i", integer(4), Store("o", (I,), Const(0.0, FLOAT32)))
    exp = loop("i", integer(4), Store("o", (I,), Call("exp", (Load("o", (I,), FLOAT32),), FLOAT32)))
    kernel = Kernel("k", (buffer("o", (4,), "output"),), ((zero,), (exp,)))
    assert estimate(kernel) == Estimate(4, 0, 16)


def test_elements_touched_once() -> None:
    """A gather of 2 rows does not load the whole table, nor a broadcast more than it has."""
    index = Binary("+", Load("I", (I,), INT64), integer(1), INT64)
    value = Binary("+", Load("x", (index,), FLOAT32), Load("b", (I,), FLOAT32), FLOAT32)
    kernel = Kernel(
        "k",
        (
            buffer("x", (1000,), "input"),
            Buffer("I", INT64, (2,), (1,), "input"),
            Buffer("b", FLOAT32, (2,), (0,), "input"),
            buffer("o", (2,), "output"),
        ),
        ((loop("i", integer(2), Store("o", (I,), value)),),),
    )
    assert estimate(kernel) == Estimate(2, 2 * 4 + 2 * 8 + 4, 8)


def test_vectors_count_as_their_lanes() -> None:
    f4, i4, b4 = FLOAT32.vector(4), INT64.vector(4), BOOL.vector(4)
    lanes = Ramp(Binary("*", I, integer(4), INT64), 1, i4)
    mask = Compare("<", lanes, Const(6, i4), b4)
    loaded = Load("x", (lanes,), f4, mask)
    value = Call("fma", (loaded, loaded, Call("exp", (loaded,), f4)), f4)
    body = (
        Store("s", (lanes,), value, mask),
        Store("o", (I,), Reduce("+", Load("s", (lanes,), f4), FLOAT32)),
    )
    kernel = Kernel(
        "k",
        (buffer("x", (100,), "input"), buffer("o", (2,), "output"), buffer("s", (8,), "scratch")),
        ((loop("i", integer(2), *body),),),
    )
    assert estimate(kernel) == Estimate(2 * (4 * 3 + 3), 2 * 3 * 4 * 4, 8)


def test_tests_of_indices_are_free_and_loops_may_be_empty() -> None:
    inside = Compare("<", Binary("+", I, J, INT64), integer(3))
    half = Binary("/", Const(1.0, FLOAT64), Const(2.0, FLOAT64), FLOAT64)
    body = If(inside, (Let("x", half),), (Let("y", half),))
    end = Binary("+", Binary("*", I, integer(2), INT64), integer(2), INT64)
    kernel = Kernel("k", (), ((loop("i", integer(3), loop("j", end, body)),),))
    assert estimate(kernel) == Estimate((2 + 4 + 6) * 2, 0, 0)
    empty = Kernel("k", (), ((loop("i", integer(-1), body),),))
    assert estimate(empty).flops == 0
    assert estimate(empty).intensity == 0
