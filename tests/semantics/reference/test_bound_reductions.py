"""Bounds of reductions (R5): any legal order, rounding or contraction stays within them, and
they are not absurdly wide."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tc.builtins import BUILTINS
from tc.dtypes import BOOL, FLOAT32, FLOAT64, INT8, INT32, INT64, DType
from tc.semantics.reference.error_bound import Bounded
from tc.semantics.reference.folds import BoxFold
from tc.semantics.reference.uncertain import ZERO, Uncertain, grid_of
from tests.support.bounds import assert_within

BOUNDED = Bounded()
UFUNCS = {"+": np.add, "*": np.multiply, "min": np.minimum, "max": np.maximum}


def reduced(op: str, terms: Uncertain, dtype: DType, blocks: int = 3) -> Uncertain:
    """The reduction of a vector as the interpreter runs it, in several blocks."""
    with np.errstate(all="ignore"):
        reduction = BOUNDED.start(op, None, (), dtype)
        for part in np.array_split(np.arange(terms.value.size), min(blocks, terms.value.size)):
            error = terms.error if terms.is_exact else terms.error[part]
            block = Uncertain(terms.value[part], error, terms.grid)
            reduction = BOUNDED.accumulate(reduction, block, BoxFold((part.size,), 0))
        return BOUNDED.finish(reduction)


def orders(op: str, terms: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    """The same reduction in other orders: shuffled, backwards, sorted, in a tree, in lanes."""
    ufunc = UFUNCS[op]

    def sequential(values: np.ndarray) -> np.ndarray:
        return ufunc.accumulate(values, dtype=values.dtype)[-1]

    def tree(values: np.ndarray) -> np.ndarray:
        while values.size > 1:
            half = values.size // 2
            rest = values[2 * half :]
            values = np.concatenate([ufunc(values[:half], values[half : 2 * half]), rest])
        return values[0]

    with np.errstate(all="ignore"):
        results = [sequential(terms), sequential(terms[::-1]), tree(terms)]
        by_size = terms[np.argsort(np.abs(terms.astype(np.float64)))]
        results += [sequential(by_size), sequential(by_size[::-1]), sequential(np.sort(terms))]
        for _ in range(5):
            shuffled = rng.permutation(terms)
            results += [sequential(shuffled), tree(shuffled)]
        lanes = [sequential(terms[lane::4]) for lane in range(4) if terms[lane::4].size]
        results.append(sequential(np.array(lanes, terms.dtype)))
    return results


def check_all_orders(op: str, terms: Uncertain, dtype: DType, rng: np.random.Generator) -> float:
    result = reduced(op, terms, dtype)
    error = float(result.error)
    for _ in range(4):
        values = terms.value
        if not terms.is_exact:
            finite = np.where(terms.error < np.inf, terms.error, 0.0)
            steps = rng.choice([-1.0, -0.5, 0.0, 0.5, 1.0], values.shape)
            with np.errstate(all="ignore"):
                moved = (values.astype(np.float64) + steps * finite).astype(values.dtype)
                apart = np.abs(moved.astype(np.float64) - values.astype(np.float64))
            values = np.where(apart <= finite, moved, values)
        for other in orders(op, values, rng):
            assert_within(np.asarray(other), result.value, error)
    return error


def data(kind: str, size: int, dtype: DType, rng: np.random.Generator) -> np.ndarray:
    normal = rng.standard_normal(size)
    with np.errstate(all="ignore"):
        match kind:
            case "normal":
                values = normal
            case "cancelling":
                values = np.concatenate([normal[: size // 2] * 1e6, -normal[: size // 2] * 1e6])
                values = np.concatenate([values, normal[: size - values.size]])
            case "wide":
                values = normal * 10.0 ** rng.integers(-40, 38, size)
            case "tiny":
                values = normal * float(np.finfo(dtype.name).smallest_normal)
            case "near one":
                values = 1 + 0.1 * normal
            case "zeros":
                values = normal * (rng.random(size) < 0.5)
            case "special":
                values = np.where(
                    rng.random(size) < 2 / size, rng.choice([np.inf, -np.inf, np.nan], size), normal
                )
            case _:
                values = rng.integers(-8, 9, size)
        return values.astype(dtype.numpy)


KINDS = ("normal", "cancelling", "wide", "tiny", "near one", "zeros", "special", "whole")


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_any_order_of_exact_terms(op: str, dtype: DType, kind: str) -> None:
    rng = np.random.default_rng(1)
    for size in (1, 2, 7, 60, 300):
        values = data(kind, size, dtype, rng)
        check_all_orders(op, Uncertain(values, ZERO, grid_of(values)), dtype, rng)


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_any_order_of_uncertain_terms(op: str, dtype: DType, kind: str) -> None:
    rng = np.random.default_rng(2)
    for size in (1, 5, 60):
        values = data(kind, size, dtype, rng)
        with np.errstate(all="ignore"):
            error = np.abs(values.astype(np.float64)) * 10.0 ** rng.integers(-8, 1, size)
            error = np.where(rng.random(size) < 0.3, 0.0, error)
        error = np.where(np.isfinite(values), error, 0.0)
        check_all_orders(op, Uncertain(values, error), dtype, rng)


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_unknown_terms_make_the_result_unknown(dtype: DType) -> None:
    values = np.array([1.0, 2.0, 3.0]).astype(dtype.numpy)
    for op in UFUNCS:
        result = reduced(op, Uncertain(values, np.array([0.0, np.inf, 0.0])), dtype)
        assert result.error == np.inf
        nan = np.array([np.nan, 2.0, 3.0]).astype(dtype.numpy)
        known_nan = reduced(op, Uncertain(nan, np.array([0.0, np.inf, 0.0])), dtype)
        assert known_nan.error == 0.0


@pytest.mark.parametrize("op", UFUNCS)
@pytest.mark.parametrize("dtype", [INT8, INT32, INT64], ids=str)
def test_integers_are_exact_in_any_order(op: str, dtype: DType) -> None:
    rng = np.random.default_rng(3)
    info = np.iinfo(dtype.name)
    values = rng.integers(info.min, info.max, 99, dtype=dtype.numpy, endpoint=True)
    assert check_all_orders(op, Uncertain(values, ZERO, grid_of(values)), dtype, rng) == 0.0


def test_a_count_of_conditions_that_may_flip() -> None:
    flips = np.array([0.0, 1.0, 1.0, 0.0])
    terms = Uncertain(np.array([1, 0, 1, 1], np.int32), flips)
    assert 2.0 <= reduced("+", terms, INT32).error <= 2.001
    assert reduced("min", Uncertain(np.array([True, True]), flips[:2]), BOOL).error == 1.0


@pytest.mark.parametrize("dtype", [FLOAT32, FLOAT64], ids=str)
def test_dot_product_is_neither_exceeded_nor_absurd(dtype: DType) -> None:
    """1024 well-scaled terms: the bound is below 4 n u sum|terms|, above the real differences,
    fused or not."""
    rng = np.random.default_rng(4)
    a, b = (rng.standard_normal(1024).astype(dtype.numpy) for _ in range(2))
    operands = (Uncertain(a, ZERO, grid_of(a)), Uncertain(b, ZERO, grid_of(b)))
    result = reduced("+", BOUNDED.binary("*", *operands, dtype), dtype)
    error = float(result.error)
    unit = 2.0 ** (-24 if dtype == FLOAT32 else -53)
    total = float(np.abs(a.astype(np.longdouble) * b.astype(np.longdouble)).sum())
    assert error <= 4 * 1024 * unit * total
    for other in orders("+", a * b, rng):
        assert_within(np.asarray(other), result.value, error)
    fused = np.zeros((), dtype.numpy)
    for x, y in zip(a, b, strict=True):
        fused = np.asarray(BUILTINS["fma"].numpy(x, y, fused))
    assert_within(fused, result.value, error)
    exact = sum((Fraction(float(x)) * Fraction(float(y)) for x, y in zip(a, b, strict=True)))
    assert abs(Fraction(float(result.value)) - exact) <= Fraction(error)


def test_whole_numbers_in_floats_stay_exact() -> None:
    rng = np.random.default_rng(5)
    a, b = (rng.integers(-8, 9, 500).astype(np.float32) for _ in range(2))
    operands = (Uncertain(a, ZERO, grid_of(a)), Uncertain(b, ZERO, grid_of(b)))
    assert reduced("+", BOUNDED.binary("*", *operands, FLOAT32), FLOAT32).is_exact
    assert reduced("*", Uncertain(a[:4], ZERO, grid_of(a[:4])), FLOAT32).is_exact
    assert not reduced("*", Uncertain(a + 3, ZERO, grid_of(a + 3)), FLOAT32).is_exact
    # 2 ** 24 is where float32 begins to skip whole numbers
    large = np.full(3, 2.0**23, np.float32)
    assert not reduced("+", Uncertain(large, ZERO, grid_of(large)), FLOAT32).is_exact


def test_overflow_in_some_order_is_an_infinite_bound() -> None:
    values = np.array([3e38, 3e38, -3e38, -3e38], np.float32)
    assert reduced("+", Uncertain(values, ZERO, grid_of(values)), FLOAT32).error == np.inf
    factors = np.array([1e30, 1e-30, 1e30, 1e-30], np.float32)
    assert reduced("*", Uncertain(factors, ZERO, grid_of(factors)), FLOAT32).error == np.inf


def test_underflow_in_some_order() -> None:
    factors = np.array([1e15, 1e-23, 1e-20], np.float32)
    result = reduced("*", Uncertain(factors, ZERO, grid_of(factors)), FLOAT32)
    late = factors[0] * (factors[1] * factors[2])
    assert abs(late - result.value) > 1e-4 * result.value
    assert_within(np.asarray(late), result.value, result.error)


def test_infinite_terms() -> None:
    plus = np.array([1.0, np.inf, 2.0], np.float32)
    result = reduced("+", Uncertain(plus, ZERO, grid_of(plus)), FLOAT32)
    assert result.value == np.inf
    assert result.error == 0.0
    both = np.array([np.inf, -np.inf], np.float32)
    result = reduced("+", Uncertain(both, ZERO, grid_of(both)), FLOAT32)
    assert np.isnan(result.value)
    assert result.error == 0.0
