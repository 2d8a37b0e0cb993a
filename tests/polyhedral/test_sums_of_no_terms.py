"""Sums of no terms are 0, also where what all terms would share is infinite, NaN, or 0 and divides:
what is multiplied behind a sum is so where there is a sum (R2, R5)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tc
from tests.fuzz.places.on_gpus import evaluated_on_gpu, target_of
from tests.support.bounds import assert_computes

RNG = np.random.default_rng(11)

TEXTS = {
    "rows": "f(int(M) row, float(S) a, float(N) x) -> (o) {"
    " o(r) +=! a(r) * x(e) where e in row(r):row(r+1) }",
    "rows, divided": "f(int(M) row, float(S) a, float(N) x) -> (o) {"
    " o(r) +=! x(e) / a(r) where e in row(r):row(r+1) }",
    "rows of vectors": "f(int(M) row, float(S) a, float(N) x, float(N,K) B) -> (o) {"
    " o(r,d) +=! a(r) * x(e) * B(e,d) where e in row(r):row(r+1) }",
    "a condition": "f(float(S) a, float(N) x, int(N) I) -> (o) {"
    " o(i) +=! a(i) * x(j) where I(j) > i }",
    "a condition, divided": "f(float(S) a, float(N) x, int(N) I) -> (o) {"
    " o(i) +=! x(j) / a(i) where I(j) > i }",
    "a scatter": "f(float(S) a, float(N) x, int(N) I) -> (o) {"
    " o(I(j)) +=! x(j) * a(I(j)) where o.0 = S }",
    "one hot": "f(float(S) a, float(N) x, int(N) I) -> (o) {"
    " o(i) +=! I(j) == i ? x(j) * a(i) : 0 }",
    "a triangle": "f(float(N,N) L, float(N) x, float(N) a) -> (o) {"
    " o(i) +=! a(i) * L(i,j) * x(j) where j in 0:i }",
    "a triangle, divided": "f(float(N,N) L, float(N) x, float(N) a) -> (o) {"
    " o(i) +=! L(i,j) * x(j) / a(i) where j in 0:i }",
    "two": "f(float(N) a, float(N) x) -> (o, p) {"
    " o(i), p(i) +=! a(i) * x(j), x(j) / a(i) where j in 0:i, i in 0:N }",
    "what goes on": "f(float(N) a, float(N) x) -> (o) {"
    " o(i) = 1  o(i) += a(i) * x(j) where j in 0:i, i in 0:N }",
    "a window": "f(float(N) a, float(N) x) -> (o) {"
    " o(i) +=! a(i) * x(j) where j in max(0, i-2):i, i in 0:N }",
    "two dimensions": "f(float(N,K) B, float(N) a) -> (o) {"
    " o(i,j) +=! B(p,q) / a(i) where p in 0:i, q in 0:j, i in 0:N, j in 0:K }",
    "the largest": "f(float(N) a, float(N) x) -> (o) {"
    " o(i) max=! a(i) * x(j) where j in 0:i, i in 0:N }",
}


def inputs_of(text: str, n: int, value: float) -> dict[str, Any]:
    rows = 7
    ends = np.sort(RNG.integers(0, n + 1, rows - 3))
    every = {
        "row": np.int32([0, 0, *ends, n, n]),
        "x": RNG.normal(size=n).astype(np.float32),
        "I": RNG.integers(0, rows - 1, n).astype(np.int32),
        "B": RNG.normal(size=(n, 5)).astype(np.float32),
        "L": RNG.normal(size=(n, n)).astype(np.float32),
        "a": np.full(rows if "float(S)" in text else n, value, np.float32),
    }
    return {name: array for name, array in every.items() if f") {name}" in text}


@pytest.mark.drawn(4)
@pytest.mark.parametrize("value", [np.inf, np.nan, 0, 2.5])
@pytest.mark.parametrize("name", TEXTS)
def test_what_is_shared_is_no_matter(name: str, value: float) -> None:
    text = f"def {TEXTS[name]}"
    for n in (3, 40):
        inputs = inputs_of(text, n, value)
        for how in ({}, {"backend": "c"}, {"dynamic": True}, {"check": False}):
            assert_computes(text, inputs, tc.compile(text, **how)(**inputs))


@pytest.mark.drawn(4)
@pytest.mark.parametrize("value", [np.inf, np.nan, 0])
@pytest.mark.parametrize("name", TEXTS)
def test_nor_on_gpus(name: str, value: float) -> None:
    text = f"def {TEXTS[name]}"
    inputs = inputs_of(text, 9, value)
    for seed in range(3):
        found = evaluated_on_gpu(text, inputs, None, target_of(seed))
        assert_computes(text, inputs, tuple(found.values()))
