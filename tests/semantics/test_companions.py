"""Which term gives the values of several targets (V1), NaN among them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tc

TEXT = """def f(float(N) x, float(N) y, int(N) z) -> (a, b, c) {
  a, b, c max=! x(n), y(n), z(n)
}"""


def chosen(x: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float, int]:
    """The greatest first value, then the least second one, then the least third; NaN before all."""
    terms = zip(x.tolist(), y.tolist(), z.tolist(), strict=True)

    def rank(term: tuple[float, float, int]) -> tuple[float, float, int]:
        first, second, third = term
        return (
            -np.inf if np.isnan(first) else -first,
            -np.inf if np.isnan(second) else second,
            third,
        )

    return min(terms, key=rank)


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_ties_with_nan(backend: str) -> None:
    """Second values that are NaN are equal, and the third one decides."""
    function = tc.compile(TEXT, backend=backend)
    values = (1.0, 2.0, np.nan)
    for first, second in itertools.product(itertools.product(values, repeat=3), repeat=2):
        x, y = np.float32(first), np.float32(second)
        z = np.int32([7, 5, 6])
        np.testing.assert_array_equal(function(x, y, z), chosen(x, y, z))
