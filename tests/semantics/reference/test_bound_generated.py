"""Generated programs: a legal implementation unlike the interpreter stays within the bound."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from tc.errors import AccessError, TCError
from tc.semantics.reference.error_bound import error_bound
from tc.semantics.reference.interpreter import MEMORY_LIMIT_BYTES, execute, interpret
from tests.fuzz.legal import Call
from tests.fuzz.strategies import calls
from tests.support.bounds import assert_within
from tests.support.interpreting import shaped_with
from tests.support.programs import CASES
from tests.support.variant import Variant


def check_variant(text: str, inputs: dict[str, object], entry: str | None, seed: int) -> float:
    """Compares; returns the part of float results whose bound is finite and above 0."""
    shaped, arrays = shaped_with(text, inputs, entry)
    expected = interpret(shaped, arrays, {})
    bounds = error_bound(shaped, arrays, {})
    variant = Variant(np.random.default_rng(seed))
    for name, other in execute(shaped, arrays, {}, variant, MEMORY_LIMIT_BYTES).items():
        assert_within(other.value, expected[name], bounds[name])
    sizes = [b.size for b in bounds.values()]
    tested = [int(((b > 0) & (b < np.inf)).sum()) for b in bounds.values()]
    return sum(tested) / max(sum(sizes), 1)


@settings(suppress_health_check=list(HealthCheck))
@given(calls(300))
def test_rule_R5_generated_programs_in_small_blocks(case: Call) -> None:
    """Other blocks are another order; they fail at the same instances, if at all (rule G7)."""
    try:
        shaped, arrays = shaped_with(case.text, case.inputs)
    except TCError:
        return
    try:
        expected = interpret(shaped, arrays, {})
    except AccessError as error:
        with pytest.raises(AccessError, match=f"^{re.escape(str(error))}$"):
            interpret(shaped, arrays, {}, memory_limit=1)
        return
    small = interpret(shaped, arrays, {}, memory_limit=1)
    small_bounds = error_bound(shaped, arrays, {}, memory_limit=1)
    for name, error in error_bound(shaped, arrays, {}).items():
        assert_within(small[name], expected[name], error)
        assert_within(expected[name], small[name], small_bounds[name])


@settings(suppress_health_check=list(HealthCheck))
@given(calls(), st.integers(0, 10**6))
def test_rule_R5_generated_programs(case: Call, seed: int) -> None:
    try:
        part = check_variant(case.text, case.inputs, None, seed)
    except TCError as error:
        event(type(error).__name__)
        return
    event("with finite bounds" if part > 0.5 else "exact or unbounded")


def test_rule_R5_table_of_programs() -> None:
    for case in CASES:
        if case.outputs is None:
            inputs = case.inputs(np.random.default_rng(1))
            check_variant(case.text, inputs, case.def_name, 2)
