"""Generated programs: inference raises nothing but TCError, and where it lets a read or division
run unchecked, the interpreter, which tests every one, finds no fault (G1, G6, G7)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, event, given, settings

from tc.errors import AccessError, RangeError, TCError
from tc.semantics.interpreter import interpret
from tc.semantics.program import ShapedProgram, walk
from tests.support.pipeline import as_arrays, checked, shaped
from tests.support.program_strategies import Generated, programs

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


@settings(suppress_health_check=QUIET)
@given(programs())
def test_what_is_not_checked_does_not_fail(case: Generated) -> None:
    """rules G6, G7"""
    try:
        program = checked(case.text)
        arrays = as_arrays(program, case.inputs)
        shape = shaped(program, arrays)
    except TCError as error:
        if isinstance(error, RangeError):
            assert error.rule
            assert error.span is not None
            assert error.repair
        event(f"rejected: {type(error).__name__} {error.rule}")
        return
    try:
        interpret(shape, arrays, {})
    except AccessError as error:
        event("failed at run time")
        assert error.span is not None
        assert (error.span.start, error.span.end) in checked_spans(shape), case
    else:
        event("checked" if any(s.checked for s in shape.statements) else "proven")
