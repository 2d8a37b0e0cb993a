"""Rows whose ends data say on GPUs: each thread, or some together, go through the terms of a row
alone; on the machine of blocks and threads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from tc.gpu import Gpu
from tc.kernel import ir
from tc.kernel.evaluate import evaluate
from tc.kernel.walk import every_statement
from tc.polyhedral.gpu.gpu_target import gpu_target
from tc.polyhedral.lowering import Lowering, trace_lowering
from tc.semantics.ranges.range_inference import infer_ranges
from tests.support.pipeline import checked

Arrays = Mapping[str, Any]

CSR = """def f({index}(M) row, {index}(E) col, float(E) v, float(N,D) B) -> (y) {{
  y(r,d) +=! v(e) * B(col(e),d) where e in row(r):row(r+1)
}}"""
VECTOR = """def f({index}(M) row, {index}(E) col, float(E) v, float(N) x) -> (y) {{
  y(r) +=! v(e) * x(col(e)) where e in row(r):row(r+1)
}}"""


def lowered(text: str, arrays: Arrays, *, check: bool = False) -> Lowering:
    shaped = infer_ranges(checked(text), {n: a.shape for n, a in arrays.items()}, {})
    return trace_lowering(shaped, {}, gpu_target(Gpu()), initial=frozenset(), check=check)


def computed(found: Lowering, arrays: Arrays, *outputs: str) -> list[Any]:
    """What the kernel computes where blocks and threads run in any order; races are errors."""
    tensors, shapes = found.shaped.program.tensors, found.shaped.shapes
    results = {n: np.zeros(shapes[n], tensors[n].dtype.numpy) for n in outputs}
    evaluate(found.kernel, {**arrays, **results})
    return [results[name] for name in outputs]


def ragged(rows: int, columns: int, longest: int, dtype: str) -> dict[str, Any]:
    """Rows of many lengths, most of them short, some empty; of whole numbers."""
    random = np.random.default_rng(rows * columns)
    lengths = random.integers(0, 4, rows) * (random.random(rows) < 0.9)
    lengths[rows // 2] = longest
    row = np.concatenate([[0], np.cumsum(lengths)]).astype(dtype)
    terms = int(row[-1])
    col = random.integers(0, columns, terms).astype(dtype)
    return {"row": row, "col": col, "v": np.float32(random.integers(-4, 5, terms))}


def dense(arrays: Arrays, columns: int) -> Any:
    matrix = np.zeros((len(arrays["row"]) - 1, columns))
    rows = np.repeat(np.arange(len(matrix)), np.diff(arrays["row"]))
    np.add.at(matrix, (rows, arrays["col"]), arrays["v"])
    return matrix


def loops_over_all(kernel: ir.Kernel, terms: int) -> list[ir.For]:
    """The loops that go through all terms."""
    loops = (stmt for stmt in every_statement(kernel) if isinstance(stmt, ir.For))
    return [loop for loop in loops if isinstance(loop.end, ir.Const) and loop.end.value >= terms]


@pytest.mark.parametrize("dtype", ["int", "int64"])
@pytest.mark.parametrize(("rows", "width", "longest"), [(1, 5, 3), (70, 32, 90), (201, 7, 33)])
def test_sparse_times_dense(dtype: str, rows: int, width: int, longest: int) -> None:
    arrays = ragged(rows, 11, longest, {"int": "int32"}.get(dtype, dtype))
    random = np.random.default_rng(width)
    arrays["B"] = np.float32(random.integers(-4, 5, (11, width)))
    found = lowered(CSR.format(index=dtype), arrays)
    assert not loops_over_all(found.kernel, len(arrays["v"]))
    (y,) = computed(found, arrays, "y")
    np.testing.assert_array_equal(y, dense(arrays, 11) @ arrays["B"])


@pytest.mark.parametrize("rows", [1, 40, 300])
@pytest.mark.parametrize("longest", [3, 500])
def test_sparse_times_vector(rows: int, longest: int) -> None:
    """Neighbouring threads read neighbours in memory, where rows are long enough."""
    arrays = ragged(rows, 90, longest, "int32")
    arrays["x"] = np.float32(np.random.default_rng(rows).integers(-4, 5, 90))
    found = lowered(VECTOR.format(index="int"), arrays)
    assert not loops_over_all(found.kernel, len(arrays["v"]))
    (y,) = computed(found, arrays, "y")
    np.testing.assert_array_equal(y, dense(arrays, 90) @ arrays["x"])
