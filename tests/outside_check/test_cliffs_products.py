"""1.3: each of two products that are added to one tensor has a nest of its own."""

from __future__ import annotations

import numpy as np
import pytest

import tc

TEXT = """
def f(float(B,I) x, float(B,H) h, float(G,I) W, float(G,H) U) -> (g) {
  g(n,k) +=! x(n,i) * W(k,i)
  g(n,k) += h(n,j) * U(k,j)
}
"""


@pytest.mark.parametrize("fusion", ["auto", "max", "min", "preserve3coincident"])
def test_operands_of_both_are_packed(fusion: str) -> None:
    """Vectors along n read x and h at strides: both are packed, not only the first product's."""
    options = tc.Options(schedule=tc.ScheduleOptions(fusion=fusion))
    text = str(tc.explain(TEXT, B=64, I=256, H=256, G=512, options=options))
    assert "- S0.init, S0: vectors" in text
    assert "- S1: vectors" in text
    packed = {name for name in ("x", "h", "W", "U") if f"promote {name} to" in text}
    assert packed & {"x", "W"}
    assert packed & {"h", "U"}


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_values(backend: str) -> None:
    numbers = np.random.default_rng(0)
    shapes = ((9, 21), (9, 13), (35, 21), (35, 13))
    x, h, w, u = (numbers.integers(-4, 5, shape).astype(np.float32) for shape in shapes)
    found = tc.compile(TEXT, backend=backend)(x, h, w, u)
    np.testing.assert_array_equal(found, x @ w.T + h @ u.T)
