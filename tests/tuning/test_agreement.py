"""Results are compared as tests do, and what differs is told."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tc.tuning.measuring import agreement
from tc.tuning.measuring.agreement import difference
from tests.support.bounds import is_within

SHAPE = (3, 4)


@given(st.data(), st.sampled_from(["float16", "float32", "float64", "int8", "uint64", "bool"]))
def test_agrees_with_the_comparison_of_tests(data: st.DataObject, dtype: str) -> None:
    actual = data.draw(arrays(dtype, SHAPE))
    expected = data.draw(st.one_of(st.just(actual), arrays(dtype, SHAPE)))
    bounds = data.draw(arrays("float64", SHAPE, elements=st.floats(0, allow_nan=False)))
    found = agreement.is_within(actual, expected, bounds)
    assert (found == is_within(actual, expected, bounds)).all()
    wrong = difference("y", actual, expected, bounds)
    assert (wrong is None) == bool(found.all())


def test_large_arrays_are_compared_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "_BLOCK", 5)
    expected = np.arange(12, dtype=np.float32).reshape(3, 4)
    actual = expected.copy()
    actual[1, 3], actual[2, 2] = np.nan, 11
    assert difference("y", actual, expected, np.zeros(())) == (
        "y(1, 3) is nan, and has to be within 0 of 7.0 (2 of 12 elements are wrong)"
    )
