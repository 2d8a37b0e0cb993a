"""Kernels of blocks and threads: builders."""

from __future__ import annotations

from tc.dtypes import FLOAT32
from tc.kernel.folding import compare
from tc.kernel.ir import (
    Barrier,
    Binary,
    Buffer,
    Const,
    Expr,
    Grid,
    Kernel,
    LaunchIndex,
    Load,
    Site,
    Stmt,
    Store,
)
from tests.support.build import add, dense, loop, times, var

B0, B1, T0, T1 = (var(name) for name in ("b0", "b1", "t0", "t1"))
BARRIER, GRID_BARRIER = Barrier(), Barrier("grid")


def grid(blocks: tuple[int, ...], threads: tuple[int, ...], *body: Stmt) -> Grid:
    """Blocks b0, b1, ... of threads t0, t1, ..."""

    def indices(prefix: str, counts: tuple[int, ...]) -> tuple[LaunchIndex, ...]:
        return tuple(LaunchIndex(f"{prefix}{n}", count) for n, count in enumerate(counts))

    return Grid(indices("b", blocks), indices("t", threads), body)


def launches(*grids: Grid, buffers: tuple[Buffer, ...], sites: tuple[Site, ...] = ()) -> Kernel:
    return Kernel("k", buffers, tuple((each,) for each in grids), sites)


def equal(left: Expr, right: Expr) -> Expr:
    return compare("==", left, right, {})


def tmm() -> Kernel:
    """C = A B' of (128, 32) and (256, 32) as in appendix A.4.1 of the paper on Tensor
    Comprehensions: both operands in shared memory, four results a thread in registers; but for the
    two barriers that guard nothing."""
    c2, c4 = var("c2"), var("c4")
    tile_a, tile_b, tile_c = "shared_A", "shared_B", "private_C"
    row_a, row_b = add(times(B0, 4), c2), add(times(B1, 32), c2)
    product = Binary("*", Load(tile_a, (c2, c4), FLOAT32), Load(tile_b, (T1, c4), FLOAT32), FLOAT32)
    sum_ = Load(tile_c, (c2, T0), FLOAT32)
    body = (
        loop("c2", 4, Store(tile_a, (c2, T1), Load("A", (row_a, T1), FLOAT32))),
        loop("c2", 32, Store(tile_b, (c2, T1), Load("B", (row_b, T1), FLOAT32))),
        BARRIER,
        loop(
            "c2",
            4,
            Store(tile_c, (c2, T0), Const(0.0, FLOAT32)),
            loop("c4", 32, Store(tile_c, (c2, T0), Binary("+", sum_, product, FLOAT32))),
        ),
        loop("c2", 4, Store("C", (row_a, add(times(B1, 32), T1)), sum_)),
    )
    buffers = (
        dense("A", FLOAT32, (128, 32), "input"),
        dense("B", FLOAT32, (256, 32), "input"),
        dense("C", FLOAT32, (128, 256), "output"),
        dense(tile_a, FLOAT32, (4, 33), "shared"),
        dense(tile_b, FLOAT32, (32, 33), "shared"),
        dense(tile_c, FLOAT32, (4, 1), "register"),
    )
    return launches(grid((32, 8), (1, 32), *body), buffers=buffers)
