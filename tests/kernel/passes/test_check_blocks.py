"""Loops with checks test whole blocks first: values, and what is found, are those of the loops."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import tc
from tc.errors import AccessError
from tc.kernel.passes.check_blocks import BLOCK
from tests.support.bounds import assert_computes

NUMBERS = np.random.default_rng(3)
COUNTS = (BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 15, 3 * BLOCK + 7)
BACKENDS = ("numba", "c")
TAKEN = "def t(float(N) x, int(M) p) -> (o) { o(i) = exp(x(p(i))) }"
TWICE = "def t(double(N) x, float(K) y, int(M) p, int(M) q) -> (o) { o(i) = x(p(i)) * y(q(i) / 2) }"
COUNTED = "def c(int(N) x) -> (int(7) h) { h(x(i)) +=! 1 }"
KEPT = """def k(float(N) x, int(N) p, float(N) w) -> (float(7) o) {
  o(p(i)) +=! x(i) where w(i) > 0, p(i) < 100
}"""


@functools.cache
def compiled(text: str, backend: str) -> Any:
    """The function of a text, with the code for each count: what is wrong differs between calls."""
    return tc.compile(text, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", COUNTS)
def test_values_are_those_of_each_iteration(backend: str, count: int) -> None:
    x, y = NUMBERS.random(50), NUMBERS.random(20).astype(np.float32)
    p = NUMBERS.integers(0, 50, count).astype(np.int32)
    q = NUMBERS.integers(0, 40, count).astype(np.int32)
    narrow = x.astype(np.float32)
    found = tc.compile(TAKEN, backend=backend)(narrow, p)
    assert_computes(TAKEN, [narrow, p], found, np.exp(narrow.astype(float))[p])
    found = tc.compile(TWICE, backend=backend)(x, y, p, q)
    assert_computes(TWICE, [x, y, p, q], found, x[p] * y[q // 2])
    keys = (p % 7).astype(np.int32)
    found = tc.compile(COUNTED, backend=backend)(keys)
    np.testing.assert_array_equal(found, np.bincount(keys, minlength=7))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("count", COUNTS[1:])
@pytest.mark.parametrize("wrong", [-1, 50, 2**31 - 1, -(2**31)])
def test_one_wrong_value_is_found_where_it_is(backend: str, count: int, wrong: int) -> None:
    x = NUMBERS.random(50).astype(np.float32)
    for place in (0, BLOCK - 1, count // 2, count - 1):
        p = NUMBERS.integers(0, 7, count).astype(np.int32)
        p[place] = wrong
        for text, given in ((TAKEN, [x, p]), (COUNTED, [p])):
            with pytest.raises(AccessError, match=rf"at i = {place}, (reads|writes) \w\({wrong}\)"):
                compiled(text, backend)(*given)


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_a_condition_leaves_out_is_not_tested(backend: str) -> None:
    count = 3 * BLOCK + 5
    x, w = (NUMBERS.standard_normal(count).astype(np.float32) for _ in range(2))
    p = NUMBERS.integers(0, 7, count).astype(np.int32)
    p[w <= 0] = -5
    p[10], w[10] = 100, 1.0
    kept = (w > 0) & (p < 100)
    wanted = np.bincount(p[kept], x[kept].astype(float), minlength=7)
    found = tc.compile(KEPT, backend=backend)(x, p, w)
    assert_computes(KEPT, [x, p, w], found, wanted)
    p[np.flatnonzero(w > 0)[7]] = -5
    with pytest.raises(AccessError, match=r"writes o\(-5\)"):
        tc.compile(KEPT, backend=backend)(x, p, w)


def test_results_do_not_depend_on_threads() -> None:
    count = 9 * BLOCK + 3
    x, p = NUMBERS.random(50).astype(np.float32), NUMBERS.integers(0, 50, count).astype(np.int32)
    found = [
        tc.compile(TAKEN, options=tc.Options(threads=threads))(x, p).tobytes()
        for threads in (1, 2, 3, 7)
    ]
    assert len({*found}) == 1
