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
    asked = tuple(floating) if wrt is None else (wrt,) if isinstance(wrt, str) else tuple(wrt)
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
    if not asked:
        raise GradError(f"'{program.name}' has no floating input", rule="D16", span=program.span)
    return asked


def constant_tensors(program: p.Program, names: Iterable[str] | str) -> frozenset[str]:
    """The tensors that `constant` names, which a string names alone."""
    found = frozenset({names} if isinstance(names, str) else names)
    for name in sorted(found - program.tensors.keys()):
        known = [each for each in program.tensors if program.tensors[each].dtype.is_float]
        raise GradError(
            f"constant names '{name}', which is no tensor of '{program.name}'",
            rule="D16",
            span=program.span,
            repair=f"constant={known[:1]}",
        )
    return found
