"""What a caller of `tc.grad` and its kin asks for: a def, and the inputs that count (D1, D16)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tc.errors import GradError
from tc.frontend.parser import parse
from tc.semantics import program as p
from tc.semantics.check.checker import check
from tc.source import Source


def program_of(src: str | Source, entry: str | None) -> p.Program:
    """The checked program of a text."""
    return check(parse(src if isinstance(src, Source) else Source(src)), entry)


def wanted_inputs(
    program: p.Program,
    inputs: Sequence[str],
    floating: Sequence[str],
    wrt: Sequence[str] | str | None,
) -> tuple[str, ...]:
    """The inputs that `wrt` names, by default all floating ones."""
    asked = tuple(floating) if wrt is None else _names("wrt", wrt, floating)
    for name in asked:
        if name not in floating:
            what = "is no floating input" if name in inputs else "is no input"
            raise GradError(
                f"wrt names '{name}', which {what} of '{program.name}'",
                rule="D16",
                span=program.span,
                repair=f"wrt={list(floating)}",
            )
    if len(set(asked)) < len(asked):
        twice = next(name for name in asked if asked.count(name) > 1)
        raise GradError(
            f"wrt names '{twice}' twice",
            rule="D16",
            span=program.span,
            repair=f"wrt={list(dict.fromkeys(asked))}",
        )
    if not floating:
        raise GradError(f"'{program.name}' has no floating input", rule="D16", span=program.span)
    if not asked:
        cause, repair = f"wrt names no input of '{program.name}'", f"wrt={list(floating)}"
        raise GradError(cause, rule="D16", span=program.span, repair=repair)
    return asked


def _names(parameter: str, given: object, known: Sequence[str]) -> tuple[str, ...]:
    """The names that a parameter gives: one, or several."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable):
        raise GradError(
            f"{parameter} is of {type(given).__name__}: it is a name, or a sequence of names",
            rule="D16",
            repair=f"{parameter}={list(known)}",
        )
    return tuple(given)


def constant_tensors(program: p.Program, names: Iterable[str] | str) -> frozenset[str]:
    """The tensors that `constant` names, which a string names alone."""
    known = [each for each in program.tensors if program.tensors[each].dtype.is_float]
    found = frozenset(_names("constant", names, known[:1]))
    for name in sorted(found - program.tensors.keys(), key=str):
        raise GradError(
            f"constant names '{name}', which is no tensor of '{program.name}'",
            rule="D16",
            span=program.span,
            repair=f"constant={known[:1]}",
        )
    return found
