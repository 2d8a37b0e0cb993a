"""Loads and stores of vectors on numba: each pattern of lanes, at the very edges of memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from tc.backends.numba.printer import print_kernel
from tc.dtypes import BOOL, DTYPES, FLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT8, DType
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import (
    Binary,
    Broadcast,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    Kernel,
    Let,
    Load,
    Ramp,
    Select,
    Stmt,
    Store,
    Var,
)
from tests.support.build import I, dense, integer, loop
from tests.support.guarded import guarded
from tests.support.kernels import Array, address
from tests.support.vectors import compile_kernel, plus, ramp, times, traced

L16 = INT64.vector(16)
DISTANCES: dict[str, Sequence[int]] = {
    **{f"step {step}": range(0, 16 * step, step) for step in (1, 2, 3, 4, 5, 7)},
    **{f"step {-step}": range(15 * step, -1, -step) for step in (1, 2, 3, 4, 5)},
    "one element": [3] * 16,
    "pairs": [lane // 2 for lane in range(16)],
    "two rows": [lane + 20 * (lane // 8) for lane in range(16)],
    "any": [5, 0, 9, 9, 31, 2, 60, 1, 7, 7, 3, 44, 12, 13, 14, 15],
}


def run_at_edges(kernel: Kernel, inputs: dict[str, Array], *, before: bool) -> dict[str, Array]:
    """Runs a kernel of one-dimensional dense buffers, each at the edge of memory; what it writes
    agrees with the definition."""
    expected = {
        b.name: np.array(inputs[b.name]) if b.name in inputs else np.ones(b.shape, b.dtype.numpy)
        for b in kernel.arguments
    }
    compiled = compile_kernel(kernel)
    with ExitStack() as stack:
        arrays = {
            name: stack.enter_context(guarded(a, before=before)) for name, a in expected.items()
        }
        places = [address(arrays[b.name]) for b in kernel.arguments]
        assert compiled.run(places, threads=1) is None
        found = {name: np.array(a) for name, a in arrays.items()}
        arrays.clear()
    assert evaluate(kernel, expected) is None
    for name, array in expected.items():
        np.testing.assert_array_equal(found[name], array, name)
    return found


def numbers(size: int, dtype: DType) -> Array:
    values = np.arange(1, size + 1) % 100
    return (values % 3 == 1 if dtype == BOOL else values).astype(dtype.numpy)


def value_of(load: Load) -> Expr:
    """The load as a value that can be computed with."""
    return Cast(load, FLOAT32.vector(load.dtype.lanes)) if load.dtype.bits == 16 else load


@pytest.mark.parametrize("before", [False, True], ids=["end", "begin"])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, BOOL, UINT8, FLOAT16], ids=str)
@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, -1, -2, -3, -4, 0])
def test_strided_loads_touch_nothing_else(step: int, dtype: DType, before: bool) -> None:
    """The first and the last element of the buffer are the first and the last that are read."""
    size = 15 * abs(step) + 1
    start = max(0, -15 * step)
    loaded = value_of(Load("a", (ramp(integer(start), 16, step),), dtype.vector(16)))
    kernel = Kernel(
        "k",
        (dense("a", dtype, (size,), "input"), dense("o", loaded.dtype.scalar, (16,), "output")),
        ((Store("o", (ramp(integer(0), 16),), loaded),),),
    )
    run_at_edges(kernel, {"a": numbers(size, dtype)}, before=before)
    text = print_kernel(kernel)
    assert ("m.gather" in text) is False


@pytest.mark.parametrize("before", [False, True], ids=["end", "begin"])
@pytest.mark.parametrize("dtype", [FLOAT32, BOOL, UINT8, FLOAT64], ids=str)
@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
def test_stores_touch_nothing_else(step: int, dtype: DType, before: bool) -> None:
    size = 15 * abs(step) + 1
    place = ramp(integer(max(0, -15 * step)), 16, step)
    loaded = Load("a", (ramp(integer(0), 16),), dtype.vector(16))
    kernel = Kernel(
        "k",
        (dense("a", dtype, (16,), "input"), dense("o", dtype, (size,), "output")),
        ((Store("o", (place,), loaded),),),
        initial=frozenset({"o"}),
    )
    run_at_edges(kernel, {"a": numbers(16, dtype)}, before=before)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("before", [False, True], ids=["end", "begin"])
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64, BOOL, FLOAT16, INT32], ids=str)
@pytest.mark.parametrize("step", [1, 2, 3, -1, -2])
@pytest.mark.parametrize("count", [1, 5, 16, 0])
def test_masked_lanes_touch_nothing(count: int, step: int, dtype: DType, before: bool) -> None:
    """Only `count` lanes exist; the number is known only when the kernel runs."""
    size = max(1, (max(count, 1) - 1) * abs(step) + 1)
    start = max(0, -(max(count, 1) - 1) * step)
    limit = Load("n", (integer(0),), INT64)
    mask = Compare("<", ramp(integer(0), 16), Broadcast(limit, L16), BOOL.vector(16))
    loaded = value_of(Load("a", (ramp(integer(start), 16, step),), dtype.vector(16), mask))
    back = Cast(loaded, FLOAT16.vector(16)) if dtype == FLOAT16 else loaded
    kernel = Kernel(
        "k",
        (
            dense("a", dtype, (size,), "input"),
            dense("n", INT64, (1,), "input"),
            dense("o", loaded.dtype.scalar, (16,), "output"),
            dense("p", dtype, (size,), "output"),
        ),
        (
            (
                Store("o", (ramp(integer(0), 16),), loaded),
                Store("p", (ramp(integer(start), 16, step),), back, mask),
            ),
        ),
        initial=frozenset({"p"}),
    )
    inputs = {"a": numbers(size, dtype), "n": np.array([count])}
    run_at_edges(kernel, inputs, before=before)


@pytest.mark.drawn(3)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("dtype", [FLOAT32, BOOL, UINT8, FLOAT64], ids=str)
@pytest.mark.parametrize("step", [2, 3, 5, -2, -4, 7])
def test_any_lanes_of_strided_loads(step: int, dtype: DType, seed: int) -> None:
    """The lanes that are left out are 0, and what they would read may lie outside of the buffer."""
    wanted = np.random.default_rng(seed).random(16) < 0.5
    used = np.flatnonzero(wanted)
    start = -min(used * step)
    size = start + max(used * step) + 1
    mask = Load("m", (ramp(integer(0), 16),), BOOL.vector(16))
    loaded = Load("a", (ramp(integer(int(start)), 16, step),), dtype.vector(16), mask)
    kernel = Kernel(
        "k",
        (
            dense("a", dtype, (int(size),), "input"),
            dense("m", BOOL, (16,), "input"),
            dense("o", dtype, (16,), "output"),
        ),
        ((Store("o", (ramp(integer(0), 16),), loaded),),),
    )
    inputs = {"a": numbers(int(size), dtype), "m": wanted}
    for before in (False, True):
        run_at_edges(kernel, inputs, before=before)


@pytest.mark.parametrize("count", [0, 1, 16])
def test_one_element_for_all_lanes_that_the_mask_keeps(count: int) -> None:
    """Where it keeps none, the element need not exist."""
    limit, place = Load("n", (integer(0),), INT64), Load("n", (integer(1),), INT64)
    mask = Compare("<", ramp(integer(0), 16), Broadcast(limit, L16), BOOL.vector(16))
    loaded = Load("a", (Broadcast(place, L16),), FLOAT32.vector(16), mask)
    kernel = Kernel(
        "k",
        (
            dense("a", FLOAT32, (2,), "input"),
            dense("n", INT64, (2,), "input"),
            dense("o", FLOAT32, (16,), "output"),
        ),
        ((Store("o", (ramp(integer(0), 16),), loaded),),),
    )
    inputs = {"a": numbers(2, FLOAT32), "n": np.array([count, 1 if count else 1 << 40])}
    run_at_edges(kernel, inputs, before=False)


def test_bool_arrays_may_hold_any_byte() -> None:
    given = np.tile(np.array([0, 1, 2, 255], np.uint8), 4)
    place = (ramp(integer(0), 16),)
    kernel = Kernel(
        "k",
        (dense("a", BOOL, (16,), "input"), dense("o", BOOL, (16,), "output")),
        ((Store("o", place, Load("a", place, BOOL.vector(16))),),),
    )
    out = np.zeros(16, np.bool_)
    assert compile_kernel(kernel).run([address(given), address(out)]) is None
    assert out.view(np.uint8).tolist() == (given != 0).tolist()


def below(count: int) -> Expr:
    return Compare("<", ramp(integer(0), 16), Const(count, L16), BOOL.vector(16))


ODD = Compare(
    "==",
    Binary("%", ramp(integer(0), 16), Const(2, L16), L16),
    Const(1, L16),
    BOOL.vector(16),
)
MASKS: dict[str, tuple[Expr, int]] = {
    **{f"below {count}": (below(count), max(count, 1)) for count in (0, 1, 7, 16)},
    "odd": (ODD, 16),
    "all": (Const(True, BOOL.vector(16)), 16),
    "none": (Const(False, BOOL.vector(16)), 1),
}


@pytest.mark.parametrize("name", MASKS)
def test_constant_masks(name: str) -> None:
    mask, needed = MASKS[name]
    place = ramp(integer(0), 16)
    kernel = Kernel(
        "k",
        (
            dense("a", FLOAT32, (needed,), "input"),
            dense("o", FLOAT32, (16,), "output"),
            dense("p", FLOAT32, (needed,), "output"),
        ),
        (
            (
                Store("o", (place,), Load("a", (place,), FLOAT32.vector(16), mask)),
                Store("p", (place,), Const(7.0, FLOAT32.vector(16)), mask),
            ),
        ),
        initial=frozenset({"p"}),
    )
    run_at_edges(kernel, {"a": numbers(needed, FLOAT32)}, before=False)


@pytest.mark.parametrize("holds", [False, True])
@pytest.mark.parametrize("dtype", [FLOAT32, INT32, INT64, FLOAT64, UINT8], ids=str)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8, 9])
def test_masks_of_a_condition_and_the_first_lanes(count: int, dtype: DType, *, holds: bool) -> None:
    """Lanes that are known to be left out, all of a register: LLVM 22 reads them for AVX2, and what
    they hold is that, or LLVM ends the process."""
    lanes, place = BOOL.vector(16), ramp(integer(0), 16)
    condition = Compare("==", Load("n", (integer(0),), INT64), integer(1), BOOL)
    mask = Binary("&", Broadcast(condition, lanes), below(count), lanes)
    loaded = Load("a", (place,), dtype.vector(16), mask)
    nine = Const(9.0 if dtype.is_float else 9, dtype.vector(16))
    chosen = Select(mask, loaded, nine, dtype.vector(16))
    for value in (loaded, chosen, Binary("+", chosen, nine, dtype.vector(16))):
        kernel = Kernel(
            "k",
            (
                dense("a", dtype, (count,), "input"),
                dense("n", INT64, (1,), "input"),
                dense("o", dtype, (16,), "output"),
            ),
            ((Store("o", (place,), value),),),
        )
        inputs = {"a": numbers(count, dtype), "n": np.array([int(holds)])}
        run_at_edges(kernel, inputs, before=False)


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if not d.is_storage], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_gather_and_scatter(masked: bool, dtype: DType) -> None:
    """Indices known only when the kernel runs; wild ones where the mask is false."""
    rng = np.random.default_rng(5)
    places = rng.permutation(16)
    place = Load("i", (ramp(integer(0), 16),), L16)
    mask = None
    if masked:
        mask = Compare("<", place, Const(16, L16), BOOL.vector(16))
        places = np.where(places % 3 == 0, places + (1 << 40), places)
    loaded = Load("a", (place,), dtype.vector(16), mask)
    kernel = Kernel(
        "k",
        (
            dense("a", dtype, (16,), "input"),
            dense("i", INT64, (16,), "input"),
            dense("o", dtype, (16,), "output"),
            dense("p", dtype, (16,), "output"),
        ),
        ((Store("o", (ramp(integer(0), 16),), loaded), Store("p", (place,), loaded, mask)),),
        initial=frozenset({"p"}),
    )
    run_at_edges(kernel, {"a": numbers(16, dtype), "i": places}, before=False)


@pytest.mark.parametrize("lanes", [2, 4, 16])
def test_gather_from_rows(lanes: int) -> None:
    """Scalar, constant and gathered indices together, in a buffer of three dimensions."""
    place = Cast(
        Load("places", (ramp(integer(0), lanes),), INT32.vector(lanes)), INT64.vector(lanes)
    )
    row = Binary("*", place, Const(2, INT64.vector(lanes)), INT64.vector(lanes))
    wide = FLOAT32.vector(lanes)
    body = Store(
        "o", (I, ramp(integer(0), lanes)), Load("a", (I, row, ramp(integer(1), lanes)), wide)
    )
    kernel = Kernel(
        "k",
        (
            dense("a", FLOAT32, (3, 9, lanes + 1), "input"),
            dense("places", INT32, (lanes,), "input"),
            dense("o", FLOAT32, (3, lanes), "output"),
        ),
        ((loop("i", 3, body),),),
    )
    rng = np.random.default_rng(2)
    a = rng.standard_normal((3, 9, lanes + 1)).astype(np.float32)
    i = rng.integers(0, 5, lanes).astype(np.int32)
    found = {"a": a, "places": i, "o": np.ones((3, lanes), np.float32)}
    expected = {**found, "o": np.ones((3, lanes), np.float32)}
    assert compile_kernel(kernel).run([address(x) for x in found.values()]) is None
    evaluate(kernel, expected)
    np.testing.assert_array_equal(found["o"], expected["o"])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.bool_, np.uint8])
@pytest.mark.parametrize("what", DISTANCES)
def test_patterns_of_lanes(what: str, dtype: type[np.generic]) -> None:
    """Constant distances of lanes read, by contiguous loads where they are near each other, and
    written; at both edges of memory."""
    distances = DISTANCES[what]
    values = numbers(max(distances) + 1, DTYPES[np.dtype(dtype).name])
    unique = len(set(distances)) == 16

    def copy(m: Any, arguments: Any, _failure: Any, _part: Any, _parts: Any) -> None:
        source, target = m.read_only(arguments, 0, dtype), m.writable(arguments, 1, dtype)
        found = m.load(source, 0, distances)
        m.store(target, 0, found)
        if unique:
            m.store(m.writable(arguments, 2, dtype), 0, found, lanes=distances)

    for before in (False, True):
        with ExitStack() as stack:
            given, found, back = (
                stack.enter_context(guarded(a, before=before))
                for a in (values, np.zeros(16, dtype), np.zeros(len(values), dtype))
            )
            traced(copy, given, found, back)
            np.testing.assert_array_equal(found, values[list(distances)])
            expected = np.zeros(len(values), dtype)
            if unique:
                expected[list(distances)] = values[list(distances)]
            np.testing.assert_array_equal(back, expected)
            del given, found, back


def test_lanes_of_several_dimensions_become_one_ramp() -> None:
    """i * 40 + 8 * lane + 2 * lane is a ramp of step 10, and the reversed row one of step -1."""
    lanes = INT64.vector(4)
    diagonal = Load("a", (I, ramp(integer(0), 4), ramp(integer(0), 4)), FLOAT32.vector(4))
    local = Let("l", Binary("-", Const(3, lanes), ramp(integer(0), 4), lanes))
    backward = Load("b", (Var("l", lanes),), FLOAT32.vector(4))
    out = (I, ramp(integer(0), 4))
    total = Binary("+", diagonal, backward, FLOAT32.vector(4))
    kernel = Kernel(
        "k",
        (
            Buffer("a", FLOAT32, (2, 4, 4), (40, 8, 2), "input"),
            dense("b", FLOAT32, (4,), "input"),
            dense("o", FLOAT32, (2, 4), "output"),
        ),
        ((loop("i", 2, local, Store("o", out, total)),),),
    )
    text = print_kernel(kernel)
    assert "m.load(a, i * 40, range(0, 40, 10))" in text
    assert "m.load(b, 3, range(0, -4, -1))" in text
    big = np.arange(80, dtype=np.float32)
    a = np.lib.stride_tricks.as_strided(big, (2, 4, 4), (160, 32, 8))
    b, o = np.arange(4, dtype=np.float32), np.zeros((2, 4), np.float32)
    assert compile_kernel(kernel).run([address(x) for x in (a, b, o)]) is None
    np.testing.assert_array_equal(o, np.einsum("ijj->ij", a) + b[::-1])


def test_reversed_input() -> None:
    """A negative stride: lanes run backward through memory."""
    x = np.arange(32, dtype=np.float32)
    kernel = Kernel(
        "k",
        (Buffer("a", FLOAT32, (32,), (-1,), "input"), dense("o", FLOAT32, (32,), "output")),
        (
            (
                loop(
                    "i",
                    2,
                    Store(
                        "o",
                        (ramp(times(I, 16), 16),),
                        Load("a", (ramp(times(I, 16), 16),), FLOAT32.vector(16)),
                    ),
                ),
            ),
        ),
    )
    o = np.zeros(32, np.float32)
    assert compile_kernel(kernel).run([address(x[::-1]), address(o)]) is None
    np.testing.assert_array_equal(o, x[::-1])


def test_offsets_beyond_32_bits_are_gathered() -> None:
    """A buffer of few elements that are far apart, by its stride."""
    far = (1 << 29) + 7
    place = Load("i", (ramp(integer(0), 4),), INT64.vector(4))
    kernel = Kernel(
        "k",
        (
            Buffer("a", UINT8, (5,), (far,), "input"),
            dense("i", INT64, (4,), "input"),
            dense("o", UINT8, (4,), "output"),
        ),
        ((Store("o", (ramp(integer(0), 4),), Load("a", (place,), UINT8.vector(4))),),),
    )
    assert "wide=True" in print_kernel(kernel)
    a = np.zeros(4 * far + 1, np.uint8)
    a[::far] = [1, 2, 3, 4, 5]
    i, o = np.array([4, 0, 3, 1]), np.zeros(4, np.uint8)
    assert compile_kernel(kernel).run([address(x) for x in (a, i, o)]) is None
    assert o.tolist() == [5, 1, 4, 2]


def test_alignment_is_claimed_only_where_it_is_certain() -> None:
    def line(place: Expr) -> str:
        stmt: Stmt = Store("s", (place,), Const(1.0, FLOAT32.vector(16)))
        buffers = (dense("s", FLOAT32, (4096,), "scratch"),)
        kernel = Kernel("k", buffers, ((loop("i", 2, Let("t", times(I, 8)), stmt),),))
        return next(x for x in print_kernel(kernel).splitlines() if "m.store" in x)

    t = Var("t", INT64)
    for place, aligned in (
        (times(I, 16), True),
        (plus(times(I, 32), 48), True),
        (plus(times(t, 2), 16), True),
        (times(I, 8), False),
        (plus(times(I, 16), 8), False),
        (plus(times(I, 16), t), False),
    ):
        assert ("aligned=True" in line(Ramp(place, 1, L16))) is aligned, place


def test_offsets_are_sums_of_products() -> None:
    row = plus(times(plus(I, 3), 2), Var("j", INT64))
    kernel = Kernel(
        "k",
        (dense("a", FLOAT32, (99, 100), "input"), dense("o", FLOAT32, (16,), "output")),
        (
            (
                loop(
                    "i",
                    1,
                    loop(
                        "j",
                        1,
                        Store(
                            "o",
                            (ramp(integer(0), 16),),
                            Load("a", (row, ramp(I, 16)), FLOAT32.vector(16)),
                        ),
                    ),
                ),
            ),
        ),
    )
    (text,) = re.findall(r"m\.load\(a, (.*), 16\)", print_kernel(kernel))
    assert text == "i * 201 + j * 100 + 600"
