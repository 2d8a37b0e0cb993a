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
    "an update of all rows but the first, in tiles": (
        """def f(float(M,K) A, float(L,K) B) -> (t2, t3) {
  t2(j,k) = A(j,k) * 2
  t2(j,k) += A(j,k) where j in 1:M
  t3(j,k) +=! B(j,r) * t2(k,r)
}""",
        {"A": (13, 16), "B": (13, 16)},
    ),
    "rows set from the fourth on": (
        """def f(float(M,K) A, float(L,K) B) -> (t3) {
  t2(j,k) = A(j,k) * 2
  t2(j,k) = 0 where j in 3:M, k in 0:K
  t3(j,k) +=! B(j,r) * t2(k,r)
}""",
        {"A": (33, 16), "B": (33, 16)},
    ),
    "a temporary read through pad on both sides": (
        """def f(float(N,W) I) -> (O) {
  t(n,w) = I(n,w) + 1
  O(n,w) = t(n,w) + pad(t(n,w-1), 0) + pad(t(n,w+1), 0)
}""",
        {"I": (8, 16)},
    ),
    "a padded convolution of a temporary": (
        """def f(float(N,C,H,W) I, float(M,C,KH,KW) F) -> (O) {
  t(n,c,h,w) = fmax(I(n,c,h,w), 0)
  O(n,m,h,w) +=! pad(t(n,c,h+kh-1,w+kw-1), 0) * F(m,c,kh,kw) where h in 0:H, w in 0:W
}""",
        {"I": (2, 3, 7, 7), "F": (16, 3, 3, 3)},
    ),
    "an operand that another statement reads in another order": (
        """def f(float(N,M,K) A, float(N,M,K) B) -> (t0, t1, t2) {
  t0(i,j,k) +=! B(i,j,r) * A(k,0,r)
  t1(i,j,k) max=! t0(i,j+w,k) where w in 0:2
  t2(i,j,k) = A(i,j,k) + t0(i,j,k) * 2
}""",
        {"A": (4, 5, 1), "B": (4, 5, 1)},
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


TAILS = {"rows set from the fourth on"}
"""The last tile computes on rows of a small buffer that nobody wrote, and drops what comes out."""


@pytest.mark.parametrize("case", sorted(CASES.keys() - TAILS))
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
    expected, found = (x if isinstance(x, tuple) else (x,) for x in (expected, found))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


HALVES = {
    "outputs": "-> (t, u) { t(i) = A(i) + B(i) * 2\n  u(i) = t(i) + A(i) * 2 }",
    "a temporary": "-> (u) { t(i) = A(i) + B(i) * 2\n  u(i) = t(i) + A(i) * 2 }",
    "an output that is updated": "-> (u) { u(i) = A(i) + B(i) * 2\n  u(i) = u(i) + A(i) * 2 }",
}


@pytest.mark.parametrize("case", HALVES)
@pytest.mark.parametrize("backend", ["numba", "c"])
def test_halves_are_rounded_between_statements(case: str, backend: str) -> None:
    """Y8: what a statement gives to another has been stored as a half."""
    text = f"def f(half(N) A, half(N) B) {HALVES[case]}"
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(400).astype(np.float16) for _ in range(2)]
    found = tc.compile(text, backend=backend)(*inputs)
    np.testing.assert_array_equal(found, tc.interpret(text, inputs))
