"""Generated programs: inference raises nothing but TCError, and where it lets a read or division
run unchecked, the interpreter, which tests every one, finds no fault (G1, G6, G7)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, assume, event, given, settings

from tc.errors import TCError
from tc.semantics.program import ShapedProgram, walk
from tc.semantics.reference.interpreter import interpret
from tests.fuzz.legal import Call
from tests.fuzz.strategies import disturbed_calls
from tests.support.pipeline import as_arrays, checked, shaped

T = TypeVar("T")
QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]
pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def checked_spans(shape: ShapedProgram) -> set[tuple[int, int]]:
    """Where the reads and divisions stand that are checked at run time."""
    return {
        (node.span.start, node.span.end)
        for statement in shape.statements
        for node in walk(statement.statement.rhs)
        if getattr(node, "site", -1) in statement.checked
    }


def attempt(run: Callable[[], T]) -> T | TCError:
    try:
        return run()
    except TCError as error:
        return error


@settings(suppress_health_check=QUIET)
@given(disturbed_calls())
def test_what_is_not_checked_does_not_fail(case: Call) -> None:
    """rules G6, G7"""
    program = attempt(lambda: checked(case.text))
    assume(not isinstance(program, TCError))
    assert not isinstance(program, TCError)
    arrays = as_arrays(program, case.inputs)
    shape = attempt(lambda: shaped(program, arrays))
    if isinstance(shape, TCError):
        event(f"rejected: {type(shape).__name__} {shape.rule}")
        assert shape.rule
        assert shape.span is not None
        assert shape.repair or shape.idiom
        return
    result = attempt(lambda: interpret(shape, arrays, {}))
    if isinstance(result, TCError):
        event("failed at run time")
        assert result.span is not None
        assert (result.span.start, result.span.end) in checked_spans(shape), case
    else:
        event("checked" if any(s.checked for s in shape.statements) else "proven")
