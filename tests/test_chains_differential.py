"""Generated chains of statements at sizes of several tiles, against the interpreter."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tc
from tc.device import host
from tests.support.chain_strategies import chains
from tests.support.option_strategies import options

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
CHOICES = st.none() | options(host())


def check(text: str, inputs: list[Any], chosen: tc.Options | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", tc.TCWarning)
        try:
            expected = tc.interpret(text, inputs)
        except tc.TCError:
            return  # ranges that do not fit, say
        function = tc.compile(text, options=chosen)
        found = function(*inputs)
    expected, found = (x if isinstance(x, tuple) else (x,) for x in (expected, found))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


@settings(max_examples=40, deadline=None, suppress_health_check=SLOW)
@given(chains(), CHOICES)
def test_chains(case: tuple[str, list[Any]], chosen: tc.Options | None) -> None:
    check(*case, chosen)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None, suppress_health_check=SLOW)
@given(chains(), CHOICES)
def test_many_chains(case: tuple[str, list[Any]], chosen: tc.Options | None) -> None:
    check(*case, chosen)
