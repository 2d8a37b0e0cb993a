"""Kernels with marked loops: builders, and how to compare what passes make of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tc.dtypes import FLOAT32
from tc.kernel.evaluate import evaluate
from tc.kernel.folding import binary, integer, select
from tc.kernel.ir import (
    Binary,
    Const,
    Expr,
    Failure,
    For,
    If,
    Kernel,
    Load,
    Stmt,
    Store,
    expressions,
)
from tc.kernel.pass_manager import UNROLL_LIMIT, PassContext, run_passes
from tc.kernel.passes.pass_list import PASSES
from tc.kernel.printer import statement_lines
from tc.kernel.verify import verify
from tc.kernel.walk import every_statement
from tests.support.build import add, dense, less, loop, times, var

Array = np.ndarray[Any, Any]


def inputs(kernel: Kernel, seed: int = 0) -> dict[str, Array]:
    """Small whole numbers for all that a call passes."""
    random = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for buffer in kernel.arguments:
        low = 0 if buffer.dtype.kind in ("uint", "bool") else -4
        values = random.integers(low, 5, buffer.shape)
        arrays[buffer.name] = values.astype(buffer.dtype.numpy)
    return arrays


def run(kernel: Kernel, seed: int = 0) -> tuple[Failure | None, dict[str, Array]]:
    """What a kernel makes of small whole numbers (for which sums of floats are exact)."""
    verify(kernel)
    arrays = inputs(kernel, seed)
    failure = evaluate(kernel, arrays)
    return failure, {b.name: arrays[b.name] for b in kernel.buffers if b.role == "output"}


def assert_same(kernel: Kernel, change: Callable[[Kernel], Kernel]) -> Kernel:
    """The changed kernel. Its results must be equal to the results of the given kernel; its outputs
    may be flattened to one dimension."""
    changed = change(kernel)
    failure, outputs = run(kernel)
    other_failure, others = run(changed)
    assert failure == other_failure
    for name, output in outputs.items():
        np.testing.assert_array_equal(others[name].reshape(output.shape), output)
    return changed


NAMES = [each.name for each in PASSES]
UNMARKING = PASSES[: NAMES.index("contraction")]
"""The passes that keep each operation as it is: those on loops and on locals."""


def finish(kernel: Kernel, *, lanes_bits: int, unroll_limit: int = UNROLL_LIMIT) -> Kernel:
    """The kernel after the passes `UNMARKING`, for vectors of `lanes_bits` bits."""
    context = PassContext(lanes_bits=lanes_bits, unroll_limit=unroll_limit, fma=True)
    return run_passes(kernel, context, UNMARKING)


def all_statements(kernel: Kernel) -> Iterator[Stmt]:
    return every_statement(kernel)


def all_expressions(kernel: Kernel) -> Iterator[Expr]:
    for stmt in every_statement(kernel):
        yield from expressions(stmt)


def lines(kernel: Kernel) -> list[str]:
    """The statements of all regions."""
    return [line for region in kernel.regions for stmt in region for line in statement_lines(stmt)]


def loops(kernel: Kernel) -> list[str]:
    """The names of the loop variables, in order."""
    return [stmt.var for stmt in all_statements(kernel) if isinstance(stmt, For)]


def tiled_matmul(
    rows: int, depth: int, columns: int, *, height: int = 8, vectors: int = 2, lanes: int = 16
) -> Kernel:
    """C = A B by tiles of accumulators in registers, tails computed too but not stored."""
    width = vectors * lanes
    i, j, l, k = add(times(var("i0"), height), var("ii")), var("jj"), var("l"), var("k")  # noqa: E741
    inside = add(times(j, lanes), l)
    column = add(times(var("j0"), width), inside)
    cell = (var("ii"), inside)
    in_row, in_column = less(i, rows), less(column, columns)

    def tile(stmt: Stmt) -> For:
        vector = loop("l", lanes, stmt, mark="vector")
        return loop("ii", height, loop("jj", vectors, vector, mark="unroll"), mark="unroll")

    a = Load("A", (binary("min", i, integer(rows - 1)) if rows % height else i, k), FLOAT32)
    b: Expr = Load("B", (k, column), FLOAT32)
    write: Stmt = Store("C", (i, column), Load("acc", cell, FLOAT32))
    if columns % width:
        b = select(in_column, b, Const(0.0, FLOAT32))
        write = If(in_column, (write,))
    if rows % height:
        write = If(in_row, (write,))
    total = Binary("+", Load("acc", cell, FLOAT32), Binary("*", a, b, FLOAT32), FLOAT32)
    body = (
        tile(Store("acc", cell, Const(0.0, FLOAT32))),
        loop(
            "k",
            depth,
            tile(Store("acc", cell, total)),
        ),
        tile(write),
    )
    across = loop("j0", -(-columns // width), *body)
    buffers = (
        dense("A", FLOAT32, (rows, depth), "input"),
        dense("B", FLOAT32, (depth, columns), "input"),
        dense("C", FLOAT32, (rows, columns), "output"),
        dense("acc", FLOAT32, (height, width), "register"),
    )
    return Kernel("mm", buffers, ((loop("i0", -(-rows // height), across, parallel=True),),))
