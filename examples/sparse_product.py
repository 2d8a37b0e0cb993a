"""A sparse matrix times a dense one: rows are ranges that data decide.

The matrix is given by the three arrays of `scipy.sparse.csr_matrix`. The range of `e` is a part of
the entries, a different one for each row `r`, and the entries alone are computed.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def product(int(M) row, int(E) column, float(E) value, float(K,N) B) -> (o) {
  o(r,n) +=! value(e) * B(column(e),n) where e in row(r):row(r+1)
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 40, size)
    row = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    column = rng.integers(0, size, row[-1], np.int32)
    value = rng.standard_normal(row[-1], np.float32)
    return row, column, value, rng.standard_normal((size, 32), np.float32)


def with_numpy(row: Any, column: Any, value: Any, dense: Any) -> Any:
    result = np.zeros((len(row) - 1, dense.shape[1]), value.dtype)
    rows = np.repeat(np.arange(len(row) - 1), np.diff(row))
    np.add.at(result, rows, value[:, None] * dense[column])
    return result


if __name__ == "__main__":
    compare("a sparse product", TEXT, inputs, with_numpy, small=20, large=2000)
