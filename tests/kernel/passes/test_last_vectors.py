"""Last iterations apart: where, and that the kernel still does the same."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tc
import tc.kernel.passes.last_vectors
from tc.dtypes import FLOAT32
from tc.kernel.folding import binary, select
from tc.kernel.ir import Comment, Const, For, If, Kernel, Load, Stmt, Store
from tc.kernel.passes.last_vectors import MAX_LAST_STATEMENTS as MAX_COPIED_STATEMENTS
from tc.kernel.passes.last_vectors import MIN_ITERATIONS, split_last_iterations
from tc.kernel.passes.stores import store_whole_lines
from tc.kernel.walk import has_non_temporal_stores
from tests.kernel.marked import all_statements, assert_same, finish
from tests.support.bounds import assert_computes
from tests.support.build import add, dense, less, loop, times, var

LANES = 8


def copy(
    extent: int, *, vectors: int = 1, rows: int = 0, parallel: bool = False, more: int = 0
) -> Kernel:
    """A kernel that copies `rows` rows, or one vector for 0, in vectors of 8, `vectors` of them in
    an iteration; the body has `more` further stores."""
    width = vectors * LANES
    column = add(times(var("j0"), width), times(var("u"), LANES), var("l"))
    place = (var("i"), column) if rows else (column,)
    stores: tuple[Stmt, ...] = (Store("o", place, Load("a", place, FLOAT32)),) * (1 + more)
    vector = loop("l", LANES, If(less(column, extent), stores), mark="vector")
    body = loop("u", vectors, vector, mark="unroll")
    stmt = loop("j0", -(-extent // width), body, parallel=parallel and not rows)
    if rows:
        stmt = loop("i", rows, stmt, parallel=parallel)
    shape = (rows, extent) if rows else (extent,)
    buffers = dense("a", FLOAT32, shape, "input"), dense("o", FLOAT32, shape, "output")
    return Kernel("copy", buffers, ((stmt,),))


def is_peeled(kernel: Kernel) -> bool:
    """Whether a loop is in parts; the kernel does the same before and after all other passes."""
    made = assert_same(kernel, split_last_iterations)
    assert_same(kernel, lambda k: finish(k, lanes_bits=256))
    parts = [s for s in all_statements(made) if isinstance(s, For) and s.var == "j0"]
    assert len(parts) == 1 or parts[0].end == parts[1].begin
    return len(parts) == 2


@pytest.mark.parametrize(
    ("extent", "vectors", "wanted"),
    [
        (MIN_ITERATIONS * 8 - 1, 1, True),
        (MIN_ITERATIONS * 8 - 7, 1, True),
        (MIN_ITERATIONS * 8, 1, False),  # whole
        (MIN_ITERATIONS * 8 - 8 - 1, 1, False),  # too few iterations
        (MIN_ITERATIONS * 32 - 1, 4, True),
        (MIN_ITERATIONS * 32 - 31, 4, True),
        (MIN_ITERATIONS * 40 - 8, 5, False),  # one of five vectors is not whole
        (MIN_ITERATIONS * 40 - 9, 5, True),  # two
    ],
)
@pytest.mark.parametrize("rows", [0, 3])
def test_where(extent: int, vectors: int, wanted: bool, rows: int) -> None:
    assert is_peeled(copy(extent, vectors=vectors, rows=rows)) == wanted
    assert is_peeled(copy(extent, vectors=vectors, rows=3, parallel=True)) == wanted


def test_sums_along_vectors_that_are_not_whole() -> None:
    """A selection, and not a branch, keeps what lies beyond the last term out of a sum."""
    place = add(times(var("j0"), LANES), var("l"))
    term = select(less(place, 61), Load("a", (place,), FLOAT32), Const(0.0, FLOAT32))
    step = Store("s", (var("l"),), binary("+", Load("s", (var("l"),), FLOAT32), term))
    stmt = loop("j0", 8, loop("l", LANES, step, mark="vector"))
    buffers = dense("a", FLOAT32, (61,), "input"), dense("s", FLOAT32, (LANES,), "output")
    initial = frozenset({"s"})
    assert is_peeled(Kernel("sums", buffers, ((stmt,),), initial=initial))


def test_large_bodies_stay() -> None:
    assert is_peeled(copy(61, more=MAX_COPIED_STATEMENTS - 5))
    assert not is_peeled(copy(61, more=MAX_COPIED_STATEMENTS))
    assert is_peeled(copy(225, vectors=4, more=MAX_COPIED_STATEMENTS // 4 - 4))
    assert not is_peeled(copy(225, vectors=4, more=MAX_COPIED_STATEMENTS // 4))


def test_masks_are_left_in_the_last_iteration_only() -> None:
    made = finish(copy(61), lanes_bits=256)
    stores = [s for s in all_statements(made) if isinstance(s, Store)]
    assert [store.mask is None for store in stores] == [True, False]


@pytest.fixture
def few_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tc.kernel.passes.last_vectors, "MIN_SHARED_ITERATIONS", 8)


@pytest.mark.usefixtures("few_shared")
@pytest.mark.parametrize("vectors", [1, 4])
def test_a_shared_loop_leaves_a_region(vectors: int) -> None:
    extent = 7 * vectors * LANES + 3
    kernel = copy(extent, vectors=vectors, parallel=True)
    said = Comment("o(i) = a(i)")
    made = split_last_iterations(replace(kernel, regions=((said, *kernel.regions[0]),)))
    (first, head), (second, tail) = made.regions
    assert first == second == said
    assert isinstance(head, For)
    assert head.parallel
    assert isinstance(tail, For)
    assert tail.mark == "unroll"
    assert not tail.parallel
    assert is_peeled(copy(extent, vectors=vectors, parallel=True))
    assert not is_peeled(copy(extent - vectors * LANES, vectors=vectors, parallel=True))


@settings(max_examples=25)
@given(
    extent=st.integers(1, 150),
    vectors=st.integers(1, 4),
    rows=st.integers(0, 3),
    parallel=st.booleans(),
)
def test_the_same_is_done(extent: int, vectors: int, rows: int, parallel: bool) -> None:
    is_peeled(copy(extent, vectors=vectors, rows=rows, parallel=parallel))


@pytest.mark.parametrize("backend", ["numba", "c"])
def test_odd_elements(backend: str) -> None:
    """Whole vectors by several threads, the rest by one; failures of both are told."""
    text = "def f(float(N,M) A, float(N,M) B) -> (C) { C(i,j) = A(i,j) + B(i,j) * B(i,j) }"
    random = np.random.default_rng(0)
    a, b = (random.random((449, 401), np.float32) for _ in range(2))
    found: Any = tc.compile(text, backend=backend)(a, b)
    assert_computes(text, [a, b], found, a + b.astype("float64") * b)
    take = "def g(float(K) T, int32(N) I) -> (O) { O(i) = T(I(i)) + 1.0 }"
    table, places = random.random(100, np.float32), random.integers(0, 100, 40_003, np.int32)
    function = tc.compile(take, backend=backend, check=True)
    np.testing.assert_array_equal(function(table, places), table[places] + np.float32(1))
    for wrong in (0, 20_000, 40_002):
        bad = places.copy()
        bad[wrong] = 100
        with pytest.raises(tc.AccessError, match="100"):
            function(table, bad)


@pytest.mark.usefixtures("few_shared")
def test_large_odd_outputs_are_streamed() -> None:
    """What the last iteration writes does not keep the others from it."""
    kernel = copy(8 * 16 + 5, vectors=2, parallel=True)
    made = store_whole_lines(finish(kernel, lanes_bits=256), 1)
    assert len(made.regions) == 2
    assert has_non_temporal_stores(made)
    assert_same(kernel, lambda _: made)
