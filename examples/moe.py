"""A mixture of experts: each token goes to the expert that its gate prefers.

The expert is the place of a maximum; the slot of a token is the number of tokens before it with
the same expert. Tokens are written to their slots, multiplied there by the matrix of the expert,
and read back; what has no slot left is dropped, as a condition says, and its result is 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from report import compare

TEXT = """
def experts(float(N,D) x, float(N,E) gate, float(E,D,F) W, int C) -> (y) {
  best(n), expert(n) max=! gate(n,e), e
  slot(n) +=! expert(m) == expert(n) where m in 0:n, n in 0:N
  slots(expert(n), slot(n), d) = x(n,d) where slot(n) < C, slots.0 = E, slots.1 = C
  h(e,c,f) +=! slots(e,c,d) * W(e,d,f)
  y(n,f) = best(n) * h(expert(n), slot(n), f) where slot(n) < C
}
"""


def inputs(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    x, gate = rng.standard_normal((size, 32), np.float32), rng.random((size, 4), np.float32)
    weights = rng.standard_normal((4, 32, 32), np.float32)
    return x, gate, weights, np.int32(size // 4)


def with_numpy(x: Any, gate: Any, weights: Any, capacity: Any) -> Any:
    result = np.zeros((len(x), weights.shape[2]), x.dtype)
    expert = gate.argmax(1)
    for e in range(len(weights)):
        tokens = np.flatnonzero(expert == e)[:capacity]
        result[tokens] = gate[tokens, e, None] * (x[tokens] @ weights[e])
    return result


if __name__ == "__main__":
    compare("a mixture of experts", TEXT, inputs, with_numpy, small=16, large=512)
