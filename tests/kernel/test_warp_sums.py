"""Exchanges between the threads of a warp: what they give, where they are refused, and the same
through shared memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tc.dtypes import BOOL, FLOAT16, FLOAT32, FLOAT64, INT8, INT64, UINT16, DType
from tc.errors import InternalError
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import integer
from tc.kernel.ir import (
    Binary,
    Cast,
    Const,
    Expr,
    If,
    Kernel,
    Let,
    Load,
    Set,
    Stmt,
    Store,
    Var,
    WarpReduce,
)
from tc.kernel.passes.exchanges import exchange_in_shared_memory
from tc.kernel.passes.value_numbering import number_values
from tc.kernel.printer import expression_text
from tc.kernel.storage import kernel_of, rows_of
from tc.kernel.verify import verify
from tests.kernel.grids import B0, BARRIER, T0, T1, equal, grid, launches
from tests.support.build import add, dense, less, loop, times

TYPES = (INT8, UINT16, INT64, FLOAT32, FLOAT64, BOOL)
OPS = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}
CASES = [(op, dtype) for op in OPS for dtype in TYPES if dtype != BOOL or len(op) > 1]
SHAPES = ((32,), (64,), (4, 16), (2, 3, 32))
A = Load("a", (B0, T0), INT64)


def sums(op: str, dtype: DType, lanes: int, threads: tuple[int, ...]) -> Kernel:
    """o = what the groups of threads combine of a; three blocks."""
    names = tuple(Var(f"t{n}", INT64) for n in range(len(threads)))
    value = WarpReduce(op, Load("a", (B0, *names), dtype), lanes, dtype)
    body = Let("x", value), Store("o", (B0, *names), Var("x", dtype))
    shape = (3, *threads)
    buffers = dense("a", dtype, shape, "input"), dense("o", dtype, shape, "output")
    return launches(grid((3,), threads, *body), buffers=buffers)


def formula(op: str, a: np.ndarray[Any, Any], lanes: int) -> np.ndarray[Any, Any]:
    """By pairs of Python's own lists: the first half with the second half."""
    flat, found = a.reshape(-1), []
    for start in range(0, flat.size, lanes):
        values = list(flat[start : start + lanes])
        while len(values) > 1:
            half = len(values) // 2
            values = [OPS[op](x, y) for x, y in zip(values[:half], values[half:], strict=True)]
        found += values * lanes
    return np.array(found, a.dtype).reshape(a.shape)


def given(dtype: DType, shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(0)
    if dtype.is_float:
        return rng.normal(size=shape).astype(dtype.numpy)
    return rng.integers(-128, 128, shape).astype(dtype.numpy)


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=str)
def test_groups_of_threads(op: str, dtype: DType) -> None:
    """Bit by bit, as pairs of neighbouring halves; and through shared memory the same bits."""
    for lanes, threads in zip((2, 4, 8, 16, 32) * 2, SHAPES * 3, strict=False):
        kernel = sums(op, dtype, lanes, threads)
        verify(kernel)
        a = given(dtype, (3, *threads))
        with np.errstate(all="ignore"):
            expected = formula(op, a, lanes)
        plain = exchange_in_shared_memory(kernel)
        verify(plain)
        for each in (kernel, plain):
            o = np.zeros_like(a)
            assert evaluate(each, {"a": a, "o": o}) is None
            assert o.tobytes() == expected.tobytes()


def test_one_value_of_all_threads() -> None:
    body = Let("x", WarpReduce("+", integer(3), 8, INT64)), Store("o", (T0,), Var("x", INT64))
    kernel = launches(grid((), (32,), *body), buffers=(dense("o", INT64, (32,), "output"),))
    o = np.zeros(32, np.int64)
    evaluate(kernel, {"o": o})
    assert (o == 24).all()


def test_whole_blocks_may_branch() -> None:
    """The second block, in a loop."""
    x = Var("x", INT64)
    turns = loop("i", 3, Set("x", WarpReduce("max", add(x, T0), 32, INT64)))
    body = Let("x", A), If(equal(B0, integer(1)), (turns,)), Store("o", (B0, T0), x)
    buffers = dense("a", INT64, (2, 32), "input"), dense("o", INT64, (2, 32), "output")
    kernel = launches(grid((2,), (32,), *body), buffers=buffers)
    verify(kernel)
    a = np.random.default_rng(1).integers(-9, 10, (2, 32))
    second = np.full(32, (a[1] + np.arange(32)).max() + 31 + 31)
    for each in (kernel, exchange_in_shared_memory(kernel)):
        o = np.zeros((2, 32), np.int64)
        evaluate(each, {"a": a, "o": o})
        np.testing.assert_array_equal(o, [a[0], second])


@pytest.mark.parametrize("first", [32, 40])
def test_parts_of_a_block_may_not(first: int) -> None:
    """Neither a part of a warp nor a whole one."""
    x = Var("x", INT64)
    part = If(less(T0, first), (Set("x", WarpReduce("+", x, 4, INT64)),))
    buffers = dense("a", INT64, (2, 64), "input"), dense("o", INT64, (2, 64), "output")
    body = Let("x", A), part, Store("o", (B0, T0), x)
    kernel = launches(grid((2,), (64,), *body), buffers=buffers)
    arrays = {name: np.zeros((2, 64), np.int64) for name in ("a", "o")}
    with pytest.raises(InternalError) as caught:
        evaluate(kernel, arrays)
    assert caught.value.cause == (
        f"kernel k breaks a promise: in 'warp_reduce(+, x, 4)': in block (0), thread ({first}): "
        "thread (0) exchanges values here, this one does not"
    )


