"""The bound of results that are computed with `GpuOptions(tf32=True)`: whatever is rounded to tf32
before it is multiplied, in whatever order factors meet, results lie within; and no farther than
such roundings go."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tc
from tests.support.bounds import assert_within, difference
from tests.support.ptx.arithmetic import to_tf32

ROUNDED = tc.Options(gpu=tc.GpuOptions(tf32=True))
Array = np.ndarray[Any, Any]


def rounded(x: Array) -> Array:
    """As cvt.rna.tf32.f32 of PTX rounds, in double."""
    with np.errstate(all="ignore"):
        return to_tf32(x.astype(np.float32)).view(np.float32).astype(np.float64)


def text_of(factors: int) -> str:
    names = [f"A{n}" for n in range(factors)]
    inputs = ", ".join(f"float(N{n},N{n + 1}) {name}" for n, name in enumerate(names))
    term = " * ".join(f"{name}(i{n},i{n + 1})" for n, name in enumerate(names))
    return f"def f({inputs}) -> (o) {{ o(i0,i{factors}) +=! {term} }}"


def chained(matrices: list[Array], rng: random.Random, rounds: bool = True) -> Array:
    """The product of some matrices, neighbours in any order, each rounded or not."""
    found = [m.astype(np.float64) for m in matrices]
    while len(found) > 1:
        at = rng.randrange(len(found) - 1)
        one, other = (rounded(m) if rounds else m for m in found[at : at + 2])
        with np.errstate(all="ignore"):
            found[at : at + 2] = [(one @ other).astype(np.float32).astype(np.float64)]
    return found[0].astype(np.float32)


@pytest.mark.parametrize("scale", ["ones", "any", "tiny", "integers"])
@pytest.mark.parametrize("factors", [2, 3, 4])
def test_products(factors: int, scale: str) -> None:
    rng = np.random.default_rng(factors)
    for seed in range(20):
        sizes = rng.integers(1, (40, 25, 16)[factors - 2], factors + 1)
        matrices = []
        for shape in pairwise(sizes):
            values = rng.standard_normal(shape)
            if scale == "integers":
                values = rng.integers(-9, 10, shape).astype(np.float64)
            elif scale != "ones":
                low, high = (-90, 90) if scale == "any" else (-149, -100)
                values = values * 2.0 ** (rng.integers(low, high, shape) / factors)
            values[rng.random(shape) < 0.1] = 0
            matrices.append(values.astype(np.float32))
        inputs = {f"A{n}": matrix for n, matrix in enumerate(matrices)}
        expected = tc.interpret(text_of(factors), inputs)
        bound = tc.error_bound(text_of(factors), inputs, options=ROUNDED)
        plain = tc.error_bound(text_of(factors), inputs)
        assert (bound + 1e-40 >= plain).all()  # which grants zeros a subnormal number
        for rounds in (True, False):
            result = chained(matrices, random.Random(seed), rounds)
            assert_within(result, expected, bound)
        terms = abs(matrices[0].astype(np.float64))
        for matrix in matrices[1:]:
            terms = terms @ abs(matrix.astype(np.float64))
        if scale in ("ones", "integers"):
            roundings = 2 * (factors - 1) * 2.0**-11
            if scale == "ones":  # sums of integers that are rounded are no longer exact
                assert (bound <= 1.01 * (roundings * terms + plain) + 1e-30).all()
            known = terms > 0
            assert (bound[known] >= 0.99 * roundings * terms[known]).all()


def test_what_is_rounded_is_beyond_the_plain_bound() -> None:
    a = np.full((1, 100), 1 + 2.0**-11, np.float32)
    text = "def f(float(N,K) A) -> (o) { o(i) +=! A(i,k) * A(i,k) }"
    result = (rounded(a) ** 2).sum(axis=1).astype(np.float32)
    expected = tc.interpret(text, A=a)
    assert difference(result, expected, tc.error_bound(text, A=a))
    assert_within(result, expected, tc.error_bound(text, A=a, options=ROUNDED))


def bound_of(a: Any, b: Any, kind: str = "float") -> float:
    text = f"def f({kind}(N) a, {kind}(N) b) -> (o) {{ o +=! a(i) * b(i) }}"
    dtype = {"float": np.float32, "double": np.float64, "int": np.int32, "half": np.float16}[kind]
    return float(tc.error_bound(text, np.array(a, dtype), np.array(b, dtype), options=ROUNDED))


def test_edges() -> None:
    largest = float(np.finfo(np.float32).max)
    assert bound_of([0, 0], [3, 1e30]) == 0
    assert bound_of([1], [largest]) == np.inf  # it rounds to infinity
    assert bound_of([1], [largest * 0.999]) < largest
    assert bound_of([2.0**-130], [1.0]) >= 2.0**-130  # which may be 0
    assert bound_of([np.inf], [2.0]) == 0
    assert bound_of([np.nan], [2.0]) == 0
    assert bound_of([3.3, 1e10], [2.2, 1e-3], "double") < 1e-7
    assert bound_of([3, 5], [7, 9], "int") == 0
    assert 0 < bound_of([3.3, 5], [7, 9.1], "half") < 0.2


def test_other_options_change_no_bound() -> None:
    x = np.random.default_rng(0).standard_normal((20, 20)).astype(np.float32)
    text = "def f(float(N,K) A) -> (o) { o(i) +=! A(i,k) * A(i,k) }"
    bounds = [
        tc.error_bound(text, x, options=options)
        for options in (None, tc.Options(), tc.Options(gpu=tc.GpuOptions(unroll=4)))
    ]
    for other in bounds[1:]:
        np.testing.assert_array_equal(other, bounds[0])
    with pytest.raises(tc.BackendError, match=r"options= is a tc.Options"):
        tc.error_bound(text, x, options=3)  # type: ignore[arg-type]
