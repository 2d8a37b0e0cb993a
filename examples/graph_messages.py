"""Messages on a graph: each node takes the weighted mean of what its edges bring.

A layer of a graph network. The sums are scattered: an edge adds to the node that it ends at, and no
two runs differ in a bit, as nothing depends on the order in which threads come. Nodes without edges
keep what they have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def messages(int(E) source, int(E) end, float(E) weight, float(N,D) h) -> (o) {
  total(end(e)) +=! weight(e) where total.0 = N
  sum(end(e),d) +=! weight(e) * h(source(e),d) where sum.0 = N
  o(n,d) = h(n,d)
  o(n,d) = sum(n,d) / total(n) where total(n) > 0
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    source, end = rng.integers(0, size, (2, 8 * size), np.int32)
    weight = rng.random(8 * size, np.float32) + np.float32(0.5)
    return source, end, weight, rng.standard_normal((size, 32), np.float32)


def with_numpy(source: Any, end: Any, weight: Any, h: Any) -> Any:
    total, sums = np.zeros(len(h), h.dtype), np.zeros_like(h)
    np.add.at(total, end, weight)
    np.add.at(sums, end, weight[:, None] * h[source])
    has_edges = (total > 0)[:, None]
    return np.divide(sums, total[:, None], out=h.copy(), where=has_edges)


if __name__ == "__main__":
    compare("messages on a graph", TEXT, inputs, with_numpy, small=20, large=2000)
