"""Recurrences in vectors: each prefix against numpy, and that no addition waits for each before."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tc

INCLUSIVE, EXCLUSIVE = "k in 0:j+1", "k in 0:j, j in 0:N"
SUFFIX, WITHOUT_OWN = "k in j:N, j in 0:N", "k in j+1:N, j in 0:N"
DOMAINS: dict[str, Callable[[int, int], slice]] = {
    INCLUSIVE: lambda j, _: slice(0, j + 1),
    EXCLUSIVE: lambda j, _: slice(0, j),
    SUFFIX: lambda j, n: slice(j, n),
    WITHOUT_OWN: lambda j, n: slice(j + 1, n),
    "k in 0:j+3, j in 0:N-2": lambda j, _: slice(0, j + 3),
    "k in 2:j+1, j in 0:N": lambda j, _: slice(2, max(2, j + 1)),
    "k in 0:min(j+1,5), j in 0:N": lambda j, _: slice(0, min(j + 1, 5)),
}
OPERATIONS: dict[str, tuple[Any, float]] = {
    "+=!": (np.sum, 0.0),
    "*=!": (np.prod, 1.0),
    "max=!": (np.max, -np.inf),
    "min=!": (np.min, np.inf),
}


@pytest.mark.drawn(6)
@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("where", DOMAINS)
@pytest.mark.parametrize("op", OPERATIONS)
def test_prefixes(op: str, where: str, backend: str) -> None:
    text = f"def f(double(R,N) x) -> (o) {{ o(i,j) {op} x(i,k) where {where} }}"
    of, neutral = OPERATIONS[op]
    rng = np.random.default_rng(7)
    for n in (3, 7, 8, 16, 37):
        x = 1 + rng.integers(-3, 4, (3, n)) / 8
        rows = n - 2 if "N-2" in where else n
        due = np.full((3, rows), neutral)
        for j in range(rows):
            terms = x[:, DOMAINS[where](j, n)]
            if terms.shape[1]:
                due[:, j] = of(terms, axis=1)
        found = tc.compile(text, backend=backend)(x)
        np.testing.assert_allclose(found, due, rtol=1e-13)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("where", [INCLUSIVE, EXCLUSIVE, SUFFIX, WITHOUT_OWN])
def test_no_addition_for_each_element(where: str, bits: int) -> None:
    """The loops that are left are those over rows, over vectors, and the last N mod lanes."""
    text = f"def f(float(R,N) x) -> (o) {{ o(i,j) +=! x(i,k) where {where} }}"
    device, lanes = tc.Device(vector_bits=bits), bits // 32
    code = tc.emit(text, R=5, N=160 + 3, backend="c", device=device).source
    assert re.findall(r"for \(int64_t \w*block = 0; \w+ < (\d+);", code) == [str(163 // lanes)]
    assert "shuffle" in code
    whole = tc.emit(text, R=5, N=160, backend="c", device=device).source
    assert whole.partition("void f(")[2].count("for (") == 2


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["numba", "c"])
def test_several_sums_of_one_loop(backend: str) -> None:
    """The second one adds up what the first one holds; a type of fewer bits is stored."""
    text = """def f(half(N) x) -> (a, b) {
        a(j) +=! x(k) where k in 0:j+1
        b(j) +=! x(k) * x(k) where k in 0:j+1
    }"""
    x = (np.arange(53) % 5 - 2).astype(np.float16)
    a, b = tc.compile(text, backend=backend)(x)
    np.testing.assert_array_equal(a, np.cumsum(x.astype(np.float32)).astype(a.dtype))
    np.testing.assert_array_equal(b, np.cumsum(x.astype(np.float32) ** 2).astype(b.dtype))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -0.0])
def test_special_values(value: float, backend: str) -> None:
    """What one element holds reaches those behind it, and none before."""
    x = np.zeros(40, np.float32)
    x[21] = value
    for op in ("+=!", "max=!"):
        text = f"def f(float(N) x) -> (o) {{ o(j) {op} x(k) where k in 0:j+1 }}"
        due = tc.interpret(text, [x])
        found = tc.compile(text, backend=backend)(x)
        np.testing.assert_array_equal(found, due)
        assert not np.isnan(found[:21]).any()


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_gathered_terms(backend: str) -> None:
    rng = np.random.default_rng(3)
    x, at = rng.random(100), rng.integers(0, 100, 75).astype(np.int32)
    text = "def f(double(M) x, int(N) I) -> (o) { o(j) +=! x(I(k)) where k in 0:j+1 }"
    found = tc.compile(text, backend=backend)(x, at)
    np.testing.assert_allclose(found, np.cumsum(x[at]), rtol=1e-14)
