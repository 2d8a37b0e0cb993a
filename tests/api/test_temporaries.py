"""The memory of temporaries: kept from call to call, and never shared by two calls at once."""

from __future__ import annotations

import tracemalloc
from functools import partial
from typing import Any

import numpy as np
import pytest

import tc
from tc.device import PAGE_BYTES
from tc.dtypes import FLOAT32
from tc.kernel.ir import Buffer
from tc.runtime.specialisation import LARGE_BYTES, Temporaries, new_output
from tests.support.bounds import assert_computes, is_within
from tests.support.threads import run_at_once

CHAIN = """
def chain(float(N, M) x) -> (o) {
    t(i, j) = x(i, j) + 1
    u(i) +=! t(i, j)
    o(i, j) = t(i, j) * u(i)
}
"""


def expected(x: np.ndarray) -> np.ndarray:
    t = x + 1
    return t * t.sum(axis=1, keepdims=True)


def test_memory_is_taken_given_back_and_bounded() -> None:
    buffers = (
        Buffer("a", FLOAT32, (3,), (1,), "input"),
        Buffer("t", FLOAT32, (3, 5), (5, 1), "temporary"),
        Buffer("u", FLOAT32, (), (), "temporary"),
    )
    pool = Temporaries.of(buffers)
    taken = [pool.take() for _ in range(9)]
    assert [a.shape for a in taken[0]] == [(3, 5), ()]
    assert all(a.ctypes.data % 64 == 0 for arrays in taken for a in arrays)
    assert len({a.ctypes.data for arrays in taken for a in arrays}) == 18
    for arrays in taken:
        pool.give_back(arrays)
    assert 1 <= len(pool.spare.idle) < 9
    kept = pool.spare.idle[-1]
    assert all(a is b for a, b in zip(pool.take(), kept, strict=True))


def test_a_call_with_outputs_allocates_no_arrays() -> None:
    f = tc.compile(CHAIN)
    x = np.ones((100, 1000), np.float32)
    out = np.empty_like(x)
    f(x, outputs={"o": out})
    tracemalloc.start()
    f(x, outputs={"o": out})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < x.nbytes // 4
    assert_computes(CHAIN, [x], out, expected(x.astype(np.float64)))


def test_calls_at_the_same_time() -> None:
    f = tc.compile(CHAIN)

    def work(seed: int) -> None:
        x = np.random.default_rng(seed).standard_normal((50, 200)).astype(np.float32)
        bound = tc.error_bound(CHAIN, [x])
        for _ in range(30):
            assert is_within(f(x), expected(x.astype(np.float64)), bound).all()

    f(np.ones((50, 200), np.float32))
    run_at_once(partial(work, seed) for seed in range(6))


# --- Large results start with a page: kernels may write them past the caches, and read apart.


TWICE = "def twice(float(N) I) -> (O) { O(n) = 2 * I(n) }"


@pytest.mark.parametrize("alignment", [1, 16, 256])
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.bool_])
def test_alignment(alignment: int, dtype: Any) -> None:
    kind = np.dtype(dtype)
    for length in (LARGE_BYTES - kind.itemsize, LARGE_BYTES, LARGE_BYTES + 12, 40 * LARGE_BYTES):
        arrays = [new_output((2, length // kind.itemsize // 2), kind, alignment) for _ in range(4)]
        least = max(alignment, PAGE_BYTES) if arrays[0].nbytes >= LARGE_BYTES else alignment
        for array in arrays:
            assert array.ctypes.data % least == 0
            assert array.dtype == kind
            assert array.shape == (2, length // kind.itemsize // 2)
            assert array.flags.c_contiguous
            assert array.flags.writeable


def test_results() -> None:
    twice = tc.compile(TWICE)
    for length in (LARGE_BYTES // 4, LARGE_BYTES // 4 + 3, LARGE_BYTES):
        ones = np.ones(length, np.float32)
        results = [twice(ones) for _ in range(3)]
        for result in results:
            assert result.ctypes.data % PAGE_BYTES == 0
            np.testing.assert_array_equal(result, 2 * ones)
