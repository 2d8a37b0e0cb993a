"""Errors about functions without a derivative, with a repair in the words of a framework."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tc.errors import GradError
from tc.gradient.asked import inputs_of_call_at
from tc.semantics.program import Program


@contextmanager
def stopped(program: Program, stop: str) -> Iterator[None]:
    """Has such an error (D10) show the call of the program by which nothing flows into that
    function: with its inputs as `stop` writes them, such as "{}.detach()"."""
    try:
        yield
    except GradError as error:
        names = inputs_of_call_at(program, error.span) if error.rule == "D10" else []
        if not names:
            raise
        given = [stop.format(name) if name in names else name for name in program.inputs]
        repair = f"{program.name}({', '.join(given)})"
        raise GradError(error.cause, rule=error.rule, span=error.span, repair=repair) from None
