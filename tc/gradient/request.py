"""The request of a caller of `tc.grad` and its kin: a def, and the inputs that count (D1, D16)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Protocol, TypeAlias

from tc.builtins.derivatives import DERIVATIVES
from tc.errors import GradError
from tc.frontend.given_text import Text, given_source
from tc.frontend.parser import parse
from tc.gradient import terms as e
from tc.gradient.adjoints import contributions, through_bits
from tc.semantics import program as p
from tc.semantics.check.checker import check
from tc.source import Span
from tc.wording import nearest


class HasProgram(Protocol):
    """An object made of a def, as the functions of `tc.compile` are."""

    program: p.Program


class Batched(Protocol):
    """A function whose batched text is in a notation of its own, as those of `tc.sac` are."""

    def batched(self, in_axes: object, entry: str | None) -> str:
        """The text of the function for each element of a batch."""


TextOrFunction: TypeAlias = Text | HasProgram
InputNames: TypeAlias = Sequence[str] | AbstractSet[str] | str
"""Names in an order, a set of names, whose order is that of the def, or one name."""


def program_of(src: TextOrFunction, entry: str | None) -> p.Program:
    """The checked program of a text, or of a function, whose own def is taken unless `entry` names
    another."""
    made = getattr(src, "program", None)
    if hasattr(src, "lowered"):
        raise GradError(
            "a function of tc.sac has a def for each set of shapes, of which one is asked for",
            rule="D1",
            repair=f"{getattr(src, '__name__', 'f')}.lowered(*inputs)",
        )
    if not isinstance(made, p.Program):
        made = check(parse(given_source(src)), entry)
    elif entry is not None:
        made = check(parse(made.source), entry)
    return made


def wanted_inputs(
    program: p.Program,
    inputs: Sequence[str],
    floating: Sequence[str],
    wrt: InputNames | None,
    constant: frozenset[str],
) -> tuple[str, ...]:
    """The inputs that `wrt` names, by default all floating ones that are not `constant`."""
    free = [name for name in floating if name not in constant]
    asked = tuple(free) if wrt is None else _names("wrt", wrt, inputs, free)
    for name in asked:
        if name not in floating:
            what = "is no floating input" if name in inputs else "is no input"
            raise GradError(
                f"wrt names '{name}', which {what} of '{program.name}'",
                rule="D16",
                span=program.span,
                repair=f"wrt={free}",
            )
        if name in constant:
            others = [n for n in asked if n in free]
            left = sorted(constant - {name})
            raise GradError(
                f"wrt names '{name}', and so does constant: nothing would flow through it, and its "
                "derivative would be 0",
                rule="D16",
                span=program.span,
                repair=f"wrt={others}" if others else f"constant={left}",
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
        cause, repair = f"wrt names no input of '{program.name}'", f"wrt={free}"
        if not free:
            cause, repair = f"all floating inputs of '{program.name}' are constant", "constant=[]"
        raise GradError(cause, rule="D16", span=program.span, repair=repair)
    return asked


def _names(
    parameter: str, given: object, order: Iterable[str], example: Sequence[str]
) -> tuple[str, ...]:
    """The names that a parameter gives; names of a set are put in the order `order`."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable):
        raise _no_names(parameter, f"is of {type(given).__name__}", example)
    names = tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise _no_names(parameter, f"has {name!r}, which is of {type(name).__name__}", example)
    if isinstance(given, set | frozenset):
        return (*(n for n in order if n in given), *sorted(given.difference(order)))
    return names


def _no_names(parameter: str, what: str, example: Sequence[str]) -> GradError:
    return GradError(
        f"{parameter} {what}: it is a name, or a sequence of names",
        rule="D16",
        repair=f"{parameter}={list(example)}",
    )


def constant_tensors(program: p.Program, names: Iterable[str] | str) -> frozenset[str]:
    """The tensors that `constant` names; a string is one name."""
    inner = [name for name in (*program.temporaries, *program.outputs) if _is_float(program, name)]
    found = _names("constant", names, program.tensors, inner[:1])
    for name in found:
        if name not in program.tensors:
            near = {n: n if n in program.tensors else nearest(n, program.tensors) for n in found}
            meant = dict.fromkeys(n for n in near.values() if n is not None)
            raise GradError(
                f"constant names '{name}', which is no tensor of '{program.name}'",
                rule="D16",
                span=program.span,
                repair=f"constant={[*meant] or inner[:1]}",
            )
    return frozenset(found)


def _is_float(program: p.Program, name: str) -> bool:
    return program.tensors[name].dtype.is_float


@contextmanager
def repaired(
    program: p.Program, wrt: InputNames | None, constant: frozenset[str]
) -> Iterator[None]:
    """Has errors about functions without a derivative (D10) say what can be derived instead."""
    try:
        yield
    except GradError as error:
        if error.rule != "D10":
            raise
        repair = _around(program, error.span, wrt, constant)
        raise GradError(error.cause, rule=error.rule, span=error.span, repair=repair) from None


def _around(
    program: p.Program, place: Span | None, wrt: InputNames | None, constant: frozenset[str]
) -> str | None:
    """A repair of `wrt`: the inputs on which a function at this place does not depend. Where the
    function depends on all inputs, a repair of `constant`: a tensor through which the gradient
    flows into the function."""
    for statement in program.statements:
        for call in (node for node in p.walk(statement.rhs) if node.span == place):
            floating = [name for name in program.inputs if _is_float(program, name)]
            asked = floating if wrt is None else _names("wrt", wrt, floating, floating)
            reached = _reached(program, call, constant)
            kept = constant.union(reached)
            if others := [n for n in asked if n in floating and n not in kept]:
                return f"wrt={others}"
            inside = next((n for n in reached if n not in program.inputs), statement.target)
            return f"constant={[*sorted(constant), inside]}"
    return None


def inputs_without_derivatives(program: p.Program) -> list[str]:
    """The floating inputs on which functions depend that have no derivative (D10)."""
    nodes = [node for statement in program.statements for node in p.walk(statement.rhs)]
    calls: list[p.Expr] = [
        n for n in nodes if isinstance(n, p.Call) and DERIVATIVES.get(n.function, ()) is None
    ]
    calls += [n for n in nodes if isinstance(n, p.Bits) and n.operand.dtype.is_float]
    reached = {name for call in calls for name in _reached(program, call, frozenset())}
    return [name for name in program.inputs if name in reached]


def _reached(program: p.Program, expr: p.Expr, constant: frozenset[str]) -> list[str]:
    """The floating tensors that an expression depends on, the nearest first, but for those only by
    way of constants."""
    found: list[str] = []
    new = [expr]
    for each in new:
        flowing = contributions if each.dtype.is_float else through_bits
        for read in (c.read.tensor for c in flowing(each, e.ZERO, ())):
            if read not in found and read not in constant:
                found.append(read)
                new += [s.rhs for s in program.statements if s.target == read]
    return found
