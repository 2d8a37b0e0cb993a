"""What the functions on exponents mean."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tc.builtins import BUILTINS
from tc.dtypes import FLOAT32, FLOAT64, DType
from tc.kernel.math.exponents import scaleb, significand
from tests.support.exponents import exponent_pairs

FLOATS = (FLOAT32, FLOAT64)


def rounded(value: Fraction, dtype: Any) -> Any:
    """The nearest float, the even one of two."""
    info = np.finfo(dtype)
    size = value.numerator.bit_length() - value.denominator.bit_length()  # or one less
    if size > info.maxexp:
        return dtype(np.inf if value > 0 else -np.inf)
    exponent = max(int(info.minexp), size - 1) - info.nmant
    if abs(value) >= Fraction(2) ** (exponent + info.nmant + 1):
        exponent += 1
    whole = round(value / Fraction(2) ** exponent)
    if abs(whole) * Fraction(2) ** exponent >= Fraction(2) ** int(info.maxexp):
        return dtype(math.copysign(np.inf, whole))
    return dtype(math.ldexp(whole, exponent))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_scaleb_rounds_once(dtype: DType) -> None:
    xs, ns = exponent_pairs(dtype, 3000)
    with np.errstate(all="ignore"):
        found = scaleb(xs, ns)
    assert found.dtype == dtype.numpy
    finite = np.isfinite(xs) & np.isfinite(ns) & (np.abs(ns) < 5000)
    assert finite.sum() > 1000
    for x, n, one in zip(xs[finite], ns[finite], found[finite], strict=True):
        wanted = rounded(Fraction(float(x)) * Fraction(2) ** math.floor(n), dtype.numpy.type)
        assert one == wanted, (x, n)
        assert np.signbit(one) == np.signbit(x)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_scaleb_at_the_ends(dtype: DType) -> None:
    inf, nan = np.inf, np.nan
    table = [
        (1.0, inf, inf), (-1.0, inf, -inf), (0.0, inf, nan), (inf, inf, inf), (inf, -inf, nan),
        (1.0, -inf, 0.0), (-0.0, -inf, -0.0), (nan, 1.0, nan), (1.0, nan, nan), (0.0, 1e30, 0.0),
        (inf, -1e30, inf), (-inf, 2.0, -inf), (1.0, 1e30, inf), (-1.0, -1e30, -0.0),
        (nan, nan, nan), (nan, inf, inf), (nan, -inf, 0.0),
    ]  # fmt: skip
    x, n, wanted = (np.array(column, dtype.numpy) for column in zip(*table, strict=True))
    with np.errstate(all="ignore"):
        found = scaleb(x, n)
    np.testing.assert_array_equal(found, wanted)
    is_number = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found[is_number]), np.signbit(wanted[is_number]))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_a_number_is_its_significand_times_a_power(dtype: DType) -> None:
    x, _ = exponent_pairs(dtype, 3000)
    with np.errstate(all="ignore"):
        logb = BUILTINS["logb"].numpy
        found = significand(x)
        exponent = np.asarray(logb(x)) - np.asarray(logb(found))
        assert found.dtype == dtype.numpy
        common = (x > 0) & (x < np.inf)
        assert ((found[common] >= 0.75) & (found[common] < 1.5)).all()
        np.testing.assert_array_equal(scaleb(found, exponent)[common], x[common])
    assert np.isnan(found[~(x >= 0)]).all()
    np.testing.assert_array_equal(found[x == 0], np.copysign(1, x[x == 0]))
    assert (found[x == np.inf] == 1).all()
