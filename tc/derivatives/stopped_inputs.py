"""Errors about functions without a derivative, with a repair in the words of a framework."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tc.errors import GradError
from tc.gradient.request import inputs_without_derivatives
from tc.semantics.program import Program


@contextmanager
def stopped(program: Program, stop: str) -> Iterator[None]:
    """Gives errors of D10 a repair: the inputs of the program that flow into functions without a
    derivative, written as `stop` has it, such as "{}.detach()"."""
    try:
        yield
    except GradError as error:
        names = inputs_without_derivatives(program) if error.rule == "D10" else []
        if not names:
            raise
        given = ", ".join(map(stop.format, names))
        repair = f"{given} in place of {', '.join(names)}"
        raise GradError(error.cause, rule=error.rule, span=error.span, repair=repair) from None