def test_equal_exchanges_are_one() -> None:
    """Those of other lanes are not equal."""
    x, y, z = (Var(name, INT64) for name in "xyz")
    body = (
        Let("a0", A),
        *(
            Let(name, WarpReduce("+", Var("a0", INT64), lanes, INT64))
            for name, lanes in (("x", 8), ("y", 8), ("z", 4))
        ),
        Store("o", (B0, T0), add(add(x, y), z)),
    )
    buffers = dense("a", INT64, (2, 32), "input"), dense("o", INT64, (2, 32), "output")
    kernel = number_values(launches(grid((2,), (32,), *body), buffers=buffers))
    (launch,) = kernel.regions[0]
    exchanges = [s for s in launch.body if isinstance(s, Let) and isinstance(s.value, WarpReduce)]
    assert [s.var for s in exchanges] == ["x", "z"]


def test_text_and_rows() -> None:
    kernel = sums("min", FLOAT32, 16, (2, 32))
    assert kernel_of(rows_of(kernel)) == kernel
    assert expression_text(WarpReduce("min", T0, 16, INT64)) == "warp_reduce(min, t0, 16)"


def test_kernels_without_exchanges_stay() -> None:
    body = Let("x", A), BARRIER, Store("o", (B0, T0), Var("x", INT64))
    buffers = dense("a", INT64, (2, 64), "input"), dense("o", INT64, (2, 64), "output")
    kernel = launches(grid((2,), (64,), *body), buffers=buffers)
    assert exchange_in_shared_memory(kernel) is kernel


def test_several_launches_share_the_memory() -> None:
    """The launch with the most threads decides how much there is."""
    regions = []
    for number, count in enumerate((32, 96)):
        value = WarpReduce("+", Load(f"a{number}", (T0,), INT64), 32, INT64)
        store = Store(f"o{number}", (T0,), Var("x", INT64))
        regions.append(grid((), (count,), Let("x", value), store))
    buffers = tuple(
        dense(f"{name}{n}", INT64, (count,), role)
        for name, role in (("a", "input"), ("o", "output"))
        for n, count in enumerate((32, 96))
    )
    kernel = exchange_in_shared_memory(launches(*regions, buffers=buffers))
    verify(kernel)
    assert [b.shape for b in kernel.buffers if b.role == "shared"] == [(96,)]


# --- the rules ----------------------------------------------------------------------------------

SUM = WarpReduce("+", A, 8, INT64)
HALF = WarpReduce("+", Cast(Cast(A, FLOAT32), FLOAT16), 8, FLOAT16)
NO_LOCAL = "what threads exchange is not the whole value of a local"


def inside(*body: Stmt, threads: int = 32) -> Kernel:
    buffers = dense("a", INT64, (2, 64), "input"), dense("o", INT64, (2, 64), "output")
    return launches(grid((2,), (threads,), *body), buffers=buffers)


def let(value: Expr) -> Kernel:
    return inside(Let("x", value))


WRONG: dict[str, tuple[Kernel, str]] = {
    "operator": (let(WarpReduce("-", A, 8, INT64)), "'-' is no reduction"),
    "bool": (let(WarpReduce("+", Const(True, BOOL), 8, BOOL)), "arithmetic on bool"),
    "lanes": (let(WarpReduce("+", A, 12, INT64)), "12 threads exchange values"),
    "one lane": (let(WarpReduce("+", A, 1, INT64)), "1 threads exchange values"),
    "more than a warp": (let(WarpReduce("+", A, 64, INT64)), "64 threads exchange values"),
    "type": (let(WarpReduce("+", A, 8, FLOAT32)), "an operand is int64, not float32"),
    "vector": (
        let(WarpReduce("+", Const(0, INT64.vector(4)), 8, INT64.vector(4))),
        "the threads of a warp have no vectors",
    ),
    "half": (let(HALF), "float16 stands only directly below a cast to float32"),
    "operand": (let(Binary("+", SUM, A, INT64)), NO_LOCAL),
    "stored": (inside(Store("o", (B0, T0), SUM)), NO_LOCAL),
    "condition": (inside(If(equal(SUM, integer(0)), ())), NO_LOCAL),
    "bound": (inside(loop("i", SUM)), NO_LOCAL),
    "no grid": (
        Kernel("k", (), ((Let("x", WarpReduce("+", integer(1), 8, INT64)),),)),
        "it is in no grid",
    ),
    "no whole warps": (
        inside(Let("x", SUM), threads=48),
        "the threads of a block are no whole warps of 32",
    ),
    "set without whole warps": (
        inside(Let("x", A), Set("x", SUM), threads=40),
        "the threads of a block are no whole warps of 32",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_rules(case: str) -> None:
    kernel, reason = WRONG[case]
    with pytest.raises(InternalError) as caught:
        verify(kernel)
    assert reason in caught.value.cause


def test_numbers_of_threads_count_along_x_first() -> None:
    """Groups of 4 of 2 x 16 threads: neighbours along x, the last dimension."""
    value = WarpReduce("+", add(times(T0, 100), T1), 4, INT64)
    body = Let("x", value), Store("o", (T0, T1), Var("x", INT64))
    kernel = launches(grid((), (2, 16), *body), buffers=(dense("o", INT64, (2, 16), "output"),))
    o = np.zeros((2, 16), np.int64)
    evaluate(kernel, {"o": o})
    rows, columns = np.indices((2, 16))
    np.testing.assert_array_equal(o, 400 * rows + (columns // 4 * 16 + 6))
