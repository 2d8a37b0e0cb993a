"""Statements that share loops, but of which some run in few of the iterations only."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.interpreting import shaped_with
from tests.support.rewrites import run_kernel

CASES: dict[str, tuple[str, dict[str, tuple[int, ...]]]] = {
    "a temporary of one row in a loop over three": (
        """def f(float A0, float(M,3,M) A2) -> (O0, O2) {
  O0(i,j,l) +=! A2(i + j, l, j) + A2(l, r, 0)
    + ((A0 + A0) < A2(2 * i + r, l, (i < 2 ? i : 0)) && A0
       ? (A0 + A0) : A2(2 * i + r, l, (i < 2 ? i : 0)))
  T1(i,j) = A2(i, i, i) + O0(j, i, min(i, 1))
    + ((A2(min(i, 1), 2 * i + i, i) + A0) + (A0 + A0))
  O2(i,j) = A2(0, i, j + j) - +(ceil(0.5))
  T1(i,j) += O2(i, j) + 0x1F
}""",
        {"A0": (), "A2": (4, 3, 4)},
    ),
    "a variable with one value on both axes": (
        """def f(float A0, float(M,M,M) A2) -> (O0, O2, O3) {
  O0(i,j,l) +=! A2(i, i, i) + A0 where i in 0:M, j in 0:M, l in 0:M, r in 0:M
  T1(i,j) = A2(i, i, i) + O0(j, i, i) + A2(i, i, i + i)
  O2(i,j) = O0(i / 2, i, j) where i in 0:M
  O3(i) = T1(i, i)
}""",
        {"A0": (), "A2": (2, 2, 2)},
    ),
    "a chain whose middle is short": (
        """def f(float(N) a, float(K) b) -> (o, p) {
  t(i) = a(i) * 2
  u(i) = b(i) + 1
  v(i) = u(i) * u(i)
  o(i) = t(i) + a(i)
  p(i) = v(i) - 3
}""",
        {"a": (70,), "b": (5,)},
    ),
}


def inputs_of(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Small integers, with which every order of operations gives the same sums."""
    rng = np.random.default_rng(0)
    return {n: rng.integers(-4, 5, s).astype(np.float32) for n, s in shapes.items()}


@pytest.mark.parametrize("case", CASES)
def test_private_memory_is_written_before_it_is_read(case: str) -> None:
    """The evaluator refuses anything else."""
    text, shapes = CASES[case]
    shaped, arrays = shaped_with(text, inputs_of(shapes))
    run_kernel(shaped, arrays, {})


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("backend", ["numba", "c"])
def test_same_results(case: str, backend: str) -> None:
    text, shapes = CASES[case]
    inputs = inputs_of(shapes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        expected = tc.interpret(text, inputs)
        found = tc.compile(text, backend=backend)(**inputs)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
