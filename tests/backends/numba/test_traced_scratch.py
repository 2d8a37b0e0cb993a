"""Private memory and threads in regions with vectors on numba."""

from __future__ import annotations

from functools import partial

import numba
import numpy as np
import pytest

from tc.dtypes import FLOAT32, INT64, UINT16
from tc.kernel.ir import Cast, Const, Kernel, Let, Load, Store, Var
from tc.runtime.arrays import empty
from tests.support.build import I, dense, integer, loop
from tests.support.threads import run_at_once
from tests.support.vectors import check, compile_kernel, plus, ramp, run, times

F16 = FLOAT32.vector(16)
J, K = Var("j", INT64), Var("k", INT64)


def transposing(rows: int, width: int = 64) -> Kernel:
    """Each iteration copies a row to scratch backward, and from there to the output."""
    row = loop("j", width, Store("s", (plus(times(J, -1), width - 1),), Load("a", (I, J), FLOAT32)))
    vectors = loop(
        "k",
        width // 16,
        Store("o", (I, ramp(times(K, 16), 16)), Load("s", (ramp(times(K, 16), 16),), F16)),
    )
    buffers = (
        dense("a", FLOAT32, (rows, width), "input"),
        dense("o", FLOAT32, (rows, width), "output"),
        dense("first", UINT16, (3,), "scratch"),
        dense("s", FLOAT32, (width,), "scratch"),
    )
    mark = Store("first", (integer(0),), Const(1, UINT16))
    body = (loop("i", rows, mark, row, vectors, parallel=True),)
    return Kernel("k", buffers, (body,))


@pytest.mark.parametrize("threads", [1, 2, None])
def test_each_part_has_its_own_scratch(threads: int | None) -> None:
    a = np.random.default_rng(1).standard_normal((12000, 64)).astype(np.float32)
    compiled = compile_kernel(transposing(12000))
    assert compiled.shared
    for _ in range(5):
        out = np.zeros_like(a)
        run(compiled, {"a": a, "o": out}, threads)
        np.testing.assert_array_equal(out, a[:, ::-1])


def test_small_scratch_against_the_definition() -> None:
    a = np.random.default_rng(1).standard_normal((3, 64)).astype(np.float32)
    check(transposing(3), {"a": a})


def test_scratch_buffers_lie_apart() -> None:
    row = (ramp(integer(0), 16),)
    names = [f"s{n}" for n in range(3)]
    fill = [Store(name, row, Const(float(n), F16)) for n, name in enumerate(names)]
    copy = [Store(f"o{n}", row, Load(name, row, F16)) for n, name in enumerate(names)]
    scratch = (dense(name, FLOAT32, (17,), "scratch") for name in names)
    outputs = (dense(f"o{n}", FLOAT32, (16,), "output") for n in range(3))
    check(Kernel("k", (*outputs, *scratch), ((*fill, *copy),)), {})


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 20])
def test_parts_together_are_the_loop(parts: int) -> None:
    """Each iteration once, whatever the number of parts."""
    compiled = compile_kernel(transposing(9))
    a = np.random.default_rng(1).standard_normal((9, 64)).astype(np.float32)
    out = np.zeros_like(a)
    memory = empty((parts * 4096,), np.dtype(np.uint8), 64)
    words = np.array([a.ctypes.data, out.ctypes.data, memory.ctypes.data])
    for part in range(parts):
        memory[:] = 0
        compiled.regions.steps[0][0](words.ctypes.data, 0, part, parts)
        shares = memory.reshape(parts, 4096).any(axis=1)
        assert set(np.flatnonzero(shares)) <= {part}  # no other part's memory is touched
    np.testing.assert_array_equal(out, a[:, ::-1])


def test_concurrent_calls_have_their_own_scratch() -> None:
    compiled = compile_kernel(transposing(400))

    def work(seed: int) -> None:
        a = np.random.default_rng(seed).standard_normal((400, 64)).astype(np.float32)
        for _ in range(20):
            out = np.zeros_like(a)
            run(compiled, {"a": a, "o": out}, 1)
            np.testing.assert_array_equal(out, a[:, ::-1])

    run_at_once(partial(work, seed) for seed in range(4))
    assert 1 <= len(compiled.memory.idle) <= 4


def test_scratch_is_aligned_and_kept() -> None:
    compiled = compile_kernel(transposing(3))
    a = np.zeros((3, 64), np.float32)
    run(compiled, {"a": a, "o": np.zeros_like(a)})
    (block,) = compiled.memory.idle
    assert block.scratch.ctypes.data % 64 == 0
    assert block.scratch.nbytes == int(numba.config.NUMBA_NUM_THREADS) * 4096
    run(compiled, {"a": a, "o": np.zeros_like(a)})
    assert compiled.memory.idle == [block]


def test_registers_that_are_left_are_memory() -> None:
    buffers = (
        dense("o", FLOAT32, (32,), "output"),
        dense("r", FLOAT32, (2, 16), "register"),
    )
    row = ramp(integer(0), 16)
    fill = loop("i", 2, Store("r", (I, row), Cast(ramp(I, 16), F16)))
    backward = Load("r", (plus(times(I, -1), 1), row), F16)
    copy = loop("i", 2, Store("o", (ramp(times(I, 16), 16),), backward))
    check(Kernel("k", buffers, ((fill, copy),)), {})


def test_regions_with_and_without_vectors_in_one_kernel() -> None:
    one = loop("i", 32, Store("t", (I,), Cast(I, FLOAT32)), parallel=True)
    two = loop(
        "j",
        2,
        Store("o", (ramp(times(J, 16), 16),), Load("t", (ramp(times(J, 16), 16),), F16)),
        parallel=True,
    )
    buffers = (dense("o", FLOAT32, (32,), "output"), dense("t", FLOAT32, (32,), "temporary"))
    kernel = Kernel("k", buffers, ((one,), (two,)))
    check(kernel, {})


def test_extents_of_zero() -> None:
    buffers = (dense("a", FLOAT32, (0, 16), "input"), dense("o", FLOAT32, (0, 16), "output"))
    place = (I, ramp(integer(0), 16))
    body = loop("i", 0, Store("o", place, Load("a", place, F16)), parallel=True)
    check(Kernel("k", buffers, ((body,),)), {})


@pytest.mark.parametrize("count", [64, 300])
def test_regions_of_many_locals(count: int) -> None:
    """numba's own type inference would take minutes for some hundreds of locals."""
    lets = (Let(f"s{n}", Cast(plus(I, n), FLOAT32)) for n in range(count))
    stores = (Store("o", (I, integer(n)), Var(f"s{n}", FLOAT32)) for n in range(count))
    buffers = (dense("o", FLOAT32, (4, count), "output"),)
    kernel = Kernel("k", buffers, ((loop("i", 4, *lets, *stores, parallel=True),),))
    check(kernel, {})
