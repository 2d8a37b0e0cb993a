"""Blocks: memory under the limit, speed without a loop per element, the same bits every time."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

from tc.semantics.reference.instance_blocks import choose_extents, tiles
from tests.support.bounds import assert_within
from tests.support.interpreting import bound, run, shaped_with

RNG = np.random.default_rng(0)


def floats(*shape: int) -> Any:
    return RNG.standard_normal(shape).astype(np.float32)


PROGRAMS: dict[str, tuple[str, dict[str, Any]]] = {
    "contraction": (
        "def f(float(M,K) A, float(N,K) B) -> (C) { C(m,n) +=! A(m,k) * B(n,k) }",
        {"A": floats(90, 110), "B": floats(130, 110)},
    ),
    "pairwise": (
        "def f(float(N) a, float(M) b) -> (o) { o +=! exp(-(a(i) - b(j)) * (a(i) - b(j))) }",
        {"a": floats(1500), "b": floats(1000)},
    ),
    "padded": (
        """def f(float(C,H,W) I, float(F,C,KH,KW) K) -> (O) {
          O(f,h,w) +=! pad(I(c,h+kh-1,w+kw-1), 0) * K(f,c,kh,kw) where h in 0:H, w in 0:W
        }""",
        {"I": floats(8, 30, 30), "K": floats(8, 8, 3, 3)},
    ),
    "gather": (
        "def f(float(E,D) T, int32(B,L) I) -> (O) { O(b,d) +=! T(I(b,l) % E, d) * T(I(b,l), d) }",
        {"T": floats(60, 50), "I": RNG.integers(0, 60, (40, 30)).astype(np.int32)},
    ),
    "wide expression": (
        """def f(int8(N) a, int8(M) b, double(N) c) -> (o) {
          o(i) +=! (a(i) < b(j) && c(i) > 0 ? a(i) / (b(j) | 1) : b(j) % 3 + a(i)) * 1.5
                   + pow(fabs(c(i)), 2.0) + hypot(c(i), 1.0) + min(a(i), b(j))
        }""".replace("(b(j) | 1)", "(b(j) == 0 ? 1 : b(j))"),
        {
            "a": RNG.integers(-9, 9, 700).astype(np.int8),
            "b": RNG.integers(-9, 9, 600).astype(np.int8),
            "c": RNG.standard_normal(700),
        },
    ),
    "functions": (
        """def f(float(N) a, double(M) b) -> (o) {
          o(i,j) = pow(fabs(a(i)*b(j)), a(i)*b(j)) + atan2(a(i)*b(j), b(j)*3)
                   + rnorm4d(a(i)*b(j), b(j)*2, a(i)*3, 1 + a(i)*b(j)) + y1(2 + a(i)*b(j)*0.1)
        }""",
        {"a": floats(500), "b": RNG.standard_normal(400)},
    ),
    "power": (
        "def f(float(N) a, float(M) b) -> (o) { o +=! pow(a(i)*a(i), b(j)) }",
        {"a": floats(1000), "b": floats(1000)},
    ),
    "product": (
        "def f(double(N) a, double(M) b) -> (o) { o *=! 1 + 1e-6 * a(i) * b(j) }",
        {"a": RNG.standard_normal(900), "b": RNG.standard_normal(1000)},
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("limit", [1 << 22, 1 << 25])
def test_memory_stays_under_the_limit(name: str, limit: int) -> None:
    text, inputs = PROGRAMS[name]
    for call in (run, bound):
        call(text, **{n: a[:1] if a.ndim == 1 else a for n, a in inputs.items()})  # warms caches
        tracemalloc.start()
        result = call(text, memory_limit=limit, **inputs)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        outputs = 16 * result.size  # values, and a float64 error for each
        assert used < limit + outputs + (1 << 18), f"{call.__name__} used {used}"


@pytest.mark.parametrize("name", PROGRAMS)
def test_any_block_size_stays_within_the_bound(name: str) -> None:
    """Rule R5: other blocks are another order of the reduction."""
    text, inputs = PROGRAMS[name]
    errors = bound(text, **inputs)
    large = run(text, **inputs)
    assert_within(run(text, memory_limit=1 << 20, **inputs), large, errors)
    assert np.isfinite(errors).all()


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_bits_every_time(name: str) -> None:
    text, inputs = PROGRAMS[name]
    copies = {n: a.copy() for n, a in inputs.items()}
    assert run(text, **inputs).tobytes() == run(text, **copies).tobytes()
    assert bound(text, **inputs).tobytes() == bound(text, **copies).tobytes()


def test_a_large_contraction_runs_in_reasonable_time() -> None:
    n = 512
    a, b = floats(n, n), floats(n, n)
    text = "def f(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
    start = time.process_time()
    result = run(text, A=a, B=b)
    assert time.process_time() - start < 20  # it takes 0.2 s
    want = (a.astype(np.float64) @ b).astype(np.float32)
    assert_within(result, want, bound(text, A=a, B=b))


def test_long_reductions_are_split_too() -> None:
    text = "def f(float(N) a) -> (o) { o +=! a(i) * a(i) where i in 0:N }"
    values = floats(1 << 20)
    result = run(text, memory_limit=1 << 20, a=values)
    want = np.float32((values.astype(np.float64) ** 2).sum())
    assert_within(result, np.asarray(want), bound(text, a=values))


@pytest.mark.parametrize("limit", [1 << 10, 1 << 14, 1 << 28])
@pytest.mark.parametrize("lexicographic", [False, True])
def test_blocks_cover_the_space_once(limit: int, lexicographic: bool) -> None:
    text = """def f(float(N,M) a) -> (o) {
      o(i,j) +=! a(i,j+k) where k in -1:2, j in 1:6, i in 0:N
    }"""
    shaped, _ = shaped_with(text, {"a": floats(9, 7)})
    statement = shaped.statements[0]
    extents = choose_extents(statement, limit, lexicographic=lexicographic)
    seen = np.zeros((9, 5, 3), int)
    corners = []
    for block in tiles(("i", "j", "k"), statement, extents):
        i, j, k = block.begins
        corners.append(block.begins)
        di, dj, dk = block.shape
        seen[i : i + di, j - 1 : j - 1 + dj, k + 1 : k + 1 + dk] += 1
    assert (seen == 1).all()
    assert corners == sorted(corners)
    split = [v for v in ("i", "j", "k") if extents[v] < statement.ranges[v].extent]
    if lexicographic and split:
        before = ("i", "j", "k")[: ("i", "j", "k").index(split[-1])]
        assert all(extents[v] == 1 for v in before)
