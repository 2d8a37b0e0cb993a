"""Quotients of vectors by one scalar as products: the same bits as by division."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

import tc
from tc.backends.numba.backend import NumbaKernel
from tc.dtypes import FLOAT32, FLOAT64, INT64, DType
from tc.kernel.evaluate import evaluate
from tc.kernel.ir import Binary, Broadcast, Expr, If, Kernel, Let, Load, Ramp, Stmt, Store, Var
from tc.kernel.passes.reciprocal_division import (
    DIVIDENDS,
    DIVISORS,
    LEAST,
    MOST,
    divide_by_reciprocals,
)
from tc.kernel.verify import verify
from tests.support.build import dense, integer
from tests.support.vectors import compile_kernel, run

LANES, SIZE = 4, 32
Floats = NDArray[np.float32]


def at(number: int) -> Expr:
    return Ramp(integer(LANES * number), 1, INT64.vector(LANES))


def kernel(count: int, *, dtype: DType = FLOAT32, source: str = "x", extra: str = "") -> Kernel:
    """A kernel of quotients of `count` vectors by y, with a store to the buffer `extra` before
    them."""
    wide = dtype.vector(LANES)
    size = count * LANES
    buffers = (
        dense("x", dtype, (size,), "input"),
        dense("y", dtype, (1,), "output" if extra == "y" else "input"),
        dense("o", dtype, (size,), "output"),
    )
    stmts: list[Stmt] = [Let("v", Broadcast(Load("y", (integer(0),), dtype), wide))]
    if extra:
        stmts.append(Store(extra, (integer(0),), Load("x", (integer(0),), dtype)))
    for number in range(count):
        x = Load(source, (at(number),), wide)
        stmts.append(Store("o", (at(number),), Binary("/", x, Var("v", wide), wide)))
    return Kernel("k", buffers, (tuple(stmts),))


def count_tests(changed: Kernel) -> int:
    return sum(isinstance(stmt, If) for stmt in changed.regions[0])


@cache
def compiled() -> NumbaKernel:
    """The changed kernel for `SIZE` numbers, compiled: the multiply-add of `evaluate` may round
    twice."""
    changed = divide_by_reciprocals(kernel(SIZE // LANES))
    assert count_tests(changed) == 1
    verify(changed)
    return compile_kernel(changed)


def quotients(x: Floats, y: float) -> Floats:
    found = np.zeros_like(x)
    run(compiled(), {"x": x, "o": found, "y": np.array([y], np.float32)}, threads=None)
    return found


def test_evaluated() -> None:
    x = np.random.default_rng(1).integers(-50, 50, SIZE).astype(np.float32)
    arrays = {"x": x, "y": np.full(1, 7, np.float32), "o": np.zeros_like(x)}
    changed = divide_by_reciprocals(kernel(SIZE // LANES))
    assert evaluate(changed, arrays) is None
    np.testing.assert_array_equal(arrays["o"], x / np.float32(7))


def near_midpoints(y: int) -> Floats:
    """Dividends from 2**23 to 2**24 whose quotients by an odd y of that range lie as near to half
    way between two floats as any."""
    found = []
    for bits, offset in ((b, d) for b in (24, 25) for d in (-5, -3, -2, -1, 1, 2, 3, 5)):
        middle = -offset * pow(y, -1, 2**bits) % 2**bits
        for twice in {middle, middle + 2**24}:
            x, rest = divmod(twice * y + offset, 2**bits)
            if 2**24 <= twice < 2**25 and twice % 2 and not rest and 2**23 <= x < 2**24:
                found.append(x)
    return np.array(found, np.float32)


def same_bits(found: Floats, wanted: Floats) -> None:
    np.testing.assert_array_equal(np.isnan(found), np.isnan(wanted))
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(found[numbers].view(np.int32), wanted[numbers].view(np.int32))


def test_the_hardest_quotients() -> None:
    rng, seen = np.random.default_rng(3), 0
    for y in [2**24 - 1, 2**23 + 1, *(rng.integers(2**22, 2**23, 60) * 2 + 1).tolist()]:
        x = near_midpoints(y)
        seen += len(x)
        x = np.resize(x, SIZE) if len(x) else np.full(SIZE, 2**23, np.float32)
        x *= np.ldexp(np.float32(1), rng.integers(-60, 30, SIZE)).astype(np.float32)
        same_bits(quotients(x, y), x / np.float32(y))
    assert seen > 200


@pytest.mark.parametrize("scale", [*DIVISORS, 1e-38, 1e-44, 3e38, 0.0, -0.0, np.inf, np.nan, -7.0])
def test_quotients_at_the_ends(scale: float) -> None:
    ends = [*DIVIDENDS, 0.0, 1e-45, 1.1754942e-38, 2e-30, 3.4e38, np.inf, np.nan, 1.0, 3.0]
    rng = np.random.default_rng(5)
    for end in ends:
        x = rng.uniform(0.5, 2, SIZE).astype(np.float32)
        for value in (end, -end, np.nextafter(np.float32(end), np.float32(0))):
            x[11] = value
            with np.errstate(all="ignore"):
                wanted = x / np.float32(scale)
            same_bits(quotients(x, scale), wanted)
            same_bits(quotients(np.full(SIZE, value, np.float32), scale), np.full(SIZE, wanted[11]))


@pytest.mark.parametrize(
    ("count", "tests"), [(LEAST - 1, 0), (LEAST, 1), (MOST, 1), (MOST + 1, 1), (2 * MOST, 2)]
)
def test_several_divisions_pay(count: int, tests: int) -> None:
    assert count_tests(divide_by_reciprocals(kernel(count))) == tests


def test_what_stays() -> None:
    assert divide_by_reciprocals(kernel(8, dtype=FLOAT64)) == kernel(8, dtype=FLOAT64)
    # dividends that a store before may change, and a scalar that is no longer in memory
    assert divide_by_reciprocals(kernel(8, source="o")) == kernel(8, source="o")
    assert divide_by_reciprocals(kernel(8, extra="y")) == kernel(8, extra="y")
    assert count_tests(divide_by_reciprocals(kernel(8, extra="o"))) == 1


@pytest.mark.parametrize("backend", ["numba", "c"])
@pytest.mark.parametrize("size", [4096, 1021])
def test_rows_divided_by_their_sums(backend: str, size: int) -> None:
    rng = np.random.default_rng(7)
    x = rng.uniform(0, 1, (24, size)).astype(np.float32)
    x[1] *= 1e-40
    x[2] *= 1e30
    x[3, 5], x[4, 6], x[5, 7], x[6] = np.inf, np.nan, 0.0, 0.0
    y = np.abs(rng.normal(size=24)).astype(np.float32)
    y[8:12] = 1e-42, 1e38, 0.0, np.inf
    divide = tc.compile("def f(float(N, D) x, float(N) y) -> (o) { o(n, d) = x(n, d) / y(n) }",
                        backend=backend)  # fmt: skip
    with np.errstate(all="ignore"):
        same_bits(np.asarray(divide(x, y)), x / y[:, None])
