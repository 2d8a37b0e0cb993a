"""Texts of gradients of choices in choices (0.11)."""

from __future__ import annotations

import numpy as np
import pytest

import tc

FOUR = "max(abs(max(abs(max(abs(max(abs(e), x(i))), x(i))), x(i))), x(i))"


def test_four_choices_in_one_another() -> None:
    """0.11: the gradient of these 105 characters had 62,878, and the second one 236,294."""
    text = f"def f(float e, float(N) x) -> (y) {{ y(i) = {FOUR} }}"
    first = tc.grad(text)
    assert len(first) < 25 * len(text)
    assert len(tc.grad(first, ("e", "x"))) < 12 * len(first)
    tangent = tc.jvp(text)  # was refused: more than 20,000 operations
    assert len(tangent) < 25 * len(text)
    assert len(tc.jvp(first, ("e", "x"))) < 12 * len(first)


@pytest.mark.parametrize("backend", ["interpret", "numba", "c"])
def test_ten_choices_in_one_another(backend: str) -> None:
    """0.11: the length is linear, and the values are those of e and x, whichever is the larger."""
    inner = "e(i)"
    for _ in range(10):
        inner = f"max(abs({inner}), x(i))"
    text = f"def f(double(N) e, double(N) x) -> (y) {{ y(i) = {inner} }}"
    gradient = tc.grad(text)
    assert len(gradient) < 25 * len(text)
    e, x = np.array([-3.0, 2.0, 0.5, -0.5]), np.array([1.0, -5.0, 0.75, 4.0])
    d = np.array([1.0, 2.0, 3.0, 4.0])
    found = tc.compile(gradient, backend=backend)(e, x, d)
    # |e| against x; once the larger of them is taken, all else are ties of that with x or none
    np.testing.assert_array_equal(found.d_e, np.where(np.abs(e) > x, np.sign(e) * d, 0))
    np.testing.assert_array_equal(found.d_x, np.where(np.abs(e) > x, 0, d))
