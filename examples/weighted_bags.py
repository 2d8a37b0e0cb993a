"""Weighted bags: means of rows of a table, weighted, in bags of different length.

Recommendation models look up so; libraries have sums, but not the weighted mean of what a mask
leaves, without a copy of all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def bags(float(E,D) table, int(B,L) rows, float(B,L) weight, int(B) length) -> (o) {
  total(b) +=! l < length(b) ? weight(b,l) : 0
  sum(b,d) +=! (l < length(b) ? weight(b,l) : 0) * table(rows(b,l),d)
  o(b,d) = sum(b,d) / total(b)
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    table = rng.standard_normal((100 * size, 64), np.float32)
    rows = rng.integers(0, 100 * size, (size, 40), np.int32)
    weight = rng.random((size, 40), np.float32) + np.float32(0.5)
    return table, rows, weight, rng.integers(1, 41, size, np.int32)


def with_numpy(table: Any, rows: Any, weight: Any, length: Any) -> Any:
    kept = np.where(np.arange(rows.shape[1]) < length[:, None], weight, weight.dtype.type(0))
    return np.einsum("bl,bld->bd", kept, table[rows]) / kept.sum(1, keepdims=True)


if __name__ == "__main__":
    compare("weighted means of bags of rows", TEXT, inputs, with_numpy, small=8, large=512)
