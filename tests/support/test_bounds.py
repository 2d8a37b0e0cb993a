"""The comparison itself: it must fail where results are wrong, or every other test is void."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.bounds import assert_within


def f32(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_shape_before_values() -> None:
    with pytest.raises(AssertionError, match=r"shape \(1, 2\), expected \(2,\)"):
        assert_within(f32(1, 2)[None], f32(1, 2), np.inf)
    with pytest.raises(AssertionError, match="shape"):
        assert_within(np.float32(1), f32(1, 1))


def test_dtype_before_values() -> None:
    with pytest.raises(AssertionError, match="dtype float64, expected float32"):
        assert_within(f32(1).astype(np.float64), f32(1), np.inf)


def test_bound_is_inclusive_and_per_element() -> None:
    assert_within(f32(1, 2), f32(1.5, 2), [0.5, 0.0])
    with pytest.raises(AssertionError, match=r"1 of 2 .* first at \[1\]"):
        assert_within(f32(1.5, 2.5), f32(1, 2), [0.5, 0.25])


def test_nan_and_infinity() -> None:
    assert_within(f32(np.nan, np.inf, -np.inf), f32(np.nan, np.inf, -np.inf))
    for actual, expected in ((np.nan, 1.0), (1.0, np.nan), (np.inf, -np.inf), (np.inf, 1.0)):
        with pytest.raises(AssertionError):
            assert_within(f32(actual), f32(expected), 1e30)
        assert_within(f32(actual), f32(expected), np.inf)


def test_large_integers_are_told_apart() -> None:
    large = np.array([2**63 - 1], np.int64)
    assert_within(large, large)
    with pytest.raises(AssertionError):
        assert_within(large - 1, large, 0.5)
    with pytest.raises(AssertionError):
        assert_within(-large, large, 1e18)
    unsigned = np.array([0], np.uint64)
    with pytest.raises(AssertionError):
        assert_within(unsigned - np.uint64(1), unsigned, 1.0)
    assert_within(large - 40, large, 40.0)
    with pytest.raises(AssertionError):
        assert_within(large - 41, large, 40.0)


def test_booleans() -> None:
    assert_within(np.array([True]), np.array([True]))
    with pytest.raises(AssertionError):
        assert_within(np.array([True]), np.array([False]))


def test_a_bound_of_nan_is_refused() -> None:
    with pytest.raises(AssertionError, match="bound is NaN"):
        assert_within(f32(1), f32(1), np.nan)


def test_empty() -> None:
    assert_within(np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3)))
    with pytest.raises(AssertionError):
        assert_within(np.zeros((0, 3)), np.zeros((0, 2)))
