"""The one place where tests compare results: exact shape and type, then values under a bound."""

from __future__ import annotations

from typing import Any

import numpy as np

import tc
from tc.dtypes import encoded
from tc.runtime.arrays.encoded_arrays import ENCODED, as_bits, numbers


def as_tuple(result: Any) -> tuple[Any, ...]:
    """The results of a call: of one output the call returns the array alone."""
    return result if isinstance(result, tuple) else (result,)


def assert_computes(text: str, inputs: Any, found: Any, expected: Any = None, **how: Any) -> None:
    """Fails unless the results of a program are within `tc.error_bound` of the expected results:
    of a formula, which is rounded to their types, or without one of the interpreter. The bound of
    doubles is taken twice, as a formula in doubles is rounded too. `how` is the entry and the
    outputs that the call was given."""
    wanted = tc.interpret(text, inputs, **how) if expected is None else expected
    bounds = as_tuple(tc.error_bound(text, inputs, **how))
    for result, value, bound in zip(as_tuple(found), as_tuple(wanted), bounds, strict=True):
        dtype = np.asarray(result).dtype
        times = 2 if dtype == np.float64 else 1
        assert_within(result, in_type(value, dtype), times * np.asarray(bound))


def in_type(values: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Numbers, or an array of the type, as an array of a type that results have."""
    values = np.asarray(values)
    known = ENCODED.get(as_bits(np.empty(0, dtype)).dtype)
    if known is None or values.dtype == dtype:
        return values.astype(dtype)
    return encoded(numbers(as_bits(values)), known).view(dtype)


def assert_within(actual: Any, expected: Any, bound: Any = 0.0) -> None:
    """Fails unless `difference` finds none."""
    said = difference(actual, expected, bound)
    assert not said, said


def difference(actual: Any, expected: Any, bound: Any = 0.0) -> str:
    """Where `actual` is not within the bound (R5) of the expected array; "" where it is.

    Both have the same shape and dtype. NaN equals NaN, an infinity only the same infinity, and an
    infinite bound allows any value. Bounds broadcast; a bound of NaN is a mistake.
    """
    actual, expected = as_bits(np.asarray(actual)), as_bits(np.asarray(expected))
    if actual.shape != expected.shape:
        return f"shape {actual.shape}, expected {expected.shape}"
    if actual.dtype != expected.dtype:
        return f"dtype {actual.dtype}, expected {expected.dtype}"
    actual, expected = numbers(actual), numbers(expected)
    bounds = np.broadcast_to(np.asarray(bound, np.float64), expected.shape)
    if np.isnan(bounds).any():
        return "the bound is NaN"
    with np.errstate(all="ignore"):
        bad = ~is_within(actual, expected, bounds)
    if not bad.any():
        return ""
    index = tuple(int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape))
    return (
        f"{int(bad.sum())} of {bad.size} elements are out of bounds, first at {list(index)}:"
        f" {actual[index]!r}, expected {expected[index]!r} within {bounds[index]!r}"
    )


def is_within(actual: Any, expected: Any, bounds: Any) -> Any:
    """Per element, for arrays of one shape and type."""
    same = actual == expected
    if actual.dtype.kind == "f":
        same |= np.isnan(actual) & np.isnan(expected)
    if actual.dtype.kind in "iu":
        # float64 cannot tell neighbouring int64 apart; differences modulo 2**64 are exact
        larger = np.where(actual > expected, actual, expected).astype(np.uint64)
        smaller = np.where(actual > expected, expected, actual).astype(np.uint64)
        apart = (larger - smaller).astype(np.float64)
    else:
        with np.errstate(invalid="ignore"):
            apart = np.abs(actual.astype(np.float64) - expected.astype(np.float64))
    return same | (apart <= bounds) | (bounds == np.inf)
